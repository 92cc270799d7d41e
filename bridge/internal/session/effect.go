package session

import (
	"log/slog"
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// Effect is something that the state wants done: one of the types below. Effects are
// done in order.
type Effect interface{ isEffect() }

type (
	// ToUpstream sends an event to an upstream session.
	ToUpstream struct {
		Gen  int
		Data []byte
	}
	// ToBrowser sends an event to the browser. A draft may be dropped when that is slow.
	ToBrowser struct {
		Data  []byte
		Draft bool
	}
	// Dial makes the upstream session of the next generation, which is to know
	// History. UpstreamDialed or UpstreamDialFailed follows.
	Dial struct {
		Gen     int
		History []persistence.Message
	}
	// Replay tells the upstream the history that its Dial was given.
	Replay struct{ Gen int }
	// Append tells the upstream what was said since.
	Append struct {
		Gen      int
		Messages []persistence.Message
	}
	// Switch lets the caller talk to the upstream of that generation, and hear it.
	Switch struct{ Gen int }
	// AwaitSound asks when the caller was sent the first sound of a response that began
	// at Since. SoundSent follows, if there is any.
	AwaitSound struct {
		Gen        int
		ResponseID string
		Since      time.Time
	}
	// HangUp ends an upstream session that no longer belongs to the call. Hold keeps
	// what the caller says until the next Switch.
	HangUp struct {
		Gen    int
		Reason EndReason
		Hold   bool
	}
	// Write changes the thread, sooner or later but in order and never lost.
	Write struct{ Change Change }
	// Publish tells the thread's watchers of what is not saved.
	Publish struct {
		Kind persistence.EventType
		Data any
	}
	// ExpectTool opens a client's tool call for its answer, before the client
	// can know of the call.
	ExpectTool struct{ CallID string }
	// AwaitApproval follows the question about a tool call, whose record has the id
	// ID. ApprovalSaved comes when it is saved and when it is decided there.
	AwaitApproval struct {
		CallID, ID string
		ExpiresAt  time.Time
	}
	// StartTool runs a tool.
	StartTool struct{ Call toolkit.Call }
	// CancelTool ends a tool that runs.
	CancelTool struct{ CallID string }
	// CancelTools ends all of them.
	CancelTools struct{}
	// DeliverTool hands the client's answer to its tool.
	DeliverTool struct{ CallID, Output string }
	// Gate lets the caller be heard; shut it ends all audio.
	Gate struct{ Open bool }
	// Answer tells who waits for it; To has room for it.
	Answer struct {
		To  chan<- bool
		Yes bool
	}
	// Count adds one to what the operator counts.
	Count struct{ What Counter }
	// Log writes a line to the log.
	Log struct {
		Level   slog.Level
		Message string
		Attrs   []any
	}
	// Finish ends the loop.
	Finish struct{ Reason EndReason }
)

// Counter names what is counted of all calls.
type Counter string

// The counters.
const (
	CountRenewedPlanned Counter = "renewed_planned"
	CountRenewedLost    Counter = "renewed_lost"
	CountRenewalFailed  Counter = "renewal_failed"
)

func (ToUpstream) isEffect()    {}
func (ToBrowser) isEffect()     {}
func (Dial) isEffect()          {}
func (Replay) isEffect()        {}
func (Append) isEffect()        {}
func (Switch) isEffect()        {}
func (AwaitSound) isEffect()    {}
func (HangUp) isEffect()        {}
func (Write) isEffect()         {}
func (Publish) isEffect()       {}
func (ExpectTool) isEffect()    {}
func (AwaitApproval) isEffect() {}
func (StartTool) isEffect()     {}
func (CancelTool) isEffect()    {}
func (CancelTools) isEffect()   {}
func (DeliverTool) isEffect()   {}
func (Gate) isEffect()          {}
func (Answer) isEffect()        {}
func (Count) isEffect()         {}
func (Log) isEffect()           {}
func (Finish) isEffect()        {}
