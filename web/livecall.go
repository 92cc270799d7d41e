package web

import (
	"context"
	"errors"
	"net/http"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

// liveCall finds a thread's live call, in any process.
type liveCall struct {
	calls interface {
		Live(owner, threadID string) (callID string, ok bool)
		Free(ctx context.Context, key thread.Key) error
		Say(ctx context.Context, owner, threadID, messageID, text string, imageIDs []string) (thread.Message, error)
	}
	store interface {
		LiveCall(ctx context.Context, key thread.Key) (persistence.CallRecord, error)
	}
}

// find returns the id of the thread's live call, empty if there is none, and whether this process
// has the call.
func (l *liveCall) find(ctx context.Context, key thread.Key) (id string, here bool, err error) {
	if id, here = l.calls.Live(key.Owner, key.Thread); here {
		return id, true, nil
	}
	rec, err := l.store.LiveCall(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return "", false, nil
	}
	return rec.ID, false, err
}

// refuse returns an error if the thread has a live call, in any process, because the conversation
// belongs to the call. A call that waits for its browser does not hold the thread: it is ended.
func (l *liveCall) refuse(ctx context.Context, key thread.Key) error {
	if err := l.calls.Free(ctx, key); err != nil {
		return err
	}
	if id, _, err := l.find(ctx, key); err != nil || id == "" {
		return err
	}
	return errCallLive
}

// say puts a text, with images of the thread, into the thread's live call. messageID is the id that its message gets in
// a call, empty for a new one; a call says what has an id only once. images returns the ids of the images, and is used
// only if there is a call. The answer is nil if there is none.
func (l *liveCall) say(ctx context.Context, key thread.Key, messageID, text string, images func() ([]string, error), instructions []string) (*intoCallAnswer, error) {
	if err := l.calls.Free(ctx, key); err != nil {
		return nil, err
	}
	callID, here, err := l.find(ctx, key)
	if err != nil || callID == "" {
		return nil, err
	}
	if len(instructions) > 0 {
		return nil, problem.BadRequest("invalid_value", "instructions", "The thread has a live call, which has its own instructions: send the text alone.")
	}
	imageIDs, err := images()
	if err != nil {
		return nil, err
	}
	m, err := l.calls.Say(ctx, key.Owner, key.Thread, messageID, text, imageIDs)
	if e, isBridge := errors.AsType[*bridge.Error](err); isBridge && e.Code == bridge.CodeNoCall {
		if !here { // another instance has it, or it has just begun
			return nil, errCallChanging
		}
		return nil, nil //nolint:nilnil // it has just ended
	}
	if errors.Is(err, persistence.ErrNotFound) {
		return nil, errCallChanging
	}
	if err != nil {
		return nil, err
	}
	return &intoCallAnswer{CallID: callID, UserMessage: m}, nil
}

var errCallLive = &problem.Error{
	Status: http.StatusConflict, Code: string(bridge.CodeCallActive),
	Message: "The thread has a live call. Say it there, or hang up first.",
}

var errCallChanging = &problem.Error{
	Status: http.StatusConflict, Code: string(bridge.CodeCallActive), RetryAfter: problem.RetryFull,
	Message: "The thread has a live call that is just starting or ending. Try again, or hang up first.",
}

// intoCallAnswer is the answer for a text that went into a live call, which answers by voice.
type intoCallAnswer struct {
	CallID      string         `json:"call_id"`
	UserMessage thread.Message `json:"user_message"`
}
