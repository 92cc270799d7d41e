package web

import (
	"context"
	"errors"
	"net/http"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/web/problem"
)

// liveCall finds a thread's live call, in any process.
type liveCall struct {
	calls interface {
		Live(owner, threadID string) (callID string, ok bool)
		Free(ctx context.Context, key persistence.Key) error
	}
	store interface {
		LiveCall(ctx context.Context, key persistence.Key) (persistence.CallRecord, error)
	}
}

// refuse returns an error if the thread has a live call, in any process, because the conversation
// belongs to the call. A call that waits for its browser does not hold the thread: it is ended.
func (l *liveCall) refuse(ctx context.Context, key persistence.Key) error {
	if err := l.calls.Free(ctx, key); err != nil {
		return err
	}
	if _, ok := l.calls.Live(key.Owner, key.Thread); ok {
		return errCallLive
	}
	_, err := l.store.LiveCall(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return errCallLive
}

var errCallLive = &problem.Error{
	Status: http.StatusConflict, Code: string(bridge.CodeCallActive),
	Message: "The thread has a live call. Say it there, or hang up first.",
}

var errCallElsewhere = &problem.Error{
	Status: http.StatusConflict, Code: string(bridge.CodeCallActive), RetryAfter: problem.RetryFull,
	Message: "The thread has a live call that is just starting or ending. Try again, or hang up first.",
}

// intoCallAnswer is the answer for a text that went into a live call, which answers by voice.
type intoCallAnswer struct {
	CallID      string              `json:"call_id"`
	UserMessage persistence.Message `json:"user_message"`
}
