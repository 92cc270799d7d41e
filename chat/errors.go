package chat

import (
	"errors"
	"fmt"

	"voicebridge/llm"
)

var (
	// ErrBusy says that a turn runs on the thread, here or on another instance.
	ErrBusy = errors.New("a turn is running on this thread")
	// ErrIdle says that no turn runs on the thread.
	ErrIdle = errors.New("no turn is running on this thread")
	// ErrClosed says that the coordinator ends, or has ended.
	ErrClosed = errors.New("the server is shutting down")
	// ErrEmpty says that there is nothing to answer.
	ErrEmpty = errors.New("the message is empty")
	// ErrTooLarge says that a text or an output is above its limit; the text of
	// the error names both.
	ErrTooLarge = errors.New("too large")
	// ErrProvider says that a provider is not set up.
	ErrProvider = errors.New("no such provider")
	// ErrTools says that declared tools cannot be used; the text names the reason.
	ErrTools = errors.New("bad tools")
	// ErrImages says that images cannot be taken; the text names the reason.
	ErrImages = errors.New("bad images")
	// ErrUnknownCall says that no message asked for a call. It comes in a [CallError].
	ErrUnknownCall = errors.New("no open tool call has this id")
	// ErrAnswered says that a call has its result. It comes in a [CallError].
	ErrAnswered = errors.New("the tool call has already been answered")
	// ErrNotAsked says that the user is not being asked about a call, or no longer, or
	// that the nonce is not that of the question. It comes in a [CallError].
	ErrNotAsked = errors.New("no approval with this nonce is pending")
	// ErrReplayGone says that the events asked for are no longer kept: read the
	// message instead.
	ErrReplayGone = errors.New("these events of the turn are no longer kept")
)

// CallError is an error about one call of a tool.
type CallError struct {
	CallID string
	Err    error
}

func (e *CallError) Error() string { return fmt.Sprintf("tool call %q: %v", e.CallID, e.Err) }

func (e *CallError) Unwrap() error { return e.Err }

// Causes for which the context of a turn ends.
var (
	errInterrupted = errors.New("interrupted")
	errShutdown    = errors.New("the server stopped")
	errLost        = errors.New("the thread was deleted, or another turn took it")
)

// asError gives a provider's failure in words for a user.
func asError(provider string, err error) *llm.Error {
	if e, ok := errors.AsType[*llm.Error](err); ok {
		return e
	}
	return &llm.Error{Kind: llm.KindUnavailable, Provider: provider, Message: "The language model cannot be reached.", Err: err}
}
