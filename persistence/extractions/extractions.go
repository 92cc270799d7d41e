// Package extractions keeps what a text model has found in calls once they had ended: a summary, and the facts that the
// assistant's schema asks for.
package extractions

import (
	"context"
	"encoding/json"
	"time"

	"voicebridge/assistant"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

const (
	// MaxAttempts is how often a call is read until it counts as failed: once, and three times more.
	MaxAttempts = 4
	// maxError limits the text of why it failed, in bytes.
	maxError = 500
)

// pauses are those after the first failures.
var pauses = [MaxAttempts - 1]time.Duration{10 * time.Second, time.Minute, 5 * time.Minute}

// Claim is a call that this process reads.
type Claim struct {
	Key       thread.Key
	CallID    string
	Assistant assistant.Ref
	// Attempt counts from 1.
	Attempt int

	instance string
}

// Result is what was found in a call.
type Result struct {
	Summary string
	// Extracted is an object.
	Extracted json.RawMessage
}

// Store keeps them in the database. It is safe for concurrent use.
type Store struct {
	db       database.DB
	notified func(hooks ...string)
}

// New returns the Store of a database. told is called with the hooks that have something to deliver.
func New(db database.DB, notified func(hooks ...string)) *Store { return &Store{db, notified} }

// Claim takes an ended call that is to be read: while this process lives, no other one reads it, nor another call of
// its owner. It must end with Done, Failed or GiveBack. alone means that this process reads none: what it has claimed
// nevertheless, in a transaction whose end it does not know, is taken again. ok is false if there is none.
func (s *Store) Claim(ctx context.Context, alone bool) (c Claim, ok bool, err error) {
	const what = "claim call to read"
	n, err := s.db.Read().CountExtractions(ctx, new(dbtype.At(s.db.Now())), s.db.Instance())
	if err != nil || n == 0 {
		return c, false, s.db.Fail(what, err)
	}
	err = s.db.Write(ctx, func(q database.Queries) error {
		ok = false
		if alone {
			if err := q.ReleaseExtractions(ctx, s.db.Instance()); err != nil {
				return err
			}
		}
		row, err := q.ClaimExtraction(ctx, s.db.Instance(), new(dbtype.At(s.db.Now())))
		if database.IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		owner, err := q.GetOwner(ctx, row.ThreadID)
		c = Claim{
			Key: thread.Key{Owner: owner, Thread: row.ThreadID}, CallID: row.ID,
			Assistant: assistant.Ref{Owner: row.AssistantOwner, ID: row.AssistantID},
			Attempt:   int(row.ExtractionAttempts), instance: row.ExtractionBy,
		}
		ok = err == nil
		return err
	})
	return c, ok, s.db.Fail(what, err)
}

// Done saves what was found, and tells hooks of it. found is false if the claim was lost: others took this process for
// dead, or the thread is gone.
func (s *Store) Done(ctx context.Context, c Claim, r Result) (found bool, err error) {
	r.Summary = thread.CleanText(r.Summary)
	r.Extracted = database.CleanJSON(r.Extracted)
	return s.end(ctx, c, pgdb.FinishExtractionParams{
		Extraction: string(records.ExtractionDone), ExtractionAttempts: int64(c.Attempt), Summary: r.Summary,
		Extracted: dbtype.JSON(r.Extracted),
	}, &r)
}

// Failed records that an attempt has failed, for a reason in words for the call's owner. Another one follows, unless it
// was the last one or final is set; again says whether one does.
func (s *Store) Failed(ctx context.Context, c Claim, reason string, final bool) (again bool, err error) {
	p := pgdb.FinishExtractionParams{
		Extraction: string(records.ExtractionFailed), ExtractionAttempts: int64(c.Attempt),
		ExtractionError: thread.CleanText(reason[:min(len(reason), maxError)]),
	}
	if again = !final && c.Attempt < MaxAttempts; again {
		p.Extraction = string(records.ExtractionWaiting)
		p.ExtractionAt = new(dbtype.At(s.db.Now().Add(pauses[max(c.Attempt, 1)-1])))
	}
	_, err = s.end(ctx, c, p, nil)
	return again, err
}

// GiveBack ends a claim without an attempt that counts: the process is stopping.
func (s *Store) GiveBack(ctx context.Context, c Claim) error {
	_, err := s.end(ctx, c, pgdb.FinishExtractionParams{
		Extraction: string(records.ExtractionWaiting), ExtractionAttempts: int64(c.Attempt - 1),
	}, nil)
	return err
}

// end ends a claim. With a result, it tells hooks in the same transaction.
func (s *Store) end(ctx context.Context, c Claim, p pgdb.FinishExtractionParams, r *Result) (found bool, err error) {
	p.ID, p.Instance = c.CallID, c.instance
	var notified []string
	err = s.db.Write(ctx, func(q database.Queries) error {
		notified = nil
		n, err := q.FinishExtraction(ctx, p)
		if found = n > 0; err != nil || !found || r == nil {
			return err
		}
		data := func() (map[string]any, error) {
			return map[string]any{"call_id": c.CallID, "summary": r.Summary, "extracted": r.Extracted}, nil
		}
		tx := hooked.In(database.NewTx(ctx, s.db, q, c.Key))
		notified, err = tx.Tell(hooked.Event{Type: hooked.CallExtracted, About: c.CallID, Data: data})
		return err
	})
	if err == nil {
		s.notified(notified...)
	}
	return found, s.db.Fail("save what was found in a call", err)
}
