package persistence

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// Change is one change of a thread, as data that can wait, even in a file, until the database
// accepts it. Applying it twice has the effect of applying it once. The types of this package whose
// names begin with Put are all there are.
type Change interface {
	// Size is the approximate number of bytes that the change takes.
	Size() int
	// Subject returns the kind of what is changed, as in files, and its id. Of two changes of the same subject, the
	// later one replaces the earlier; only drafts add up.
	Subject() (kind, id string)
	// apply writes the change and adds the message that it saved, if any, to the result.
	apply(b *Batch, to *Applied) error
}

// Placing says how a message finds its place in its thread.
type Placing string

// The ways to place a message.
const (
	// PlaceKept is for an existing message, which keeps its place.
	PlaceKept Placing = ""
	// PlaceLast puts a new message at the end of the thread, but before what later calls said.
	PlaceLast Placing = "last"
	// PlaceAfter puts a new message right after another and what earlier calls said after that.
	PlaceAfter Placing = "after"
)

// Place says where a message stands in its thread.
type Place struct {
	How Placing `json:"how,omitempty"`
	// After is the id of the message before it, for PlaceAfter; empty for the first place. If that
	// message is gone, the new one goes to the end.
	After string `json:"after,omitempty"`
}

// The changes of a thread.
type (
	// PutMessage saves a message, which must have an id. An existing message keeps its place,
	// whatever Place says; with PlaceKept a missing one goes to the end. One that a later call
	// has said, too, stays as it is.
	PutMessage struct {
		Message thread.Message `json:"message"`
		Place   Place          `json:"place,omitzero"`
		// Queued is the id of the queued message that this is, empty for none. It counts as sent from then on, whoever
		// has claimed it meanwhile: who has, loses the claim. If it was edited, it is another message and stays.
		Queued string `json:"queued,omitempty"`
		// Turn is the text turn that says the message, if one does: once it has lost its thread, the change has no
		// effect.
		Turn string `json:"turn,omitempty"`
		// Continues means that the end of the message's response, which often adds to it, follows soon, and Grows that
		// more of the message does.
		Continues bool `json:"-"`
		Grows     bool `json:"-"`
	}
	// PutDraft is Batch.SaveDraft. It adds no message to Applied.
	PutDraft struct {
		Draft
		Turn string `json:"turn,omitempty"` // as in PutMessage
	}
	// PutToolCall is records.Tx.SaveToolCall.
	PutToolCall struct {
		ToolCall thread.ToolCall `json:"tool_call"`
	}
	// PutResponse is records.Tx.SaveResponse.
	PutResponse struct {
		Response records.Response `json:"response"`
	}
	// PutCall is records.Tx.SaveCall.
	PutCall struct {
		Call records.Call `json:"call"`
	}
	// PutLeg is records.Tx.SaveLeg.
	PutLeg struct {
		Leg records.Leg `json:"leg"`
	}
	// PutApproval is Batch.SettleApproval, or without a Nonce Batch.CloseApproval.
	PutApproval struct {
		Approval thread.Approval `json:"approval"`
	}
	// PutTurn ends a text turn and tells the thread's watchers, with Data, if there is any, for EventTurnFinished. Once
	// the turn has lost its thread it has no effect.
	PutTurn struct {
		ID   string          `json:"id"`
		Data json.RawMessage `json:"data,omitempty"`
		// Queued is the queued message that the turn answers; nil for none.
		Queued *queued.Answer `json:"queued,omitempty"`
	}
	// PutEvent is Batch.Tell. Applying it twice tells watchers twice, and hooks once.
	PutEvent struct {
		ID   string          `json:"id"` // any, but another one for each
		Type EventType       `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	// PutHook tells hooks of an event that no other change is. Applying it twice tells them once.
	PutHook struct {
		ID   string          `json:"id"` // names what has happened, among events of the type
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"` // an object, to which owner and thread_id are added
	}
)

func (c PutMessage) Subject() (kind, id string)  { return "message", c.Message.ID }
func (c PutDraft) Subject() (kind, id string)    { return "draft", c.MessageID }
func (c PutToolCall) Subject() (kind, id string) { return "tool_call", c.ToolCall.ID }
func (c PutResponse) Subject() (kind, id string) { return "response", c.Response.ID }
func (c PutCall) Subject() (kind, id string)     { return "call", c.Call.ID }
func (c PutLeg) Subject() (kind, id string) {
	return "leg", fmt.Sprintf("%s %d", c.Leg.CallID, c.Leg.Generation)
}
func (c PutApproval) Subject() (kind, id string) { return "approval", c.Approval.ID }
func (c PutTurn) Subject() (kind, id string)     { return "turn", c.ID }
func (c PutEvent) Subject() (kind, id string)    { return "event", c.ID }
func (c PutHook) Subject() (kind, id string)     { return "hook", c.Type + " " + c.ID }

// changeOverhead is the approximate size of a change without its text, in bytes.
const changeOverhead = 512

func (c PutMessage) Size() int {
	n := changeOverhead + len(c.Message.Metadata.Usage)
	for _, p := range c.Message.Parts {
		n += len(p.Text) + len(p.Input) + len(p.Output) + len(p.ErrorText) + len(p.Raw)
	}
	for _, raw := range c.Message.Metadata.Extra {
		n += len(raw)
	}
	if h := c.Message.Metadata.HeardText; h != nil {
		n += len(*h)
	}
	return n
}

func (c PutDraft) Size() int { return changeOverhead + len(c.Text) }

func (c PutToolCall) Size() int {
	return changeOverhead + len(c.ToolCall.Input) + len(c.ToolCall.Output) + len(c.ToolCall.Error)
}

func (c PutResponse) Size() int { return changeOverhead + len(c.Response.RawUsage) }

func (c PutCall) Size() int { return changeOverhead }

func (c PutLeg) Size() int { return changeOverhead }

func (c PutApproval) Size() int { return changeOverhead }

func (c PutTurn) Size() int { return changeOverhead + len(c.Data) }

func (c PutEvent) Size() int { return changeOverhead + len(c.Data) }

func (c PutHook) Size() int { return changeOverhead + len(c.Data) }

func (c PutMessage) apply(b *Batch, to *Applied) error {
	if claimed, err := b.holds(c.Turn); err != nil || !claimed {
		return err
	}
	m, err := b.put(c.Message, c.Place)
	if err == nil && c.Queued != "" {
		err = b.do("close queued message", func() error { return b.Queued.Close(c.Queued, m.ID) })
	}
	to.Messages = append(to.Messages, m)
	return err
}

func (c PutToolCall) apply(b *Batch, _ *Applied) error {
	b.hooking.toolCall(c.ToolCall)
	return b.Records.SaveToolCall(c.ToolCall)
}

func (c PutResponse) apply(b *Batch, _ *Applied) error { return b.Records.SaveResponse(c.Response) }
func (c PutCall) apply(b *Batch, _ *Applied) error     { return b.Records.SaveCall(c.Call) }
func (c PutLeg) apply(b *Batch, _ *Applied) error      { return b.Records.SaveLeg(c.Leg) }
func (c PutEvent) apply(b *Batch, _ *Applied) error {
	return b.tell(Event{Type: c.Type, Data: c.Data}, c.ID)
}

func (c PutHook) apply(b *Batch, _ *Applied) error {
	return b.do("tell hooks of "+c.Type, func() error {
		var data map[string]any
		if err := json.Unmarshal(c.Data, &data); err != nil || data == nil {
			return Invalid("event %.100q is no JSON object", c.Type)
		}
		b.hooking.tell(c.Type, c.ID, func() (map[string]any, error) { return data, nil })
		return nil
	})
}

func (c PutDraft) apply(b *Batch, _ *Applied) error {
	if claimed, err := b.holds(c.Turn); err != nil || !claimed {
		return err
	}
	return b.SaveDraft(c.Draft)
}

func (c PutTurn) apply(b *Batch, _ *Applied) error {
	ended, err := b.endTurn(c.ID)
	if err != nil || !ended {
		return err
	}
	if c.Queued != nil {
		if err := b.Queued.Answer(*c.Queued); err != nil {
			return err
		}
	}
	if c.Data == nil {
		return nil
	}
	return b.Tell(Event{Type: EventTurnFinished, Data: c.Data})
}

func (c PutApproval) apply(b *Batch, _ *Applied) error {
	if c.Approval.Nonce != "" {
		return b.SettleApproval(c.Approval)
	}
	return b.CloseApproval(c.Approval.ID, c.Approval.Outcome)
}

// Apply makes changes in the batch, in their order.
func (b *Batch) Apply(changes ...Change) error {
	for _, c := range changes {
		if err := c.apply(b, &Applied{}); err != nil {
			return err
		}
	}
	return nil
}

// put saves a message that may already exist.
func (b *Batch) put(m thread.Message, at Place) (saved thread.Message, err error) {
	err = b.do("save message", func() error {
		if !thread.ValidID(m.ID) {
			return Invalid("message: its id is not 1 to %d bytes of text", thread.MaxIDBytes)
		}
		there := at.How == PlaceKept
		if at.How == PlaceAfter {
			// Checking is cheaper than making room in vain.
			if there, err = b.has(m.ID); err != nil {
				return err
			}
		}
		if there {
			saved, err = b.update(m)
			if !errors.Is(err, sql.ErrNoRows) {
				return err
			}
		}
		saved, err = b.insert(m, func(t pgdb.Thread) (int64, error) { return b.placeNew(t, at, m.Metadata.CallID) })
		if errors.Is(err, ErrConflict) {
			saved, err = b.update(m)
		}
		return err
	})
	return saved, err
}

// placeNew makes room for a new message of a call, or of none.
func (b *Batch) placeNew(t pgdb.Thread, at Place, callID string) (int64, error) {
	there := at.How == PlaceAfter
	if there && at.After != "" {
		var err error
		if there, err = b.has(at.After); err != nil {
			return 0, err
		}
	}
	if !there {
		return b.makeRoomLast(t, callID)
	}
	return b.makeRoom(t, at.After, callID)
}

// has reports whether the message is in the thread.
func (b *Batch) has(id string) (bool, error) {
	_, err := b.q.MessageSeq(b.ctx, id, b.key.Thread, b.key.Owner)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// ThreadChanges are changes of one thread that are applied together.
type ThreadChanges struct {
	Key     thread.Key
	Changes []Change
	// Instance is the process that the changes come from; empty means this one.
	Instance string
}

// Applied is the result of changes.
type Applied struct {
	// Messages are the saved messages, in the order of the changes.
	Messages []thread.Message
	// Lost are the changes that the database will never accept.
	Lost []LostChange
}

// LostChange is a change that was given up: its thread is gone, or it breaks a rule.
type LostChange struct {
	Change Change
	Err    error
}

// ApplyAll applies changes of threads in one transaction. If one of them can never be saved, it is returned as lost and
// the others are saved one by one. The results have the order of groups. Lost changes are logged, and counted by
// Options.OnLost. An error means that the database is unavailable or the Store closed: the same changes may be retried.
func (s *Store) ApplyAll(ctx context.Context, groups []ThreadChanges) ([]Applied, error) {
	applied, err := s.applyTogether(ctx, groups)
	if err == nil || !permanent(err) {
		return applied, err
	}
	applied = make([]Applied, len(groups))
	for i := range groups {
		if applied[i], err = s.applyAlone(ctx, groups[i:i+1]); err != nil {
			return nil, err
		}
	}
	for i, a := range applied {
		s.reportLost(ctx, groups[i].Key, a.Lost)
	}
	return applied, nil
}

// applyAlone applies the changes of one group together or, if one of them can never be saved, one by
// one.
func (s *Store) applyAlone(ctx context.Context, group []ThreadChanges) (Applied, error) {
	applied, err := s.applyTogether(ctx, group)
	if err == nil {
		return applied[0], nil
	}
	if !permanent(err) {
		return Applied{}, err
	}
	var all Applied
	for i, c := range group[0].Changes {
		one := group[0]
		one.Changes = one.Changes[i : i+1]
		applied, err := s.applyTogether(ctx, []ThreadChanges{one})
		switch {
		case err == nil:
			all.Messages = append(all.Messages, applied[0].Messages...)
		case permanent(err):
			all.Lost = append(all.Lost, LostChange{Change: c, Err: err})
		default:
			return Applied{}, err
		}
	}
	return all, nil
}

// reportLost logs and counts lost changes of a thread. Nobody misses those of a deleted one.
func (s *Store) reportLost(ctx context.Context, key thread.Key, lost []LostChange) {
	if len(lost) == 0 {
		return
	}
	counted := s.Lose(ctx, key, len(lost))
	for _, l := range lost {
		kind, id := l.Change.Subject()
		log := s.log.With("thread_id", key.Thread, "what", kind, "id", id, "error", l.Err)
		if counted {
			log.Error("change of a thread lost")
		} else {
			log.Info("change of a deleted thread dropped")
		}
	}
}

// Lose counts changes of a thread that the caller has given up, see Options.OnLost. It returns false,
// and counts none, if the thread was deleted.
func (s *Store) Lose(ctx context.Context, key thread.Key, changes int) (counted bool) {
	if _, err := s.thread(ctx, key); database.IsMissing(err) {
		return false
	}
	s.onLost(changes)
	return true
}

// permanent reports whether a retry is useless.
func permanent(err error) bool {
	return !errors.Is(err, ErrClosed) &&
		(errors.Is(err, ErrConflict) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound))
}

// applyTogether applies all changes or none.
func (s *Store) applyTogether(ctx context.Context, groups []ThreadChanges) ([]Applied, error) {
	// All writers lock threads in the same order, to avoid deadlocks.
	order := make([]int, len(groups))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(groups[a].Key.Thread, groups[b].Key.Thread) })

	applied := make([]Applied, len(groups))
	batches := make([]*Batch, len(groups))
	err := s.write(ctx, func(q queries) error {
		for _, i := range order {
			g := groups[i]
			if err := checkKey(g.Key); err != nil {
				return fmt.Errorf("write thread: %w", err)
			}
			b := s.batch(database.NewTx(ctx, roomDB{s}, q, g.Key))
			b.tx.For = cmp.Or(g.Instance, b.tx.For)
			batches[i], applied[i] = b, Applied{}
			if b.tx.For != s.Instance() { // others may be closing what it left open
				if err := b.lock(); err != nil {
					return err
				}
			}
			for _, c := range g.Changes {
				if err := c.apply(b, &applied[i]); err != nil {
					return err
				}
			}
			if err := b.end(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.fail("apply changes", err)
	}
	for _, b := range batches {
		b.announce()
	}
	return applied, nil
}
