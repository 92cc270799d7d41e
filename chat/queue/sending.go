package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/queued"
	"voicebridge/thread"
)

// reasonInCall pauses a queue whose next message the call cannot accept. It resumes when the call
// has ended.
const reasonInCall = "too_long_for_call"

const (
	// slotFor is how long a turn counts against Config.MaxParallel: turns that wait for users or
	// tools must not hold up other threads.
	slotFor = 10 * time.Second
	// answerWithin is how long a call may take to answer before the next message is said anyway.
	answerWithin = 2 * time.Minute
	// The first and the longest pause after a failure.
	firstPause   = time.Second
	longestPause = time.Minute
)

// sending sends one message of a thread, and follows the turn that answers it.
type sending struct {
	q    *inbox
	door Door
	job  *job
	// leave releases the job's place among MaxParallel.
	leave func()
	m     queued.Message
	// inCall means that the call of this process is to say it.
	inCall bool
	// back is how the message went back to its queue at the end of its turn; nil if it did not.
	back *queued.Requeue
}

func (s *sending) run(ctx context.Context) {
	q, key := s.q, s.job.key
	err := s.claim(ctx)
	if err != nil || s.m.ID == "" {
		if err != nil && !errors.Is(err, persistence.ErrNotFound) && s.job.sent == nil {
			q.log.Warn("queued message not claimed", "thread_id", key.Thread, "error", err)
		}
		if err == nil && s.job.id != "" {
			err = persistence.ErrBusy
		}
		s.job.answer(err)
		return
	}
	if s.job.id == "" && s.m.Error == "" && s.m.Attempts > q.cfg.MaxAttempts {
		s.requeue(ctx, s.retry("The server stopped each time.", 0))
		return
	}
	q.begins(ctx, key, s.m.ID)
	q.forget(key)
	// What was begun is finished even if the server is stopping.
	sendCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), q.cfg.SendWithin)
	defer cancel()
	turn, err := s.send(sendCtx)
	if err != nil {
		s.job.answer(err)
		s.failed(ctx, err)
		return
	}
	q.updated(sendCtx, key, actionRemoved, s.m.ID)
	due := s.m.QueuedAt
	if at := s.m.ScheduledAt; at != nil && at.After(due) {
		due = *at
	}
	q.cfg.OnSent(time.Since(due))
	q.publish(sendCtx, key, "queue_message_sent", idEvent{SessionID: key.Thread, MessageID: s.m.ID})
	s.job.answer(nil)
	if turn == nil {
		return
	}
	s.ended(context.WithoutCancel(ctx), turn)
	q.Kick(key)
}

// ended waits for the end of the turn, and acts on its result. The turn ends when the server stops, if not before.
func (s *sending) ended(ctx context.Context, turn *chat.Turn) {
	defer time.AfterFunc(slotFor, s.leave).Stop()
	s.q.turns(s.job.key, true)
	result, _ := turn.Wait(ctx) // ctx never ends
	s.q.turns(s.job.key, false)
	// An end that waits for the database may be saved this very moment. Then the next scan finds the message.
	if saved := result.Message.Parts != nil; saved && s.back != nil && s.isBack(ctx) {
		s.announceBack(ctx, *s.back)
	}
	if result.Status == thread.StatusCompleted {
		s.q.resume(ctx, s.job.key) // a user may have sent it while the queue was paused
	}
}

// isBack reports whether the message is in its queue again: it may have been removed, or the claim lost.
func (s *sending) isBack(ctx context.Context) bool {
	m, err := s.q.store.Queued.Message(ctx, s.job.key, s.m.ID)
	return err == nil && m.State.Waits()
}

// claim takes the message, if there is one and the thread is free.
func (s *sending) claim(ctx context.Context) error {
	q, key := s.q, s.job.key
	if some, err := q.store.Queued.Unsent(ctx, key); err != nil || !some {
		return err
	}
	if q.isQuiet(key) {
		return nil
	}
	call, ready, err := s.door.Ready(ctx, key)
	if !ready || err != nil {
		return err
	}
	if call == "" {
		q.resume(ctx, key, reasonInCall)
	}
	claim, err := q.store.Queued.Claim(ctx, key, queued.ClaimOptions{
		Distance: q.cfg.Delay, Since: q.began, Call: call, ID: s.job.id,
	})
	if !claim.Wait.IsZero() {
		q.lookBy(claim.Wait)
	}
	if claim.Next != "" {
		q.begins(ctx, key, claim.Next)
	}
	if err != nil || claim.Message == nil {
		return err
	}
	s.m, s.inCall = *claim.Message, claim.InCall
	return nil
}

// send makes the message one of the thread. The turn is nil if a call answers. The row is marked as sent in the
// transaction that begins the turn, or saves what the call says.
func (s *sending) send(ctx context.Context) (*chat.Turn, error) {
	req := chat.TurnRequest{
		Key: s.job.key, MessageID: s.m.MessageID, Unlimited: true, Queued: s.claimed(), Closing: s.close,
	}
	if s.m.SentAt != nil {
		req.Saved = true // and needs another answer
	} else {
		req.Text, req.Extra = s.m.Text, s.extra()
		req.ImageIDs = s.m.ImageIDs
	}
	if s.inCall {
		s.q.leaveAlone(s.job.key, time.Now().Add(answerWithin))
	}
	answer, err := s.door.Say(ctx, req, chat.Mode{Queued: s.m.ID, InCall: s.inCall})
	switch {
	case err != nil && s.inCall:
		s.q.leaveAlone(s.job.key, time.Time{})
	case errors.Is(err, persistence.ErrConflict): // its message is in the thread already
		return nil, s.q.store.Batch(ctx, s.job.key, func(b *persistence.Batch) error {
			_, err := b.Queued.Send(s.m.ID, s.m.Attempts, false)
			return err
		})
	}
	return answer.Turn(), err
}

func (s *sending) claimed() *queued.Claimed {
	return &queued.Claimed{ID: s.m.ID, Attempt: s.m.Attempts}
}

// extra is the metadata that the thread's message keeps from the queue.
func (s *sending) extra() map[string]json.RawMessage {
	extra := map[string]json.RawMessage{}
	for name, value := range map[string]string{
		thread.MetadataQueueID: s.m.ID, "client_id": s.m.ClientID, "idempotency_key": s.m.IdempotencyKey,
	} {
		if value != "" {
			extra[name], _ = json.Marshal(value) // text can always be encoded
		}
	}
	if len(s.m.ImageIDs) > 0 {
		extra["image_ids"], _ = json.Marshal(s.m.ImageIDs)
	}
	return extra
}

// close says what becomes of the message when the turn ends. If the stopping server has interrupted the turn, it is
// left alone: the next start has it answered again.
func (s *sending) close(result chat.Result) *queued.Answer {
	end := &queued.Answer{Claimed: *s.claimed()}
	switch e := result.Err; {
	case result.Shutdown:
		return nil
	case e == nil:
	case e.Transient():
		end.Back = new(s.retry(e.Message, e.RetryAfter))
	default:
		end.Back = &queued.Requeue{Error: e.Message, Pause: new(pauseFor(e))}
	}
	s.back = end.Back
	return end
}

// failed handles a message that was not sent. If it cannot be put back, the next scan claims it again.
func (s *sending) failed(ctx context.Context, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	switch {
	case errors.Is(err, chat.ErrUnclaimed):
		return
	case errors.Is(err, context.DeadlineExceeded):
		s.q.log.Warn("queued message took too long to send", "thread_id", s.job.key.Thread, "message_id", s.m.ID)
		s.requeue(ctx, s.retry("The message took too long to send.", 0))
		return
	case errors.Is(err, chat.ErrBusy), errors.Is(err, chat.ErrInCall), errors.Is(err, chat.ErrClosed), errors.Is(err,
		persistence.ErrBusy),
		s.inCall && errors.Is(err, persistence.ErrNotFound): // the call is gone, and CallEnded will follow
		s.requeue(ctx, queued.Requeue{})
		return
	case errors.Is(err, persistence.ErrNotFound): // the thread is gone
		return
	case s.inCall && errors.Is(err, persistence.ErrInvalid):
		s.pause(ctx, reasonInCall, "The message waits for the end of the call: "+persistence.Reason(err)+".")
		return
	case errors.Is(err, persistence.ErrInvalid):
		s.pause(ctx, string(llm.KindTooLong), "The message cannot be sent: "+persistence.Reason(err)+".")
		return
	}
	for _, known := range []struct {
		err    error
		reason string
	}{
		{chat.ErrTooLarge, string(llm.KindTooLong)},
		{chat.ErrProvider, string(llm.KindBadRequest)},
		{chat.ErrTools, string(llm.KindBadRequest)},
	} {
		if errors.Is(err, known.err) {
			s.pause(ctx, known.reason, fmt.Sprintf("The message cannot be sent: %v.", err))
			return
		}
	}
	s.q.log.Warn("queued message not sent", "thread_id", s.job.key.Thread, "message_id", s.m.ID, "error", err)
	s.requeue(ctx, s.retry("The message could not be sent.", 0))
}

// pause puts the message back and pauses the queue.
func (s *sending) pause(ctx context.Context, reason, message string) {
	s.requeue(ctx, queued.Requeue{Error: message, Pause: &queued.Pause{Reason: reason, Message: message}})
}

// pauseFor says why to pause a queue after a failure that would repeat itself.
func pauseFor(e *llm.Error) queued.Pause {
	return queued.Pause{Reason: string(e.Kind), Message: e.Message}
}

// retry returns how a message goes back for another attempt. After some attempts the queue is
// paused.
func (s *sending) retry(why string, wait time.Duration) queued.Requeue {
	if s.m.Attempts >= s.q.cfg.MaxAttempts {
		return queued.Requeue{Error: why, Pause: &queued.Pause{
			Reason: string(llm.KindUnavailable), Message: fmt.Sprintf("After %d attempts: %s", s.m.Attempts, why),
		}}
	}
	pause := min(firstPause<<min(s.m.Attempts-1, 10), longestPause)
	return queued.Requeue{Error: why, NotBefore: time.Now().Add(max(pause, wait))}
}

// requeue puts the message back at the head of its queue.
func (s *sending) requeue(ctx context.Context, r queued.Requeue) {
	back, err := s.q.store.Queued.Requeue(ctx, s.job.key, s.m.ID, s.m.Attempts, r)
	if err != nil {
		s.q.log.Warn("message not put back", "thread_id", s.job.key.Thread, "message_id", s.m.ID, "error", err)
	}
	if back {
		s.announceBack(ctx, r)
	}
}

// announceBack reports that the message is in its queue again.
func (s *sending) announceBack(ctx context.Context, r queued.Requeue) {
	q, key := s.q, s.job.key
	q.updated(ctx, key, actionAdded, s.m.ID)
	if r.Pause != nil {
		q.paused(ctx, key, *r.Pause)
	}
	if !r.NotBefore.IsZero() {
		q.lookBy(r.NotBefore)
	}
}
