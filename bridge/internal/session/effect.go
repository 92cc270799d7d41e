package session

import (
	"encoding/json"
	"log/slog"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Effect is something for the call to do: one of the types below. Effects are carried out in order.
type Effect interface{ isEffect() }

// effect makes what embeds it one of them.
type effect struct{}

func (effect) isEffect() {}

type (
	// ToUpstream sends an event to an upstream session.
	ToUpstream struct {
		effect
		Gen  int
		Data []byte
	}
	// ToBrowser sends an event to the browser. A draft may be dropped if the browser is slow.
	ToBrowser struct {
		effect
		Data  []byte
		Draft bool
	}
	// ToSideband sends an event to a sideband, as ToBrowser to the browser.
	ToSideband struct {
		effect
		ID    int
		Data  []byte
		Draft bool
	}
	// EndSideband ends the connection of a sideband.
	EndSideband struct {
		effect
		ID int
	}
	// Dial makes the upstream session of the next generation, with History. UpstreamDialed or
	// UpstreamDialFailed follows.
	Dial struct {
		effect
		Gen     int
		History []thread.Message
		// Refused is the name of the upstream if it has refused to go on.
		Refused string
		// Whole is what the session will be configured with.
		Whole Whole
	}
	// Replay sends the upstream the history that its Dial was given.
	Replay struct {
		effect
		Gen int
	}
	// Append sends the upstream what was said since.
	Append struct {
		effect
		Gen      int
		Messages []thread.Message
	}
	// Switch connects the caller's audio, both ways, to the upstream of that generation. HeldSent follows.
	Switch struct {
		effect
		Gen int
	}
	// AwaitSound asks when the first audio of a response that began at Since was sent to the
	// caller. SoundSent follows, if there is any.
	AwaitSound struct {
		effect
		Gen        int
		ResponseID string
		Since      time.Time
	}
	// HangUp ends an upstream session that no longer belongs to the call. Hold keeps the caller's
	// audio until the next Switch.
	HangUp struct {
		effect
		Gen    int
		Reason EndReason
		Hold   bool
	}
	// Tone begins or ends the tone of a tool that takes long. What else the upstream has the caller hear ends it, too.
	Tone struct {
		effect
		On bool
	}
	// Write changes the thread, perhaps later but in order and without loss.
	Write struct {
		effect
		Change persistence.Change
	}
	// Publish sends the thread's watchers an event that is not saved.
	Publish struct {
		effect
		Kind persistence.EventType
		Data any
	}
	// Tell is Publish for an event that is saved with the changes of the same input.
	Tell struct {
		effect
		Kind persistence.EventType
		Data any
	}
	// ReplaceTools replaces the server's tools of the names Remove by others.
	ReplaceTools struct {
		effect
		Remove []string
		Add    []toolkit.Entry
	}
	// DeclareTools replaces the client's tools.
	DeclareTools struct {
		effect
		Tools []toolkit.Definition
	}
	// AwaitApproval follows the approval with the id ID, which is also that of the tool call's record. ApprovalDecided
	// follows when it is decided outside the call.
	AwaitApproval struct {
		effect
		CallID, ID string
		ExpiresAt  time.Time
	}
	// StartTool runs a tool; a client's accepts its answer from then on, before the client can know about the call.
	// Lends means that it may use the clients' tools.
	StartTool struct {
		effect
		Call  toolkit.Call
		Lends bool
	}
	// AnswerApproval saves the user's decision about a call that a tool makes of another.
	AnswerApproval struct {
		effect
		CallID, Nonce string
		Approved      bool
	}
	// CancelTool ends a running tool; Cause is why, if nobody wants that.
	CancelTool struct {
		effect
		CallID string
		Cause  error
	}
	// DeliverTool passes the client's answer to its tool.
	DeliverTool struct {
		effect
		CallID, Output string
	}
	// TurnOver reports what was made in a turn. Tools that are started before belong to it or to an earlier one.
	TurnOver struct {
		effect
		Turn Turn
	}
	// Gate opens the gate for audio, or shuts it in both directions.
	Gate struct {
		effect
		Open bool
	}
	// Record begins or goes on with the recording, or pauses it.
	Record struct {
		effect
		On bool
	}
	// Answer sends Yes to To, which has room for it.
	Answer struct {
		effect
		To  chan<- bool
		Yes bool
	}
	// Count adds one to a counter.
	Count struct {
		effect
		What Counter
	}
	// Log writes a line to the log.
	Log struct {
		effect
		Level   slog.Level
		Message string
		Attrs   []any
	}
	// Finish ends the loop.
	Finish struct {
		effect
		Reason EndReason
	}
)

// Turn is an input of the user, or what began a call, with all that was made to answer it.
type Turn struct {
	// Responses have ended, in the order in which they began.
	Responses []records.Response
	// Charges are what else was paid: transcriptions, and the length of sessions.
	Charges []records.Response
	// Latency has the stages since the user's part ended, in milliseconds.
	Latency map[string]int64
}

// Whole is a session with all that it is configured with, for an upstream that takes it at creation.
type Whole struct {
	own   Defaults
	set   realtime.Settings
	tools json.RawMessage
}

// RecordingState is whether the call is being recorded.
type RecordingState string

// The states of a recording. A call that was never to be recorded has none.
const (
	RecordingOn     RecordingState = "on"
	RecordingPaused RecordingState = "paused"
	RecordingOff    RecordingState = "off"
)

// Counter names something that is counted over all calls.
type Counter string

// The counters.
const (
	CountRenewedPlanned Counter = "renewed_planned"
	CountRenewedLost    Counter = "renewed_lost"
	CountRenewalFailed  Counter = "renewal_failed"
)

// Counters are all of them.
var Counters = []Counter{CountRenewedPlanned, CountRenewedLost, CountRenewalFailed}

// EndReason says why a call ended. It is saved with the call and sent to the browser in
// bridge.ended.
type EndReason string

// The reasons why a call ends.
const (
	EndHangup          EndReason = "hangup"             // by the caller, or over HTTP
	EndCallerHangup    EndReason = "caller_hangup"      // by the caller of a telephone call, also one who was lost
	EndNoSpeech        EndReason = "no_speech"          // nobody has spoken in a telephone call
	EndAssistant       EndReason = "assistant"          // by the model, with its tool for that
	EndTransferred     EndReason = "transferred"        // the caller of a telephone call was connected with somebody
	EndMachine         EndReason = "machine"            // a machine has answered a telephone call out
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
	EndUpstreamEndedIt EndReason = "upstream_closed"    // the upstream closed the connection or, on purpose, the session
	EndNone            EndReason = ""
)

// RenewPlanned is the reason for a renewal before the upstream's time limit. A renewal after a loss
// has the reason of the loss.
const RenewPlanned EndReason = "planned"
