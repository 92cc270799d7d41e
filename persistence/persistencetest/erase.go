package persistencetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"voicebridge/persistence"
)

// fill writes many messages at once, behind the store's back.
func fill(t *testing.T, b bundle, amount int) {
	t.Helper()
	if _, err := b.store.Apply(t.Context(), b.key, []persistence.Change{
		putText("first", "one of many", last),
		persistence.PutToolCall{ToolCall: persistence.ToolCall{ID: "t", Status: persistence.ToolCallDone}},
		persistence.PutResponse{Response: persistence.ResponseRecord{ID: "r"}},
	}); err != nil {
		t.Fatalf("Apply() = %v", err)
	}
	const columns = "context, role, source, status, text, parts, metadata, call_id, item_id, model, voice, instance, created_at, updated_at, search_text"
	db := rawDB(t, b.url)
	if _, err := db.ExecContext(t.Context(), fmt.Sprintf(`INSERT INTO messages (id, thread_id, seq, revision, %s)
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		SELECT 'fill' || i, thread_id, 10 + i, 10 + i, %s FROM messages, n WHERE id = 'first'`, columns, amount, columns)); err != nil {
		t.Fatalf("fill thread: %v", err)
	}
	if _, err := db.ExecContext(t.Context(), fmt.Sprintf("UPDATE threads SET next_seq = %d WHERE id = '%s'", amount+100, b.key.Thread)); err != nil {
		t.Fatalf("fill thread: %v", err)
	}
}

func (s suite) eraseMany(t *testing.T) {
	b := s.setup(t)
	fill(t, b, 1234)
	if err := b.store.DeleteThread(t.Context(), b.key); err != nil {
		t.Fatalf("DeleteThread() = %v", err)
	}
	wantRows(t, b.url, rowsLeft, "0")
	wantErr(t, "DeleteThread() again", b.store.DeleteThread(t.Context(), b.key), persistence.ErrNotFound)
}

// rowsLeft counts the threads and everything in them: 0 once all is erased.
const rowsLeft = `SELECT (SELECT count(*) FROM threads) + (SELECT count(*) FROM messages) + (SELECT count(*) FROM tool_calls)
	+ (SELECT count(*) FROM responses) + (SELECT count(*) FROM images) + (SELECT count(*) FROM calls) AS n`

// waitForEmpty waits until the sweep has erased everything.
func waitForEmpty(t *testing.T, url string) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	ctx := within(t)
	for {
		_, rows := table(t, url, rowsLeft)
		if rows[0][0] == "0" {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Fatalf("%s rows are left", rows[0][0])
		}
	}
}

// disown leaves the thread as a process would that dies right after deleting it.
func disown(t *testing.T, b bundle) {
	t.Helper()
	if _, err := rawDB(t, b.url).ExecContext(t.Context(), "UPDATE threads SET owner = ''"); err != nil {
		t.Fatal(err)
	}
}

// eraseLeft: a thread that a dead process has not erased yet cannot be read, and is erased by
// the next one.
func (s suite) eraseLeft(t *testing.T) {
	b := s.setup(t)
	fill(t, b, 600)
	if err := b.store.SaveCall(t.Context(), b.key, persistence.CallRecord{ID: "c"}); err != nil {
		t.Fatalf("SaveCall() = %v", err)
	}
	disown(t, b)
	_, err := b.store.Thread(t.Context(), b.key)
	wantErr(t, "Thread()", err, persistence.ErrNotFound)
	_, err = b.store.Thread(t.Context(), persistence.Key{Thread: b.key.Thread})
	wantErr(t, "Thread() of nobody", err, persistence.ErrNotFound)
	if found, _, err := b.store.Threads(t.Context(), b.key.Owner, persistence.ThreadFilter{Query: "many"}); err != nil || len(found) != 0 {
		t.Errorf("Threads() = %v, %v", found, err)
	}
	for _, view := range []string{"conversation_transcript", "tool_call_log", "call_summary"} {
		wantRows(t, b.url, "SELECT * FROM "+view)
	}
	if err := b.store.Serve(t.Context()); err != nil {
		t.Fatalf("Serve() = %v", err)
	}
	waitForEmpty(t, b.url)
	newThread(t, b.store, "anna")
	disown(t, b)
	if _, err := b.store.Recover(t.Context()); err != nil {
		t.Errorf("Recover() = %v", err)
	}
	waitForEmpty(t, b.url)
}

// eraseServed: a serving process goes on erasing after DeleteThread has returned, and several
// processes share the work.
func (s suite) eraseServed(t *testing.T) {
	b := s.setup(t)
	fill(t, b, 5000)
	if err := b.store.Serve(t.Context()); err != nil {
		t.Fatalf("Serve() = %v", err)
	}
	other := Open(t, b.url, persistence.Options{})
	if err := other.Serve(t.Context()); err != nil && !errors.Is(err, persistence.ErrServed) { // SQLite allows only one
		t.Fatalf("Serve() = %v", err)
	}
	if err := b.store.DeleteThread(t.Context(), b.key); err != nil {
		t.Errorf("DeleteThread() = %v", err)
	}
	_, err := b.store.Thread(t.Context(), b.key)
	wantErr(t, "Thread()", err, persistence.ErrNotFound)
	waitForEmpty(t, b.url)
}

// eraseForNew: the id of a deleted thread can be used again, even by a stranger, who sees
// nothing of the old one.
func (s suite) eraseForNew(t *testing.T) {
	b := s.setup(t)
	fill(t, b, 50)
	disown(t, b)
	key := persistence.Key{Owner: "bert", Thread: b.key.Thread}
	if created, err := b.store.EnsureThread(t.Context(), key); err != nil || !created {
		t.Fatalf("EnsureThread() = %v, %v", created, err)
	}
	if got, err := b.store.Messages(t.Context(), key, 0, 0); err != nil || len(got) != 0 {
		t.Errorf("Messages() = %d, %v", len(got), err)
	}
	if found, _, err := b.store.Threads(t.Context(), "bert", persistence.ThreadFilter{Query: "many"}); err != nil || len(found) != 0 {
		t.Errorf("Threads() = %v, %v", found, err)
	}
}

func (s suite) expire(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	old, live, typed := b.key, newThread(t, b.store, "anna"), newThread(t, b.store, "bert")
	if err := b.store.SaveCall(ctx, live, persistence.CallRecord{ID: "c"}); err != nil {
		t.Fatalf("SaveCall() = %v", err)
	}
	if err := b.store.Batch(ctx, typed, func(w *persistence.Batch) error { return w.ClaimTurn("t", time.Minute) }); err != nil {
		t.Fatalf("ClaimTurn() = %v", err)
	}
	at := time.Now()
	if n, err := b.store.Expire(ctx, at.Add(-time.Hour)); err != nil || n != 0 {
		t.Errorf("Expire() = %d, %v, want none", n, err)
	}
	if n, err := b.store.Expire(ctx, at.Add(time.Hour)); err != nil || n != 1 {
		t.Errorf("Expire() = %d, %v, want one", n, err)
	}
	_, err := b.store.Thread(ctx, old)
	wantErr(t, "Thread() of the old one", err, persistence.ErrNotFound)
	for _, key := range []persistence.Key{live, typed} {
		if _, err := b.store.Thread(ctx, key); err != nil {
			t.Errorf("Thread() = %v", err)
		}
	}
	_, err = b.store.Expire(ctx, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC))
	wantErr(t, "Expire() in the year 10000", err, persistence.ErrInvalid)
}

// expireUsed: a thread that is used again while others are being deleted stays.
func (s suite) expireUsed(t *testing.T) {
	var store *persistence.Store
	var used persistence.Key
	store = Open(t, s.newURL(t), persistence.Options{OnWrite: func(time.Duration, bool) {
		key := used
		if used = (persistence.Key{}); key.Thread == "" {
			return
		}
		// The first one has just been deleted.
		if _, err := store.AppendMessage(t.Context(), key, text(persistence.RoleUser, "I am back.")); err != nil {
			t.Errorf("AppendMessage() = %v", err)
		}
	}})
	newThread(t, store, "anna")
	again := newThread(t, store, "anna")
	before := time.Now()
	used = again
	if n, err := store.Expire(t.Context(), before); err != nil || n != 1 {
		t.Errorf("Expire() = %d, %v, want one", n, err)
	}
	if got, err := store.Messages(t.Context(), again, 0, 0); err != nil || words(got) != "I am back." {
		t.Errorf("Messages() = %q, %v", words(got), err)
	}
}
