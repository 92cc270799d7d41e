package hooked

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// State is where a delivery stands.
type State string

// The states of a delivery.
const (
	Waiting   State = "waiting" // or being sent
	Delivered State = "delivered"
	Failed    State = "failed"
)

const (
	// keepDays is how long a delivery is kept that has ended, and keepWaitingDays one that has not: its hook is off.
	keepDays        = 7
	keepWaitingDays = 30
	day             = 24 * time.Hour
	// maxError limits the text of why there was no answer, in bytes.
	maxError = 200
)

// pauses are those after the first failures of a delivery; then comes lastPause each time, until maxAge has passed
// since the first attempt.
var pauses = []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, time.Hour}

const (
	lastPause = 6 * time.Hour
	maxAge    = 24 * time.Hour
)

// Delivery is an event that a hook gets.
type Delivery struct {
	HookID string
	ID     string // webhook-id
	Type   string
	Body   string // exactly what is posted
	State  State
	// Attempts counts those that have begun.
	Attempts int
	// LastStatus is the status of the last answer; 0 if there was none, for the reason LastError.
	LastStatus int
	LastError  string
	CreatedAt  time.Time
	NextAt     *time.Time // when it is sent, if it is waiting

	claim    string // the process that sends it
	failures int
	begunAt  time.Time
}

func deliveryFromRow(r pgdb.HookDelivery) Delivery {
	d := Delivery{
		HookID: r.HookID, ID: r.ID, Type: r.Type, Body: r.Body, State: State(r.State), Attempts: int(r.Attempts),
		LastStatus: int(r.LastStatus), LastError: r.LastError, CreatedAt: r.CreatedAt.Time, NextAt: r.NextAt.Ptr(),
		claim: r.Instance, failures: int(r.Failures),
	}
	if r.BegunAt != nil {
		d.begunAt = r.BegunAt.Time
	}
	return d
}

// Deliveries lists the last deliveries of an owner's hook, the latest first.
func (s *Store) Deliveries(ctx context.Context, owner, hook string, limit int) ([]Delivery, error) {
	if _, err := s.Hook(ctx, owner, hook); err != nil {
		return nil, err
	}
	rows, err := s.db.Read().ListDeliveries(ctx, hook, owner, int64(limit))
	list, err := database.Rows(rows, err, deliveryFromRow)
	return list, s.db.Fail("list deliveries", err)
}

// Retry sends a delivery of an owner's hook at once, whatever became of it; if it fails, as often again as at first.
// ErrConflict means that it is being sent.
func (s *Store) Retry(ctx context.Context, owner, hook, id string) (d Delivery, err error) {
	if !thread.ValidID(owner) || !thread.ValidID(hook) || !thread.ValidID(id) {
		return d, fmt.Errorf("retry delivery: %w", database.ErrNotFound)
	}
	err = s.db.Write(ctx, func(q database.Queries) error {
		if _, err := q.GetDelivery(ctx, hook, id, owner); err != nil {
			return err
		}
		n, err := q.RetryDelivery(ctx, new(dbtype.At(s.db.Now())), hook, id)
		if err == nil && n == 0 {
			err = database.ErrConflict
		}
		if err != nil {
			return err
		}
		r, err := q.GetDelivery(ctx, hook, id, owner)
		d = deliveryFromRow(r)
		return err
	})
	if err == nil {
		s.Fresh(hook)
	}
	return d, s.db.Fail("retry delivery", err)
}

// Test adds an event of the type Test to what an owner's hook gets.
func (s *Store) Test(ctx context.Context, owner, hook string) (d Delivery, err error) {
	if _, err := s.Hook(ctx, owner, hook); err != nil {
		return d, err
	}
	text, err := thread.Encode(body{Test, s.db.Now().UTC(), map[string]any{"owner": owner, "thread_id": nil}})
	if err != nil {
		return d, fmt.Errorf("test hook: %w", err)
	}
	id := eventID(thread.Key{Owner: owner}, Event{Type: Test, About: database.NewID()})
	err = s.db.Write(ctx, func(q database.Queries) error {
		if _, err := q.AddDelivery(ctx, pgdb.AddDeliveryParams{
			HookID: hook, ID: id, Type: Test, Body: string(text), Size: int64(len(text)),
			CreatedAt: dbtype.At(s.db.Now()),
		}); err != nil {
			return err
		}
		r, err := q.GetDelivery(ctx, hook, id, owner)
		d = deliveryFromRow(r)
		return err
	})
	if err == nil {
		s.Fresh(hook)
	}
	return d, s.db.Fail("test hook", err)
}

// Due lists the hooks of all owners with something to deliver now.
func (s *Store) Due(ctx context.Context) ([]string, error) {
	ids, err := s.db.Read().ListDueHooks(ctx, new(dbtype.At(s.db.Now())))
	return ids, s.db.Fail("list due hooks", err)
}

// Claim takes up to limit deliveries of a hook that are due: while this process lives, no other one sends them. Each
// must end with Finish or GiveBack. There are none if the hook is off or gone. alone means that this process sends
// nothing to the hook: what it has claimed nevertheless, in a transaction whose end it does not know, is taken again.
func (s *Store) Claim(ctx context.Context, hook string, limit int, alone bool) (h Hook, claimed []Delivery, err error) {
	err = s.db.Write(ctx, func(q database.Queries) error {
		claimed = nil
		if alone {
			if err := q.ReleaseOfHook(ctx, s.db.Instance(), hook); err != nil {
				return err
			}
		}
		r, err := q.FindHook(ctx, hook)
		if database.IsMissing(err) || err == nil && !r.Enabled {
			return nil
		}
		if err != nil {
			return err
		}
		h = fromRow(r)
		rows, err := q.ClaimDeliveries(ctx, pgdb.ClaimDeliveriesParams{
			Instance: s.db.Instance(), Now: new(dbtype.At(s.db.Now())), HookID: hook, MaxRows: int64(limit),
		})
		claimed, err = database.Rows(rows, err, deliveryFromRow)
		return err
	})
	return h, claimed, s.db.Fail("claim deliveries", err)
}

// Outcome is how an attempt ended.
type Outcome struct {
	Status int    // of the answer; 0 if there was none
	Error  string // why there was none, in words for the hook's owner
}

// good reports whether the receiver has the event.
func (o Outcome) good() bool { return o.Status >= 200 && o.Status < 300 }

// Finish records the end of an attempt, and returns what becomes of the delivery: it is delivered, waits until NextAt,
// or has failed for good. A receiver that answers 410 is sent nothing any more. found is false if the claim was lost:
// others took this process for dead, or the hook or the thread is gone.
func (s *Store) Finish(ctx context.Context, d Delivery, o Outcome) (after Delivery, found bool, err error) {
	err = s.db.Write(ctx, func(q database.Queries) error {
		after = d.after(o, s.db.Now())
		p := pgdb.FinishDeliveryParams{
			HookID: d.HookID, ID: d.ID, Instance: d.claim, Attempts: int64(d.Attempts), State: string(after.State),
			Failures: int64(after.failures), LastStatus: int64(o.Status), LastError: after.LastError,
			NextAt: dbtype.AtPtr(after.NextAt),
		}
		if after.State != Waiting {
			p.FinishedAt = new(dbtype.At(s.db.Now()))
		}
		n, err := q.FinishDelivery(ctx, p)
		if found = n > 0; err == nil && found && o.Status == http.StatusGone {
			err = q.SwitchHookOff(ctx, false, GoneReason, d.HookID)
		}
		return err
	})
	return after, found, s.db.Fail("save end of delivery", err)
}

// after returns the delivery after an attempt that ended at a time.
func (d Delivery) after(o Outcome, now time.Time) Delivery {
	d.LastStatus, d.LastError = o.Status, thread.CleanText(o.Error[:min(len(o.Error), maxError)])
	d.NextAt = nil
	if o.good() {
		d.State = Delivered
		return d
	}
	pause := lastPause
	if d.failures < len(pauses) {
		pause = pauses[d.failures]
	}
	d.failures++
	if next := now.Add(pause); o.Status != http.StatusGone && next.Sub(d.begunAt) <= maxAge {
		d.NextAt = &next
		return d
	}
	d.State = Failed
	return d
}

// GiveBack ends a claim without an attempt that counts: the process is stopping.
func (s *Store) GiveBack(ctx context.Context, d Delivery) error {
	return s.db.Fail("give back delivery", s.db.Write(ctx, func(q database.Queries) error {
		_, err := q.FinishDelivery(ctx, pgdb.FinishDeliveryParams{
			HookID: d.HookID, ID: d.ID, Instance: d.claim, Attempts: int64(d.Attempts), State: string(Waiting),
			Failures: int64(d.failures), LastStatus: int64(d.LastStatus), LastError: d.LastError,
			NextAt: new(dbtype.At(s.db.Now())),
		})
		return err
	}))
}

// Forget deletes deliveries that are a week old or, if their hooks are off, a month.
func (s *Store) Forget(ctx context.Context) error {
	now := s.db.Now()
	return s.db.Fail("forget deliveries", s.db.Write(ctx, func(q database.Queries) error {
		_, err := q.ForgetDeliveries(ctx, dbtype.At(now.Add(-keepDays*day)), dbtype.At(now.Add(-keepWaitingDays*day)))
		return err
	}))
}
