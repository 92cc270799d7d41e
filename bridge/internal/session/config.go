package session

import (
	"cmp"
	"strings"
	"time"

	"voicebridge/assistant"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Settings are what an operator sets for all calls. The tags are those of cmd/voicebridge/internal/config.
type Settings struct {
	Session Defaults
	Limits
	Budget

	// ReplayMessages is how many of a thread's last messages a session gets.
	ReplayMessages int
	// Approve names the tools that the user must approve each time, Deny those that clients cannot declare.
	Approve toolkit.Names
	Deny    toolkit.Names
	// FillerAfter is when the voice says that a tool is still running, 0 for never, and FillerLines what it says, one
	// after the other; without them it has words of its own.
	FillerAfter time.Duration
	FillerLines []string
	// FillerTone has a tone sound from then on while nothing is said.
	FillerTone bool
}

// Defaults are the voice model and its instructions.
type Defaults struct {
	// The model for voice calls.
	Model string `yaml:"model" default:"gpt-realtime-2.1" min:"1" env:"VOICEBRIDGE_REALTIME_MODEL"`
	// A name, or the id of a custom voice (voice_…).
	Voice string `yaml:"voice" default:"marin" min:"1" env:"VOICEBRIDGE_REALTIME_VOICE,VOICEBRIDGE_VOICE"`
	// Model that transcribes what the user says.
	TranscriptionModel string `yaml:"transcription_model" default:"gpt-transcribe" min:"1" env:"VOICEBRIDGE_REALTIME_TRANSCRIPTION_MODEL,VOICEBRIDGE_TRANSCRIPTION_MODEL"`
	// What the assistant is told. Leave it out for the built-in text. {{date}} and {{time}} stand for when the call
	// began, {{user}} for the user's name: the owner of the token, or the claim `name` of a JWT.
	Instructions string `yaml:"instructions" max:"32768"`
	// Whether a client may set the instructions of its own calls.
	AllowClientInstructions bool          `yaml:"allow_client_instructions"`
	TurnDetection           TurnDetection `yaml:"turn_detection,flow"`
	// Against noise around the caller. Empty: off.
	NoiseReduction string `yaml:"noise_reduction" enum:",near_field,far_field"`
	// Of the transcription, ISO 639-1, such as en; empty: any.
	Language string `yaml:"language" format:"language"`
	// Names and words that the transcription is to know, each of up to 64 characters.
	Keyterms []string `yaml:"keyterms" items:"100" min:"1" format:"keyterm"`
	// What speech must have to interrupt an answer: see docs/upstreams.md, "False interruptions".
	Interruption assistant.Interruption `yaml:"interruption,flow"`
	// Speed is how fast the model speaks; 0 leaves it to the upstream.
	Speed float64 `yaml:"-"`
}

// TurnDetection is what decides that the caller's turn is over.
type TurnDetection = assistant.TurnDetection

// Route is what the sessions of one of several upstreams have; the zero value changes nothing.
type Route struct {
	Name string // of the upstream
	// What is set of these takes the place of Defaults, with Own also what is not.
	Model, Voice, TranscriptionModel string
	Own                              bool
}

// With returns the defaults of sessions of a route.
func (d Defaults) With(r Route) Defaults {
	if r.Own {
		d.Model, d.Voice, d.TranscriptionModel = "", "", ""
	}
	d.Model, d.Voice = cmp.Or(r.Model, d.Model), cmp.Or(r.Voice, d.Voice)
	d.TranscriptionModel = cmp.Or(r.TranscriptionModel, d.TranscriptionModel)
	return d
}

// Limits are when calls begin and end.
type Limits struct {
	// When a client gets its answer: `at_once` does not wait for an upstream that was reached in the last five minutes,
	// whose refusal then comes as an event in the call; `after_upstream` waits until the upstream has taken the call.
	Answer string `yaml:"answer" default:"at_once" enum:"at_once,after_upstream"`
	// How long before its end an upstream session is replaced by another; 0: only once it has ended.
	RenewBefore time.Duration `yaml:"renew_before_minutes" default:"10" min:"0" max:"1440"`
	// How long a call waits for a lost browser.
	LossGrace time.Duration `yaml:"grace_seconds" default:"30" min:"0" max:"600"`
	// How long it waits for a browser that closed its connection, as a page does when it is reloaded.
	CloseGrace time.Duration `yaml:"close_grace_seconds" default:"8" min:"0" max:"600"`
	// A call ends after this long without speech, answers or tools; 0: never.
	Idle time.Duration `yaml:"idle_minutes" default:"10" min:"0" max:"1440"`
	// Longest call; 0: no limit.
	MaxDuration time.Duration `yaml:"max_minutes" min:"0" max:"10080"`
	// How long a voice model may take until its session is ready, as one does that is loaded for it.
	Setup time.Duration `yaml:"setup_seconds" default:"20" min:"1" max:"600"`
	// How long it may say nothing at all when it is asked, as one does that is slow at first.
	FirstWord time.Duration `yaml:"first_word_seconds" default:"20" min:"1" max:"600"`
	// In one spoken turn.
	ToolRounds int `yaml:"max_tool_rounds" default:"20" min:"1" max:"1000"`
}

// Budget are the limits of spending, in US dollars; 0: no limit. The caller is warned at warn_percent of a limit.
type Budget struct {
	// Per call.
	CallUSD float64 `yaml:"call_usd" min:"0" max:"1000000"`
	// Per owner and day.
	OwnerDayUSD float64 `yaml:"owner_day_usd" min:"0" max:"1000000"`
	// The caller is warned when this share of a limit is spent.
	WarnPercent int `yaml:"warn_percent" default:"80" min:"1" max:"100"`
}

// Config is what stays constant during a call.
type Config struct {
	Settings

	CallID string
	Key    thread.Key
	// Patch is what the client asked for when starting the call.
	Patch Patch
	// Fixed means that clients cannot change what Patch names, except for those of "instructions", "tools" and "voice"
	// that MayChange lists.
	Fixed     bool
	MayChange []string
	// History holds the thread's last messages when the call began, LastMessage the id of the last one.
	History     []thread.Message
	LastMessage string
	// Greeting is what the model says first, unless the caller is faster; empty for nothing.
	Greeting string
	// Announcement is what the model says before that in any case; empty for nothing.
	Announcement string
	// NoticeFirst means that the recording begins once the announcement was heard to its end. The state takes it back.
	NoticeFirst bool
	// EndCall means that the model has the tool EndCallName.
	EndCall bool
	// Transfers means that it has the tool TransferName.
	Transfers bool
	// MaskKeys means that of keys of a telephone the model alone learns which they were.
	MaskKeys bool
	// AskAfter is how long nobody speaks until the caller is asked whether they are there, HangUpAfter until the call
	// ends; 0: never.
	AskAfter, HangUpAfter time.Duration
	// UpstreamLimit and BrowserLimit are the largest events that the legs accept, in bytes. UpstreamLimit is zero, as
	// is UpstreamCan, while the first upstream session is being dialled: UpstreamDialed or UpstreamDialFailed follows.
	UpstreamLimit, BrowserLimit int
	// KeepSound means that the call is to be recorded.
	KeepSound bool
	// BrowserPlays means that the client plays answers by its own clock, and says what was heard by
	// conversation.item.truncate.
	BrowserPlays bool
	// UpstreamCan is what the first upstream session can.
	UpstreamCan Capabilities
	// OwnerSpentUSD is what the owner had spent that day when the call began.
	OwnerSpentUSD float64
	// TranscriptionCost returns the cost of a transcription, like Cost; nil means unknown.
	TranscriptionCost func(upstream, model string, u realtime.Usage) *float64
	// Cost returns the cost of a model's response in US dollars; nil if unknown.
	Cost func(upstream, model string, u realtime.Usage) *float64
	// Others is how many other upstreams are there to go on with when one refuses.
	Others int
	// ItemPrefix begins the ids of items that the bridge creates. It differs between calls, since
	// saved messages name items.
	ItemPrefix string
	// NewID makes the id of a message or record, the n-th of the call.
	NewID func(now time.Time, n int) string
}

// Capabilities are what an upstream session can, beyond speaking, listening and calling tools. The zero value is
// nothing.
type Capabilities struct {
	// OutputBuffer means that it reports with output_audio_buffer events what is heard, and takes
	// output_audio_buffer.clear. Without it what was heard is estimated.
	OutputBuffer bool
	// Truncation means that it takes conversation.item.truncate, by which it learns what was heard of an interrupted
	// answer unless TruncatesItself: it shortens the answer in its conversation on its own.
	Truncation, TruncatesItself bool
	// Deletion means that it takes conversation.item.delete. Otherwise it forgets by being replaced.
	Deletion bool
	// Images means that the model can be shown images.
	Images bool
	// ResponseSettings means that a response.create may have instructions and a tool choice of its own.
	ResponseSettings bool
	// Early means that it takes its settings before it has announced itself.
	Early bool
	// Duplex means that it listens, speaks and has work done at the same time: several responses may be made at once,
	// those that are spoken cost what the session does, which is billed by its length, and words may come after the end
	// of what they belong to.
	Duplex bool
	// CallItems means that it takes function calls as items, such as those of an earlier session. Otherwise their
	// results are told as history.
	CallItems bool
	// Resumes means that it judges by itself, by the settings of its Dial, what interrupts it, and goes on.
	Resumes bool
}

// Timeouts and intervals of a call.
const (
	transcriptionTimeout = 10 * time.Second        // for the transcription of an utterance
	drainTimeout         = 2 * time.Second         // for the last transcriptions when a call ends
	takeoverDrain        = 300 * time.Millisecond  // the same, if somebody is waiting for the thread
	flushEvery           = 650 * time.Millisecond  // between saves of partial text
	publishEvery         = 120 * time.Millisecond  // between publications of partial text
	createTimeout        = 10 * time.Second        // for what a client has committed, or another response
	updateTimeout        = 10 * time.Second        // for its reply to session.update in a live call
	ackTimeout           = 5 * time.Second         // for its word that it has a text
	pieceWait            = 3 * time.Second         // for more of a transcription that comes in items of its own
	speechTimeout        = 60 * time.Second        // the longest wait for the user to finish
	autoResponseWait     = 1500 * time.Millisecond // for the response to an utterance to begin
	saidWait             = 5 * time.Second         // for an answer to be said that was written
	// for an application's server to ask for the answer to a tool's result
	serverCreateWait = time.Second
	// for a client's response.create or cancel after the end of the answer that it means
	clientCreateWait = 2 * time.Second
)

// Limits on what a call holds.
const (
	maxBacklogEvents = 64      // browser events waiting for the session
	maxBacklogBytes  = 1 << 20 // of those events
	maxMessageText   = 1 << 20 // bytes of one message's text
	maxSent          = 1024    // own events whose errors can still be attributed
	// maxSession is the largest session.update in bytes: its answer has the whole session, and a leg accepts 896 KiB.
	maxSession   = 800 << 10
	MaxInputText = 32 << 10  // bytes of typed text
	maxResponse  = 256 << 10 // bytes of the response that an application's server asks for
)

// AnswerAtOnce is a value of Limits.Answer.
const AnswerAtOnce = "at_once"

// CancelToolName is the tool by which the model cancels tools when the user says so. Its calls are
// answered here: nothing else knows what is running.
const CancelToolName = "cancel_running_tools"

// EndCallName is the server's tool by which the model ends the call.
const EndCallName = "end_call"

// TransferName is the server's tool by which the model has the caller connected with somebody. It asks by Transfer.
const TransferName = "transfer_call"

// owns reports whether a tool of the server is one of calls, which those of others do not replace.
func (c *Config) owns(name string) bool {
	return name == CancelToolName || c.EndCall && name == EndCallName || c.Transfers && name == TransferName
}

// opening is what the model says first.
func (c *Config) opening() string { return strings.TrimSpace(c.Announcement + "\n\n" + c.Greeting) }
