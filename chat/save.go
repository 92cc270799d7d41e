package chat

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// finalTimeout is how long a turn tries to save its end.
const finalTimeout = 20 * time.Second

// changed notes that the message has grown.
func (t *Turn) changed() {
	now := time.Now()
	if t.flushAt.IsZero() {
		t.flushAt = now.Add(flushEvery)
	}
	if t.draftAt.IsZero() {
		t.draftAt = t.drafted.Add(draftEvery)
	}
}

// next is when the turn has something to do by itself.
func (t *Turn) next() time.Time {
	at := t.keptAt.Add(keepEvery)
	for _, other := range []time.Time{t.flushAt, t.draftAt} {
		if !other.IsZero() && other.Before(at) {
			at = other
		}
	}
	return at
}

// waitFor calls wait until something came. In between, when wait's clock ticks,
// it tells and saves what is due. The error is errLost.
func (t *Turn) waitFor(wait func(clock <-chan time.Time) bool) error {
	for {
		timer := time.NewTimer(time.Until(t.next()))
		came := wait(timer.C)
		timer.Stop()
		if err := t.tick(); err != nil {
			return err
		}
		if came {
			return nil
		}
	}
}

// pause waits, and keeps the turn alive meanwhile.
func (t *Turn) pause(d time.Duration) error {
	over := time.After(d)
	return errors.Join(t.waitFor(func(clock <-chan time.Time) bool {
		select {
		case <-over:
		case <-t.ctx.Done():
		case <-clock:
			return false
		}
		return true
	}), context.Cause(t.ctx))
}

// tick tells and saves what is due.
func (t *Turn) tick() error {
	if t.ctx.Err() != nil {
		return nil //nolint:nilerr // the end saves all
	}
	now := time.Now()
	if !t.draftAt.IsZero() && !now.Before(t.draftAt) {
		t.draftAt, t.drafted = time.Time{}, now
		t.publish("message_delta", deltaEvent{ID: t.msg.ID, Text: t.msg.Text()})
	}
	if !t.flushAt.IsZero() && !now.Before(t.flushAt) || !now.Before(t.keptAt.Add(keepEvery)) {
		return t.save(nil)
	}
	return nil
}

// deltaEvent is the data of message_delta: the text so far.
type deltaEvent struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// save renews the lease and saves the message, if it has changed, and what more
// writes, and asks for the user's answers. It gives up only when the turn has lost its thread (errLost); a
// database that is away for a moment loses nothing, since the end saves all.
func (t *Turn) save(more func(*persistence.Batch) error) error {
	stop := false
	var answers []persistence.Approval
	err := t.c.cfg.Store.Batch(t.ctx, t.req.Key, func(b *persistence.Batch) (err error) {
		if stop, err = b.KeepTurn(t.id, lease); err != nil {
			return err
		}
		if !t.flushAt.IsZero() {
			if _, err := b.UpdateMessage(t.msg); err != nil {
				return err
			}
		}
		if more != nil {
			if err := more(b); err != nil {
				return err
			}
		}
		answers, err = t.consult(b)
		return err
	})
	now := time.Now()
	t.keptAt = now
	switch {
	case err == nil:
		t.flushAt = time.Time{}
		t.consulted(answers)
	case t.ctx.Err() != nil:
		return nil //nolint:nilerr // the end saves all
	case errors.Is(err, persistence.ErrNotFound):
		t.stop(errLost)
		return errLost
	default:
		t.log.Warn("turn not saved, trying again", "error", err)
		t.flushAt = now.Add(flushEvery)
	}
	if stop {
		t.stop(errInterrupted)
	}
	return nil
}

// saveFinal saves what must be saved, also of a turn that was stopped: it tries
// for some time, and not again when it can never be.
func (t *Turn) saveFinal(write func(*persistence.Batch) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), finalTimeout)
	defer cancel()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = 50*time.Millisecond, 2*time.Second
	for {
		err := t.c.cfg.Store.Batch(ctx, t.req.Key, func(b *persistence.Batch) error {
			if _, err := b.KeepTurn(t.id, lease); err != nil {
				return err
			}
			return write(b)
		})
		if err == nil || errors.Is(err, persistence.ErrNotFound) || errors.Is(err, persistence.ErrInvalid) || errors.Is(err, persistence.ErrConflict) {
			return err
		}
		t.log.Warn("turn not saved, trying again", "error", err)
		timer := time.NewTimer(wait.NextBackOff())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return err
		}
	}
}

// conclude ends the turn: it closes what is open and saves all.
func (t *Turn) conclude(finish FinishReason, err error) {
	t.endText()
	status := persistence.StatusCompleted
	var failure *llm.Error
	switch {
	case err != nil && t.ctx.Err() != nil:
		status, finish = persistence.StatusInterrupted, FinishInterrupted
		t.closeCalls(context.Cause(t.ctx).Error())
	case err != nil:
		failure = asError(t.provider.Name(), err)
		status, finish = persistence.StatusFailed, FinishError
		t.log.Warn("turn failed", "error", failure, "cause", failure.Err)
		t.closeCalls("the answer broke off before this call could run")
		t.msg.Metadata.Extra[extraError] = toolkit.Encode(map[string]string{"kind": string(failure.Kind), "message": failure.Message})
		if t.said == 0 {
			t.failing = true
			t.notice(failure.Message)
		}
	}
	t.finishStep()
	if len(t.msg.Parts) == 1 {
		t.msg.Parts = append(t.msg.Parts, persistence.TextPart("")) // interrupted before the first word
	}
	t.latency["total"] = time.Since(t.begun).Milliseconds()
	d := &t.msg.Metadata
	d.Status, d.LatencyMS = status, t.latency
	d.Extra[extraFinish] = toolkit.Encode(finish)
	d.Usage = toolkit.Encode(map[string]int64{
		"input_tokens": t.usage.InputTokens, "output_tokens": t.usage.OutputTokens, "cached_tokens": t.usage.CachedTokens,
		"total_tokens": t.usage.InputTokens + t.usage.OutputTokens,
	})
	r := &t.result
	r.TurnID, r.MessageID, r.Text, r.Usage = t.id, t.msg.ID, t.msg.Text(), t.usage
	r.Status, r.Finish, r.Err, r.Provider, r.Model = status, finish, failure, t.provider.Name(), t.model
	r.Shutdown = status == persistence.StatusInterrupted && errors.Is(context.Cause(t.ctx), errShutdown)
	r.Message = t.saveEnd()
}

// saveEnd saves the finished message and gives the thread free.
func (t *Turn) saveEnd() persistence.Message {
	var saved persistence.Message
	write := func(b *persistence.Batch) (err error) {
		if saved, err = b.UpdateMessage(t.msg); err != nil {
			return err
		}
		for _, run := range t.calls {
			if err := errors.Join(b.SaveToolCall(t.record(run)), closeApproval(b, run)); err != nil {
				return err
			}
		}
		if t.req.Closing != nil {
			if err := t.req.Closing(b, t.result); err != nil {
				return err
			}
		}
		return b.EndTurn(t.id)
	}
	err := t.saveFinal(write)
	if errors.Is(err, persistence.ErrInvalid) {
		t.log.Error("message cannot be saved, shortening it", "error", err)
		t.shrink()
		err = t.saveFinal(write)
	}
	if err != nil {
		t.log.Error("end of the turn not saved", "error", err)
		return persistence.Message{ID: t.msg.ID, Role: t.msg.Role, Metadata: t.msg.Metadata}
	}
	return saved
}

// abandon ends a turn of which nobody knows whether it has begun: the connection
// may have broken after the commit.
func (t *Turn) abandon() {
	t.msg.Metadata.Status = persistence.StatusFailed
	t.msg.Metadata.Extra[extraNotice] = toolkit.Encode(true)
	t.msg.Parts = append(t.msg.Parts, persistence.TextPart("The turn could not begin."))
	err := t.saveFinal(func(b *persistence.Batch) error {
		if _, err := b.UpdateMessage(t.msg); err != nil {
			return err
		}
		return b.EndTurn(t.id)
	})
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		t.log.Error("turn that did not begin not ended", "error", err)
	}
}

// shrink makes a message that the store refuses as small as it must be.
func (t *Turn) shrink() {
	const enough = 100_000 // characters of all texts, and of all inputs
	left := enough
	for i := range t.msg.Parts {
		p := &t.msg.Parts[i]
		if p.Type == "text" {
			p.Text = cutRunes(p.Text, max(left, 0))
			left -= len(p.Text)
		}
	}
	for _, run := range t.calls {
		run.Discard()
		t.msg.Parts[run.part] = savedPart(run.Part())
	}
}
