package writer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
)

// Committer saves the changes of calls, in the database or, while that is unavailable, where they
// outlive this process; *spool.Writer implements it.
type Committer interface {
	Commit(ctx context.Context, key persistence.Key, changes []persistence.Change) (spool.Result, error)
	// Full reports whether no more changes can wait.
	Full() bool
	// Pending returns how many changes are waiting for the database.
	Pending() int
}

// To returns the Log of a thread, which writes through c or, if that is nil, directly to the store.
func To(store *persistence.Store, key persistence.Key, c Committer) Log {
	direct := storeLog{store, key}
	if c == nil {
		return direct
	}
	return spoolLog{direct, c}
}

// spoolLog is a Log that writes through a committer.
type spoolLog struct {
	storeLog
	writer Committer
}

func (l spoolLog) Commit(ctx context.Context, changes []session.Change) ([]persistence.Message, error) {
	var puts []persistence.Change
	direct := false
	for _, c := range changes {
		m, ok := c.(session.SaveMessage)
		direct = direct || ok && m.With != nil
		puts = append(puts, putOf(c))
		if tool, ok := c.(session.SaveTool); ok && tool.Approval != nil {
			puts = append(puts, persistence.PutApproval{Approval: *tool.Approval})
		}
	}
	if direct {
		return l.direct(ctx, changes, puts)
	}
	result, err := l.writer.Commit(ctx, l.key, puts)
	if err != nil {
		return nil, fmt.Errorf("save changes: %w", err)
	}
	return result.Messages, nil // those that had to wait are passed to SavedLater
}

// errWaits means that changes that bypass the committer must wait for earlier ones in its spool.
var errWaits = errors.New("earlier changes wait for the database")

// direct saves changes without the committer, because a SaveMessage.With among them needs the transaction.
// puts are the same changes without what With writes.
func (l spoolLog) direct(ctx context.Context, changes []session.Change, puts []persistence.Change) ([]persistence.Message, error) {
	if l.writer.Pending() > 0 {
		return nil, errWaits
	}
	began := time.Now()
	saved, err := l.storeLog.Commit(ctx, changes)
	if w, ok := l.writer.(watching); ok && err == nil {
		w.Committed(l.key, began, puts)
	}
	return saved, err
}

// watching is a Committer that is also told of changes that were saved without it, in a transaction that began then.
type watching interface {
	Committed(key persistence.Key, began time.Time, changes []persistence.Change)
}

// putOf returns a change as data, without the function of a message.
func putOf(c session.Change) persistence.Change {
	switch c := c.(type) {
	case session.SaveMessage:
		return persistence.PutMessage{Message: c.Message, Place: c.Place}
	case session.SaveDraft:
		return persistence.PutDraft{Draft: c.Draft}
	case session.SaveTool:
		return persistence.PutToolCall{ToolCall: c.Call}
	case session.SaveResponse:
		return persistence.PutResponse{Response: c.Response}
	case session.SaveCall:
		return persistence.PutCall{Call: c.Call}
	case SaveLeg:
		return persistence.PutLeg{Leg: c.Leg}
	}
	return nil
}

// SaveLeg writes the record of an upstream session.
type SaveLeg struct{ Leg persistence.UpstreamLeg }

// Key implements [session.Change].
func (c SaveLeg) Key() string { return fmt.Sprintf("leg %d", c.Leg.Generation) }

// Size implements [session.Change].
func (SaveLeg) Size() int { return 512 }

// storeLog is a Log that writes to the store.
type storeLog struct {
	store *persistence.Store
	key   persistence.Key
}

func (l storeLog) Commit(ctx context.Context, ops []session.Change) (saved []persistence.Message, err error) {
	err = l.store.Batch(ctx, l.key, func(b *persistence.Batch) error {
		saved = saved[:0]
		for _, o := range ops {
			m, err := apply(b, o)
			if err != nil {
				return err
			}
			saved = append(saved, m...)
		}
		return nil
	})
	return saved, err
}

func (l storeLog) CommitOne(ctx context.Context, o session.Change) ([]persistence.Message, error) {
	saved, err := l.commitOne(ctx, o)
	if err != nil && permanent(err) {
		l.store.Lose(ctx, l.key, 1)
	}
	return saved, err
}

func (l storeLog) commitOne(ctx context.Context, o session.Change) ([]persistence.Message, error) {
	saved, err := l.Commit(ctx, []session.Change{o})
	m, ok := o.(session.SaveMessage)
	if !ok || err == nil || !permanent(err) {
		return saved, err
	}
	// The message before it is gone, or an earlier attempt has saved it after all.
	for _, how := range []persistence.Placing{persistence.PlaceLast, persistence.PlaceKept} {
		m.Place = persistence.Place{How: how}
		if saved, next := l.Commit(ctx, []session.Change{m}); next == nil {
			return saved, nil
		}
	}
	return nil, err
}

func apply(b *persistence.Batch, o session.Change) ([]persistence.Message, error) {
	switch o := o.(type) {
	case session.SaveMessage:
		m, err := applyMessage(b, o)
		if err == nil && o.With != nil {
			err = o.With(b)
		}
		return []persistence.Message{m}, err
	case session.SaveDraft:
		return nil, b.SaveDraft(o.Draft)
	case session.SaveTool:
		err := b.SaveToolCall(o.Call)
		if err == nil && o.Approval != nil {
			err = b.SettleApproval(*o.Approval)
		}
		return nil, err
	case session.SaveResponse:
		return nil, b.SaveResponse(o.Response)
	case SaveLeg:
		return nil, b.SaveLeg(o.Leg)
	case session.SaveCall:
		return nil, b.SaveCall(o.Call)
	}
	return nil, nil
}

func applyMessage(b *persistence.Batch, o session.SaveMessage) (persistence.Message, error) {
	switch o.Place.How {
	case persistence.PlaceLast:
		return b.AppendMessage(o.Message)
	case persistence.PlaceAfter:
		return b.InsertMessage(o.Message, o.Place.After)
	default:
		return b.UpdateMessage(o.Message)
	}
}
