package chat

import (
	"errors"
	"fmt"

	"voicebridge/toolkit"
)

var (
	// ErrBusy means that a turn is running on the thread, here or on another instance.
	ErrBusy = errors.New("a turn is running on this thread")
	// ErrInCall means that the thread has a voice call, which would not learn of the turn: the text belongs there.
	ErrInCall = errors.New("the thread has a live call")
	// ErrCallChanging is ErrInCall for a call that is just starting or ending.
	ErrCallChanging = fmt.Errorf("%w, which is just starting or ending", ErrInCall)
	// ErrCallInstructions means that the thread has a voice call, which takes no instructions with a text.
	ErrCallInstructions = errors.New("the thread has a live call, which has its own instructions")
	// ErrKeyUsed means that another message of the thread has the client's key.
	ErrKeyUsed = errors.New("another message has this idempotency key")
	// ErrTooMany means that as many turns of the owner are running as Config.TurnsPerOwner allows.
	ErrTooMany = errors.New("too many turns of this owner are running")
	// ErrUnclaimed means that somebody else has claimed the queued message meanwhile.
	ErrUnclaimed = errors.New("the claim of the message was lost")
	// ErrIdle means that no turn is running on the thread.
	ErrIdle = errors.New("no turn is running on this thread")
	// ErrClosed means that the coordinator is ending, or has ended.
	ErrClosed = errors.New("the server is shutting down")
	// ErrEmpty means that there is nothing to answer.
	ErrEmpty = errors.New("the message is empty")
	// ErrNoMessage means that the thread has no such message since its last reset.
	ErrNoMessage = errors.New("there is no such message")
	// ErrTooLarge means that a text or an output exceeds its limit; the error names both.
	ErrTooLarge = errors.New("too large")
	// ErrProvider means that a provider is not configured.
	ErrProvider = errors.New("no such provider")
	// ErrTools means that declared tools cannot be used; the error says why.
	ErrTools = errors.New("bad tools")
	// ErrImages means that images cannot be used; the error says why.
	ErrImages = errors.New("bad images")
	// ErrUnknownCall means that no such call was made, or that it was given up. It is wrapped in a [CallError].
	ErrUnknownCall = errors.New("no open tool call has this id")
	// ErrAnswered means that a call already has its result. It is wrapped in a [CallError].
	ErrAnswered = errors.New("the tool call has already been answered")
	// ErrNotAsked means that the user is not, or no longer, asked about a call, or that the nonce
	// is wrong. It is wrapped in a [CallError].
	ErrNotAsked = errors.New("no approval with this nonce is pending")
	// ErrReplayGone means that the requested events are no longer kept: read the message instead.
	ErrReplayGone = errors.New("these events of the turn are no longer kept")
)

// CallError is an error about one tool call.
type CallError struct {
	CallID string
	Err    error
}

// Error names the call and says what is wrong.
func (e *CallError) Error() string { return fmt.Sprintf("tool call %q: %v", e.CallID, e.Err) }

// Unwrap returns Err.
func (e *CallError) Unwrap() error { return e.Err }

// Causes that end a turn's context.
var (
	errInterrupted = errors.New("interrupted")
	errNoRoom      = errors.New("too much waits for the database")
	errShutdown    = errors.New("the server stopped")
	errLost        = errors.New("the thread was deleted, or another turn took it")
)

// cutMark stands where text was cut.
const cutMark = " […]"

// cutRunes shortens text to n characters and marks the cut.
func cutRunes(text string, n int) string {
	if first := toolkit.First(text, n); len(first) < len(text) {
		return first + cutMark
	}
	return text
}
