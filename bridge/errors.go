package bridge

import (
	"fmt"

	"voicebridge/bridge/internal/session"
)

// Code says what went wrong with a request to start or change a call.
type Code string

// The codes of an [Error].
const (
	CodeBadSDP              Code = "bad_sdp"
	CodeNoOpus              Code = "no_opus"
	CodeBadSession          Code = "bad_session"
	CodeCallActive          Code = "call_active"
	CodeUpstreamRefused     Code = "upstream_refused"
	CodeUpstreamUnreachable Code = "upstream_unreachable"
	CodeShuttingDown        Code = "shutting_down"
	CodeNoCall              Code = "no_call"
	CodeBudget              Code = "budget_exceeded"
	CodeStorageFull         Code = "storage_unavailable"
	CodeBadText             Code = "bad_text"
	CodeUnreachable         Code = "instance_unreachable"
)

// Error is a failure that the client of a call can act on.
type Error struct {
	Code    Code
	Message string
	// Param names the part of the request that is at fault, or is empty.
	Param string
	// Status and UpstreamCode are the upstream's HTTP status and error code when
	// Code is CodeUpstreamRefused.
	Status       int
	UpstreamCode string
	Err          error
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s", e.Code, e.Message) }

func (e *Error) Unwrap() error { return e.Err }

// EndReason says why a call ended. It is saved with the call and told to the
// browser in bridge.ended.
type EndReason = session.EndReason

// The reasons for which a call ends.
const (
	EndHangup          = session.EndHangup
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
	EndUpstreamEndedIt = session.EndUpstreamEndedIt
)
