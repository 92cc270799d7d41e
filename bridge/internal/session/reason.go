package session

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
	EndIdle            EndReason = "idle"               // nobody has said or done anything for long
	EndBudget          EndReason = "budget"             // what may be spent is spent
	EndUpstreamEndedIt EndReason = "upstream_closed"    // the upstream said goodbye
	EndNone            EndReason = ""
)

// RenewPlanned is the reason of a renewal before the upstream's time limit. A
// renewal after a loss has the reason of the loss, as an EndReason.
const RenewPlanned EndReason = "planned"
