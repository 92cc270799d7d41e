package records

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"voicebridge/assistant"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// DialState is how far a call out has come.
type DialState string

// The states of calls out. How one goes on that was answered says its [Call], which has the same id.
const (
	DialQueued   DialState = "queued"
	DialRinging  DialState = "ringing"
	DialAnswered DialState = "answered"
	DialEnded    DialState = "ended"
)

// Why calls out end that nobody talked in.
const (
	DialBusy     = "busy"
	DialNoAnswer = "no_answer"
	DialFailed   = "failed"
	DialMachine  = "machine"
)

var (
	// ErrDialing is the ErrConflict of a call out whose thread or number is being called.
	ErrDialing = fmt.Errorf("%w: it is being called", database.ErrConflict)
	// ErrKeyTaken is the ErrConflict of a key that another request has.
	ErrKeyTaken = fmt.Errorf("%w: another request has the key", database.ErrConflict)
)

const (
	// DialClaim is how long a process looks after a call out that it has claimed.
	DialClaim = 20 * time.Second
	// keyTime is how long a request is known by its key.
	keyTime = 24 * time.Hour
)

// Dial is a call out by telephone.
type Dial struct {
	ID  string
	Key thread.Key
	// Line is the name of the line that calls, Number what it calls.
	Line, Number string
	Assistant    assistant.Ref
	Variables    map[string]string
	// Once is the key of the request, empty for none, Request a hash of it.
	Once, Request string

	State     DialState
	EndReason string
	// CarrierCall is the carrier's id, empty until it is known.
	CarrierCall string
	// AskedAt is when the carrier was asked for the call: it may have it although its id is not known.
	AskedAt  *time.Time
	Attempts int
	// NextAt is when a process looks after the call, nil for never.
	NextAt    *time.Time
	CreatedAt time.Time
	EndedAt   *time.Time
}

// AddDial saves a call out, which is to be dialled, and returns the one that the key has if the request is the same;
// added reports whether it is new. The error may be ErrDialing or ErrKeyTaken.
func (s *Store) AddDial(ctx context.Context, d Dial) (saved Dial, added bool, err error) {
	const what = "save call out"
	variables, err := thread.Encode(d.Variables)
	if err != nil {
		return d, false, fmt.Errorf(what+": %w", err)
	}
	now := s.db.Now()
	var once *string
	if d.Once != "" {
		once = &d.Once
	}
	err = s.db.Write(ctx, func(q database.Queries) error {
		err := q.ForgetDialKey(ctx, d.Key.Owner, once, dbtype.At(now.Add(-keyTime)))
		if err != nil {
			return err
		}
		n, err := q.InsertDial(ctx, pgdb.InsertDialParams{
			ID: d.ID, ThreadID: d.Key.Thread, Owner: d.Key.Owner, Line: d.Line, Number: d.Number,
			AssistantID: d.Assistant.ID, AssistantOwner: d.Assistant.Owner, Variables: database.CleanJSON(variables),
			IdempotencyKey: once, Request: d.Request, NextAt: new(dbtype.At(now)), CreatedAt: dbtype.At(now),
		})
		if added = n > 0; err != nil || added {
			saved, err = readDial(q.GetDial(ctx, d.ID, d.Key.Owner))
			return err
		}
		saved, err = readDial(q.GetDialByKey(ctx, d.Key.Owner, once))
		switch {
		case database.IsMissing(err):
			return ErrDialing
		case err == nil && saved.Request != d.Request:
			return ErrKeyTaken
		}
		return err
	})
	if added && err == nil {
		select {
		case s.dialled <- struct{}{}:
		default:
		}
	}
	return saved, added, s.db.Fail(what, err)
}

// DialOf reads the call out that a request with the key has made within a day. The error may be ErrKeyTaken or
// database.ErrNotFound.
func (s *Store) DialOf(ctx context.Context, owner, once, request string) (Dial, error) {
	d, err := readDial(s.db.Read().GetDialByKey(ctx, owner, &once))
	switch {
	case err == nil && s.db.Now().Sub(d.CreatedAt) >= keyTime:
		err = database.ErrNotFound
	case err == nil && d.Request != request:
		err = ErrKeyTaken
	}
	return d, s.db.Fail("read call out", err)
}

// Dial reads a call out of the owner.
func (s *Store) Dial(ctx context.Context, owner, id string) (Dial, error) {
	if !thread.ValidID(owner) || !thread.ValidID(id) {
		return Dial{}, fmt.Errorf("read call out: %w", database.ErrNotFound)
	}
	d, err := readDial(s.db.Read().GetDial(ctx, id, owner))
	return d, s.db.Fail("read call out", err)
}

// Dials returns how many calls out of a line were not answered yet.
func (s *Store) Dials(ctx context.Context, line string) (int, error) {
	n, err := s.db.Read().CountDials(ctx, line)
	return int(n), s.db.Fail("count calls out", err)
}

// Dialled returns the channel that gets a value when this process has saved a call out.
func (s *Store) Dialled() <-chan struct{} { return s.dialled }

// ClaimDials returns calls out whose NextAt has come, as they were before: for some seconds this process alone looks
// after them, and those that the carrier was not asked for are taken for asked now.
func (s *Store) ClaimDials(ctx context.Context, limit int) (claimed []Dial, err error) {
	const what = "claim calls out"
	now := new(dbtype.At(s.db.Now()))
	due, err := s.db.Read().ListDialsDue(ctx, now, int64(limit))
	if err != nil || len(due) == 0 {
		return nil, s.db.Fail(what, err)
	}
	err = s.db.Write(ctx, func(q database.Queries) error {
		claimed = nil
		for _, r := range due {
			n, err := q.ClaimDial(ctx, pgdb.ClaimDialParams{
				ID: r.ID, Attempts: r.Attempts, Now: now, NextAt: new(dbtype.At(now.Add(DialClaim))),
			})
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			d, err := readDial(r, nil)
			if err != nil {
				return err
			}
			claimed = append(claimed, d)
		}
		return nil
	})
	return claimed, s.db.Fail(what, err)
}

// ChangeDial changes a call out, one process after the other, and tells hooks if its state has changed. change gets it
// as it is, and may change State and what comes after it; if it returns false, nothing changes. now is the database's
// time.
func (s *Store) ChangeDial(
	ctx context.Context, key thread.Key, id string, change func(d *Dial, now time.Time) bool,
) (d Dial, err error) {
	const what = "save call out"
	var notified []string
	err = s.db.Write(ctx, func(q database.Queries) (err error) {
		tx := database.NewTx(ctx, s.db, q, key)
		if err := tx.Lock(); err != nil {
			return err
		}
		if d, err = readDial(q.GetDial(ctx, id, key.Owner)); err != nil {
			return err
		}
		before, now := d.State, s.db.Now()
		if !change(&d, now) {
			return nil
		}
		if d.State == DialEnded {
			d.EndedAt, d.NextAt = &now, nil
		}
		err = q.SaveDial(ctx, pgdb.SaveDialParams{
			ID: d.ID, State: string(d.State), EndReason: d.EndReason, CarrierCall: d.CarrierCall,
			AskedAt: dbtype.AtPtr(d.AskedAt), Attempts: int64(d.Attempts), NextAt: dbtype.AtPtr(d.NextAt),
			EndedAt: dbtype.AtPtr(d.EndedAt),
		})
		if err == nil && d.State != before {
			notified, err = hooked.In(tx).Tell(hooked.Event{Type: "call." + string(d.State), About: d.ID, Data: d.told})
		}
		return err
	})
	if err == nil {
		s.notified(notified...)
	}
	return d, s.db.Fail(what, err)
}

// told returns what hooks are told of a call out.
func (d *Dial) told() (map[string]any, error) {
	data := map[string]any{"call_id": d.ID, "assistant_id": d.Assistant.ID, "line": d.Line, "to": d.Number}
	if d.Assistant.ID == "" {
		data["assistant_id"] = nil
	}
	if d.State == DialEnded {
		data["end_reason"], data["duration_seconds"], data["turns"], data["recording"] = d.EndReason, 0.0, 0, false
		data["cost_usd"], data["variables"] = nil, d.Variables
		data["usage"] = map[string]int64{"input_tokens": 0, "output_tokens": 0, "cached_tokens": 0, "total_tokens": 0}
	}
	return data, nil
}

func readDial(r pgdb.Dial, err error) (Dial, error) {
	d := Dial{
		ID: r.ID, Key: thread.Key{Owner: r.Owner, Thread: r.ThreadID}, Line: r.Line, Number: r.Number,
		Assistant: assistant.Ref{Owner: r.AssistantOwner, ID: r.AssistantID}, Request: r.Request,
		State: DialState(r.State), EndReason: r.EndReason, CarrierCall: r.CarrierCall, AskedAt: r.AskedAt.Ptr(),
		Attempts: int(r.Attempts), NextAt: r.NextAt.Ptr(), CreatedAt: r.CreatedAt.Time, EndedAt: r.EndedAt.Ptr(),
	}
	if err == nil {
		err = json.Unmarshal(r.Variables, &d.Variables)
	}
	return d, err
}
