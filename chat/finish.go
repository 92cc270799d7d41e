package chat

import (
	"context"
	"errors"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// finalTimeout is how long the end of a turn is held back until it is safe.
	finalTimeout = 20 * time.Second
	// endTimeout is how long reading it may take, and endEvery how often it is looked for
	// while it waits for a database that is away, or slow.
	endTimeout = 10 * time.Second
	endEvery   = 2 * time.Second
	slowEvery  = 50 * time.Millisecond
)

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
		failure = llm.AsError(t.steps.ask.Provider, err)
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
	all := used.InputTokens + used.OutputTokens
	meta.Usage = toolkit.Encode(usage{used.CachedTokens, used.InputTokens, used.OutputTokens, all})
	r := &t.result
	r.TurnID, r.MessageID = t.id, t.message
	r.Text, r.Usage = d.msg.Text(), used
	r.Status, r.Finish = status, finish
	r.Err, r.Provider = failure, t.prompt.provider
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

// saveEnd has the finished message saved and the thread released, and returns when that is done. It returns false if
// the database was unavailable: then the writer's file has it or, after finalTimeout, it still waits in memory.
func (t *Turn) saveEnd() (saved bool) {
	if err := persistence.CheckMessage(t.draft.snapshot()); err != nil {
		t.log.Error("message cannot be saved, shortening it", "error", err)
		t.draft.shrink()
		t.tools.discard()
	}
	t.putEnd()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), finalTimeout)
	defer cancel()
	if err := t.saver.flush(ctx); err != nil {
		t.log.Error("end of the turn not saved", "error", err)
	}
	t.result.Message = thread.Message{ID: t.message, Role: t.draft.msg.Role, Metadata: t.draft.msg.Metadata}
	found, saved := t.readSlowEnd(ctx)
	if found.Parts != nil {
		t.result.Message = found
	}
	return saved
}

// readSlowEnd reads the message like readEnd. A database that is only slow is waited for: who is told of the end may
// read it at once.
func (t *Turn) readSlowEnd(ctx context.Context) (m thread.Message, saved bool) {
	for {
		waits := t.saver.writer.Pending() > 0
		m, saved, err := t.readEnd()
		if saved || err != nil || !waits {
			return m, saved
		}
		select {
		case <-time.After(slowEvery):
		case <-ctx.Done():
			return m, false
		}
	}
}

// putEnd gives the writer the end of the turn.
func (t *Turn) putEnd() {
	end := persistence.PutTurn{ID: t.id, Data: t.event()}
	if t.req.Closing != nil {
		end.Queued = t.req.Closing(t.result)
	}
	t.saver.writer.PushLast(t.req.Key, persistence.PutMessage{Message: t.draft.snapshot(), Turn: t.id}, end)
}

// readEnd reads the message once its end is in the database, and saves the results that came after the turn had given
// them up. There is nothing to read, but nothing to wait for either, if the turn has lost its thread. The error is that
// the database cannot be read.
func (t *Turn) readEnd() (m thread.Message, saved bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), endTimeout)
	defer cancel()
	m, err = t.cfg.Store.Message(ctx, t.req.Key, t.message)
	switch {
	case errors.Is(err, persistence.ErrNotFound),
		err == nil && m.Metadata.Status != t.result.Status && m.Metadata.Status != thread.StatusInProgress:
		t.log.Info("turn ended without its thread, which was deleted or has another turn")
		return thread.Message{}, true, nil
	case err != nil || m.Metadata.Status == thread.StatusInProgress:
		return thread.Message{}, false, err
	}
	late := t.client.end()
	if len(late) == 0 {
		return m, true, nil
	}
	err = t.cfg.Store.Batch(ctx, t.req.Key, func(b *persistence.Batch) error {
		for _, r := range late {
			call, found, err := b.Records.ToolCall(r.CallID)
			if err == nil && found {
				err = resolveSaved(b, call, r.result())
			}
			if err != nil {
				return err
			}
		}
		m, err = b.Message(t.message)
		return err
	})
	if err != nil {
		t.log.Error("late results of tools not saved", "error", err)
	}
	return m, true, nil
}

// awaitEnd returns when the end of a turn that was announced without being saved is in the database, or the server
// stops: then it is in the writer's file.
func (t *Turn) awaitEnd() {
	t.log.Warn("database unavailable, end of the turn waits for it")
	tick := time.Tick(endEvery)
	for {
		select {
		case <-tick:
			if _, saved, _ := t.readEnd(); saved {
				return
			}
		case <-t.ending.Done():
			return
		}
	}
}

// abandon ends a turn that may or may not have begun: the connection may have broken after the
// commit.
func (t *Turn) abandon() {
	t.result.Status = thread.StatusFailed
	t.draft.msg.Metadata.Status = thread.StatusFailed
	t.draft.note(extraNotice, true)
	t.draft.msg.Parts = append(t.draft.msg.Parts, thread.TextPart("The turn could not begin."))
	t.putEnd()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), finalTimeout)
	defer cancel()
	if err := t.saver.flush(ctx); err != nil {
		t.log.Error("turn that never began could not be ended", "error", err)
	}
}
