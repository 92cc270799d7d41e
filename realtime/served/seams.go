package served

import (
	"context"
	"iter"

	"voicebridge/realtime"
)

// Mind writes the answers of a session.
type Mind interface {
	// Answer is called on the session's goroutine.
	Answer(r *Request) Answer
}

// Request is what a response is made from.
type Request struct {
	Items        []*Item // that it sees, oldest first
	Instructions string  // its own, else the session's
	Tools        []Tool
	Choice       any // tool_choice
	MaxTokens    int // of the answer; 0 means any number
}

// Answer is what a response says and calls.
type Answer struct {
	Say        []string // pieces of a text
	Calls      []Call
	Incomplete bool // it ends because of MaxTokens
	// Failed, if set, is why there is no answer.
	Failed *realtime.Error
}

// Call is a call of a function, of which Arguments are JSON text. The ID has at most 32 characters.
type Call struct{ ID, Name, Arguments string }

// Ear writes down what the caller says.
type Ear interface {
	// Write writes down an utterance in pieces, until ctx ends. It is called on the session's goroutine and returns at
	// once; the pieces are read on another one. If an error comes, the rest is not read: the utterance could not be
	// written down. It may be a *realtime.Error.
	Write(ctx context.Context, u Utterance) iter.Seq2[string, error]
}

// Utterance is what the caller says in one turn.
type Utterance struct{ Item string } // the id of its item

// Mouth speaks.
type Mouth interface {
	// Speak returns packets of Opus, 20 ms each, which are not changed.
	Speak(text string) [][]byte
}

// Turns judges from the caller's sound when they begin to speak and are done. Its methods are called one at a time.
type Turns interface {
	// Begin forgets the sound so far.
	Begin(t TurnDetection)
	// Hear takes the next sound, about 20 ms. It returns for how many ms the caller has been speaking, 0 if they are
	// not.
	Hear(samples []int16, rate int) (ms int64)
}

// Oddities handles an event of the client by calling handle, which returns the error that answers it, and may do
// something else.
type Oddities func(e realtime.Event, handle func() *realtime.Error) *realtime.Error
