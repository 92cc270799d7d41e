package chat

import (
	"cmp"
	"context"
	"errors"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// finalTimeout is how long the end of a turn is held back until it is saved, and how long a stopping server keeps
// trying to save it.
const finalTimeout = 20 * time.Second

// conclude ends the turn: it closes what is open.
func (t *Turn) conclude(finish FinishReason, err error) {
	d := t.draft
	d.endBlock()
	status := thread.StatusCompleted
	var failure *llm.Error
	switch {
	case err != nil && t.ctx.Err() != nil:
		status, finish = thread.StatusInterrupted, FinishInterrupted
		t.tools.close(context.Cause(t.ctx).Error())
	case err != nil:
		failure = asError(t.prompt.provider, err)
		status, finish = thread.StatusFailed, FinishError
		t.log.Warn("turn failed", "error", failure, "cause", failure.Err)
		t.fail(failure)
	}
	d.finishStep()
	if len(d.msg.Parts) == 1 {
		d.add(thread.TextPart("")) // interrupted before the first word
	}
	used := t.steps.usage
	meta := &d.msg.Metadata
	meta.Status = status
	// The first token of a turn, and the turn, take at least a millisecond.
	meta.LatencyMS = map[string]int64{"total": max(time.Since(t.begun).Milliseconds(), t.steps.firstMS)}
	if t.steps.firstMS > 0 {
		meta.LatencyMS["first_token"] = t.steps.firstMS
	}
	d.note(extraFinish, finish)
	meta.Usage = toolkit.Encode(usage{used.CachedTokens, used.InputTokens, used.OutputTokens, used.InputTokens + used.OutputTokens})
	r := &t.result
	r.TurnID, r.MessageID, r.Text, r.Usage = t.id, t.message, d.msg.Text(), used
	r.Status, r.Finish, r.Err, r.Provider = status, finish, failure, t.prompt.provider
	r.Shutdown = status == thread.StatusInterrupted && errors.Is(context.Cause(t.ctx), errShutdown)
}

// fail explains in the message why the turn failed.
func (t *Turn) fail(failure *llm.Error) {
	t.tools.close("the answer broke off before this call could run")
	t.draft.note(extraError, map[string]string{"kind": string(failure.Kind), "message": failure.Message})
	if t.req.Discard {
		t.draft.note(extraDiscarded, true)
		t.draft.note(extraNotice, true)
	}
	if t.draft.size == 0 {
		t.draft.failing = true
		t.draft.notice(failure.Message)
	}
}

// ends saves how the turn ends. It returns false if the database was unavailable for finalTimeout.
func (t *Turn) ends(save func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), finalTimeout)
	defer cancel()
	err := save(ctx)
	if err != nil {
		t.log.Error("end of the turn not saved", "error", err)
	}
	return err == nil || ctx.Err() == nil
}

// endsLate keeps trying to save the end of a turn that was announced without being saved: until then the thread is this
// process's.
func (t *Turn) endsLate(save func(context.Context) error) {
	t.log.Warn("database unavailable, end of the turn waits for it")
	ctx, cancel := outlasting(t.ending)
	defer cancel()
	if err := save(ctx); err != nil {
		t.log.Error("end of the turn lost", "error", err)
	}
}

// outlasting returns a context for what must be saved, however long the database is away. A stopping server gives up after
// finalTimeout.
func outlasting(ending context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ending))
	context.AfterFunc(ending, func() {
		timer := time.AfterFunc(finalTimeout, cancel)
		context.AfterFunc(ctx, func() { timer.Stop() })
	})
	return ctx, cancel
}

// writeEnd saves the end until that succeeds, can never succeed, or ctx ends. Without the thread there is nothing to save.
func (t *Turn) writeEnd(ctx context.Context) error {
	result := t.result
	result.Message = thread.Message{ID: t.message, Role: t.draft.msg.Role, Metadata: t.draft.msg.Metadata}
	var saved thread.Message
	write := func(b *persistence.Batch) (err error) {
		if saved, err = b.UpdateMessage(t.draft.snapshot()); err != nil {
			return err
		}
		if err := b.Apply(t.tools.changes()...); err != nil {
			return err
		}
		if err := t.saveLate(b); err != nil {
			return err
		}
		if t.req.Closing != nil {
			if err := t.req.Closing(b, t.result); err != nil {
				return err
			}
		}
		return cmp.Or(t.tell(b, persistence.EventTurnFinished), b.EndTurn(t.id))
	}
	err := t.keeper.final(ctx, write)
	if errors.Is(err, persistence.ErrInvalid) {
		t.log.Error("message cannot be saved, shortening it", "error", err)
		t.draft.shrink()
		t.tools.discard()
		t.keeper.pending = nil
		err = t.keeper.final(ctx, write)
	}
	if err == nil {
		result.Message = saved
	}
	err = t.over(ctx, err)
	if !t.Ended() { // otherwise it has been announced
		t.result = result
	}
	return err
}

// over returns the error of a transaction that ends the turn, unless the turn is over all the same. What can never be saved
// is closed by the thread's next turn.
func (t *Turn) over(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		t.log.Info("turn ended without its thread, which was deleted or is no longer this process's")
		return nil
	case errors.Is(err, persistence.ErrInvalid), errors.Is(err, persistence.ErrConflict):
		t.keeper.pending = nil
		return errors.Join(err, t.keeper.final(ctx, func(b *persistence.Batch) error { return b.EndTurn(t.id) }))
	}
	return err
}

// saveLate saves the results that came after the turn had given them up.
func (t *Turn) saveLate(b *persistence.Batch) error {
	for _, r := range t.client.end() {
		call, found, err := b.Records.ToolCall(r.CallID)
		if err == nil && found {
			err = resolveSaved(b, call, r.result())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// abandon returns what ends a turn that may or may not have begun: the connection may have broken after the
// commit.
func (t *Turn) abandon() func(context.Context) error {
	t.draft.msg.Metadata.Status = thread.StatusFailed
	t.draft.note(extraNotice, true)
	t.draft.add(thread.TextPart("The turn could not begin."))
	return func(ctx context.Context) error {
		err := t.keeper.final(ctx, func(b *persistence.Batch) error {
			if _, err := b.UpdateMessage(t.draft.msg); err != nil {
				return err
			}
			t.result.Status = thread.StatusFailed
			return cmp.Or(t.tell(b, persistence.EventTurnFinished), b.EndTurn(t.id))
		})
		return t.over(ctx, err)
	}
}
