package records

import (
	"encoding/json"
	"time"

	"voicebridge/thread"
)

// Call is the record of one live voice connection.
type Call struct {
	ID             string
	Owner          string
	ThreadID       string
	Upstream       string // the name of the last upstream
	UpstreamCallID string // for hanging up after a crash; empty until known
	Model          string
	Voice          string
	StartedAt      time.Time
	ReadyAt        *time.Time // when the caller's audio was first let through
	EndedAt        *time.Time
	EndReason      string
	Turns          int64
	Interruptions  int64
	Replayed       int64
	// AssistantID is the assistant of AssistantOwner (empty: the operator) that the call has from its beginning,
	// Extraction whether a text model reads the call after its end; later values change nothing.
	AssistantID    string     `json:",omitempty"`
	AssistantOwner string     `json:",omitempty"`
	Extraction     Extraction `json:",omitempty"`
	// Summary and Extracted are what it has found, ExtractionError why it has found nothing. They are read-only.
	Summary         string          `json:",omitempty"`
	Extracted       json.RawMessage `json:",omitempty"`
	ExtractionError string          `json:",omitempty"`
	// Client is [ClientPhone], or empty. Line is the name of the line of such a call, Caller the number of who is not the
	// assistant, empty if it is withheld, Direction one of the constants. Later values change nothing.
	Client    string `json:",omitempty"`
	Line      string `json:",omitempty"`
	Caller    string `json:",omitempty"`
	Direction string `json:",omitempty"`
	// CostUSD is what its models have cost, nil while no price is known. Only Store.Calls tells it.
	CostUSD *float64 `json:"-"`
	// Instance is the process that has the call. It is read-only.
	Instance string `json:",omitempty"`
}

// What a [Call] by telephone has as Client, and its directions.
const (
	ClientPhone = "phone"
	Inbound     = "inbound"
	Outbound    = "outbound"
)

// Extraction says whether a text model reads a call after its end.
type Extraction string

// The states of an Extraction.
const (
	ExtractionNone    Extraction = ""
	ExtractionWaiting Extraction = "waiting" // for the end of the call, or for another try
	ExtractionRunning Extraction = "running"
	ExtractionDone    Extraction = "done"
	ExtractionFailed  Extraction = "failed"
)

// Kind is what a model was used for.
type Kind string

// The kinds of billed uses of a model.
const (
	KindResponse      Kind = "response" // an answer, or one step of it
	KindTranscription Kind = "transcription"
	KindSpeech        Kind = "speech" // an answer, spoken by another model
	KindTitle         Kind = "title"
	KindExtraction    Kind = "extraction" // reading a call after its end
	KindSession       Kind = "session"    // the time of an upstream session that is billed by it
)

// Response is the record of one billed use of a model.
type Response struct {
	ID           string // our own id
	Kind         Kind   // empty: KindResponse
	CallID       string // id of our live call, empty in a text turn
	MessageID    string
	Upstream     string // whose voice model it was; empty in a text turn
	UpstreamID   string
	Model        string
	Status       string // completed, cancelled, failed, incomplete, in_progress
	StatusReason string
	Usage        thread.Usage
	// RawUsage is the upstream's usage object as received.
	RawUsage json.RawMessage
	CostUSD  *float64
	// Estimated means that the upstream has not said how long the session was.
	Estimated bool
	// AnswerMS is the time from the end of the user's speech, or from the typed text, to the first
	// audio; FirstTokenMS is that to the first text.
	AnswerMS     *int64
	FirstTokenMS *int64
	CreatedAt    time.Time
	FinishedAt   *time.Time
}
