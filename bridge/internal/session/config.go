package session

import (
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Defaults are the operator's settings for every session.
type Defaults struct {
	Model              string
	Voice              string
	TranscriptionModel string
	Instructions       string
	// TurnDetection and NoiseReduction are objects of the Realtime API in JSON, or null for push to
	// talk and no reduction. Empty means server_vad and the upstream's default.
	TurnDetection, NoiseReduction string
	// Language is the language of transcription, ISO 639-1; empty means any.
	Language string
	// AllowClientInstructions lets clients replace the instructions.
	AllowClientInstructions bool
}

// Order returns the place in the conversation of an upstream event's item: right after the item before, or first if
// that is empty. known is false if the event does not say. Each driver has its own, since not every upstream chains its
// items: one may send timestamps, from which the driver derives what came before. Ids are the upstream's.
type Order func(gen int, ev realtime.Event) (before string, known bool)

// Config is what stays constant during a call.
type Config struct {
	CallID  string
	Key     thread.Key
	Session Defaults
	// Patch is what the client asked for when starting the call.
	Patch Patch
	// Fixed means that clients cannot change what Patch names, except for those of "instructions", "tools" and "voice"
	// that MayChange lists.
	Fixed     bool
	MayChange []string
	// History holds the thread's last messages when the call began. A session gets at most ReplayMessages messages.
	// LastMessage is the id of the thread's last message.
	History        []thread.Message
	ReplayMessages int
	LastMessage    string
	// UpstreamLimit and BrowserLimit are the largest events that the legs accept, in bytes.
	UpstreamLimit, BrowserLimit int
	MaxDuration                 time.Duration
	// CloseGrace and LossGrace are how long a call waits for its browser after the connection was
	// closed and after it was lost; 0 ends the call at once.
	CloseGrace, LossGrace time.Duration
	// RenewBefore is how long before its end an upstream session is renewed; 0 waits for the end.
	RenewBefore time.Duration
	// Approve names the tools that the user must approve each time; FillerAfter is when the voice
	// says that a tool is still running, 0 for never.
	Approve     toolkit.Names
	FillerAfter time.Duration
	// Limits are the limits of the call.
	Limits Limits
	// TranscriptionCost returns the cost of a transcription, like Cost; nil means unknown.
	TranscriptionCost func(realtime.Usage) *float64
	// Cost returns the cost of a response in US dollars; nil if unknown.
	Cost func(realtime.Usage) *float64
	// Order is the driver's; nil takes the order from the events' previous_item_id.
	Order Order
	// ItemPrefix begins the ids of items that the bridge creates. It differs between calls, since
	// saved messages name items.
	ItemPrefix string
	// NewID makes ids of messages and records.
	NewID func() string
}

// Timeouts and intervals of a call.
const (
	setupTimeout         = 20 * time.Second        // from dialling to a ready session
	transcriptionTimeout = 10 * time.Second        // for the transcription of an utterance
	drainTimeout         = 2 * time.Second         // for the last transcriptions when a call ends
	takeoverDrain        = 300 * time.Millisecond  // the same, if somebody is waiting for the thread
	flushEvery           = 650 * time.Millisecond  // between saves of partial text
	publishEvery         = 120 * time.Millisecond  // between publications of partial text
	createTimeout        = 10 * time.Second        // for the upstream's reply to response.create
	wordTimeout          = 2 * createTimeout       // for any word of it after a text
	updateTimeout        = 10 * time.Second        // for its reply to session.update in a live call
	ackTimeout           = 5 * time.Second         // for its word that it has a text
	speechTimeout        = 60 * time.Second        // the longest wait for the user to finish
	autoResponseWait     = 1500 * time.Millisecond // for the response to an utterance to begin
	clientCreateWait     = 2 * time.Second         // for a client's response.create after the answer that it asks for
)

// Limits on what a call holds.
const (
	maxBacklogEvents = 64      // browser events waiting for the session
	maxBacklogBytes  = 1 << 20 // of those events
	maxMessageText   = 1 << 20 // bytes of one message's text
	maxSent          = 1024    // own events whose errors can still be attributed
	// maxSession is the largest session.update in bytes: its answer has the whole session, and a leg accepts 896 KiB.
	maxSession   = 800 << 10
	MaxInputText = 32 << 10 // bytes of typed text
)

// CancelToolName is the tool by which the model cancels tools when the user says so. Its calls are
// answered here: nothing else knows what is running.
const CancelToolName = "cancel_running_tools"

// Limits are the limits of a call; zero means no limit.
type Limits struct {
	// CallUSD limits the cost of the call, OwnerDayUSD that of everything the owner does in a day,
	// of which OwnerSpentUSD was spent when the call began. The caller is warned at WarnPercent of
	// either.
	CallUSD, OwnerDayUSD, OwnerSpentUSD float64
	WarnPercent                         int
	// Idle ends a call in which nobody has spoken or typed, no answer was made and no tool ran for that long.
	// Microphone noise does not count.
	Idle time.Duration
	// ToolRounds limits the responses with tool calls in one turn of the user. The next response
	// must answer in words.
	ToolRounds int
}
