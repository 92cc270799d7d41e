package persistence

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// Batch is several writes to one thread in one transaction. Only the function that Store.Batch runs
// may use it. After an error every further write returns the same error, and nothing of the batch
// is saved.
type Batch struct {
	// Queued changes the thread's queue.
	Queued queued.Tx
	// Records writes records of the thread.
	Records records.Tx
	// Pictures writes images of the thread.
	Pictures pictures.Tx

	ctx context.Context // of the transaction
	s   *Store
	tx  *database.Tx
	q   queries
	key thread.Key
	// changed is what watchers get after the commit, and told the events among it.
	changed   changeSet
	published transactionEvents
	hooking   hooking
}

// changeSet collects what a transaction changes in a thread.
type changeSet struct {
	drew       bool
	grew       bool  // there is a draft
	used       bool  // there is a new message, and so the thread has another updated_at
	prev, next int64 // the thread's counter before and after
	messages   map[string]thread.Message
}

// drawn records that amount numbers were drawn, and returns the first.
func (n *changeSet) drawn(t pgdb.Thread, amount int64) int64 {
	first := t.NextSeq - amount
	if !n.drew {
		n.drew, n.prev = true, first-1
		n.messages = map[string]thread.Message{}
	}
	n.next = t.NextSeq - 1
	return first
}

// Batch runs fn in one transaction, which is rolled back by an error of fn or of any write in it,
// whatever fn returns. Watchers are notified after the commit. fn must not use the Store: on SQLite
// it would deadlock.
func (s *Store) Batch(ctx context.Context, key thread.Key, fn func(*Batch) error) error {
	var b *Batch
	err := database.Begin(ctx, roomDB{s}, key, func(tx *database.Tx) error {
		b = s.batch(tx)
		if err := fn(b); err != nil {
			return err
		}
		return b.end()
	})
	if err == nil {
		b.announce()
	}
	return err
}

// batch returns a Batch of a transaction.
func (s *Store) batch(tx *database.Tx) *Batch {
	return &Batch{
		ctx: tx.Ctx, s: s, tx: tx, q: tx.Q, key: tx.Key, published: transactionEvents{s: s}, hooking: hooking{tx: tx},
		Queued: queued.In(tx), Records: records.In(tx), Pictures: pictures.In(tx),
	}
}

// Tell notifies the thread's watchers of an event with the commit, and its owner's if they get such.
func (b *Batch) Tell(e Event) error { return b.tell(e, "") }

// tell is Tell for an event with an id.
func (b *Batch) tell(e Event, id string) error {
	return b.do("tell of "+string(e.Type), func() error {
		e, err := checkEvent(e)
		b.published.tell(b.key, e)
		b.hooking.event(e, id)
		return err
	})
}

func (b *Batch) tellOf(kind EventType, about map[string]string, id string) {
	data, _ := json.Marshal(about) // text can always be encoded
	e := Event{Type: kind, Data: data}
	b.published.tell(b.key, e)
	b.hooking.event(e, id)
}

// end comes last in the transaction.
func (b *Batch) end() error {
	entries := b.published.entries
	if b.published.entries = nil; b.changed.used {
		b.published.tellOwner(EventThreadUpdated, b.key)
	}
	b.published.entries = append(b.published.entries, entries...)
	if err := cmp.Or(b.tx.Err(), b.hooking.write()); err != nil {
		return err
	}
	return b.published.log(b.ctx, b.q)
}

// announce notifies the watchers of the batch's changes.
func (b *Batch) announce() {
	s, key := b.s, b.key
	n := b.changed
	if n.drew && s.hub.watched(key) {
		changed := make([]thread.Message, 0, len(n.messages))
		for _, m := range n.messages {
			changed = append(changed, m)
		}
		byRevision(changed)
		c := commit{prev: n.prev, next: n.next, messages: changed}
		for _, m := range changed {
			c.events = append(c.events, messageEvent(m))
		}
		s.hub.commit(key, c)
	}
	if s.shared && (n.drew || n.grew) {
		s.outbox.tell(wake{Owner: key.Owner, Thread: key.Thread})
	}
	b.published.committed()
	s.Hooks.Fresh(b.hooking.notified...)
}

// do runs one write of the batch.
func (b *Batch) do(what string, write func() error) error { return b.tx.Do(what, write) }

// AppendMessage saves a message at the end of the thread. An empty id and creation time are filled
// in; the source defaults to text and the status to completed.
func (b *Batch) AppendMessage(m thread.Message) (saved thread.Message, err error) {
	err = b.do("append message", func() (err error) {
		saved, err = b.insert(m, func(t pgdb.Thread) (int64, error) { return b.makeRoomLast(t, m.Metadata.CallID) })
		return err
	})
	return saved, err
}

// InsertMessage saves a message right after the message afterID, or before all others if afterID is
// empty. The messages that follow get new numbers, so that a reader who asks for what comes after
// the last number it has seen misses nothing. If the message that follows was sent before a reset,
// the new one counts as sent before it, too.
func (b *Batch) InsertMessage(m thread.Message, afterID string) (saved thread.Message, err error) {
	err = b.do("insert message", func() (err error) {
		saved, err = b.insert(m,
			func(t pgdb.Thread) (int64, error) { return b.makeRoom(t, afterID, m.Metadata.CallID) })
		return err
	})
	return saved, err
}

// insert draws a number for a new message and saves it. place makes room for it and returns the
// context that it belongs to.
func (b *Batch) insert(m thread.Message, place func(t pgdb.Thread) (int64, error)) (thread.Message, error) {
	if m.ID == "" {
		m.ID = NewID()
	}
	row, err := b.row(m)
	if err != nil {
		return thread.Message{}, err
	}
	drawn, err := b.q.DrawSeq(b.ctx, pgdb.DrawSeqParams{
		ID: b.key.Thread, Owner: b.key.Owner, Amount: 1, UsedAt: new(dbtype.At(b.s.now())),
	})
	if err != nil {
		return thread.Message{}, err
	}
	row.Seq, b.changed.used = b.changed.drawn(drawn, 1), true
	if row.Context, err = place(drawn); err != nil {
		return thread.Message{}, err
	}
	n, err := b.q.InsertMessage(b.ctx, row)
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: the id is taken", ErrConflict)
	}
	if err != nil {
		return thread.Message{}, err
	}
	return b.saved(row, row.Seq)
}

// makeRoom makes room right after the message afterID, but behind what calls said that began before the call callID,
// and returns the context of what follows.
func (b *Batch) makeRoom(t pgdb.Thread, afterID, callID string) (int64, error) {
	key := b.key
	after := int64(0)
	if afterID != "" {
		var err error
		if after, err = b.q.MessageSeq(b.ctx, afterID, key.Thread, key.Owner); err != nil {
			return 0, err
		}
	}
	// A message that both calls said is where the later one said it.
	if later, err := b.firstOfLaterCall(callID); err == nil && later.Seq <= after {
		return b.shift(t, later, nil)
	} else if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, err
	}
	first, err := b.q.FirstMessageAfter(b.ctx, pgdb.FirstMessageAfterParams{
		ThreadID: key.Thread, Owner: key.Owner, AfterSeq: after, CallID: thread.CleanText(callID),
	})
	return b.shift(t, first, err)
}

// makeRoomLast is makeRoom at the end of the thread, or before what calls said that began after the call callID.
func (b *Batch) makeRoomLast(t pgdb.Thread, callID string) (int64, error) {
	if callID == "" {
		return t.Context, nil
	}
	first, err := b.firstOfLaterCall(callID)
	return b.shift(t, first, err)
}

// firstOfLaterCall returns the first message of the calls that began after the call callID; sql.ErrNoRows if there is
// none.
func (b *Batch) firstOfLaterCall(callID string) (pgdb.FirstMessageAfterRow, error) {
	if callID == "" {
		return pgdb.FirstMessageAfterRow{}, sql.ErrNoRows
	}
	first, err := b.q.FirstOfLaterCall(b.ctx, b.key.Thread, b.key.Owner, thread.CleanText(callID))
	return pgdb.FirstMessageAfterRow(first), err
}

// shift renumbers the messages from the first on, if there is one, so that they follow the newest number, in order.
func (b *Batch) shift(t pgdb.Thread, first pgdb.FirstMessageAfterRow, err error) (int64, error) {
	key := b.key
	if errors.Is(err, sql.ErrNoRows) {
		return t.Context, nil
	}
	if err != nil {
		return 0, err
	}
	last, err := b.q.LastMessage(b.ctx, key.Thread, key.Owner)
	if err != nil {
		return 0, err
	}
	// All move by the same distance, including gaps: the last one gets the last number.
	amount := last - first.Seq + 1
	t, err = b.q.DrawSeq(b.ctx, pgdb.DrawSeqParams{ID: key.Thread, Owner: key.Owner, Amount: amount})
	if err != nil {
		return 0, err
	}
	moved, err := b.q.ShiftMessages(b.ctx, pgdb.ShiftMessagesParams{
		ThreadID: key.Thread, Owner: key.Owner, FromSeq: first.Seq, Distance: b.changed.drawn(t, amount) - first.Seq,
	})
	if err != nil {
		return 0, err
	}
	for _, row := range moved {
		m, err := whole(b.ctx, b.q, row)
		if err != nil {
			return 0, err
		}
		b.changed.messages[m.ID] = m
	}
	return first.Context, nil
}

// UpdateMessage replaces the parts and metadata of the message with m's id. Its place, role and
// creation time stay.
func (b *Batch) UpdateMessage(m thread.Message) (saved thread.Message, err error) {
	err = b.do("update message", func() (err error) {
		saved, err = b.update(m)
		return err
	})
	return saved, err
}

func (b *Batch) update(m thread.Message) (thread.Message, error) {
	if !thread.ValidID(m.ID) {
		return thread.Message{}, ErrNotFound
	}
	m.Role = cmp.Or(m.Role, thread.RoleUser) // any role will do: the saved one stays
	row, err := b.row(m)
	if err != nil {
		return thread.Message{}, err
	}
	return b.change(row)
}

// CheckMessage returns ErrInvalid, and why, if a message cannot be saved.
func CheckMessage(m thread.Message) error {
	_, err := checkedRow(thread.Key{}, m, "", time.Time{})
	return err
}

// row checks a message and prepares it for the table.
func (b *Batch) row(m thread.Message) (pgdb.InsertMessageParams, error) {
	return checkedRow(b.key, m, b.tx.For, b.s.now())
}

func checkedRow(key thread.Key, m thread.Message, instance string, at time.Time) (pgdb.InsertMessageParams, error) {
	if err := m.Validate(); err != nil {
		return pgdb.InsertMessageParams{}, Invalid("message: %v", err)
	}
	row, err := messageToRow(key, m, instance, at)
	if err == nil && (len(row.Parts) > thread.MaxMessageBytes || len(row.Metadata) > maxMetadataBytes) {
		err = Invalid("message: %d bytes of parts and %d of metadata, at most %d and %d",
			len(row.Parts), len(row.Metadata), thread.MaxMessageBytes, maxMetadataBytes)
	}
	return row, err
}

// change draws a number for a message's change and saves it.
func (b *Batch) change(row pgdb.InsertMessageParams) (thread.Message, error) {
	drawn, err := b.q.DrawSeq(b.ctx, pgdb.DrawSeqParams{ID: b.key.Thread, Owner: b.key.Owner, Amount: 1})
	if err != nil {
		return thread.Message{}, err
	}
	if err := b.q.DeleteDrafts(b.ctx, row.ID); err != nil {
		return thread.Message{}, err
	}
	revision := b.changed.drawn(drawn, 1)
	kept, err := b.q.UpdateMessage(b.ctx, messageChange(row, revision))
	if errors.Is(err, sql.ErrNoRows) { // or a later call has said it, too
		theirs, err := b.q.GetMessage(b.ctx, row.ID, row.ThreadID, row.Owner)
		if err != nil {
			return thread.Message{}, err
		}
		return whole(b.ctx, b.q, theirs)
	}
	if err != nil {
		return thread.Message{}, err
	}
	row.Seq, row.Role = kept.Seq, kept.Role
	row.CreatedAt = kept.CreatedAt
	return b.saved(row, revision)
}

// saved returns the message as it was written, and keeps it for the watchers.
func (b *Batch) saved(row pgdb.InsertMessageParams, revision int64) (thread.Message, error) {
	m, err := writtenMessage(row, revision)
	if err != nil {
		return thread.Message{}, err
	}
	b.changed.messages[m.ID] = m
	b.hooking.message(m, func() thread.Message { return b.changed.messages[m.ID] })
	return m, nil
}
