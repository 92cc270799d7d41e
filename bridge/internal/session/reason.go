package session

// EndReason says why a call ended. It is saved with the call and sent to the browser in
// bridge.ended.
type EndReason string

// The reasons why a call ends.
const (
	EndHangup          EndReason = "hangup"             // by the caller, or over HTTP
	EndBrowserClosed   EndReason = "browser_closed"     // the browser closed the connection (tab closed)
	EndBrowserLost     EndReason = "browser_lost"       // the browser vanished
	EndNeverConnected  EndReason = "never_connected"    // the browser got its answer but never connected
	EndTakenOver       EndReason = "taken_over"         // the call was moved elsewhere
	EndUpstreamLost    EndReason = "upstream_lost"      // the upstream's connection broke
	EndUpstreamSetup   EndReason = "upstream_not_ready" // the upstream was not ready in time
	EndSessionRejected EndReason = "session_rejected"   // the upstream refused the session's settings
	EndSessionExpired  EndReason = "session_expired"    // the upstream's time limit
	EndUpstreamRefused EndReason = "upstream_error"     // a fatal error: key, quota, account
	EndStorageFailed   EndReason = "storage_failed"     // the thread could no longer be saved
	EndBrowserStalled  EndReason = "browser_stalled"    // the browser stopped reading its events
	EndShutdown        EndReason = "shutdown"           // this process is shutting down
	EndInternal        EndReason = "internal_error"     // a bug in the bridge
	EndMaxDuration     EndReason = "max_duration"       // the operator's limit on duration
	EndIdle            EndReason = "idle"               // nobody said or did anything for a long time
	EndBudget          EndReason = "budget"             // a budget is used up
	EndUpstreamEndedIt EndReason = "upstream_closed"    // the upstream closed the connection
	EndNone            EndReason = ""
)

// RenewPlanned is the reason for a renewal before the upstream's time limit. A renewal after a loss
// has the reason of the loss.
const RenewPlanned EndReason = "planned"
