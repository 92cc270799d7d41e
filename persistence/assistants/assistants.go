// Package assistants keeps the assistants that owners have made, beside those that the operator has fixed.
package assistants

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"voicebridge/assistant"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	// MaxPerOwner is how many assistants an owner may make.
	MaxPerOwner = 200
	// maxTries is how often a change is tried again that another one came before.
	maxTries = 10
)

// ErrReadOnly means that an owner may use an assistant, but not change it.
var ErrReadOnly = errors.New("the assistant is read-only")

// Store keeps them in the database. It is safe for concurrent use.
type Store struct {
	db    database.DB
	fixed []assistant.Assistant
}

// New returns the Store of a database. The fixed assistants are the operator's: all owners may use them.
func New(db database.DB, fixed []assistant.Assistant) *Store { return &Store{db, fixed} }

// List returns a page of the assistants that an owner may use, without what is long in them, which Get has: the
// operator's, then the owner's and those that others share, each by age. Of several with the same id only the one that
// Find finds is there. The cursor is that of the page before, empty for the first; next is empty on the last.
func (s *Store) List(
	ctx context.Context, owner, cursor string, limit int,
) (page []assistant.Assistant, next string, err error) {
	if !thread.ValidID(owner) {
		return nil, "", fmt.Errorf("list assistants: %w", database.ErrNotFound)
	}
	last, err := readPlace(cursor)
	if err != nil {
		return nil, "", fmt.Errorf("list assistants: %w", err)
	}
	page = []assistant.Assistant{}
	fixed := s.fixed
	if cursor != "" {
		at := slices.IndexFunc(fixed, func(a assistant.Assistant) bool { return a.ID == last.ID })
		if at < 0 || last.Owner != "" { // the operator's were all listed, or the last of them is gone
			at = len(fixed) - 1
		}
		fixed = fixed[at+1:]
	}
	for _, a := range fixed {
		page = append(page, shownTo(a.Short(), owner))
	}
	if last.Owner == "" || last.Owner == owner {
		rows, err := s.db.Read().ListAssistantsOf(ctx, owner)
		if err != nil {
			return nil, "", s.db.Fail("list assistants", err)
		}
		for _, r := range rows {
			if last.Owner == "" || cmp.Or(r.CreatedAt.Compare(last.At), strings.Compare(r.ID, last.ID)) > 0 {
				page = append(page, fromShort(pgdb.ListAssistantsForRow(r), owner))
			}
		}
		last = place{}
	}
	if more := limit + 1 - len(page); more > 0 { // one more tells whether there is a next page
		rows, err := s.db.Read().ListAssistantsFor(ctx, pgdb.ListAssistantsForParams{
			Owner: owner, AfterAt: dbtype.At(last.At), AfterOwner: last.Owner, AfterID: last.ID, MaxRows: int64(more),
		})
		if err != nil {
			return nil, "", s.db.Fail("list assistants", err)
		}
		for _, r := range rows {
			page = append(page, fromShort(r, owner))
		}
	}
	if len(page) > limit {
		page = page[:limit]
		end := page[limit-1]
		next = place{end.CreatedAt, end.Owner, end.ID}.cursor()
	}
	// The operator's come first, and hide what others have with their ids.
	return slices.DeleteFunc(page,
		func(a assistant.Assistant) bool { return a.Owner != "" && s.isFixed(a.ID) }), next, nil
}

// place is where a page ends.
type place struct {
	At        time.Time
	Owner, ID string
}

func (p place) cursor() string {
	raw, _ := json.Marshal(p) // a time and texts
	return base64.RawURLEncoding.EncodeToString(raw)
}

func readPlace(cursor string) (p place, err error) {
	if cursor == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || json.Unmarshal(raw, &p) != nil || p.At.UTC().Year() > 9999 || !thread.ValidID(p.ID) ||
		p.Owner != "" && !thread.ValidID(p.Owner) {
		return p, database.Invalid("cursor")
	}
	return p, nil
}

func fromShort(r pgdb.ListAssistantsForRow, owner string) assistant.Assistant {
	var a assistant.Assistant
	_ = json.Unmarshal([]byte(r.Data), &a) // Create and Change wrote it
	a.ID, a.Owner = r.ID, r.Owner
	a.Shared, a.CreatedAt = r.Shared, r.CreatedAt.Time
	a.UpdatedAt = r.UpdatedAt.Time
	return shownTo(a, owner)
}

// Find returns the assistant that an owner means by an id: the operator's, else the owner's, else the one that has
// been shared for the longest time. If there is none, the error is persistence.ErrNotFound.
func (s *Store) Find(ctx context.Context, owner, id string) (assistant.Assistant, error) {
	if i := slices.IndexFunc(s.fixed, func(a assistant.Assistant) bool { return a.ID == id }); i >= 0 {
		return shownTo(s.fixed[i], owner), nil
	}
	if !thread.ValidID(owner) || !thread.ValidID(id) {
		return assistant.Assistant{}, fmt.Errorf("find assistant: %w", database.ErrNotFound)
	}
	row, err := s.db.Read().GetAssistant(ctx, owner, id)
	if database.IsMissing(err) {
		row, err = s.db.Read().GetSharedAssistant(ctx, id)
	}
	if err != nil {
		return assistant.Assistant{}, s.db.Fail("find assistant", err)
	}
	a, err := fromRow(row)
	return shownTo(a, owner), err
}

// Get returns the assistant that was chosen for an owner, while the owner may use it: it is the operator's, the owner's
// or shared. If not, the error is persistence.ErrNotFound, whoever has another one with this id.
func (s *Store) Get(ctx context.Context, owner string, ref assistant.Ref) (assistant.Assistant, error) {
	gone := fmt.Errorf("read assistant: %w", database.ErrNotFound)
	if ref.Owner == "" {
		i := slices.IndexFunc(s.fixed, func(a assistant.Assistant) bool { return a.ID == ref.ID })
		if i < 0 {
			return assistant.Assistant{}, gone
		}
		return shownTo(s.fixed[i], owner), nil
	}
	row, err := s.db.Read().GetAssistant(ctx, ref.Owner, ref.ID)
	if err != nil {
		return assistant.Assistant{}, s.db.Fail("read assistant", err)
	}
	if row.Owner != owner && !row.Shared {
		return assistant.Assistant{}, gone
	}
	a, err := fromRow(row)
	return shownTo(a, owner), err
}

// Of returns the assistant of a thread with the thread's values of its variables, not filled in yet. Without one, or if
// it was deleted or is not shared any more, it is the zero value: the server's settings. A missing thread is
// persistence.ErrNotFound.
func (s *Store) Of(ctx context.Context, key thread.Key) (assistant.Assistant, error) {
	if err := database.CheckKey(key); err != nil {
		return assistant.Assistant{}, fmt.Errorf("read assistant: %w", err)
	}
	row, err := s.db.Read().GetThread(ctx, key.Thread, key.Owner)
	if err != nil {
		return assistant.Assistant{}, s.db.Fail("read assistant", err)
	}
	if row.AssistantID == "" {
		return assistant.Assistant{}, nil
	}
	a, err := s.Get(ctx, key.Owner, assistant.Ref{Owner: row.AssistantOwner, ID: row.AssistantID})
	if errors.Is(err, database.ErrNotFound) {
		return assistant.Assistant{}, nil
	}
	if err != nil {
		return a, err
	}
	if a.Lent() && a.UpdatedAt.After(row.CreatedAt.Time) { // its addresses may be others than those that were chosen
		a.Tools.Approve = slices.Clone(a.Tools.Approve)
		for _, t := range a.HTTPTools {
			a.Tools.Approve = append(a.Tools.Approve, t.Name)
		}
	}
	return a, json.Unmarshal(row.Variables, &a.Values)
}

// Retaining returns the ids of the assistants, the operator's and all owners', that say how long their threads are
// kept, each with the least number of days that one of them says; 0 if none of them ever ends.
func (s *Store) Retaining(ctx context.Context) (map[string]int, error) {
	rows, err := s.db.Read().ListRetaining(ctx)
	if err != nil {
		return nil, s.db.Fail("list assistants", err)
	}
	all := slices.Clone(s.fixed)
	for _, r := range rows {
		a, err := fromRow(r)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	own := map[string]int{}
	for _, a := range all {
		if days := a.RetentionDays; days != nil {
			if least, ok := own[a.ID]; !ok || least == 0 || *days > 0 && *days < least {
				own[a.ID] = *days
			}
		}
	}
	return own, nil
}

// Create saves a new assistant of an owner, and returns it with its secret. An id that was made of a name gets a number
// if it is taken; for one that was given, asked is set, and persistence.ErrConflict means that it is taken. ErrQuota
// means that the owner has as many as they may.
func (s *Store) Create(
	ctx context.Context, owner string, a assistant.Assistant, asked bool,
) (assistant.Assistant, error) {
	if !thread.ValidID(owner) {
		return a, fmt.Errorf("create assistant: %w",
			database.Invalid("owner: it is not 1 to %d bytes of text", thread.MaxIDBytes))
	}
	a.Owner, a.Secret = owner, newSecret()
	a.CreatedAt = dbtype.At(s.db.Now()).Time
	a.UpdatedAt = a.CreatedAt
	err := s.db.Write(ctx, func(q database.Queries) error {
		n, err := q.CountAssistants(ctx, owner)
		if err == nil && n >= MaxPerOwner {
			err = database.ErrQuota
		}
		if err != nil {
			return err
		}
		name := a.ID
		for i := 2; ; i++ {
			n := int64(0)
			if !s.isFixed(a.ID) {
				n, err = q.InsertAssistant(ctx, pgdb.InsertAssistantParams{
					Owner: owner, ID: a.ID, Shared: a.Shared, Data: database.CleanJSON(a.JSON()), Secret: a.Secret,
					CreatedAt: dbtype.At(a.CreatedAt),
				})
			}
			if err != nil || n > 0 {
				return err
			}
			if asked || i > MaxPerOwner+len(s.fixed)+2 {
				return fmt.Errorf("%w: the id is taken", database.ErrConflict)
			}
			a.ID = fmt.Sprintf("%s-%d", strings.TrimRight(name, "-"), i)
		}
	})
	return a, s.db.Fail("create assistant", err)
}

func (s *Store) isFixed(id string) bool {
	return slices.ContainsFunc(s.fixed, func(a assistant.Assistant) bool { return a.ID == id })
}

// Change replaces an assistant of an owner by what change makes of it. The error is change's, ErrReadOnly, or
// persistence.ErrNotFound.
func (s *Store) Change(
	ctx context.Context, owner, id string, change func(assistant.Assistant) (assistant.Assistant, error),
) (assistant.Assistant, error) {
	for range maxTries {
		before, err := s.own(ctx, owner, id)
		if err != nil {
			return before, err
		}
		a, err := change(before)
		if err != nil {
			return a, err
		}
		a.UpdatedAt = dbtype.At(s.db.Now()).Time
		var n int64
		err = s.db.Write(ctx, func(q database.Queries) (err error) {
			n, err = q.ChangeAssistant(ctx, pgdb.ChangeAssistantParams{
				Owner: owner, ID: id, Shared: a.Shared, Data: database.CleanJSON(a.JSON()),
				UpdatedAt: dbtype.At(a.UpdatedAt), ReadAt: dbtype.At(before.UpdatedAt),
			})
			return err
		})
		if err != nil || n > 0 {
			return a, s.db.Fail("change assistant", err)
		}
	}
	return assistant.Assistant{}, fmt.Errorf("change assistant: %w", database.ErrConflict)
}

// Delete deletes an assistant of an owner. The error is ErrReadOnly or persistence.ErrNotFound.
func (s *Store) Delete(ctx context.Context, owner, id string) error {
	if _, err := s.own(ctx, owner, id); err != nil {
		return err
	}
	return s.db.Fail("delete assistant", s.db.Write(ctx, func(q database.Queries) error {
		n, err := q.DeleteAssistant(ctx, owner, id)
		if err == nil && n == 0 {
			err = database.ErrNotFound
		}
		return err
	}))
}

// own finds an assistant that the owner may change.
func (s *Store) own(ctx context.Context, owner, id string) (assistant.Assistant, error) {
	a, err := s.Find(ctx, owner, id)
	if err == nil && a.ReadOnly {
		err = ErrReadOnly
	}
	return a, err
}

// shownTo returns an assistant as an owner gets it.
func shownTo(a assistant.Assistant, owner string) assistant.Assistant {
	a.ReadOnly = a.Owner != owner
	return a
}

func fromRow(r pgdb.Assistant) (assistant.Assistant, error) {
	var a assistant.Assistant
	if err := json.Unmarshal(r.Data, &a); err != nil {
		return a, fmt.Errorf("read assistant %s: %w", r.ID, err)
	}
	a.ID, a.Owner = r.ID, r.Owner
	a.Shared, a.Secret = r.Shared, r.Secret
	a.CreatedAt, a.UpdatedAt = r.CreatedAt.Time, r.UpdatedAt.Time
	return a, nil
}

// newSecret returns a new secret in the form of Standard Webhooks.
func newSecret() string {
	var key [24]byte
	_, _ = rand.Read(key[:]) // it never fails
	return "whsec_" + base64.StdEncoding.EncodeToString(key[:])
}

// EraseOwner deletes all assistants of an owner, and takes them from the threads of others.
func (s *Store) EraseOwner(ctx context.Context, owner string) error {
	if !thread.ValidID(owner) {
		return fmt.Errorf("erase assistants: %w", database.ErrNotFound)
	}
	return s.db.Fail("erase assistants", s.db.Write(ctx, func(q database.Queries) error {
		return errors.Join(q.EraseAssistantsOf(ctx, owner),
			q.LeaveAssistantsOf(ctx, owner),
			q.LeaveAssistantsOfCalls(ctx, owner))
	}))
}

// OwnedBy returns all assistants of an owner, by age.
func (s *Store) OwnedBy(ctx context.Context, owner string) (own []assistant.Assistant, err error) {
	rows, err := s.db.Read().ListAssistantsOf(ctx, owner)
	if err != nil {
		return nil, s.db.Fail("list assistants", err)
	}
	for _, r := range rows {
		a, err := s.Get(ctx, owner, assistant.Ref{Owner: owner, ID: r.ID})
		if err == nil {
			own = append(own, a)
		} else if !errors.Is(err, database.ErrNotFound) { // it was deleted meanwhile
			return nil, err
		}
	}
	return own, nil
}
