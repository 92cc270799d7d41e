package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	// legGrace is how long a leg's process has to hang it up before others do.
	legGrace = 15 * time.Second
	// The pause between attempts to hang up a leg doubles from firstLegPause to maxLegPause.
	firstLegPause = time.Second
	maxLegPause   = 5 * time.Minute
)

// Leg is the record of one upstream session of a call. A call whose session was renewed has
// several.
type Leg struct {
	CallID string
	// Generation is 1 for the call's first session and increases with each one.
	Generation int64
	Upstream   string // the driver's name
	UpstreamID string // for hanging up; empty until known
	StartedAt  time.Time
	EndedAt    *time.Time
	Reason     string     // why it ended
	HungUpAt   *time.Time // when the upstream confirmed the end

	// Owner and ThreadID are those of the call, ended or not. They are read-only, as is Attempts.
	Owner, ThreadID string
	// Attempts counts how often LegsToHangUp has returned it.
	Attempts int
}

// SaveLeg writes the record of an upstream leg, or its changes. That it has ended or was hung up
// cannot be undone. ErrConflict means that another thread's leg has the call and generation.
func (w Tx) SaveLeg(l Leg) error {
	return w.save("save upstream leg", l.CallID, func() (int64, error) {
		if l.Generation < 1 || len(l.UpstreamID) > thread.MaxIDBytes {
			return 0, database.Invalid(
				"upstream leg: its generation is not 1 or more, or its id has more than %d bytes", thread.MaxIDBytes)
		}
		if l.EndedAt != nil {
			l.EndedAt = new(w.tx.Stored(*l.EndedAt)) // LegsToHangUp compares it
		}
		return w.tx.Q.SaveLeg(w.tx.Ctx, legToRow(w.tx.Key, l, w.tx.For, w.tx.Now()))
	})
}

// LegsToHangUp returns legs of all owners that may still be running upstream although they, their
// calls, their threads or their processes have ended. The caller hangs each of them up and reports
// it with LegHungUp; otherwise the leg is returned again, after a pause that grows from a second to
// five minutes. Only one process at a time gets a leg. A leg that ended in order is left to its
// call for some seconds.
func (s *Store) LegsToHangUp(ctx context.Context, upstream string, limit int) ([]Leg, error) {
	if limit < 1 {
		return nil, fmt.Errorf("list legs to hang up: %w", database.Invalid("limit %d", limit))
	}
	at := s.db.Now()
	// Usually there is none, and then nothing is written.
	due, err := s.db.Read().ListLegsToHangUp(ctx, pgdb.ListLegsToHangUpParams{
		Upstream: thread.CleanText(upstream), Now: new(dbtype.At(at)), SettledBy: new(dbtype.At(at.Add(-legGrace))),
		MaxRows: int64(limit),
	})
	if err != nil || len(due) == 0 {
		return nil, s.db.Fail("list legs to hang up", err)
	}
	var claimed []Leg
	err = s.db.Write(ctx, func(q database.Queries) error {
		claimed = nil
		for _, r := range due {
			n, err := q.ClaimLeg(ctx, pgdb.ClaimLegParams{
				CallID: r.CallID, Generation: r.Generation, Attempts: r.Attempts,
				NextTryAt: new(dbtype.At(at.Add(legPause(r.Attempts)))),
			})
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			r.Attempts++
			l := legFromRow(r)
			// A thread that is deleted has no owner.
			if l.Owner, err = q.GetOwner(ctx, r.ThreadID); err != nil && !database.IsMissing(err) {
				return err
			}
			claimed = append(claimed, l)
		}
		return nil
	})
	if err != nil {
		return nil, s.db.Fail("claim legs to hang up", err)
	}
	return claimed, nil
}

// legPause returns the pause after an attempt, given how many came before.
func legPause(attempts int64) time.Duration {
	return min(firstLegPause<<min(attempts, 16), maxLegPause)
}

// LegHungUp records that the upstream has ended the leg, or does not know it.
func (s *Store) LegHungUp(ctx context.Context, callID string, generation int64) error {
	if !thread.ValidID(callID) {
		return fmt.Errorf("save end of upstream leg: %w", database.ErrNotFound)
	}
	err := s.db.Write(ctx, func(q database.Queries) error {
		err := q.LegHungUp(ctx, new(dbtype.At(s.db.Now())), callID, generation)
		return errors.Join(err, q.ForgetLegs(ctx, callID))
	})
	return s.db.Fail("save end of upstream leg", err)
}

func legToRow(key thread.Key, l Leg, instance string, now time.Time) pgdb.SaveLegParams {
	return pgdb.SaveLegParams{
		CallID: l.CallID, Generation: l.Generation, ThreadID: key.Thread, Owner: key.Owner,
		Upstream: thread.CleanText(l.Upstream), UpstreamID: thread.CleanText(l.UpstreamID), Instance: instance,
		StartedAt: dbtype.At(database.OrNow(l.StartedAt, now)), EndedAt: dbtype.AtPtr(l.EndedAt),
		Reason:   thread.CleanText(l.Reason),
		HungUpAt: dbtype.AtPtr(l.HungUpAt),
	}
}

func legFromRow(r pgdb.UpstreamLeg) Leg {
	return Leg{
		CallID: r.CallID, Generation: r.Generation, Upstream: r.Upstream, UpstreamID: r.UpstreamID,
		StartedAt: r.StartedAt.Time, EndedAt: r.EndedAt.Ptr(), Reason: r.Reason, HungUpAt: r.HungUpAt.Ptr(),
		ThreadID: r.ThreadID, Attempts: int(r.Attempts),
	}
}
