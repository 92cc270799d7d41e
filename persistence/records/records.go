// Package records keeps what happened in threads besides their messages: calls and their upstream sessions, tool calls,
// and what models were used for.
package records

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Store keeps the records in the database. It is safe for concurrent use.
type Store struct {
	db       database.DB
	notified func(hooks ...string)
	dialled  chan struct{}
}

// New returns the Store of a database. notified is called with the hooks that have something to deliver.
func New(db database.DB, notified func(hooks ...string)) *Store {
	return &Store{db, notified, make(chan struct{}, 1)}
}

// Tx writes records of a thread in a transaction.
type Tx struct{ tx *database.Tx }

// In returns what writes records in a transaction.
func In(tx *database.Tx) Tx { return Tx{tx} }

// batch runs a transaction.
func (s *Store) batch(ctx context.Context, key thread.Key, fn func(Tx) error) error {
	return database.Begin(ctx, s.db, key, func(tx *database.Tx) error { return fn(Tx{tx}) })
}

// maxRecordBytes limits a tool call's input or output, in bytes.
const maxRecordBytes = thread.MaxMessageBytes

// maxUsageBytes limits the usage that an upstream has sent, in bytes.
const maxUsageBytes = 256 << 10

// SaveToolCall writes the record of a tool call, or its changes. ErrConflict means that another
// thread has the id.
func (s *Store) SaveToolCall(ctx context.Context, key thread.Key, c thread.ToolCall) error {
	return s.batch(ctx, key, func(w Tx) error { return w.SaveToolCall(c) })
}

// SaveCall writes the record of a voice call, or its changes. ErrConflict means that the thread has
// another live call, or another thread has the id. Once a call has ended, its end does not change.
func (s *Store) SaveCall(ctx context.Context, key thread.Key, c Call) error {
	return s.batch(ctx, key, func(w Tx) error { return w.SaveCall(c) })
}

// SaveResponse writes the record of an upstream's response, or its changes. ErrConflict means that
// another thread has the id.
func (s *Store) SaveResponse(ctx context.Context, key thread.Key, r Response) error {
	return s.batch(ctx, key, func(w Tx) error { return w.SaveResponse(r) })
}

// LiveCall reads the thread's live call, on any instance.
func (s *Store) LiveCall(ctx context.Context, key thread.Key) (Call, error) {
	if err := database.CheckKey(key); err != nil {
		return Call{}, fmt.Errorf("read live call: %w", err)
	}
	row, err := s.db.Read().GetLiveCall(ctx, key.Thread, key.Owner)
	return CallFromRow(row, key.Owner), s.db.Fail("read live call", err)
}

// Call reads a call of the owner by id, live or ended, on any instance.
func (s *Store) Call(ctx context.Context, owner, id string) (Call, error) {
	if !thread.ValidID(owner) || !thread.ValidID(id) {
		return Call{}, fmt.Errorf("read call: %w", database.ErrNotFound)
	}
	row, err := s.db.Read().GetCall(ctx, id, owner)
	return CallFromRow(row, owner), s.db.Fail("read call", err)
}

// LastThreadOf returns the owner's thread of the latest call between a line and a number, if it has changed since then;
// database.ErrNotFound if there is none.
func (s *Store) LastThreadOf(ctx context.Context, owner, line, caller string, since time.Time) (string, error) {
	id, err := s.db.Read().LastThreadOfCaller(ctx, pgdb.LastThreadOfCallerParams{
		Owner: owner, Line: line, Caller: caller, Since: dbtype.At(s.db.Stored(since)),
	})
	return id, s.db.Fail("read thread of caller", err)
}

// LineCalls returns how many live calls a line has in other processes, and how many of them are with a number.
func (s *Store) LineCalls(ctx context.Context, owner, line, caller string) (ofLine, ofCaller int, err error) {
	row, err := s.db.Read().CountLineCalls(ctx, pgdb.CountLineCallsParams{
		Owner: owner, Line: line, Caller: caller, Instance: s.db.Instance(),
	})
	return int(row.OfLine), int(row.OfCaller), s.db.Fail("count calls of line", err)
}

// SaveToolCall is Store.SaveToolCall.
func (w Tx) SaveToolCall(c thread.ToolCall) error {
	return w.save("save tool call", c.ID, func() (int64, error) {
		if !slices.Contains([]thread.ToolCallStatus{
			thread.ToolCallRunning, thread.ToolCallWaiting, thread.ToolCallDone, thread.ToolCallFailed,
			thread.ToolCallCancelled,
		}, c.Status) {
			return 0, database.Invalid("status %q", c.Status)
		}
		if n := max(len(c.Input), len(c.Output), len(c.Error)); n > maxRecordBytes {
			return 0, database.Invalid("tool call: %d bytes are more than %d", n, maxRecordBytes)
		}
		return w.tx.Q.SaveToolCall(w.tx.Ctx, toolCallToRow(w.tx.Key, c, w.tx.For, w.tx.Now()))
	})
}

// SaveCall is Store.SaveCall.
func (w Tx) SaveCall(c Call) error {
	return w.save("save call", c.ID, func() (int64, error) {
		// Another call of the thread, which has at most one, may be saved at the same time. A text turn that is
		// beginning sees this call, or is seen by its follower.
		if err := w.tx.Lock(); err != nil {
			return 0, err
		}
		return w.tx.Q.SaveCall(w.tx.Ctx, callToRow(w.tx.Key, c, w.tx.For, w.tx.Now()))
	})
}

// SaveResponse is Store.SaveResponse.
func (w Tx) SaveResponse(r Response) error {
	return w.save("save response", r.ID, func() (int64, error) {
		if len(r.CallID) > thread.MaxIDBytes || len(r.RawUsage) > maxUsageBytes {
			return 0, database.Invalid("response: its call's id or its usage is too long")
		}
		return w.tx.Q.SaveResponse(w.tx.Ctx, responseToRow(w.tx.Key, r, w.tx.For, w.tx.Now()))
	})
}

// save runs one upsert, which must affect one row: a record of another thread may have the id.
func (w Tx) save(what, id string, write func() (int64, error)) error {
	return w.tx.Do(what, func() error {
		if !thread.ValidID(id) {
			return database.Invalid("id: it is not 1 to %d bytes of text", thread.MaxIDBytes)
		}
		n, err := write()
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: the id is taken", database.ErrConflict)
		}
		return err
	})
}

// ToolCall reads the latest record of a call by the id that the model gave it, and locks the thread
// as Message does. A missing call is not an error: found is false.
func (w Tx) ToolCall(toolCallID string) (c thread.ToolCall, found bool, err error) {
	err = w.tx.Do("read tool call", func() error {
		if err := w.tx.Lock(); err != nil {
			return err
		}
		if !thread.ValidID(toolCallID) {
			return nil
		}
		row, err := w.tx.Q.GetToolCall(w.tx.Ctx, w.tx.Key.Thread, w.tx.Key.Owner, toolCallID)
		if database.IsMissing(err) {
			return nil
		}
		c, found = toolCallFromRow(row), err == nil
		return err
	})
	return c, found, err
}

// WaitingToolCalls lists the calls of the thread that wait for the client, oldest first, and locks
// the thread as Message does.
func (w Tx) WaitingToolCalls() (calls []thread.ToolCall, err error) {
	err = w.tx.Do("list tool calls", func() error {
		if err := w.tx.Lock(); err != nil {
			return err
		}
		found, err := w.tx.Q.ListWaitingToolCalls(w.tx.Ctx, w.tx.Key.Thread, w.tx.Key.Owner)
		calls, err = database.Rows(found, err, toolCallFromRow)
		return err
	})
	return calls, err
}

// LiveCall is Store.LiveCall, and locks the thread as Message does: of two transactions that read it, the second one
// sees what the first has begun. A missing call is not an error: found is false.
func (w Tx) LiveCall() (c Call, found bool, err error) {
	err = w.tx.Do("read live call", func() error {
		if err := w.tx.Lock(); err != nil {
			return err
		}
		row, err := w.tx.Q.GetLiveCall(w.tx.Ctx, w.tx.Key.Thread, w.tx.Key.Owner)
		if database.IsMissing(err) {
			return nil
		}
		c, found = CallFromRow(row, w.tx.Key.Owner), err == nil
		return err
	})
	return c, found, err
}

// Calls lists the calls of a thread, the oldest first.
func (s *Store) Calls(ctx context.Context, key thread.Key) ([]Call, error) {
	if err := database.CheckKey(key); err != nil {
		return nil, fmt.Errorf("list calls: %w", err)
	}
	rows, err := s.db.Read().ListCallsOf(ctx, key.Thread, key.Owner)
	calls, err := database.Rows(rows, err, func(r pgdb.Call) Call { return CallFromRow(r, key.Owner) })
	if err != nil {
		return nil, s.db.Fail("list calls", err)
	}
	costs, err := s.db.Read().CostsOfCalls(ctx, key.Thread, key.Owner)
	for _, cost := range costs {
		if at := slices.IndexFunc(calls, func(c Call) bool { return c.ID == cost.CallID }); at >= 0 {
			calls[at].CostUSD = new(microdollars(cost.CostUSD))
		}
	}
	return calls, s.db.Fail("list calls", err)
}

// ToolCalls lists the tool calls of a thread, the oldest first.
func (s *Store) ToolCalls(ctx context.Context, key thread.Key) ([]thread.ToolCall, error) {
	if err := database.CheckKey(key); err != nil {
		return nil, fmt.Errorf("list tool calls: %w", err)
	}
	rows, err := s.db.Read().ListToolCallsOf(ctx, key.Thread, key.Owner)
	calls, err := database.Rows(rows, err, toolCallFromRow)
	return calls, s.db.Fail("list tool calls", err)
}

// Responses lists the uses of models on a thread, the oldest first.
func (s *Store) Responses(ctx context.Context, key thread.Key) ([]Response, error) {
	if err := database.CheckKey(key); err != nil {
		return nil, fmt.Errorf("list responses: %w", err)
	}
	rows, err := s.db.Read().ListResponsesOf(ctx, key.Thread, key.Owner)
	responses, err := database.Rows(rows, err, responseFromRow)
	return responses, s.db.Fail("list responses", err)
}

// microdollars removes the rounding noise of floating-point sums.
func microdollars(dollars float64) float64 { return math.Round(dollars*1e6) / 1e6 }
