package session

import (
	"encoding/json"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Input is something that happened: one of the types below. Gen is the generation of the leg that
// it comes from: upstream sessions and browser connections are numbered from 1.
type Input interface{ isInput() }

// input makes what embeds it one of them.
type input struct{}

func (input) isInput() {}

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
	Part thread.Part // part of the thread's message
	// URL is the data URL for the model, empty if it cannot be shown.
	URL string
}

// Said is when the caller's sound came that an upstream event speaks of, and how much later the upstream was sent it.
type Said struct {
	At   time.Time
	Late time.Duration
}

type (
	// UpstreamEvent is a message of an upstream session. Said is nil if it does not speak of sound, or nobody knows
	// when that came. Sound is how long its item is spoken, as far as that has come; zero if nobody knows.
	UpstreamEvent struct {
		input
		Gen   int
		Data  []byte
		Said  *Said
		Sound time.Duration
	}
	// BrowserEvent is a message from the browser. Images are its images, saved in the thread;
	// BadImage says why one of them is not. MessageID is that of a text that was saved while it had to wait.
	BrowserEvent struct {
		input
		Gen       int
		Side      int // the id of the sideband that it comes from, in place of Gen; 0 for the browser
		Data      []byte
		Images    []Image
		BadImage  string
		MessageID string
		Sent      realtime.Sent
		// Server means that it comes from an application's server, which may do more.
		Server bool
		// Taken is closed once the event was taken; it may be nil.
		Taken chan<- struct{}
	}
	// BrowserTooLarge is a message from the browser that exceeded the size limit; Size is in bytes. Values is how many
	// values it has if that is what exceeded a limit, else 0.
	BrowserTooLarge struct {
		input
		Gen, Side, Size, Values int
	}
	// SidebandJoined means that an application's server has connected beside the browser.
	SidebandJoined struct {
		input
		ID int
	}
	// SidebandGone means that it has gone.
	SidebandGone struct {
		input
		ID int
	}
	// UpstreamState is a change of the connection to an upstream session.
	UpstreamState struct {
		input
		Gen   int
		State Connection
	}
	// BrowserState is a change of the connection to the browser.
	BrowserState struct {
		input
		Gen   int
		State Connection
	}
	// BrowserJoined means that another connection is now the browser's, from a reloaded page or
	// another device. Limit and Plays are as in Config.
	BrowserJoined struct {
		input
		Gen, Limit int
		Plays      bool
	}
	// BrowserRestarted means that the browser has got an answer to restart its connection with.
	BrowserRestarted struct {
		input
		Gen int
	}
	// UpstreamDialed is the success of a Dial.
	UpstreamDialed struct {
		input
		Gen   int
		ID    string // the upstream's id of its call
		Limit int    // largest event that it accepts, in bytes
		Can   Capabilities
		Route Route
	}
	// UpstreamDialFailed is the failure of a Dial.
	UpstreamDialFailed struct {
		input
		Gen int
		// Fatal means that a retry is useless.
		Fatal bool
		// RetryAfter is how long the upstream asks to wait.
		RetryAfter time.Duration
		Err        error
		// Refusal is what a client is told, if the call cannot begin without this session.
		Refusal realtime.Error
	}
	// HeldSent means that the session of that generation, to which a Switch has connected the caller, has been sent
	// what the caller had said before.
	HeldSent struct {
		input
		Gen int
	}
	// SoundSent is when the first audio of a response was sent to the caller.
	SoundSent struct {
		input
		ResponseID string
		At         time.Time
	}
	// ToolProgress comes from a running tool.
	ToolProgress struct {
		input
		CallID string
		Chunk  toolkit.Chunk
	}
	// ToolEnd is the result of a tool.
	ToolEnd struct {
		input
		CallID string
		Result toolkit.Result
		Masked toolkit.Result // as saved and shown
		// Images are the result's images for the model, as data URLs.
		Images []string
	}
	// Transfer is a running tool that is to connect the caller with somebody. May hears whether it may, once Says, or a
	// sentence of the model's, was heard; from then on nobody here hears the caller, until the tool has failed.
	Transfer struct {
		input
		CallID, Says string
		May          chan<- bool
	}
	// ApprovalDecided is the approval of a tool call that was decided outside the call.
	ApprovalDecided struct {
		input
		Approval thread.Approval
	}
	// ServerText is a user's text that comes into the call from elsewhere. Queued is the id of the queued message that
	// it was, empty for none; one that the call can no longer say is left to its queue.
	ServerText struct {
		input
		MessageID, Text string
		Source          thread.Source // empty: typed
		Images          []Image
		Extra           map[string]json.RawMessage
		Queued          string
	}
	// Written are the thread's last messages after the end of a text turn that was running when the
	// call began. The model gets those that it lacks, and says Unheard, an answer among them.
	Written struct {
		input
		Messages []thread.Message
		Unheard  string
	}
	// SetRecording pauses the recording or goes on with it, and reports whether there is one.
	SetRecording struct {
		input
		State    RecordingState
		Recorded chan<- bool
	}
	// RecordingFailed says that nothing more is recorded.
	RecordingFailed struct{ input }
	// Interrupt stops the turn, and reports whether there was one.
	Interrupt struct {
		input
		Stopped chan<- bool
	}
	// ContextReset makes the model forget what was said.
	ContextReset struct{ input }
	// NewTools replaces the server's tools.
	NewTools struct {
		input
		Entries []toolkit.Entry
	}
	// StorageDelayed says how many changes are waiting for the database; 0 means none.
	StorageDelayed struct {
		input
		Pending int
	}
	// OwnerSpent is what the call's owner has spent today, in US dollars, in all calls and text
	// turns, as far as it is saved.
	OwnerSpent struct {
		input
		Day string // as 2006-01-02
		USD float64
	}
	// SessionEnded is what an upstream session that is billed by its length has cost in all, nil if that is not known.
	// It may have ended long before.
	SessionEnded struct {
		input
		Gen     int
		CostUSD *float64
	}
	// Begun means that the first upstream session was dialled before the call began.
	Begun struct{ input }
	// Stop ends the call.
	Stop struct {
		input
		Reason EndReason
	}
	// Tick means that the state's deadline has passed.
	Tick struct{ input }
)
