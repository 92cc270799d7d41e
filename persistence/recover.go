package persistence

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// errAlive means that the instance has sent a heartbeat, or that changes from its spool are being saved.
var errAlive = errors.New("instance is alive")

// Recover closes what dead processes left open: calls end with the reason process_ended, messages
// in progress become interrupted (the assistant's) or failed and keep the saved text, tool calls
// and responses become failed, approvals and text turns end, queued messages that were being sent
// wait again, and LegsToHangUp returns the upstream legs. It returns the calls that it ended, and
// publishes their ends and those of the turns.
//
// It needs Serve: with SQLite this process is then the only one; with PostgreSQL an instance is
// dead if it has announced its end, if it was a process of this machine that is gone, or if it has
// been silent for Options.DeadAfter while this process was watching. So call Recover again every few
// seconds. An error with one instance does not keep it from the next. First comes Options.Rescue.
func (s *Store) Recover(ctx context.Context) ([]records.Call, error) {
	if !s.Cluster.Serving() {
		return nil, errors.New("recover database: this process does not serve it")
	}
	if err := s.rescueOthers(ctx); err != nil {
		return nil, err
	}
	// In this order: an instance that begins in between is not in the first list, and has nothing
	// open yet.
	instances, err := s.eng.read().ListOpenInstances(ctx)
	if err == nil {
		err = s.Cluster.Look(ctx)
	}
	if err != nil {
		return nil, s.fail("recover database", err)
	}
	var ended []records.Call
	var errs []error
	for _, instance := range instances {
		beats, dead := s.Cluster.Dead(instance)
		if instance == s.Instance() || s.shared && !dead {
			continue
		}
		r := &recovery{s: s, instance: instance, beats: beats}
		err := s.write(ctx, func(q queries) error { return r.run(ctx, q) })
		if errors.Is(err, errAlive) {
			continue
		}
		if err != nil {
			errs = append(errs, s.fail(fmt.Sprintf("recover what instance %s left", instance), err))
			continue
		}
		ended = append(ended, r.ended...)
		for _, b := range r.batches {
			b.announce()
		}
	}
	if err := s.sweeper.forget(ctx); err != nil {
		errs = append(errs, err)
	}
	s.sweeper.soon()
	return ended, errors.Join(errs...)
}

// rescueOthers brings into the database what dead processes left, and returns when that is done, by whatever goroutine.
// Files that cannot be read must not keep threads occupied.
func (s *Store) rescueOthers(ctx context.Context) error {
	if s.rescue == nil {
		return nil
	}
	select {
	case s.rescuing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for changes of dead processes: %w", context.Cause(ctx))
	}
	defer func() { <-s.rescuing }()
	err := s.rescue(ctx, s)
	if err != nil && !errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
		s.log.Error("changes of dead processes not saved", "error", err)
		return nil
	}
	return err
}

// recovery closes what one instance left open, in one transaction.
type recovery struct {
	s        *Store
	instance string
	beats    int64 // its heartbeats when it was last seen
	ended    []records.Call
	batches  map[string]*Batch // by thread: all in which it has something open, locked
}

func (r *recovery) run(ctx context.Context, q queries) error {
	r.ended, r.batches = nil, map[string]*Batch{}
	at := dbtype.At(r.s.now())
	if fenced, err := r.s.Cluster.Fence(ctx, q, r.instance, r.beats); err != nil || !fenced {
		return cmp.Or(err, errAlive)
	}
	threads, err := q.LockOpenThreads(ctx, r.instance)
	if err != nil {
		return err
	}
	for _, t := range threads {
		r.batches[t.ID] = r.s.batch(database.NewTx(ctx, roomDB{r.s}, q, thread.Key{Owner: t.Owner, Thread: t.ID}))
	}
	if err := r.endCalls(ctx, q, at); err != nil {
		return err
	}
	if err := q.EndOpenLegs(ctx, &at, reasonProcessEnded, r.instance); err != nil {
		return err
	}
	if err := r.closeMessages(ctx, q); err != nil {
		return err
	}
	if err := q.EndOpenTurns(ctx, r.instance); err != nil {
		return err
	}
	if err := q.ReleaseDeliveries(ctx, r.instance); err != nil {
		return err
	}
	if err := q.ReleaseExtractions(ctx, r.instance); err != nil {
		return err
	}
	if err := q.RequeueOpen(ctx, r.instance); err != nil {
		return err
	}
	if err := r.hookToolCalls(ctx, q, at); err != nil {
		return err
	}
	if err := q.FailOpenToolCalls(ctx, errorProcessEnded, &at, r.instance); err != nil {
		return err
	}
	if err := q.CloseOpenApprovals(ctx, string(thread.ApprovalProcessEnded), &at, r.instance); err != nil {
		return err
	}
	if err := q.FailOpenResponses(ctx, reasonProcessEnded, &at, r.instance); err != nil {
		return err
	}
	for _, b := range r.batches {
		if err := b.end(); err != nil {
			return err
		}
	}
	return nil
}

func (r *recovery) endCalls(ctx context.Context, q queries, at dbtype.Time) error {
	calls, err := q.ListOpenCalls(ctx, r.instance)
	if err != nil {
		return err
	}
	for _, c := range calls {
		b := r.batches[c.ThreadID]
		if b == nil {
			return errAlive
		}
		c.EndedAt, c.EndReason = &at, reasonProcessEnded
		r.ended = append(r.ended, records.CallFromRow(c, b.key.Owner))
		// What the instance can no longer tell.
		about := map[string]string{"call_id": c.ID}
		b.tellOf(EventTurnFinished, about, "process of "+c.ID)
		about["reason"] = c.EndReason
		b.tellOf(EventCallEnded, about, "")
	}
	return q.EndOpenCalls(ctx, &at, reasonProcessEnded, r.instance)
}

// hookToolCalls tells hooks of the tool calls that the instance can no longer end.
func (r *recovery) hookToolCalls(ctx context.Context, q queries, at dbtype.Time) error {
	open, err := q.ListOpenToolCalls(ctx, r.instance)
	for _, c := range open {
		if b := r.batches[c.ThreadID]; b != nil {
			b.hooking.toolCall(thread.ToolCall{
				ID: c.ID, ToolCallID: c.ToolCallID, Name: c.Name, Executor: c.Executor, Status: thread.ToolCallFailed,
				StartedAt: c.StartedAt.Time, FinishedAt: at.Ptr(),
			})
		}
	}
	return err
}

func (r *recovery) closeMessages(ctx context.Context, q queries) error {
	open, err := q.ListOpenMessages(ctx, r.instance)
	if err != nil {
		return err
	}
	for _, row := range open {
		b := r.batches[row.ThreadID]
		if b == nil { // saved just now, from a spool: for the next time
			continue
		}
		if err := b.closeMessage(row); err != nil {
			return err
		}
		b.tellInterrupted(row)
	}
	return nil
}
