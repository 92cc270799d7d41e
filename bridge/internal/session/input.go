package session

import (
	"encoding/json"
	"time"

	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// Input is something that happened and that the state has to know: one of the types
// below. Gen is the generation of the leg that it comes from: an upstream's sessions and
// a browser's connections are numbered from 1.
type Input interface{ isInput() }

// Connection is the state of a leg's connection.
type Connection int

// The states of a connection.
const (
	Connected Connection = iota + 1
	Disconnected
	Failed
	Closed
)

// Image is an image of the thread that goes into the call with a text.
type Image struct {
	Part persistence.Part // of the thread's message
	// URL is the data URL that the model is shown, empty where it cannot be.
	URL string
}

type (
	// UpstreamEvent is a message of an upstream session.
	UpstreamEvent struct {
		Gen  int
		Data []byte
	}
	// BrowserEvent is a message of the browser. Images are those that it has, saved
	// in the thread; BadImage says why one of them is not.
	BrowserEvent struct {
		Gen      int
		Data     []byte
		Images   []Image
		BadImage string
	}
	// BrowserTooLarge is a message of the browser that was too large to be taken,
	// in bytes.
	BrowserTooLarge struct{ Gen, Size int }
	// UpstreamState is a change of the connection to an upstream session.
	UpstreamState struct {
		Gen   int
		State Connection
	}
	// BrowserState is a change of the connection to the browser.
	BrowserState struct {
		Gen   int
		State Connection
	}
	// BrowserJoined says that another connection is the browser's from now on: of a
	// page that was loaded again, or of another device. Limit is that of
	// Config.BrowserLimit.
	BrowserJoined struct{ Gen, Limit int }
	// UpstreamDialed is the end of a Dial that has made a session.
	UpstreamDialed struct {
		Gen   int
		ID    string // the upstream's id of its call
		Limit int    // bytes of the largest event that it takes
	}
	// UpstreamDialFailed is the end of a Dial that has not.
	UpstreamDialFailed struct {
		Gen int
		// Fatal says that trying again is of no use.
		Fatal bool
		Err   error
	}
	// SoundSent is when the caller was sent the first sound of a response.
	SoundSent struct {
		ResponseID string
		At         time.Time
	}
	// ToolProgress comes from a tool that runs.
	ToolProgress struct {
		CallID string
		Chunk  toolkit.Chunk
	}
	// ToolEnd is what came of a tool.
	ToolEnd struct {
		CallID string
		Result toolkit.Result
		Masked toolkit.Result // as it is kept and shown
		// Images are those of the result that the model is shown, as data URLs.
		Images []string
	}
	// ApprovalSaved is the question about a tool call as it is saved: open, or decided by
	// somebody else than the call.
	ApprovalSaved struct{ Approval persistence.Approval }
	// ServerText is a user's text that goes into the call from elsewhere. It is
	// saved together with what With writes; where that is set, a text that the call
	// can no longer say is left to whoever has it.
	ServerText struct {
		MessageID, Text string
		Images          []Image
		Extra           map[string]json.RawMessage
		With            func(*persistence.Batch) error
	}
	// Written are the thread's last messages, as they are since a text turn has ended that
	// ran when the call began. Those that the model was not told are told now.
	Written struct{ Messages []persistence.Message }
	// Interrupt stops the turn, and tells whether there was one.
	Interrupt struct{ Stopped chan<- bool }
	// FreshStart lets the model forget what was said.
	FreshStart struct{}
	// NewTools are the server's tools from now on.
	NewTools struct{ Entries []toolkit.Entry }
	// StorageDelayed says how many changes wait for the database; 0: none.
	StorageDelayed struct{ Pending int }
	// OwnerSpent is what the call's owner has spent on the day that it is, in US
	// dollars: in all calls and text turns, as far as it is saved.
	OwnerSpent struct {
		Day string // as 2006-01-02
		USD float64
	}
	// Stop asks for the end of the call.
	Stop struct{ Reason EndReason }
	// Tick says that the deadline has come that the state asked for.
	Tick struct{}
)

func (UpstreamEvent) isInput()      {}
func (BrowserEvent) isInput()       {}
func (BrowserTooLarge) isInput()    {}
func (UpstreamState) isInput()      {}
func (BrowserState) isInput()       {}
func (BrowserJoined) isInput()      {}
func (UpstreamDialed) isInput()     {}
func (UpstreamDialFailed) isInput() {}
func (SoundSent) isInput()          {}
func (ToolProgress) isInput()       {}
func (ToolEnd) isInput()            {}
func (ApprovalSaved) isInput()      {}
func (ServerText) isInput()         {}
func (Written) isInput()            {}
func (Interrupt) isInput()          {}
func (FreshStart) isInput()         {}
func (NewTools) isInput()           {}
func (StorageDelayed) isInput()     {}
func (OwnerSpent) isInput()         {}
func (Stop) isInput()               {}
func (Tick) isInput()               {}
