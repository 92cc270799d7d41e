package persistencetest

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

func (s suite) threads(t *testing.T) {
	b := s.setup(t)
	before := time.Now().Truncate(time.Microsecond)
	made, err := b.store.CreateThread(t.Context(), "anna", "  Übung\x00 \xff1 ")
	must(t, err)
	key := thread.Key{Owner: "anna", Thread: made.ID}
	if made.Title != "Übung \ufffd1" || made.Owner != "anna" || made.CreatedAt.Before(before) ||
		!made.UpdatedAt.Equal(made.CreatedAt) || made.CreatedAt.Location() != time.UTC {
		t.Errorf("CreateThread() = %+v", made)
	}
	got, err := b.store.Thread(t.Context(), key)
	if err != nil || !reflect.DeepEqual(got, made) {
		t.Errorf("Thread() = %+v, %v, want %+v", got, err, made)
	}
	renamed, err := b.store.RenameThread(t.Context(), key, "other")
	made.Title = "other"
	if err != nil || !reflect.DeepEqual(renamed, made) {
		t.Errorf("RenameThread() = %+v, %v, want %+v", renamed, err, made)
	}
	if seq, err := b.store.LastSeq(t.Context(), key); err != nil || seq != 0 {
		t.Errorf("LastSeq() of an empty thread = %d, %v", seq, err)
	}
	if m, err := b.store.Messages(t.Context(), key, 0, 0); err != nil || len(m) != 0 {
		t.Errorf("Messages() of an empty thread = %v, %v", m, err)
	}
	must(t, b.store.Ping(t.Context()))
}

// ids lists the threads of all pages.
func ids(t *testing.T, store *persistence.Store, owner string, f persistence.ThreadFilter) []string {
	t.Helper()
	var all []string
	for {
		page, next, err := store.Threads(t.Context(), owner, f)
		if err != nil {
			t.Fatalf("Threads(%+v) = %v", f, err)
		}
		for _, th := range page {
			all = append(all, th.ID)
		}
		if next == "" {
			return all
		}
		if len(page) != f.Limit {
			t.Fatalf("a page of %d before the last one, want %d", len(page), f.Limit)
		}
		f.Cursor = next
	}
}

func (s suite) threadPages(t *testing.T) {
	b := s.setup(t)
	want := []string{b.key.Thread}
	for range 10 {
		want = append(want, newThread(t, b.store, "anna").Thread)
	}
	newThread(t, b.store, "bert")
	// A new message moves a thread to the front; changing one does not.
	old := thread.Key{Owner: "anna", Thread: want[3]}
	m, err := AppendMessage(t.Context(), b.store, old, text(thread.RoleUser, "hello"))
	must(t, err)
	want = append(slices.Delete(want, 3, 4), old.Thread)
	b.append(t, text(thread.RoleUser, "hello"))
	want = append(want[1:], b.key.Thread)
	must(t, errOf(UpdateMessage(t.Context(), b.store, old, m)))
	slices.Reverse(want)
	for _, limit := range []int{1, 2, 3, 11, 12} {
		testkit.Equal(t, ids(t, b.store, "anna", persistence.ThreadFilter{Limit: limit}), want, "pages of %d", limit)
	}
}

func (s suite) search(t *testing.T) {
	b := s.setup(t)
	titled, err := b.store.CreateThread(t.Context(), "anna", "Größe of the MOON")
	must(t, err)
	spoken := newThread(t, b.store, "anna")
	for _, words := range []string{"What is 100% of it?", `The file_name is C:\temp "quoted"`, "ÄPFEL and Birnen"} {
		must(t, errOf(AppendMessage(t.Context(), b.store, spoken, text(thread.RoleUser, words))))
	}
	stranger := newThread(t, b.store, "bert")
	must(t, errOf(AppendMessage(t.Context(), b.store, stranger, text(thread.RoleUser, "the moon"))))
	for query, want := range map[string][]string{
		"moon":          {titled.ID},
		"GRÖSSE":        {titled.ID}, // the capitals of ß
		"größe Moon":    {titled.ID},
		"äpfel":         {spoken.Thread},
		"birnen file":   {spoken.Thread}, // in two messages
		"title ÄPFEL":   {spoken.Thread}, // in title and message
		"moon birnen":   nil,
		"100%":          {spoken.Thread},
		"1%0":           nil,
		"%":             {spoken.Thread},
		"_":             {spoken.Thread},
		"file_name":     {spoken.Thread},
		"fileXname":     nil,
		`c:\temp`:       {spoken.Thread},
		`"quoted"`:      {spoken.Thread},
		"' OR 1=1 --":   nil,
		"\x00moon\xff":  nil,
		"  moon\t\n of": {titled.ID},
		" ":             {spoken.Thread, titled.ID, b.key.Thread},
	} {
		testkit.Equal(t, ids(t, b.store, "anna", persistence.ThreadFilter{Limit: 2, Query: query}), want, "query %q found", query)
	}
	must(t, errOf(b.store.RenameThread(t.Context(), thread.Key{Owner: "anna", Thread: titled.ID}, "sun")))
	if got := ids(t, b.store, "anna", persistence.ThreadFilter{Query: "moon"}); got != nil {
		t.Errorf("the old title finds %v", got)
	}
}

func (s suite) threadLimits(t *testing.T) {
	b := s.setup(t)
	cursor := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, f := range []persistence.ThreadFilter{
		{Limit: -1}, {Limit: 201}, {Query: strings.Repeat("x", 1001)},
		{Cursor: "x"}, {Cursor: "!!"}, {Cursor: "MjAyNg"}, {Cursor: strings.Repeat("A", 100)},
		{Cursor: cursor("0001-01-01T00:00:00+14:00 x")}, {Cursor: cursor("9999-12-31T23:59:59-10:00 x")},
	} {
		_, _, err := b.store.Threads(t.Context(), "anna", f)
		wantErr(t, fmt.Sprintf("Threads(%.40v)", f), err, persistence.ErrInvalid)
	}
	long := strings.Repeat("x", persistence.MaxTitleBytes+1)
	wantErr(t, "CreateThread() with a long title", errOf(b.store.CreateThread(t.Context(), "anna", long)), persistence.ErrInvalid)
	wantErr(t, "RenameThread() with a long title", errOf(b.store.RenameThread(t.Context(), b.key, long)), persistence.ErrInvalid)
	for _, owner := range []string{"", "a\x00b", "a\xff", strings.Repeat("x", thread.MaxIDBytes+1)} {
		wantErr(t, fmt.Sprintf("CreateThread() of owner %.10q", owner), errOf(b.store.CreateThread(t.Context(), owner, "")), persistence.ErrInvalid)
		_, _, err := b.store.Threads(t.Context(), owner, persistence.ThreadFilter{})
		wantErr(t, fmt.Sprintf("Threads() of owner %.10q", owner), err, persistence.ErrInvalid)
	}
	must(t, errOf(b.store.CreateThread(t.Context(), strings.Repeat("x", thread.MaxIDBytes), strings.Repeat("é", persistence.MaxTitleBytes/2))))
}

func (s suite) deleteThread(t *testing.T) {
	b := s.setup(t)
	m := b.append(t, text(thread.RoleUser, "hello"))
	must(t, b.store.Records.SaveCall(t.Context(), b.key, records.Call{ID: "call"}))
	other := newThread(t, b.store, "anna")
	must(t, b.store.DeleteThread(t.Context(), b.key))
	wantErr(t, "Thread()", errOf(b.store.Thread(t.Context(), b.key)), persistence.ErrNotFound)
	wantErr(t, "DeleteThread() again", b.store.DeleteThread(t.Context(), b.key), persistence.ErrNotFound)
	wantErr(t, "AppendMessage()", errOf(AppendMessage(t.Context(), b.store, b.key, text(thread.RoleUser, "late"))), persistence.ErrNotFound)
	// Nothing of it is left: its ids can be used again.
	must(t, errOf(AppendMessage(t.Context(), b.store, other, m)))
	must(t, b.store.Records.SaveCall(t.Context(), other, records.Call{ID: "call"}))
}
