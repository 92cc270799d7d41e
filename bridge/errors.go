package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// Code says why a request to start or change a call failed.
type Code string

// The codes of an [Error].
const (
	CodeBadSDP              Code = "bad_sdp"
	CodeNoOpus              Code = "no_opus"
	CodeBadSession          Code = "bad_session"
	CodeNoUpstream          Code = "upstream_not_found"
	CodeCallActive          Code = "call_active"
	CodeUpstreamRefused     Code = "upstream_refused"
	CodeUpstreamUnreachable Code = "upstream_unreachable"
	CodeShuttingDown        Code = "shutting_down"
	CodeNoCall              Code = "no_call"
	CodeTooManyCalls        Code = "too_many_calls"
	CodeBudget              Code = "budget_exceeded"
	CodeStorageFull         Code = "storage_unavailable"
	CodeBadText             Code = "bad_text"
	CodeUnreachable         Code = "instance_unreachable"
	CodeTooManySidebands    Code = "too_many_sidebands"
	CodeNotRecorded         Code = "not_recorded"
)

// Error is a failure that the client of a call can act on.
type Error struct {
	Code    Code
	Message string
	// Param names the part of the request at fault, if any.
	Param string
	// Status and UpstreamCode are the upstream's HTTP status and error code if Code is
	// CodeUpstreamRefused.
	Status       int
	UpstreamCode string
	// RetryAfter is how long the upstream asks to wait; 0 if it did not say.
	RetryAfter time.Duration
	Err        error
}

// Error returns the code and the message.
func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether the error is the target: a call that is not there is one that was not found.
func (e *Error) Is(target error) bool {
	return e.Code == CodeNoCall && target == persistence.ErrNotFound
}

var (
	errOwnersCalls = &Error{
		Code: CodeTooManyCalls, Message: "You have reached your limit of live calls. End one first.",
	}
	errAllCalls = &Error{
		Code: CodeTooManyCalls, Message: "The server has reached its limit of live calls. Try again later.",
	}
)

var errShuttingDown = &Error{Code: CodeShuttingDown, Message: "The server is shutting down."}

var errCallActive = &Error{
	Code: CodeCallActive, Param: "thread_id",
	Message: "The thread has a live call. Send takeover=true to move it here.",
}

// errNotTakenOver is errCallActive for who has asked to move the call.
var errNotTakenOver = &Error{
	Code: CodeUnreachable, Param: "thread_id",
	Message: "Another process of this server has the thread's last call and cannot reach the database to end it. " +
		"Try again later.",
}

var errStorageFull = &Error{
	Code:    CodeStorageFull,
	Message: "The database cannot be reached, and no more changes can wait for it. Try again later.",
}

var errUnsaved = &Error{
	Code: CodeStorageFull, Message: "The last call's words still wait for the database. Try again later.",
}

// offerError returns what a client is told about an unusable offer.
func offerError(err error) *Error {
	if errors.Is(err, rtc.ErrNoOpus) {
		return &Error{Code: CodeNoOpus, Message: "The offer has no audio section with Opus.", Param: "sdp", Err: err}
	}
	return &Error{Code: CodeBadSDP, Message: "The SDP cannot be used: " + err.Error() + ".", Param: "sdp", Err: err}
}

// dialError returns what a client is told about a call that the upstream did not accept.
func dialError(err error) error {
	if e, ok := errors.AsType[*realtime.APIError](err); ok {
		return &Error{
			Code: CodeUpstreamRefused, Status: e.Status, UpstreamCode: e.Code, RetryAfter: e.RetryAfter, Err: err,
			Message: fmt.Sprintf("The upstream refused the call (%d): %s", e.Status, e.Message),
		}
	}
	if errors.Is(err, persistence.ErrConflict) {
		return errCallActive
	}
	if errors.Is(err, persistence.ErrQuota) {
		return errOwnersCalls
	}
	if errors.Is(err, persistence.ErrNotFound) || errors.Is(err, persistence.ErrUnavailable) ||
		errors.Is(err, context.Canceled) {
		return err // the last one: the client has left
	}
	if errors.Is(err, leg.ErrDialTimeout) {
		return &Error{
			Code:    CodeUpstreamUnreachable,
			Message: fmt.Sprintf("The upstream did not answer within %s.", leg.DialTimeout), Err: err,
		}
	}
	if errors.Is(err, realtime.ErrBadAnswer) || errors.Is(err, rtc.ErrBadSDP) || errors.Is(err, rtc.ErrNoOpus) {
		return &Error{
			Code: CodeUpstreamUnreachable, Message: "The upstream accepted the call but sent no usable SDP answer.",
			Err: err,
		}
	}
	return &Error{Code: CodeUpstreamUnreachable, Message: "The upstream cannot be reached.", Err: err}
}

// refusal returns what a client of a call that has begun is told about an upstream that it cannot have after all.
func refusal(err error) realtime.Error {
	err = dialError(err)
	if e, ok := errors.AsType[*Error](err); ok {
		return realtime.Error{
			Type: "upstream_error", Code: cmp.Or(e.UpstreamCode, string(e.Code)), Message: realtime.MaskKeys(e.Message),
		}
	}
	if errors.Is(err, persistence.ErrUnavailable) {
		return realtime.Error{
			Type: "server_error", Code: string(errStorageFull.Code),
			Message: "The server cannot reach its database. Try again in a moment.",
		}
	}
	return realtime.Error{
		Type: "server_error", Code: "internal_error",
		Message: "Something went wrong on the server. Its log has the details.",
	}
}

// unusable are the ends of calls of which the upstream is the cause.
var unusable = map[EndReason]bool{
	EndUpstreamSetup: true, EndUpstreamLost: true, EndUpstreamRefused: true, EndUpstreamEndedIt: true,
	EndSessionRejected: true,
}

// EndReason says why a call ended. It is saved with the call and sent to the browser in
// bridge.ended.
type EndReason = session.EndReason

// The reasons why a call ends.
const (
	EndHangup          = session.EndHangup
	EndCallerHangup    = session.EndCallerHangup
	EndNoSpeech        = session.EndNoSpeech
	EndAssistant       = session.EndAssistant
	EndTransferred     = session.EndTransferred
	EndMachine         = session.EndMachine
	EndBrowserClosed   = session.EndBrowserClosed
	EndBrowserLost     = session.EndBrowserLost
	EndNeverConnected  = session.EndNeverConnected
	EndTakenOver       = session.EndTakenOver
	EndUpstreamLost    = session.EndUpstreamLost
	EndUpstreamSetup   = session.EndUpstreamSetup
	EndSessionRejected = session.EndSessionRejected
	EndSessionExpired  = session.EndSessionExpired
	EndUpstreamRefused = session.EndUpstreamRefused
	EndStorageFailed   = session.EndStorageFailed
	EndBrowserStalled  = session.EndBrowserStalled
	EndShutdown        = session.EndShutdown
	EndInternal        = session.EndInternal
	EndMaxDuration     = session.EndMaxDuration
	EndIdle            = session.EndIdle
	EndBudget          = session.EndBudget
	EndNone            = session.EndNone
	EndUpstreamEndedIt = session.EndUpstreamEndedIt
)
