package persistencetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/pictures"
	"voicebridge/persistence/privacy"
	"voicebridge/persistence/queued"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// fill writes many messages at once, behind the store's back.
func fill(t *testing.T, b bundle, amount int) {
	t.Helper()
	if _, err := Apply(t.Context(), b.store, b.key, []persistence.Change{
		putText("first", "one of many", last),
		persistence.PutToolCall{ToolCall: thread.ToolCall{ID: "t", Status: thread.ToolCallDone}},
		persistence.PutResponse{Response: records.Response{ID: "r"}},
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
	must(t, b.store.DeleteThread(t.Context(), b.key))
	wantRows(t, b.url, rowsLeft, "0")
	wantErr(t, "DeleteThread() again", b.store.DeleteThread(t.Context(), b.key), persistence.ErrNotFound)
}

// rowsLeft counts the threads and everything in them: 0 once all is erased.
const rowsLeft = `SELECT (SELECT count(*) FROM threads) + (SELECT count(*) FROM messages) + (SELECT count(*) FROM tool_calls)
	+ (SELECT count(*) FROM responses) + (SELECT count(*) FROM images) + (SELECT count(*) FROM calls) AS n`

// waitForEmpty waits until the sweep has erased everything.
func waitForEmpty(t *testing.T, url string) {
	t.Helper()
	again := time.Tick(20 * time.Millisecond)
	ctx := Within(t)
	for {
		_, rows := table(t, url, rowsLeft)
		if rows[0][0] == "0" {
			return
		}
		select {
		case <-again:
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
	must(t, b.store.Records.SaveCall(t.Context(), b.key, records.Call{ID: "c"}))
	b.enqueue(t, "next")
	must(t, b.store.Queued.Pause(t.Context(), newThread(t, b.store, "anna"), queued.Pause{Reason: "waits"}))
	disown(t, b)
	for what, list := range map[string]func() ([]thread.Key, error){
		"DueQueues":    func() ([]thread.Key, error) { return b.store.Queued.Due(t.Context(), 10) },
		"PausedQueues": func() ([]thread.Key, error) { return b.store.Queued.Paused(t.Context(), "waits") },
	} {
		if keys, err := list(); err != nil || len(keys) != 0 {
			t.Errorf("%s() = %v, %v", what, keys, err)
		}
	}
	wantErr(t, "Thread()", errOf(b.store.Thread(t.Context(), b.key)), persistence.ErrNotFound)
	wantErr(t, "Thread() of nobody", errOf(b.store.Thread(t.Context(), thread.Key{Thread: b.key.Thread})), persistence.ErrNotFound)
	if found, _, err := b.store.Threads(t.Context(), b.key.Owner, persistence.ThreadFilter{Query: "many"}); err != nil || len(found) != 0 {
		t.Errorf("Threads() = %v, %v", found, err)
	}
	for _, view := range []string{"conversation_transcript", "tool_call_log", "call_summary"} {
		wantRows(t, b.url, "SELECT * FROM "+view)
	}
	must(t, b.store.Serve(t.Context()))
	waitForEmpty(t, b.url)
	newThread(t, b.store, "anna")
	disown(t, b)
	must(t, errOf(b.store.Recover(t.Context())))
	waitForEmpty(t, b.url)
}

// eraseServed: a serving process goes on erasing after DeleteThread has returned, and several
// processes share the work.
func (s suite) eraseServed(t *testing.T) {
	b := s.setup(t)
	fill(t, b, 5000)
	must(t, b.store.Serve(t.Context()))
	other := Open(t, b.url, persistence.Options{})
	if err := other.Serve(t.Context()); err != nil && !errors.Is(err, persistence.ErrServed) { // SQLite allows only one
		t.Fatalf("Serve() = %v", err)
	}
	must(t, b.store.DeleteThread(t.Context(), b.key))
	wantErr(t, "Thread()", errOf(b.store.Thread(t.Context(), b.key)), persistence.ErrNotFound)
	waitForEmpty(t, b.url)
}

// eraseForNew: the id of a deleted thread can be used again, even by a stranger, who sees
// nothing of the old one.
func (s suite) eraseForNew(t *testing.T) {
	b := s.setup(t)
	fill(t, b, 50)
	disown(t, b)
	key := thread.Key{Owner: "bert", Thread: b.key.Thread}
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

// eraseEverything: of a thread that had everything, and of what dead processes have left of it, no table keeps a row.
func (s suite) eraseEverything(t *testing.T) {
	b := bundle{url: s.newURL(t)}
	b.store = Open(t, b.url, persistence.Options{})
	ctx := Within(t)
	must(t, b.store.Serve(ctx))
	b.hook(t, "*")
	empty := rowCounts(t, b.url)
	b.key = newThread(t, b.store, "anna")
	answer := text(thread.RoleAssistant, "One")
	answer.ID, answer.Metadata.CallID, answer.Metadata.Status = "m", "c", thread.StatusInProgress
	err := errors.Join(
		b.store.Batch(ctx, b.key, func(w *persistence.Batch) error { return w.ClaimTurn("turn") }),
		b.store.Batch(ctx, b.key, func(w *persistence.Batch) error {
			_, said := w.AppendMessage(text(thread.RoleUser, "Count!"))
			_, answered := w.AppendMessage(answer)
			_, shown := w.Pictures.Save(pictures.Image{MediaType: "image/png", Width: 1, Height: 1, Data: []byte("x")}, 0)
			return errors.Join(said, answered, shown,
				w.SaveDraft(persistence.Draft{MessageID: "m", Start: 3, Text: ", two"}),
				w.Records.SaveToolCall(thread.ToolCall{ID: "t", MessageID: "m", CallID: "c", ToolCallID: "x", Status: thread.ToolCallRunning}),
				w.SaveApproval(thread.Approval{ID: "t", ToolCallID: "x", Nonce: "n", AskedAt: ago, ExpiresAt: ago}),
				w.Records.SaveResponse(records.Response{ID: "r", CallID: "c", Status: "in_progress"}),
				w.Records.SaveCall(records.Call{ID: "c"}),
				w.Records.SaveLeg(records.Leg{CallID: "c", Generation: 1, UpstreamID: "known", HungUpAt: &ago}),
				w.Records.SaveLeg(records.Leg{CallID: "c", Generation: 2, StartedAt: start}), // nobody can hang it up
				w.SaveTextSession(persistence.TextSession{Provider: "openai"}))
		}),
		errOf(b.store.Shares.Share(ctx, b.key)),
		errOf2(b.store.Records.AddDial(ctx, records.Dial{ID: "d", Key: b.key, Line: "l", Number: "+4930111"})),
		b.store.Queued.Pause(ctx, b.key, queued.Pause{Reason: "waits"}))
	must(t, err)
	b.enqueue(t, "next")
	Rows(t, b.url, "INSERT INTO drafts (message_id, start, text) VALUES ('deleted at that moment', 0, 'x')")
	Rows(t, b.url, `INSERT INTO instances (id, host, process, beats, beat_at, started_at)
		VALUES ('killed long ago', '', '', 7, '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z')`)
	Rows(t, b.url, `INSERT INTO commands (id, instance, owner, thread_id, kind, body, created_at, expires_at, reply, error)
		VALUES ('c', 'dead', 'anna', 't', 'call.say', 'words', '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z', '', '')`)
	Rows(t, b.url, `INSERT INTO events (mark, owner, thread_id, type, data, at) VALUES
		('old', 'bert', 't', 'old', '"words"', '2026-01-02T03:04:05.000000Z'),
		('new', 'anna', '`+b.key.Thread+`', 'new', '"words"', '9999-01-02T03:04:05.000000Z')`)
	for name, n := range rowCounts(t, b.url) {
		if n == empty[name] && !slices.Contains([]string{"access_tokens", "goose_db_version", "goose_lock", "rates",
			"shared_secrets", "thread_numbers", "message_numbers", "unindexed_messages", "unnumbered_events", "tool_pins", "assistants", "hooks", "recordings", "mcp_grants", "mcp_sign_ins", "mcp_clients"}, name) {
			t.Errorf("the test leaves nothing in %s", name)
		}
	}
	must(t, b.store.DeleteThread(ctx, b.key))
	again := time.Tick(20 * time.Millisecond)
	for {
		must(t, errOf(b.store.Recover(ctx)))
		left := diff(empty, rowCounts(t, b.url))
		if left == "" {
			return
		}
		select {
		case <-again:
		case <-ctx.Done():
			t.Fatalf("rows are left (-want +got):\n%s", left)
		}
	}
}

// rowCounts counts the rows of every table, without events that are still being read.
func rowCounts(t *testing.T, url string) map[string]string {
	t.Helper()
	tables := "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'message_index%'"
	old := map[string]string{"events": " WHERE data = '\"words\"'"}
	if strings.HasPrefix(url, "postgres:") {
		tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'"
	}
	var counts []string
	for _, row := range Rows(t, url, tables) {
		counts = append(counts, fmt.Sprintf("SELECT '%s', count(*) FROM %[1]s%s", row[0], old[row[0]]))
	}
	all := map[string]string{}
	for _, row := range Rows(t, url, strings.Join(counts, " UNION ALL ")) {
		all[row[0]] = row[1]
	}
	return all
}

func (s suite) expire(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	old, live, typed := b.key, newThread(t, b.store, "anna"), newThread(t, b.store, "bert")
	must(t, b.store.Records.SaveCall(ctx, live, records.Call{ID: "c"}))
	must(t, b.store.Batch(ctx, typed, func(w *persistence.Batch) error { return w.ClaimTurn("t") }))
	at := time.Now()
	if n, err := b.store.Expire(ctx, at, 0); err != nil || n != 0 {
		t.Errorf("Expire() of nothing = %d, %v", n, err)
	}
	if n, err := b.store.Expire(ctx, at.AddDate(0, 0, 10).Add(-time.Hour), 10); err != nil || n != 0 {
		t.Errorf("Expire() = %d, %v, want none", n, err)
	}
	if n, err := b.store.Expire(ctx, at.AddDate(0, 0, 10).Add(time.Hour), 10); err != nil || n != 1 {
		t.Errorf("Expire() = %d, %v, want one", n, err)
	}
	wantErr(t, "Thread() of the old one", errOf(b.store.Thread(ctx, old)), persistence.ErrNotFound)
	for _, key := range []thread.Key{live, typed} {
		if _, err := b.store.Thread(ctx, key); err != nil {
			t.Errorf("Thread() = %v", err)
		}
	}
	wantErr(t, "Expire() in the year 10000", errOf(b.store.Expire(ctx, time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), 1)), persistence.ErrInvalid)
}

// retention: threads of an assistant are kept as long as it says. That of the operator's is not changed by anything;
// that of an owner's is at most the server's, and does not reach into the threads of others who use it.
func (s suite) retention(t *testing.T) {
	url, ctx := s.newURL(t), t.Context()
	store := Open(t, url, persistence.Options{Assistants: []assistant.Assistant{
		{ID: "ever", Name: "Ever", RetentionDays: new(0)}, {ID: "long", Name: "Long", RetentionDays: new(50)}, {ID: "short", Name: "Short", RetentionDays: new(3)},
	}})
	for id, days := range map[string]int{"mine": 5, "mine-long": 40, "mine-ever": 0} {
		must(t, errOf(store.Assistants.Create(ctx, "anna", assistant.Assistant{ID: id, Name: id, RetentionDays: &days}, true)))
	}
	must(t, errOf(store.Assistants.Create(ctx, "dora", assistant.Assistant{ID: "mine-lent", Name: "Dora's", RetentionDays: new(1), Shared: true}, true)))
	must(t, errOf(store.Assistants.Create(ctx, "bert", assistant.Assistant{ID: "mine", Name: "Bert's", RetentionDays: new(8)}, true)))
	names := map[thread.Key]string{}
	for _, owned := range [][2]string{{"anna", ""}, {"anna", "ever"}, {"anna", "long"}, {"anna", "short"}, {"anna", "mine"}, {"bert", "mine"}, {"anna", "mine-long"}, {"anna", "mine-ever"}, {"carl", "mine-lent"}, {"dora", "mine-lent"}} {
		key := newThread(t, store, owned[0])
		ref := assistant.Ref{Owner: owned[0], ID: owned[1]}
		switch {
		case ref.ID == "mine-lent":
			ref.Owner = "dora"
		case !strings.HasPrefix(ref.ID, "mine"):
			ref.Owner = "" // the operator's
		}
		must(t, errOf(store.SetAssistant(ctx, key, ref, nil)))
		names[key] = strings.TrimSpace(owned[0] + " " + owned[1])
	}
	begun := time.Now()
	for _, step := range []struct {
		after, days int
		gone        string // in the order of their names
	}{
		{2, 10, "dora mine-lent"}, {4, 10, "anna short"}, {6, 10, "anna mine"}, {9, 10, "bert mine"}, {30, 0, ""},
		{11, 10, "anna, anna mine-ever, anna mine-long, carl mine-lent"}, {51, 10, "anna long"}, {30_000, 10, ""},
	} {
		n, err := store.Expire(ctx, begun.AddDate(0, 0, step.after).Add(time.Hour), step.days)
		must(t, err)
		var gone []string
		for key, name := range names {
			if _, err := store.Thread(ctx, key); errors.Is(err, persistence.ErrNotFound) {
				gone = append(gone, name)
				delete(names, key)
			}
		}
		slices.Sort(gone)
		if got := strings.Join(gone, ", "); got != step.gone || n != len(gone) {
			t.Errorf("after %d days, of %d: Expire() = %d, gone are %q, want %q", step.after, step.days, n, got, step.gone)
		}
	}
}

// expireUsed: a thread that is used again while others are being deleted stays.
func (s suite) expireUsed(t *testing.T) {
	var store *persistence.Store
	var used thread.Key
	store = Open(t, s.newURL(t), persistence.Options{OnWrite: func(time.Duration, bool) {
		key := used
		if used = (thread.Key{}); key.Thread == "" {
			return
		}
		// The first one has just been deleted.
		if _, err := AppendMessage(t.Context(), store, key, text(thread.RoleUser, "I am back.")); err != nil {
			t.Errorf("AppendMessage() = %v", err)
		}
	}})
	newThread(t, store, "anna")
	again := newThread(t, store, "anna")
	now := time.Now().AddDate(0, 0, 1)
	used = again
	if n, err := store.Expire(t.Context(), now, 1); err != nil || n != 1 {
		t.Errorf("Expire() = %d, %v, want one", n, err)
	}
	if got, err := store.Messages(t.Context(), again, 0, 0); err != nil || words(got) != "I am back." {
		t.Errorf("Messages() = %q, %v", words(got), err)
	}
}

// eraseOwner erases an owner: no table names them any more, whatever column it is in.
func (s suite) eraseOwner(t *testing.T) {
	b := bundle{url: s.newURL(t)}
	b.store = Open(t, b.url, persistence.Options{})
	ctx, owner := Within(t), "anna-who-leaves"
	must(t, b.store.Serve(ctx))
	b.key = newThread(t, b.store, owner)
	kept := newThread(t, b.store, "bert")
	must(t, errOf(b.store.Assistants.Create(ctx, owner, assistant.Assistant{ID: "a", Name: "A", Shared: true}, true)))
	must(t, errOf(b.store.SetAssistant(ctx, kept, assistant.Ref{Owner: owner, ID: "a"}, nil)))
	must(t, b.store.Records.SaveCall(ctx, kept, records.Call{ID: "k", AssistantID: "a", AssistantOwner: owner}))
	must(t, errOf(b.store.Hooks.Add(ctx, hooked.Hook{Owner: owner, URL: "https://h.example/", Events: []string{"*"}, Enabled: true})))
	must(t, b.store.Grants.SaveGrant(ctx, owner, "list of % things", "sealed"))
	must(t, b.store.Admission.PinTools(ctx, "list%20of%20%25 things of "+owner, map[string]string{"t": "{}"}))
	Rows(t, b.url, `INSERT INTO commands (id, instance, owner, thread_id, kind, body, created_at, expires_at, reply, error)
		VALUES ('c', 'dead', '`+owner+`', 't', 'call.say', 'words', '2026-01-02T03:04:05.000000Z', '2026-01-02T03:04:05.000000Z', '', '')`)
	if strings.HasPrefix(b.url, "postgres:") { // of a transaction that has just ended
		Rows(t, b.url, `INSERT INTO unnumbered_events (mark, owner, thread_id, type, data, at)
			VALUES ('m', '`+owner+`', '', 'x', '{}', now())`)
	}
	must(t, privacy.Erase(ctx, owner, privacy.Parts(b.store)))
	columns := "SELECT m.name, c.name FROM sqlite_schema AS m JOIN pragma_table_info(m.name) AS c WHERE m.type = 'table' AND m.name NOT LIKE 'message_index%'"
	if strings.HasPrefix(b.url, "postgres:") {
		columns = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE 'pg_%' AND data_type IN ('text', 'jsonb')"
	}
	for _, c := range Rows(t, b.url, columns) {
		found := Rows(t, b.url, fmt.Sprintf(`SELECT count(*) FROM "%s" WHERE CAST("%s" AS text) LIKE '%%%s%%'`, c[0], c[1], owner))
		testkit.Equal(t, found[0][0], "0", "rows of %s name the owner in %s", c[0], c[1])
	}
}
