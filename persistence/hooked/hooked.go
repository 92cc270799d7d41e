// Package hooked keeps the hooks of owners and of the operator, and what is to be delivered to them.
package hooked

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// MaxHooks is how many hooks an owner may have.
const MaxHooks = 16

// The limits of a hook.
const (
	maxURL      = 2048
	maxPatterns = 32
)

// The types of events.
const (
	CallStarted      = "call.started"
	CallRinging      = "call.ringing"
	CallAnswered     = "call.answered"
	CallEnded        = "call.ended"
	CallExtracted    = "call.extracted"
	MessageCompleted = "message.completed"
	ToolCompleted    = "tool.completed"
	ApprovalRequired = "approval.required"
	TurnFinished     = "turn.finished"
	BudgetWarning    = "budget.warning"
	RecordingReady   = "recording.ready"
	// Test is sent by Store.Test only.
	Test = "hook.test"
)

// Types are the types of events that hooks can name.
var Types = []string{
	CallStarted, CallRinging, CallAnswered, CallEnded, CallExtracted, MessageCompleted, ToolCompleted,
	ApprovalRequired, TurnFinished, BudgetWarning, RecordingReady, Test,
}

// GoneReason is why a hook is off whose receiver has answered 410.
const GoneReason = "gone"

// Hook is an address to which events are posted.
type Hook struct {
	ID    string
	Owner string // empty for one of the operator, which gets the events of all owners
	URL   string
	// Events are types or patterns: call.* and *.
	Events  []string
	Enabled bool
	// OffReason is why it is off when nobody has switched it off.
	OffReason string
	// Secret is what signs, as text; empty for those of the operator.
	Secret    string
	CreatedAt time.Time
}

// Store keeps them in the database. It is safe for concurrent use.
type Store struct {
	db database.DB

	mu    sync.Mutex
	fresh map[string]struct{} // hooks with something new to deliver
	wake  chan struct{}
}

// New returns the Store of a database.
func New(db database.DB) *Store {
	return &Store{db: db, fresh: map[string]struct{}{}, wake: make(chan struct{}, 1)}
}

// CheckEvents returns ErrInvalid if a list of types and patterns names what never happens.
func CheckEvents(events []string) error {
	if len(events) == 0 || len(events) > maxPatterns {
		return database.Invalid("events: there are %d, and must be 1 to %d", len(events), maxPatterns)
	}
	for _, e := range events {
		group, all := strings.CutSuffix(e, "*")
		valid := slices.ContainsFunc(Types, func(t string) bool {
			return !all && t == e ||
				all && (group == "" || strings.HasSuffix(group, ".") && strings.HasPrefix(t, group))
		})
		if !valid {
			return database.Invalid("events: %.60q is no event, nor a pattern such as call.*; there are %s", e,
				strings.Join(Types, ", "))
		}
	}
	return nil
}

func (h Hook) check() error {
	if h.URL == "" || len(h.URL) > maxURL || thread.CleanText(h.URL) != h.URL {
		return database.Invalid("url: it is not 1 to %d bytes of text", maxURL)
	}
	return CheckEvents(h.Events)
}

// Add creates a hook of an owner; ErrQuota means that there are MaxHooks.
func (s *Store) Add(ctx context.Context, h Hook) (Hook, error) {
	if !thread.ValidID(h.Owner) {
		return h, fmt.Errorf("add hook: %w", database.ErrNotFound)
	}
	if err := h.check(); err != nil {
		return h, err
	}
	h.ID, h.CreatedAt = database.NewID(), dbtype.At(s.db.Now()).Time
	h.OffReason = ""
	err := s.db.Write(ctx, func(q database.Queries) error {
		if err := q.LockOwner(ctx, "hooks", h.Owner); err != nil {
			return err
		}
		if there, err := q.ListHooks(ctx, h.Owner); err != nil || len(there) >= MaxHooks {
			return errors.Join(err, database.ErrQuota)
		}
		return q.InsertHook(ctx, pgdb.InsertHookParams{
			ID: h.ID, Owner: h.Owner, URL: h.URL, Events: spaced(h.Events), Enabled: h.Enabled, Secret: h.Secret,
			CreatedAt: dbtype.At(h.CreatedAt),
		})
	})
	return h, s.db.Fail("add hook", err)
}

// spaced writes patterns so that a query can look for one.
func spaced(events []string) string { return " " + strings.Join(events, " ") + " " }

func fromRow(r pgdb.Hook) Hook {
	return Hook{
		ID: r.ID, Owner: r.Owner, URL: r.URL, Events: strings.Fields(r.Events), Enabled: r.Enabled,
		OffReason: r.OffReason, Secret: r.Secret,
		CreatedAt: r.CreatedAt.Time,
	}
}

// List returns the hooks of an owner, the oldest first.
func (s *Store) List(ctx context.Context, owner string) ([]Hook, error) {
	rows, err := s.db.Read().ListHooks(ctx, owner)
	hooks, err := database.Rows(rows, err, fromRow)
	return hooks, s.db.Fail("list hooks", err)
}

// Hook reads a hook of an owner.
func (s *Store) Hook(ctx context.Context, owner, id string) (Hook, error) {
	if !thread.ValidID(owner) || !thread.ValidID(id) {
		return Hook{}, fmt.Errorf("read hook: %w", database.ErrNotFound)
	}
	r, err := s.db.Read().GetHook(ctx, id, owner)
	return fromRow(r), s.db.Fail("read hook", err)
}

// Change reads a hook of an owner, has fn change its URL, its events and whether it is enabled, and saves it.
func (s *Store) Change(ctx context.Context, owner, id string, fn func(*Hook) error) (h Hook, err error) {
	if !thread.ValidID(owner) || !thread.ValidID(id) {
		return Hook{}, fmt.Errorf("change hook: %w", database.ErrNotFound)
	}
	err = s.db.Write(ctx, func(q database.Queries) error {
		r, err := q.GetHook(ctx, id, owner)
		if err != nil {
			return err
		}
		h = fromRow(r)
		if err := errors.Join(fn(&h), h.check()); err != nil {
			return err
		}
		h.OffReason = ""
		_, err = q.ChangeHook(ctx,
			pgdb.ChangeHookParams{ID: id, Owner: owner, URL: h.URL, Events: spaced(h.Events), Enabled: h.Enabled})
		return err
	})
	if err == nil && h.Enabled {
		s.Fresh(h.ID)
	}
	return h, s.db.Fail("change hook", err)
}

// Delete deletes a hook of an owner with all its deliveries.
func (s *Store) Delete(ctx context.Context, owner, id string) error {
	if !thread.ValidID(owner) || !thread.ValidID(id) {
		return fmt.Errorf("delete hook: %w", database.ErrNotFound)
	}
	return s.db.Fail("delete hook", s.db.Write(ctx, func(q database.Queries) error {
		n, err := q.DeleteHook(ctx, id, owner)
		if err == nil && n == 0 {
			err = database.ErrNotFound
		}
		return err
	}))
}

// OperatorPrefix begins the ids of the operator's hooks.
const OperatorPrefix = "operator-"

// OperatorID returns the id of the operator's hook with a URL.
func OperatorID(url string) string {
	sum := sha256.Sum256([]byte(url))
	return OperatorPrefix + hex.EncodeToString(sum[:8])
}

// SetOperator makes these the hooks of the operator, switched on, with the ids of OperatorID. Others that there were
// are deleted, with what was to be delivered to them.
func (s *Store) SetOperator(ctx context.Context, hooks []Hook) error {
	keep := map[string]bool{}
	for _, h := range hooks {
		if err := h.check(); err != nil {
			return err
		}
		keep[OperatorID(h.URL)] = true
	}
	return s.db.Fail("save the settings' hooks", s.db.Write(ctx, func(q database.Queries) error {
		there, err := q.ListHooks(ctx, "")
		if err != nil {
			return err
		}
		for _, h := range hooks {
			if err := q.KeepOperatorHook(ctx, pgdb.KeepOperatorHookParams{
				ID: OperatorID(h.URL), URL: h.URL, Events: spaced(h.Events), Enabled: true,
				CreatedAt: dbtype.At(s.db.Now()),
			}); err != nil {
				return err
			}
		}
		for _, old := range there {
			if keep[old.ID] {
				continue
			}
			if _, err := q.DeleteHook(ctx, old.ID, ""); err != nil {
				return err
			}
		}
		return nil
	}))
}

// Fresh notes that hooks have something to deliver. It is called after the commit.
func (s *Store) Fresh(hooks ...string) {
	if len(hooks) == 0 {
		return
	}
	s.mu.Lock()
	for _, id := range hooks {
		s.fresh[id] = struct{}{}
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Woken returns the channel that gets a value when TakeFresh has something to return.
func (s *Store) Woken() <-chan struct{} { return s.wake }

// TakeFresh returns the hooks that have something to deliver since the last call, as far as this process knows.
func (s *Store) TakeFresh() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ids := make([]string, 0, len(s.fresh))
	for id := range s.fresh {
		ids = append(ids, id)
	}
	clear(s.fresh)
	return ids
}

// EraseOwner deletes all hooks of an owner.
func (s *Store) EraseOwner(ctx context.Context, owner string) error {
	if !thread.ValidID(owner) {
		return fmt.Errorf("erase hooks: %w", database.ErrNotFound)
	}
	return s.db.Fail("erase hooks", s.db.Write(ctx, func(q database.Queries) error {
		return q.EraseHooksOf(ctx, owner)
	}))
}
