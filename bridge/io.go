package bridge

import (
	"encoding/json"
	"log/slog"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
)

// input is something that happened and that the state has to know.
type input interface{ isInput() }

// The inputs of a call.
type (
	// upstreamEvent and browserEvent are messages of the data channels.
	upstreamEvent struct{ data []byte }
	browserEvent  struct{ data []byte }
	// browserTooLarge is a message of the browser that was too large to be taken.
	browserTooLarge struct{ size int }
	// upstreamState and browserState are changes of the connections.
	upstreamState struct{ state rtc.State }
	browserState  struct{ state rtc.State }
	// toolProgress and toolEnd come from a tool that runs.
	toolProgress struct {
		callID string
		chunk  toolkit.Chunk
	}
	toolEnd struct {
		callID string
		result toolkit.Result
	}
	// said is text that goes into the call from elsewhere. It is saved together
	// with what with writes; where that is set, a text that the call cannot say any
	// more is left to whoever has it.
	said struct {
		messageID, text string
		extra           map[string]json.RawMessage
		with            func(*persistence.Batch) error
	}
	// interruption stops the turn, and tells whether there was one.
	interruption struct{ stopped chan<- bool }
	// freshStart lets the model forget what was said.
	freshStart struct{}
	// newTools are the server's tools from now on.
	newTools struct{ entries []toolkit.Entry }
	// stop asks for the end of the call.
	stop struct{ reason EndReason }
	// tick says that the deadline has come that the state asked for.
	tick struct{}
)

func (upstreamEvent) isInput()   {}
func (browserEvent) isInput()    {}
func (browserTooLarge) isInput() {}
func (upstreamState) isInput()   {}
func (browserState) isInput()    {}
func (toolProgress) isInput()    {}
func (toolEnd) isInput()         {}
func (said) isInput()            {}
func (interruption) isInput()    {}
func (freshStart) isInput()      {}
func (newTools) isInput()        {}
func (stop) isInput()            {}
func (tick) isInput()            {}

// effect is something that the state wants done. Effects are done in order.
type effect interface{ isEffect() }

// The effects of a call.
type (
	// toUpstream and toBrowser send an event. A draft may be dropped when the
	// browser is slow.
	toUpstream struct{ data []byte }
	toBrowser  struct {
		data  []byte
		draft bool
	}
	// write changes the thread, sooner or later but in order and never lost.
	write struct{ op op }
	// publish tells the thread's watchers of what is not saved.
	publish struct {
		kind persistence.EventType
		data any
	}
	// expectTool opens a client's tool call for its answer, before the client
	// can know of the call.
	expectTool struct{ callID string }
	// startTool runs a tool; cancelTool ends one that runs, cancelTools all.
	startTool   struct{ call toolkit.Call }
	cancelTool  struct{ callID string }
	cancelTools struct{}
	// deliverTool hands the client's answer to its tool.
	deliverTool struct{ callID, output string }
	// gate lets the caller be heard; shut it ends all audio.
	gate struct{ open bool }
	// answer tells who waits for it; to has room for it.
	answer struct {
		to  chan<- bool
		yes bool
	}
	// report writes a line to the log.
	report struct {
		level   slog.Level
		message string
		attrs   []any
	}
	// finish ends the loop.
	finish struct{ reason EndReason }
)

func (toUpstream) isEffect()  {}
func (toBrowser) isEffect()   {}
func (write) isEffect()       {}
func (publish) isEffect()     {}
func (expectTool) isEffect()  {}
func (startTool) isEffect()   {}
func (cancelTool) isEffect()  {}
func (cancelTools) isEffect() {}
func (deliverTool) isEffect() {}
func (gate) isEffect()        {}
func (answer) isEffect()      {}
func (report) isEffect()      {}
func (finish) isEffect()      {}

// op is one change of the thread.
type op interface {
	// key names what is changed: of two ops with one key that both wait, the
	// later one replaces the earlier.
	key() string
	// size is about how many bytes the op holds.
	size() int
}

// The ops of a call.
type (
	saveMessage struct {
		message persistence.Message
		place   place
		// with writes more in the same transaction; nil writes no more.
		with func(*persistence.Batch) error
	}
	saveTool     struct{ call persistence.ToolCall }
	saveResponse struct{ response persistence.ResponseRecord }
	saveCall     struct{ call persistence.CallRecord }
)

// place says where a message stands in its thread.
type place struct {
	how   placing
	after string // of placeAfter: the message before it, empty for the first place
}

type placing int

const (
	placeKept  placing = iota // it is in the thread
	placeLast                 // it is new and stands at the end
	placeAfter                // it is new and stands right after another
)

func (o saveMessage) key() string  { return "message " + o.message.ID }
func (o saveTool) key() string     { return "tool " + o.call.ID }
func (o saveResponse) key() string { return "response " + o.response.ID }
func (o saveCall) key() string     { return "call" }

// opOverhead is what an op costs beside its text, in bytes.
const opOverhead = 512

func (o saveMessage) size() int {
	n := opOverhead
	for _, p := range o.message.Parts {
		n += len(p.Text) + len(p.Input) + len(p.Output) + len(p.ErrorText)
	}
	return n
}
func (o saveTool) size() int {
	return opOverhead + len(o.call.Input) + len(o.call.Output) + len(o.call.Error)
}
func (saveResponse) size() int { return opOverhead }
func (saveCall) size() int     { return opOverhead }

// until returns the earlier of two deadlines, of which zero is none.
func until(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}
