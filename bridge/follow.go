package bridge

import (
	"context"
	"errors"
	"log/slog"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// follower waits for the end of a text turn that is running on the thread, on any instance, when
// its call begins, so that the call learns its result. No turn begins while the call is live.
type follower struct {
	store    *persistence.Store
	key      thread.Key
	messages int // how many messages from the thread's end the call gets
	log      *slog.Logger
	seen     int64 // the newest change seen
}

// run sends the call what was written until no turn is running, or ctx ends. A nil follower returns at once.
func (f *follower) run(ctx context.Context, post func(session.Input)) {
	if f == nil {
		return
	}
	running, err := f.look(ctx, post)
	if err == nil && !running {
		return
	}
	for e, failed := range f.store.Watch(f.key).Events(ctx, f.seen) {
		if failed != nil {
			err = failed
			break
		}
		if e.Type != persistence.EventMessage && e.Type != session.TurnFinished {
			continue
		}
		if running, err = f.look(ctx, post); err == nil && !running {
			return
		}
	}
	if err != nil && ctx.Err() == nil {
		f.log.Warn("text turn not followed", "error", err)
	}
}

// look sends the thread's messages, and reports whether a turn is still running.
func (f *follower) look(ctx context.Context, post func(session.Input)) (running bool, err error) {
	// The turn comes first: it ends in one transaction with its answer.
	_, err = f.store.RunningTurn(ctx, f.key)
	running = err == nil
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return false, err
	}
	messages, err := lastMessages(ctx, f.store, f.key, f.messages)
	if err != nil {
		return running, err
	}
	for _, m := range messages {
		f.seen = max(f.seen, m.Revision)
	}
	post(session.Written{Messages: replayable(messages), Unheard: unheard(messages)})
	return running, nil
}
