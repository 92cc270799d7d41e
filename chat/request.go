package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

const (
	// MaxText limits what a user writes in one turn, in bytes.
	MaxText = 256 << 10
	// maxInstructions limits the instructions in one request.
	maxInstructions = 50
)

// TurnRequest is what a turn answers. Key is required, and one of Text, Instructions, Saved and
// Question.
type TurnRequest struct {
	Key thread.Key
	// User is the user's name, for the instructions; empty if unknown.
	User string
	// Text is what the user writes.
	Text string
	// Images go with the text, as do those of the thread that ImageIDs names.
	Images   []Image
	ImageIDs []string
	// Parts are more of the user's message, which models are not shown.
	Parts []thread.Part
	// MessageID is the id for the user's message or, without one, for the last instruction, empty for a new one; with
	// Saved, its present id.
	MessageID string
	// SentAs is the id by which the client knows the message, if it cannot have that id here.
	SentAs string
	// Extra is more metadata of the user's message.
	Extra map[string]json.RawMessage
	// Saved means that the user's message is already in the thread and needs another answer: it
	// comes last in the request, and its earlier answers are left out of this request and later ones.
	Saved bool
	// Back is the id of a message to which the user went back, to have it answered again (with Saved) or to say
	// something else instead. Later requests leave out all that was said from there on.
	Back string
	// Question is the input of the tool call that asks it, and is saved nowhere else: it is the
	// last user message in this turn's requests.
	Question string
	// AskedBy is the id of that call; the answer's metadata names it.
	AskedBy string
	// Instructions become system messages of the thread, before the text.
	Instructions []string
	// System follows the system prompt. It should be the same in all turns of a thread.
	System string
	// Spoken means that a voice will speak the answer: the model is told so, by [Config.SpokenInstructions] instead of
	// [Config.Instructions].
	Spoken bool
	// Provider and Model override the thread's text session, which overrides the settings.
	Provider, Model string
	// Session has the thread answer as a text session: with Discard and NoServerTools, and with the session's tools,
	// whose calls stay open.
	Session bool
	// Discard makes a failed turn leave nothing of the assistant for later requests.
	Discard bool
	// NoServerTools leaves only the client's tools.
	NoServerTools bool
	// Client holds the tools that the client runs; nil for none.
	Client *ClientTools
	// Secrets are digits that only the model is to know.
	Secrets []string
	// Lent are tools that clients elsewhere run, unless the server has one of the same name.
	Lent []toolkit.Tool
	// Unlimited lets the turn begin in spite of Config.TurnsPerOwner: whoever asks for it has a limit
	// of its own.
	Unlimited bool
	// Queued is the claim of the queued message that the turn answers; nil for none. The message counts as sent if and
	// only if the turn has begun, and the turn cannot begin if the claim is lost (ErrUnclaimed).
	Queued *queued.Claimed
	// Closing says what becomes of that message with the transaction that ends the turn and saves
	// its answer; nil leaves it alone. The result is complete except for Message.
	Closing func(Result) *queued.Answer
}

// ClientTools are tools run by the client of a turn.
type ClientTools struct {
	Tools []toolkit.Definition
	// Wait means that the turn waits for each result, which [Turn.Deliver] delivers. Otherwise the
	// turn ends with the calls open, in Result.ToolCalls.
	Wait bool
}

// Validate returns why a client's tools cannot be used (ErrTools).
func (t ClientTools) Validate() error {
	if err := clienttool.New(toolkit.NewRegistry(), clienttool.Config{}).Declare(t.Tools); err != nil {
		return fmt.Errorf("%w: %w", ErrTools, err)
	}
	return nil
}

// clientTools are the tools that the client runs.
func (r *TurnRequest) clientTools() []toolkit.Definition {
	if r.Client == nil {
		return nil
	}
	return r.Client.Tools
}

// says reports whether the user says something, in words or pictures.
func (r *TurnRequest) says() bool {
	return !isBlank(r.Text) || len(r.Images)+len(r.ImageIDs) > 0
}

// isBlank reports whether nothing of a text is left to read once it is saved, which is without NUL
// characters.
func isBlank(text string) bool { return strings.TrimSpace(strings.ReplaceAll(text, "\x00", "")) == "" }

// message returns what the user says, with the context that precedes it in requests.
func (r *TurnRequest) message(note string) thread.Message {
	m := thread.Message{ID: r.MessageID, Role: thread.RoleUser}
	for _, i := range r.Images {
		m.Parts = append(m.Parts, i.part())
	}
	if !isBlank(r.Text) {
		m.Parts = append(m.Parts, thread.TextPart(r.Text))
	}
	m.Parts = append(m.Parts, r.Parts...)
	m.Metadata.Extra = maps.Clone(r.Extra)
	if r.SentAs != "" {
		m = withExtra(m, extraSentAs, r.SentAs)
	}
	return withContext(m, note)
}

// instructionID returns the id of the last instruction if that is what the turn answers; empty for a new one.
func (r *TurnRequest) instructionID() string {
	if r.says() || r.Saved {
		return ""
	}
	return r.MessageID
}

// appendInstructions appends instructions to a thread, as system messages. lastID is the id of the last one, empty for
// a new one.
func appendInstructions(b *persistence.Batch, instructions []string, lastID string) error {
	for i, text := range instructions {
		m := thread.Message{Role: thread.RoleSystem, Parts: []thread.Part{thread.TextPart(text)}}
		if i == len(instructions)-1 {
			m.ID = lastID
		}
		if _, err := b.AppendMessage(m); err != nil {
			return err
		}
	}
	return nil
}

func (r *TurnRequest) validate() error {
	if r.Saved && (r.says() || r.MessageID == "") {
		return errors.New("a turn for a saved message needs the message's id, and no text")
	}
	if asks := r.AskedBy != ""; asks != (r.Question != "") || asks && (r.Saved || r.says()) {
		return errors.New("a question needs the call that asks it, and no text")
	}
	if !r.says() && (r.Text != "" || strings.TrimSpace(r.Question) == "" && len(r.Instructions) == 0 && !r.Saved) {
		return ErrEmpty
	}
	if err := checkImages(r.Images, r.Key.Thread, len(r.ImageIDs)); err != nil {
		return err
	}
	size := len(r.Text) + len(r.Question)
	for _, i := range r.Instructions {
		if isBlank(i) {
			return fmt.Errorf("instructions: %w", ErrEmpty)
		}
		size += len(i)
	}
	if size > MaxText || len(r.Instructions) > maxInstructions {
		return fmt.Errorf("%w: the text has %d bytes, the limit is %d; and at most %d instructions", ErrTooLarge, size,
			MaxText, maxInstructions)
	}
	if r.Client != nil {
		return r.Client.Validate()
	}
	return nil
}
