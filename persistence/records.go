package persistence

import (
	"context"
	"fmt"
	"slices"

	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// maxRecordBytes limits a tool call's input or output, in bytes.
const maxRecordBytes = thread.MaxMessageBytes

// SaveToolCall writes the record of a tool call, or its changes. ErrConflict means that another
// thread has the id.
func (s *Store) SaveToolCall(ctx context.Context, key thread.Key, c thread.ToolCall) error {
	return s.Batch(ctx, key, func(b *Batch) error { return b.SaveToolCall(c) })
}

// SaveCall writes the record of a voice call, or its changes. ErrConflict means that the thread has
// another live call, or another thread has the id. Once a call has ended, its end does not change.
func (s *Store) SaveCall(ctx context.Context, key thread.Key, c CallRecord) error {
	return s.Batch(ctx, key, func(b *Batch) error { return b.SaveCall(c) })
}

// SaveResponse writes the record of an upstream's response, or its changes. ErrConflict means that
// another thread has the id.
func (s *Store) SaveResponse(ctx context.Context, key thread.Key, r ResponseRecord) error {
	return s.Batch(ctx, key, func(b *Batch) error { return b.SaveResponse(r) })
}

// LiveCall reads the thread's live call, on any instance.
func (s *Store) LiveCall(ctx context.Context, key thread.Key) (CallRecord, error) {
	if err := checkKey(key); err != nil {
		return CallRecord{}, fmt.Errorf("read live call: %w", err)
	}
	row, err := s.eng.read().GetLiveCall(ctx, pgdb.GetLiveCallParams{ThreadID: key.Thread, Owner: key.Owner})
	return callFromRow(row, key.Owner), s.fail("read live call", err)
}

// Call reads a call of the owner by id, live or ended, on any instance.
func (s *Store) Call(ctx context.Context, owner, id string) (CallRecord, error) {
	if !thread.ValidID(owner) || !thread.ValidID(id) {
		return CallRecord{}, fmt.Errorf("read call: %w", ErrNotFound)
	}
	row, err := s.eng.read().GetCall(ctx, pgdb.GetCallParams{ID: id, Owner: owner})
	return callFromRow(row, owner), s.fail("read call", err)
}

// SaveToolCall is Store.SaveToolCall.
func (b *Batch) SaveToolCall(c thread.ToolCall) error {
	return b.save("save tool call", c.ID, func() (int64, error) {
		if !slices.Contains([]thread.ToolCallStatus{thread.ToolCallRunning, thread.ToolCallWaiting, thread.ToolCallDone, thread.ToolCallFailed, thread.ToolCallCancelled}, c.Status) {
			return 0, Invalid("status %q", c.Status)
		}
		if n := max(len(c.Input), len(c.Output), len(c.Error)); n > maxRecordBytes {
			return 0, Invalid("tool call: %d bytes are more than %d", n, maxRecordBytes)
		}
		return b.q.SaveToolCall(b.ctx, toolCallToRow(b.key, c, b.instance, b.s.now()))
	})
}

// SaveCall is Store.SaveCall.
func (b *Batch) SaveCall(c CallRecord) error {
	return b.save("save call", c.ID, func() (int64, error) {
		// Another call of the thread, which has at most one, may be saved at the same time. A text turn that is
		// beginning sees this call, or is seen by its follower.
		if err := b.lock(); err != nil {
			return 0, err
		}
		return b.q.SaveCall(b.ctx, callToRow(b.key, c, b.instance, b.s.now()))
	})
}

// SaveResponse is Store.SaveResponse.
func (b *Batch) SaveResponse(r ResponseRecord) error {
	return b.save("save response", r.ID, func() (int64, error) {
		if len(r.CallID) > thread.MaxIDBytes || len(r.RawUsage) > maxMetadataBytes {
			return 0, Invalid("response: its call's id or its usage is too long")
		}
		return b.q.SaveResponse(b.ctx, responseToRow(b.key, r, b.instance, b.s.now()))
	})
}

// save runs one upsert, which must affect one row: a record of another thread may have the id.
func (b *Batch) save(what, id string, write func() (int64, error)) error {
	return b.do(what, func() error {
		if !thread.ValidID(id) {
			return Invalid("id: it is not 1 to %d bytes of text", thread.MaxIDBytes)
		}
		n, err := write()
		if err == nil && n == 0 {
			err = fmt.Errorf("%w: the id is taken", ErrConflict)
		}
		return err
	})
}
