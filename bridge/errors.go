package bridge

import "fmt"

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
	CodeBadText             Code = "bad_text"
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
type EndReason string

// The reasons for which a call ends.
const (
	EndHangup          EndReason = "hangup"             // the caller, by button or by HTTP
	EndBrowserClosed   EndReason = "browser_closed"     // the browser said goodbye (tab closed)
	EndBrowserLost     EndReason = "browser_lost"       // the browser vanished
	EndNeverConnected  EndReason = "never_connected"    // the browser took its answer and did not come
	EndTakenOver       EndReason = "taken_over"         // the call was moved elsewhere
	EndUpstreamLost    EndReason = "upstream_lost"      // the upstream's connection broke
	EndUpstreamSetup   EndReason = "upstream_not_ready" // the upstream did not get ready in time
	EndSessionRejected EndReason = "session_rejected"   // the upstream refused the session's settings
	EndSessionExpired  EndReason = "session_expired"    // the upstream's time limit
	EndUpstreamRefused EndReason = "upstream_error"     // a fatal error: key, quota, account
	EndStorageFailed   EndReason = "storage_failed"     // the thread could not be saved any longer
	EndBrowserStalled  EndReason = "browser_stalled"    // the browser stopped reading its events
	EndShutdown        EndReason = "shutdown"           // this process is being stopped
	EndInternal        EndReason = "internal_error"     // a defect of the bridge
	EndMaxDuration     EndReason = "max_duration"       // the operator's limit
	EndUpstreamEndedIt EndReason = "upstream_closed"    // the upstream said goodbye
	endNone            EndReason = ""
)
