package persistence

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"voicebridge/assistant"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

const (
	defaultThreads = 50
	maxThreads     = 200
)

// CreateThread makes an empty thread. A title that is too long is ErrInvalid.
func (s *Store) CreateThread(ctx context.Context, owner, title string) (Thread, error) {
	if !thread.ValidID(owner) {
		return Thread{}, fmt.Errorf("create thread: %w",
			Invalid("owner: it is not 1 to %d bytes of text", thread.MaxIDBytes))
	}
	title, err := cleanTitle(title)
	if err != nil {
		return Thread{}, fmt.Errorf("create thread: %w", err)
	}
	p := pgdb.CreateThreadParams{
		ID: NewID(), Owner: owner, Title: title, TitleBy: titleByUser(title), SearchTitle: searchForm(title),
		CreatedAt: dbtype.At(s.now()),
	}
	err = s.writeEvents(ctx, func(q queries, t *transactionEvents) error {
		_, err := q.CreateThread(ctx, p)
		t.tellOwner(EventThreadCreated, thread.Key{Owner: owner, Thread: p.ID})
		return err
	})
	if err != nil {
		return Thread{}, s.fail("create thread", err)
	}
	return Thread{
		ID: p.ID, Owner: owner, Title: title, TitleBy: TitleBy(p.TitleBy), CreatedAt: p.CreatedAt.Time,
		UpdatedAt: p.CreatedAt.Time,
	}, nil
}

// Thread reads a thread; ErrNotFound if it does not exist or belongs to another owner.
func (s *Store) Thread(ctx context.Context, key thread.Key) (Thread, error) {
	row, err := s.thread(ctx, key)
	return threadFromRow(row), s.fail("read thread", err)
}

func (s *Store) thread(ctx context.Context, key thread.Key) (pgdb.Thread, error) {
	if err := checkKey(key); err != nil {
		return pgdb.Thread{}, err
	}
	return s.eng.read().GetThread(ctx, key.Thread, key.Owner)
}

// LastSeq returns the largest number that the thread has given to a message or a change; zero for
// an empty thread.
func (s *Store) LastSeq(ctx context.Context, key thread.Key) (int64, error) {
	row, err := s.thread(ctx, key)
	if err != nil {
		return 0, s.fail("read thread", err)
	}
	return row.NextSeq - 1, nil
}

// Threads lists an owner's threads by their last message, latest first. nextCursor is empty on the
// last page. A query selects threads whose title and messages contain all its words, ignoring case.
func (s *Store) Threads(
	ctx context.Context, owner string, f ThreadFilter,
) (threads []Thread, nextCursor string, err error) {
	arg, words, err := f.params(owner)
	if err != nil {
		return nil, "", fmt.Errorf("list threads: %w", err)
	}
	if len(words) > 0 {
		found, err := s.threadsWith(ctx, owner, words)
		if err != nil || found.none {
			return nil, "", s.fail("search threads", err)
		}
		arg.Ids, arg.Words = list(found.ids), list(found.common)
	}
	limit := int(arg.MaxRows)
	arg.MaxRows++ // one more tells whether there is a next page
	found, err := s.eng.read().ListThreads(ctx, arg)
	if len(found) > limit {
		found = found[:limit]
		nextCursor = cursorOf(found[limit-1])
	}
	threads, err = database.Rows(found, err, threadFromRow)
	return threads, nextCursor, s.fail("list threads", err)
}

func (f ThreadFilter) params(owner string) (arg pgdb.ListThreadsParams, words []string, err error) {
	arg = pgdb.ListThreadsParams{Owner: owner, MaxRows: int64(f.Limit), Ids: "[]", Words: "[]"}
	if !thread.ValidID(owner) {
		return arg, nil, Invalid("owner: it is not 1 to %d bytes of text", thread.MaxIDBytes)
	}
	if f.Limit == 0 {
		arg.MaxRows = defaultThreads
	}
	if arg.MaxRows < 1 || arg.MaxRows > maxThreads {
		return arg, nil, Invalid("limit %d: 1 to %d", f.Limit, maxThreads)
	}
	if len(f.Query) > maxQueryBytes {
		return arg, nil, Invalid("query: at most %d bytes", maxQueryBytes)
	}
	words = searchWords([]string{f.Query})
	arg.Before = dbtype.At(time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC))
	if f.Cursor != "" {
		arg.Before, arg.BeforeID, err = parseCursor(f.Cursor)
	}
	return arg, words, err
}

// cursorOf encodes the last thread of a page; the form is opaque.
func cursorOf(r pgdb.Thread) string {
	return base64.RawURLEncoding.EncodeToString([]byte(r.UpdatedAt.Format(time.RFC3339Nano) + " " + r.ID))
}

func parseCursor(cursor string) (dbtype.Time, string, error) {
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	at, id, ok := strings.Cut(string(data), " ")
	t, timeErr := time.Parse(time.RFC3339Nano, at)
	if year := t.UTC().Year(); err != nil || !ok || timeErr != nil || year < 1 || year > 9999 || !thread.ValidID(id) {
		return dbtype.Time{}, "", Invalid("cursor")
	}
	return dbtype.At(t), id, nil
}

// RenameThread sets the title. An empty title lets the program choose the next one.
func (s *Store) RenameThread(ctx context.Context, key thread.Key, title string) (Thread, error) {
	title, err := cleanTitle(title)
	if err != nil {
		return Thread{}, fmt.Errorf("rename thread: %w", err)
	}
	if err := checkKey(key); err != nil {
		return Thread{}, fmt.Errorf("rename thread: %w", err)
	}
	var row pgdb.Thread
	err = s.writeEvents(ctx, func(q queries, t *transactionEvents) (err error) {
		t.tellOwner(EventThreadUpdated, key)
		row, err = q.RenameThread(ctx, pgdb.RenameThreadParams{
			ID: key.Thread, Owner: key.Owner, Title: title, TitleBy: titleByUser(title), SearchTitle: searchForm(title),
		})
		return err
	})
	if err != nil {
		return Thread{}, s.fail("rename thread", err)
	}
	return threadFromRow(row), nil
}

// SetAssistant makes an assistant answer in the thread from the next call or turn on; the zero value brings the
// server's settings back. Variables are values of its variables; nil leaves those that the thread has. Whether there is
// such an assistant is the caller's concern: one that is deleted later is the same.
func (s *Store) SetAssistant(
	ctx context.Context, key thread.Key, a assistant.Ref, variables map[string]string,
) (Thread, error) {
	if err := checkKey(key); err != nil {
		return Thread{}, fmt.Errorf("set assistant: %w", err)
	}
	var row pgdb.Thread
	err := s.writeEvents(ctx, func(q queries, t *transactionEvents) (err error) {
		t.tellOwner(EventThreadUpdated, key)
		p := pgdb.SetThreadAssistantParams{ID: key.Thread, Owner: key.Owner, AssistantID: a.ID, AssistantOwner: a.Owner}
		if variables != nil {
			raw, _ := json.Marshal(variables) // a map of texts
			p.Variables = database.CleanJSON(raw)
		}
		row, err = q.SetThreadAssistant(ctx, p)
		return err
	})
	return threadFromRow(row), s.fail("set assistant", err)
}

// titleByUser returns who set a title written by the user; if it is empty, nobody has.
func titleByUser(title string) string {
	if title == "" {
		return string(TitleByNobody)
	}
	return string(TitleByUser)
}

// SuggestTitle gives the thread a title that the user did not ask for, unless the one it has is as
// good or better: see TitleBy. It reports whether it did; a missing thread is not an error.
func (s *Store) SuggestTitle(ctx context.Context, key thread.Key, title string, by TitleBy) (bool, error) {
	if by != TitleByWords && by != TitleByModel {
		return false, fmt.Errorf("suggest title: %w", Invalid("author %q", by))
	}
	title, err := cleanTitle(title)
	if err != nil || title == "" {
		return false, err
	}
	if err := checkKey(key); err != nil {
		return false, nil //nolint:nilerr // no such thread can exist
	}
	var n int64
	err = s.writeEvents(ctx, func(q queries, t *transactionEvents) (err error) {
		n, err = q.SuggestTitle(ctx, pgdb.SuggestTitleParams{
			ID: key.Thread, Owner: key.Owner, Title: title, TitleBy: string(by), SearchTitle: searchForm(title),
		})
		if n > 0 {
			t.tellOwner(EventThreadUpdated, key)
		}
		return err
	})
	return n > 0, s.fail("suggest title", err)
}

// ResetThread makes Replay leave out all messages so far, and those inserted before them later. They
// stay saved.
func (s *Store) ResetThread(ctx context.Context, key thread.Key) error {
	err := s.changeEvents(ctx, key, func(q queries, t *transactionEvents) (int64, error) {
		t.tellOwner(EventThreadUpdated, key)
		return q.ResetThread(ctx, key.Thread, key.Owner)
	})
	return s.fail("reset thread", err)
}

// changeEvents runs a change of a thread that must affect one row, and causes events.
func (s *Store) changeEvents(
	ctx context.Context, key thread.Key, change func(queries, *transactionEvents) (int64, error),
) error {
	if err := checkKey(key); err != nil {
		return err
	}
	return s.writeEvents(ctx, func(q queries, t *transactionEvents) error {
		n, err := change(q, t)
		if err == nil && n == 0 {
			err = ErrNotFound
		}
		return err
	})
}

func cleanTitle(title string) (string, error) {
	title = strings.TrimSpace(thread.CleanText(title))
	if len(title) > MaxTitleBytes {
		return "", Invalid("title: %d bytes are more than %d", len(title), MaxTitleBytes)
	}
	return title, nil
}

// EnsureThread creates an empty thread with key's id unless the owner already has it. ErrNotFound
// means that another owner has it.
func (s *Store) EnsureThread(ctx context.Context, key thread.Key) (created bool, err error) {
	if err := checkKey(key); err != nil {
		return false, fmt.Errorf("ensure thread: %w", err)
	}
	for {
		created, err = s.ensureThread(ctx, key)
		if !database.IsMissing(err) || !s.sweeper.isDeleted(ctx, key.Thread) {
			break
		}
		// A deleted thread still has the id. Erase the rest of it, then try again.
		if err := s.sweeper.erase(ctx, key.Thread, neverStop); err != nil {
			return false, s.fail("ensure thread", err)
		}
	}
	return created, s.fail("ensure thread", err)
}

func (s *Store) ensureThread(ctx context.Context, key thread.Key) (created bool, err error) {
	err = s.writeEvents(ctx, func(q queries, t *transactionEvents) error {
		n, err := q.CreateThread(ctx,
			pgdb.CreateThreadParams{ID: key.Thread, Owner: key.Owner, CreatedAt: dbtype.At(s.now())})
		if err != nil {
			return err
		}
		if created = n > 0; created {
			t.tellOwner(EventThreadCreated, key)
			return nil
		}
		_, err = q.GetThread(ctx, key.Thread, key.Owner)
		return err
	})
	return created, err
}
