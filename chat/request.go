package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

const (
	// MaxText is the size of what a user writes in one turn, in bytes.
	MaxText = 256 << 10
	// MaxInstructions is how many instructions one request may have.
	MaxInstructions = 50
)

// TurnRequest is what a turn answers. Key and one of Text, Instructions, Saved and
// Question are needed.
type TurnRequest struct {
	Key persistence.Key
	// Text is what the user writes.
	Text string
	// Images are shown with the text, and those of the thread that ImageIDs names.
	Images   []Image
	ImageIDs []string
	// MessageID is the id that the user's message gets, empty for a new one; with
	// Saved, the id that it has.
	MessageID string
	// Extra is more metadata of the user's message.
	Extra map[string]json.RawMessage
	// Saved says that the user's message is in the thread already, and wants another
	// answer: in the request it comes last, without what was answered to it before.
	Saved bool
	// Replace, with Saved, leaves what was answered to it before out of later requests,
	// too.
	Replace bool
	// Question is asked for a tool call that has it as its input, and is saved
	// nowhere else: it is the last message of the user in the requests of this turn.
	Question string
	// AskedBy is the id of that call; the answer's metadata names it.
	AskedBy string
	// Instructions become system messages of the thread, before the text.
	Instructions []string
	// System stands behind the system prompt. A door that has such words gives
	// the same in all turns of a thread.
	System string
	// Provider, Model and MaxTokens are used where they are set; else what the
	// thread's text session says, else the settings.
	Provider, Model string
	MaxTokens       int
	// Discard has a turn that fails leave nothing of the assistant to later requests.
	Discard bool
	// NoServerTools leaves only the caller's tools.
	NoServerTools bool
	// Caller has the tools that the caller runs; nil for none.
	Caller *CallerTools
	// Opening is run in the transaction that begins the turn and saves the user's
	// message: what it writes is there if, and only if, the turn has begun. It
	// must not use the Store.
	Opening func(*persistence.Batch) error
	// Closing is run in the transaction that ends the turn and saves its answer; of
	// the result all is there but Message. It must not use the Store. When the
	// process dies it is never run.
	Closing func(*persistence.Batch, Result) error
}

// CallerTools are tools that the caller of a turn runs.
type CallerTools struct {
	Tools []toolkit.Definition
	// Wait says that the turn waits for each result, which [Turn.Deliver] brings.
	// Otherwise the turn ends with the calls open, in Result.ToolCalls.
	Wait bool
}

// Validate says why tools that a caller declares cannot be used (ErrTools).
func (t CallerTools) Validate() error {
	if err := clienttool.New(toolkit.NewRegistry(), clienttool.Config{}).Declare(t.Tools); err != nil {
		return fmt.Errorf("%w: %w", ErrTools, err)
	}
	return nil
}

// says reports whether the user says something, in words or pictures.
func (r *TurnRequest) says() bool {
	return strings.TrimSpace(r.Text) != "" || len(r.Images)+len(r.ImageIDs) > 0
}

// message is what the user says, with the note that stands before it in requests.
func (r *TurnRequest) message(note string) persistence.Message {
	m := persistence.Message{ID: r.MessageID, Role: persistence.RoleUser}
	for _, i := range r.Images {
		m.Parts = append(m.Parts, i.part())
	}
	if strings.TrimSpace(r.Text) != "" {
		m.Parts = append(m.Parts, persistence.TextPart(r.Text))
	}
	m.Metadata.Extra = maps.Clone(r.Extra)
	return withContext(m, note)
}

func (r *TurnRequest) validate() error {
	if r.Saved && (r.says() || r.MessageID == "") {
		return errors.New("a turn for a message that is saved has its id, and no text")
	}
	if asks := r.AskedBy != ""; asks != (r.Question != "") || asks && (r.Saved || r.says()) {
		return errors.New("a question goes with the call that asks it, and without a text")
	}
	if !r.says() && strings.TrimSpace(r.Question) == "" && len(r.Instructions) == 0 && !r.Saved {
		return ErrEmpty
	}
	if err := checkImages(r.Images, len(r.ImageIDs)); err != nil {
		return err
	}
	size := len(r.Text) + len(r.Question)
	for _, i := range r.Instructions {
		if strings.TrimSpace(i) == "" {
			return fmt.Errorf("instructions: %w", ErrEmpty)
		}
		size += len(i)
	}
	if size > MaxText || len(r.Instructions) > MaxInstructions {
		return fmt.Errorf("%w: the text has %d bytes, the limit is %d; and at most %d instructions", ErrTooLarge, size, MaxText, MaxInstructions)
	}
	if r.Caller != nil {
		return r.Caller.Validate()
	}
	return nil
}
