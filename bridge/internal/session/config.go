package session

import (
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// Defaults are the settings of every call's session, as the operator wants them.
type Defaults struct {
	Model              string
	Voice              string
	TranscriptionModel string
	Instructions       string
	// TurnDetection and NoiseReduction are objects of the Realtime API in JSON, or null:
	// push to talk, and no reduction. Empty, they are server_vad and what the upstream does.
	TurnDetection, NoiseReduction string
	// Language is that of the transcription, ISO 639-1; empty is any.
	Language string
	// AllowClientInstructions lets a client replace the instructions.
	AllowClientInstructions bool
}

// Order says where the item of an upstream's event stands in the conversation: right
// behind before, or first where that is empty. known is false where the event does not
// say. It belongs to the driver, since not every upstream chains its items: one may give
// times, from which the driver knows what came before. The ids are the upstream's.
type Order func(gen int, ev realtime.Event) (before string, known bool)

// Config is what does not change during a call.
type Config struct {
	CallID  string
	Key     persistence.Key
	Session Defaults
	// Patch is what the client asked for when it started the call.
	Patch Patch
	// Fixed says that clients cannot change what Patch names, but for MayChange, of
	// "instructions", "tools" and "voice".
	Fixed     bool
	MayChange []string
	// History are the thread's last messages when the call began, of which a session
	// is told ReplayMessages; LastMessage is the id of the last one.
	History        []persistence.Message
	ReplayMessages int
	LastMessage    string
	// UpstreamLimit and BrowserLimit are the largest events that the legs take,
	// in bytes.
	UpstreamLimit, BrowserLimit int
	MaxDuration                 time.Duration
	// CloseGrace and LossGrace are how long a call waits for its browser after a
	// polite end of its connection and after its loss; 0 ends the call at once.
	CloseGrace, LossGrace time.Duration
	// RenewBefore is how long before its end an upstream session is replaced; 0
	// waits for the end.
	RenewBefore time.Duration
	// Approve names the tools that the user must allow each time; FillerAfter is
	// when the voice says that a tool still runs, 0 for never.
	Approve     toolkit.Names
	FillerAfter time.Duration
	// Limits are what the call may take.
	Limits Limits
	// TranscriptionCost is what a transcription took, as Cost; nil means unknown.
	TranscriptionCost func(realtime.Usage) *float64
	// Cost is what a response took, in US dollars; nil when it is unknown.
	Cost func(realtime.Usage) *float64
	// Order is the driver's; nil is the chain of the Realtime API.
	Order Order
	// ItemPrefix begins the ids of the items that the bridge creates. It is
	// different in every call, since items are named in the saved messages.
	ItemPrefix string
	// NewID makes ids of messages and records.
	NewID func() string
}

// Times of a call.
const (
	SetupTimeout      = 20 * time.Second        // from the dialling to the ready session
	transcriptTimeout = 10 * time.Second        // for the words of a spoken turn
	drainTimeout      = 2 * time.Second         // for the last words when a call ends
	takeoverDrain     = 300 * time.Millisecond  // somebody waits for the thread
	flushEvery        = 800 * time.Millisecond  // partial text is saved
	publishEvery      = 120 * time.Millisecond  // partial text is told to watchers
	createTimeout     = 10 * time.Second        // for the upstream's reply to response.create
	updateTimeout     = 10 * time.Second        // for its reply to session.update in a live call
	speechTimeout     = 60 * time.Second        // the longest wait for a turn to end
	autoResponseWait  = 1500 * time.Millisecond // for the response that ends a spoken turn
	asksAfter         = 2 * time.Second         // for a client to ask for the answer that it has
)

// Limits of what a call holds.
const (
	maxHeldEvents  = 64       // browser events that wait for the session
	maxHeldBytes   = 1 << 20  // of them
	maxMessageText = 1 << 20  // bytes of one message's text
	maxSent        = 1024     // own events whose errors are still known
	MaxInputText   = 32 << 10 // bytes of a typed text
)

// CancelToolName is the tool by which the model ends tools on the user's word. Its
// calls are answered here: nobody else knows what runs.
const CancelToolName = "cancel_running_tools"

// Limits are what a call may take; zero is no limit.
type Limits struct {
	// CallUSD is what the call may cost, OwnerDayUSD what all that the owner does in a
	// day may, of which OwnerSpentUSD was spent when the call began. The caller is
	// warned at WarnPercent of either.
	CallUSD, OwnerDayUSD, OwnerSpentUSD float64
	WarnPercent                         int
	// Idle ends a call in which nobody has said or written anything for so long, no
	// answer was made and no tool ran. Noise of a microphone does not count.
	Idle time.Duration
	// ToolRounds are the responses with tool calls that one turn of the user may lead
	// to. The next one has to answer in words.
	ToolRounds int
}
