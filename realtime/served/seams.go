package served

import (
	"context"
	"iter"
	"time"

	"voicebridge/realtime"
)

// Mind writes the answers of a session.
type Mind interface {
	// Answer writes the answer of a response in pieces, until ctx ends. It is called on the session's goroutine and
	// returns at once; the pieces are read on another one, each when the one before was taken. An error ends the
	// response as failed; it may be a *realtime.Error.
	Answer(ctx context.Context, r *Request) iter.Seq2[Piece, error]
}

// Request is what a response is made from.
type Request struct {
	Response     string
	Items        []Item // that it sees, oldest first
	Instructions string // its own, else the session's
	Spoken       bool   // the Mouth speaks it
	Tools        []Tool
	Choice       any // tool_choice
	MaxTokens    int // of the answer; 0 means any number
}

// Piece is a piece of an answer: one of a text, or of a call, or something about the answer.
type Piece struct {
	Text  string         // follows that of the pieces before
	Call  Call           // Arguments follow those of a call before with the same ID
	Usage map[string]any // as a response shows it; the latest counts, also of an answer that is thrown away
	Stop  string         // why the answer is incomplete, such as max_output_tokens
}

// Call is a call of a function, of which Arguments are JSON text. The ID has at most 32 characters.
type Call struct{ ID, Name, Arguments string }

// Ear writes down what the caller says.
type Ear interface {
	// Write writes down an utterance in pieces, until ctx ends. It is called on the session's goroutine and returns at
	// once; the pieces are read on another one. If an error comes, the rest is not read: the utterance could not be
	// written down. It may be a *realtime.Error; one of the type invalid_request_error is about this utterance only.
	Write(ctx context.Context, u Utterance) iter.Seq2[Words, error]
}

// Utterance is what the caller says in one turn.
type Utterance struct {
	Item   string        // its id
	Sound  []int16       // 16 kHz, mono, with some of what came before; nil if the session does not keep sound
	Speech time.Duration // how much of it is speech

	// What the session says about its transcription.
	Language, Prompt string
	Keywords         []string
}

// Words are a piece of an utterance's text.
type Words struct {
	Text     string
	NoSpeech float64 // how probable it is that nobody spoke, from 0 to 1; the latest counts
}

// Mouth speaks.
type Mouth interface {
	// Speak speaks a message while its text grows, until ctx ends. It is called as [Mind].Answer is. An error ends the
	// sound, not the answer; those of a part are in its Frame.
	Speak(ctx context.Context, s Saying) iter.Seq2[Frame, error]
}

// Saying is a message that is spoken.
type Saying struct {
	Response, Item string
	Text           <-chan string // its pieces; closed at its end

	// What the session says about its voice.
	Voice string
	Speed float64
}

// Turns judges from the caller's sound when they speak. Its methods are called one at a time.
type Turns interface {
	// Begin forgets the sound so far. What is speech from now on depends on a threshold from 0 to 1.
	Begin(threshold float64)
	// Hear takes the next sound, about 20 ms. It returns for how many ms the caller has been speaking, pauses included,
	// 0 if they are not, and for how many they have been silent since.
	Hear(samples []int16, rate int) (spoken, quiet int64)
}

// Oddities handles an event of the client by calling handle, which returns the error that answers it, and may do
// something else.
type Oddities func(e realtime.Event, handle func() *realtime.Error) *realtime.Error
