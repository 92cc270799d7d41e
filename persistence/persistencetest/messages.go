package persistencetest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// full is a message with everything in it.
func full() thread.Message {
	done := thread.ToolPart("bar_chart")
	done.ToolCallID, done.State = "t1", thread.ToolOutputAvailable
	done.Input, done.Output = json.RawMessage(`{"b":1,"a":[1,2.50]}`), json.RawMessage(`"text <&>"`)
	failed := thread.DynamicToolPart("srv_search")
	failed.ToolCallID, failed.State, failed.ErrorText = "t2", thread.ToolOutputError, "no\nluck"
	failed.Input = json.RawMessage(`{}`)
	waiting := thread.ToolPart("x")
	waiting.ToolCallID, waiting.State = "t3", thread.ToolInputAvailable
	waiting.Raw = json.RawMessage(`{"type":"tool-x","toolCallId":"t3","state":"input-available","title":"kept"}`)
	return thread.Message{
		ID: "m1", Role: thread.RoleAssistant,
		Parts: []thread.Part{
			thread.StepStart(), thread.TextPart("let me see"), done, failed, waiting, thread.StepStart(),
			{Type: "data-weather", Raw: json.RawMessage(`{"type":"data-weather","id":"7","data":{"c":-3}}`)},
			thread.TextPart("there you are"),
		},
		Metadata: thread.Metadata{
			Source: thread.SourceVoice, Status: thread.StatusInterrupted, CallID: "c1", Model: "gpt", Voice: "ash",
			CreatedAt: time.Date(2026, 1, 2, 15, 4, 5, 6000, time.UTC), Usage: json.RawMessage(`{"total_tokens":7}`),
			LatencyMS: map[string]int64{"first_audio": 250}, HeardText: new("let"), AudioEndMS: new(int64(420)), ItemID: "item_1",
			Extra: map[string]json.RawMessage{"mine": json.RawMessage(`{"x":[null]}`)},
		},
	}
}

func (s suite) messages(t *testing.T) {
	b := s.setup(t)
	want := full()
	saved := b.append(t, want)
	want.Seq, want.Revision, want.Metadata.Seq = 1, 1, 1
	testkit.Equal(t, diff(want, saved), "", "AppendMessage() differs")
	got, err := b.store.Message(t.Context(), b.key, "m1")
	if d := diff(want, got); err != nil || d != "" {
		t.Errorf("Message() = %v, differs (-want +got):\n%s", err, d)
	}
	testkit.Equal(t, diff([]thread.Message{want}, b.all(t)), "", "Messages() differs")
	// The wire format is stable: what a client read can be saved again.
	wire, err := json.Marshal(got)
	must(t, err)
	var back thread.Message
	must(t, json.Unmarshal(wire, &back))
	back.Seq, back.Revision = got.Seq, got.Revision
	testkit.Equal(t, diff(got, back), "", "a message changes on the wire")
	wantErr(t, "AppendMessage() with a taken id", errOf(AppendMessage(t.Context(), b.store, b.key, want)), persistence.ErrConflict)
	if seq, err := b.store.LastSeq(t.Context(), b.key); err != nil || seq != 1 {
		t.Errorf("LastSeq() after a refused message = %d, %v, want 1", seq, err)
	}
}

func (s suite) messageDefaults(t *testing.T) {
	b := s.setup(t)
	before := time.Now().Truncate(time.Microsecond)
	m := b.append(t, thread.Message{Role: thread.RoleSystem})
	if m.ID == "" || m.Metadata.CreatedAt.Before(before) || m.Metadata.CreatedAt.After(time.Now()) {
		t.Errorf("AppendMessage() = %+v, want an id and a time", m)
	}
	if m.Metadata.Source != thread.SourceText || m.Metadata.Status != thread.StatusCompleted {
		t.Errorf("AppendMessage() has source %q and status %q", m.Metadata.Source, m.Metadata.Status)
	}
	wire, err := json.Marshal(m)
	if err != nil || !bytes.Contains(wire, []byte(`"parts":[]`)) || !bytes.Contains(wire, []byte(`"seq":1`)) {
		t.Errorf("Marshal() = %s, %v", wire, err)
	}
}

func (s suite) hostileMessages(t *testing.T) {
	b := s.setup(t)
	for name, c := range map[string]struct{ text, want string }{
		"NUL":           {"a\x00b", "ab"},
		"emoji":         {"👩‍👩‍👧 \U0010ffff", "👩‍👩‍👧 \U0010ffff"},
		"invalid UTF-8": {"a\xff\xfe\xc3(", "a\ufffd\ufffd("},
		"SQL":           {`'; DROP TABLE messages; -- "`, `'; DROP TABLE messages; -- "`},
		"escapes":       {`\u0000 \ud800 "\`, `\u0000 \ud800 "\`},
		"HTML":          {"<script>&\u2028", "<script>&\u2028"},
		"control":       {"\x01\x1f\x7f\r\n\t", "\x01\x1f\x7f\r\n\t"},
		"256 KB":        {strings.Repeat("ü", 1<<17), strings.Repeat("ü", 1<<17)},
	} {
		saved := b.append(t, text(thread.RoleUser, c.text))
		got, err := b.store.Message(t.Context(), b.key, saved.ID)
		if err != nil {
			t.Fatalf("%s: Message() = %v", name, err)
		}
		if c.text != c.want && name == "invalid UTF-8" {
			c.want = got.Text() // the number of replacement characters is not promised
			if !utf8.ValidString(c.want) || !strings.HasPrefix(c.want, "a\ufffd") || !strings.HasSuffix(c.want, "(") {
				t.Errorf("%s: Message() has %q", name, c.want)
			}
		}
		if got.Text() != c.want || saved.Text() != c.want {
			t.Errorf("%s: Message() has %.50q, want %.50q", name, got.Text(), c.want)
		}
	}
	for name, c := range map[string]struct{ json, want string }{
		"escaped NUL":      {`{"a\u0000":"b\u0000c\\u0000"}`, `{"a":"bc\\u0000"}`},
		"half a surrogate": {`["\ud800","\udc00x","\ud83d\ude00","\ud800\ud800"]`, `["\ufffd","\ufffdx","😀","\ufffd\ufffd"]`},
		"huge number":      {`[1e999999,-1E+400,1e-999999,12.50]`, `["1e999999","-1E+400","1e-999999",12.50]`},
		"deep":             {strings.Repeat("[", 5000) + strings.Repeat("]", 5000), `"` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `"`},
		"not JSON":         {`{"a": nope`, `"{\"a\": nope"`},
		"null":             {`null`, `null`},
	} {
		p := thread.ToolPart("x")
		p.ToolCallID, p.State, p.Input = "t", thread.ToolInputAvailable, json.RawMessage(c.json)
		saved := b.append(t, thread.Message{Role: thread.RoleAssistant, Parts: []thread.Part{p}})
		testkit.Equal(t, diff(json.RawMessage(c.want), saved.Parts[0].Input), "", "%s: the input differs", name)
	}
	// Metadata and ids from elsewhere can be just as hostile.
	m := text(thread.RoleUser, "x")
	m.Metadata.CallID, m.Metadata.Model, m.Metadata.HeardText = "c\x00\xff", "m\x00", new("h\x00")
	m.Metadata.Extra = map[string]json.RawMessage{"k\x00": json.RawMessage(`"\u0000"`), "bad": json.RawMessage(`{`)}
	if got := b.append(t, m).Metadata; got.CallID != "c\ufffd" || got.Model != "m" || *got.HeardText != "h" || len(got.Extra) != 2 {
		t.Errorf("AppendMessage() has metadata %+v", got)
	}
}

func (s suite) refusedMessages(t *testing.T) {
	b := s.setup(t)
	tool := func(change func(*thread.Part)) []thread.Part {
		p := thread.DynamicToolPart("x")
		p.ToolCallID, p.State = "t", thread.ToolInputAvailable
		change(&p)
		return []thread.Part{p}
	}
	for name, change := range map[string]func(*thread.Message){
		"role":    func(m *thread.Message) { m.Role = "tool" },
		"source":  func(m *thread.Message) { m.Metadata.Source = "smell" },
		"status":  func(m *thread.Message) { m.Metadata.Status = "done" },
		"call id": func(m *thread.Message) { m.Metadata.CallID = strings.Repeat("x", thread.MaxIDBytes+1) },
		"heard text": func(m *thread.Message) {
			m.Metadata.HeardText = new(strings.Repeat("x", thread.MaxMessageBytes+1))
		},
		"year":          func(m *thread.Message) { m.Metadata.CreatedAt = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC) },
		"too large":     func(m *thread.Message) { m.Parts[0].Text = strings.Repeat("x", thread.MaxMessageBytes) },
		"too many":      func(m *thread.Message) { m.Parts = make([]thread.Part, thread.MaxParts+1) },
		"no type":       func(m *thread.Message) { m.Parts[0].Type = "" },
		"odd type":      func(m *thread.Message) { m.Parts[0].Type = "\x00" },
		"long type":     func(m *thread.Message) { m.Parts[0].Type = strings.Repeat("x", 301) },
		"no tool call":  func(m *thread.Message) { m.Parts = tool(func(p *thread.Part) { p.ToolCallID = "" }) },
		"no tool state": func(m *thread.Message) { m.Parts = tool(func(p *thread.Part) { p.State = "" }) },
		"no tool name":  func(m *thread.Message) { m.Parts = tool(func(p *thread.Part) { p.ToolName = "" }) },
		"raw part":      func(m *thread.Message) { m.Parts[0].Raw = json.RawMessage(`[1]`) },
		"deep part": func(m *thread.Message) {
			m.Parts[0].Raw = json.RawMessage(`{"x":` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`)
		},
		"large metadata": func(m *thread.Message) {
			m.Metadata.Extra = map[string]json.RawMessage{"x": json.RawMessage(`"` + strings.Repeat("x", 300<<10) + `"`)}
		},
	} {
		m := text(thread.RoleUser, "x")
		change(&m)
		wantErr(t, "AppendMessage() with bad "+name, errOf(AppendMessage(t.Context(), b.store, b.key, m)), persistence.ErrInvalid)
	}
	wantErr(t, "InsertMessage() with a bad role", errOf(InsertMessage(t.Context(), b.store, b.key, text("tool", "x"), "")), persistence.ErrInvalid) // it checks the same
	for _, id := range []string{"a\x00", "\xff", strings.Repeat("x", thread.MaxIDBytes+1)} {
		m := text(thread.RoleUser, "x")
		m.ID = id
		wantErr(t, fmt.Sprintf("AppendMessage() with id %.9q", id), errOf(AppendMessage(t.Context(), b.store, b.key, m)), persistence.ErrInvalid)
		wantErr(t, fmt.Sprintf("Message(%.9q)", id), errOf(b.store.Message(t.Context(), b.key, id)), persistence.ErrNotFound)
	}
	for _, limit := range []int{-1, 1001} {
		wantErr(t, fmt.Sprintf("Messages() with limit %d", limit), errOf(b.store.Messages(t.Context(), b.key, 0, limit)), persistence.ErrInvalid)
		wantErr(t, fmt.Sprintf("Instructions(%d)", limit), errOf(b.store.Instructions(t.Context(), b.key, 1, limit)), persistence.ErrInvalid)
	}
	for _, limit := range []int{-1, persistence.MaxReplay + 1} {
		wantErr(t, fmt.Sprintf("Replay(%d)", limit), errOf(b.store.Replay(t.Context(), b.key, limit)), persistence.ErrInvalid)
	}
	if got := b.all(t); len(got) != 0 {
		t.Errorf("refused messages were saved: %v", got)
	}
}

func (s suite) insert(t *testing.T) {
	b := s.setup(t)
	first := b.insert(t, text(thread.RoleUser, "b"), "") // into an empty thread
	last := b.append(t, text(thread.RoleUser, "d"))
	b.insert(t, text(thread.RoleUser, "c"), first.ID)
	b.insert(t, text(thread.RoleUser, "a"), "")
	end := b.insert(t, text(thread.RoleUser, "e"), last.ID) // nothing follows, so it is appended
	if got := words(b.all(t)); got != "a b c d e" {
		t.Fatalf("the order is %s, want a b c d e", got)
	}
	if seq, err := b.store.LastSeq(t.Context(), b.key); err != nil || seq != end.Seq || end.Seq != end.Revision {
		t.Errorf("LastSeq() = %d, %v after an append of %d (%d)", seq, err, end.Seq, end.Revision)
	}
	// A reader who has everything gets the moved messages once more, and nothing else.
	b.insert(t, text(thread.RoleUser, "d2"), last.ID)
	after, err := b.store.Messages(t.Context(), b.key, end.Seq, 0)
	if err != nil || words(after) != "d2 e" {
		t.Errorf("Messages() after the last = %s, %v, want d2 e", words(after), err)
	}
	for _, m := range b.all(t) {
		testkit.Equal(t, m.Metadata.Seq, m.Seq, "message %s has in its metadata and beside it", m.Text())
	}
	wantErr(t, "InsertMessage() after nobody", errOf(InsertMessage(t.Context(), b.store, b.key, text(thread.RoleUser, "x"), "nobody")), persistence.ErrNotFound)
	elsewhere := newThread(t, b.store, "anna")
	wantErr(t, "InsertMessage() after another thread's", errOf(InsertMessage(t.Context(), b.store, elsewhere, text(thread.RoleUser, "x"), first.ID)), persistence.ErrNotFound)
	testkit.Equal(t, words(b.all(t)), "a b c d d2 e", "the order is after refused inserts")
}

func (s suite) insertAndReset(t *testing.T) {
	b := s.setup(t)
	old1 := b.append(t, text(thread.RoleUser, "old1"))
	old2 := b.append(t, text(thread.RoleUser, "old2"))
	must(t, b.store.ResetThread(t.Context(), b.key))
	b.insert(t, text(thread.RoleUser, "late"), old1.ID)
	new1 := b.append(t, text(thread.RoleUser, "new1"))
	b.append(t, text(thread.RoleUser, "new2"))
	b.insert(t, text(thread.RoleUser, "new1b"), new1.ID)
	b.insert(t, text(thread.RoleUser, "later"), old1.ID)
	b.insert(t, text(thread.RoleUser, "new0"), old2.ID) // between: with what follows
	b.insert(t, text(thread.RoleUser, "first"), "")
	testkit.Equal(t, words(b.all(t)), "first old1 later late old2 new0 new1 new1b new2", "the order")
	replay, err := b.store.Replay(t.Context(), b.key, 20)
	if err != nil || words(replay) != "new0 new1 new1b new2" {
		t.Errorf("Replay() = %s, %v, want new0 new1 new1b new2", words(replay), err)
	}
}

func (s suite) instructions(t *testing.T) {
	b := s.setup(t)
	old := b.append(t, text(thread.RoleSystem, "old"))
	b.append(t, text(thread.RoleUser, "bye"))
	must(t, b.store.ResetThread(t.Context(), b.key))
	b.append(t, text(thread.RoleSystem, "a"))
	b.append(t, text(thread.RoleUser, "hi"))
	b.append(t, text(thread.RoleSystem, "b"))
	b.append(t, text(thread.RoleAssistant, "hello"))
	c := b.append(t, text(thread.RoleSystem, "c"))
	b.insert(t, text(thread.RoleSystem, "late"), old.ID) // into the context before
	c, err := b.store.Message(t.Context(), b.key, c.ID)  // which has moved
	must(t, err)
	for _, w := range []struct {
		before int64
		n      int
		want   string
	}{{c.Seq + 1, 20, "a b c"}, {c.Seq + 1, 2, "b c"}, {c.Seq, 20, "a b"}, {0, 20, ""}, {c.Seq + 1, 0, ""}} {
		got, err := b.store.Instructions(t.Context(), b.key, w.before, w.n)
		if err != nil || words(got) != w.want {
			t.Errorf("Instructions(%d, %d) = %s, %v, want %s", w.before, w.n, words(got), err, w.want)
		}
	}
}

func (s suite) concurrentAppends(t *testing.T) {
	b := s.setup(t)
	const writers, each = 16, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if _, err := AppendMessage(t.Context(), b.store, b.key, text(thread.RoleUser, fmt.Sprintf("%d-%d", w, i))); err != nil {
					t.Errorf("AppendMessage() = %v", err)
				}
			}
		})
	}
	wg.Wait()
	next := make([]int, writers)
	for i, m := range b.all(t) {
		var w, n int
		if _, err := fmt.Sscanf(m.Text(), "%d-%d", &w, &n); err != nil || next[w] != n || m.Seq != int64(i+1) {
			t.Fatalf("message %d is %q with number %d, want writer %d's number %d", i, m.Text(), m.Seq, w, next[w])
		}
		next[w]++
	}
	for w, n := range next {
		testkit.Equal(t, n, each, "writer %d has messages", w)
	}
}

// concurrentInserts grows a chain from many sides: each message goes right after one that
// its writer knows, so the order among one writer's messages is certain.
func (s suite) concurrentInserts(t *testing.T) {
	b := s.setup(t)
	root := b.append(t, text(thread.RoleUser, "root"))
	end := b.append(t, text(thread.RoleUser, "end"))
	const writers, each = 16, 5
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			prev := root.ID
			for i := range each {
				m, err := InsertMessage(t.Context(), b.store, b.key, text(thread.RoleUser, fmt.Sprintf("%d-%d", w, i)), prev)
				if err != nil {
					t.Errorf("InsertMessage() = %v", err)
					return
				}
				prev = m.ID
			}
		})
	}
	wg.Wait()
	all := b.all(t)
	if len(all) != writers*each+2 || all[0].ID != root.ID || all[len(all)-1].ID != end.ID {
		t.Fatalf("the thread is %s", words(all))
	}
	next := make([]int, writers)
	for _, m := range all[1 : len(all)-1] {
		var w, n int
		if _, err := fmt.Sscanf(m.Text(), "%d-%d", &w, &n); err != nil || next[w] != n {
			t.Fatalf("%q comes where writer %d's number %d should: %s", m.Text(), w, next[w], words(all))
		}
		next[w]++
	}
}

func (s suite) update(t *testing.T) {
	b := s.setup(t)
	m := full()
	m.Metadata.Status = thread.StatusInProgress
	m = b.append(t, m)
	next := b.append(t, text(thread.RoleUser, "next"))
	changed := thread.Message{
		ID: m.ID, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("final")},
		Metadata: thread.Metadata{
			Source: thread.SourceVoice, Status: thread.StatusCompleted, Model: "other",
			CreatedAt: time.Date(1999, 1, 1, 0, 0, 0, 0, time.UTC),
		},
	}
	got, err := UpdateMessage(t.Context(), b.store, b.key, changed)
	must(t, err)
	want := changed
	want.Role, want.Seq, want.Revision, want.Metadata.Seq = m.Role, m.Seq, next.Seq+1, m.Seq
	want.Metadata.CreatedAt = m.Metadata.CreatedAt
	testkit.Equal(t, diff(want, got), "", "UpdateMessage() differs")
	testkit.Equal(t, words(b.all(t)), "final next", "the order")
	for _, id := range []string{"nobody", ""} {
		changed.ID = id
		wantErr(t, fmt.Sprintf("UpdateMessage() of %q", id), errOf(UpdateMessage(t.Context(), b.store, b.key, changed)), persistence.ErrNotFound)
	}
	changed.ID = next.ID
	wantErr(t, "UpdateMessage() in another thread", errOf(UpdateMessage(t.Context(), b.store, newThread(t, b.store, "anna"), changed)), persistence.ErrNotFound)
	if seq, err := b.store.LastSeq(t.Context(), b.key); err != nil || seq != got.Revision {
		t.Errorf("LastSeq() = %d, %v, want %d", seq, err, got.Revision)
	}
}

func (s suite) replay(t *testing.T) {
	b := s.setup(t)
	for i := range 25 {
		b.append(t, text(thread.RoleUser, fmt.Sprint(i)))
	}
	open := text(thread.RoleAssistant, "open")
	open.Metadata.Status = thread.StatusInProgress
	b.append(t, open)
	failed := text(thread.RoleUser, "failed")
	failed.Metadata.Status = thread.StatusFailed
	b.append(t, failed)
	for n, want := range map[int]string{0: "", 1: "failed", 4: "22 23 24 failed"} {
		got, err := b.store.Replay(t.Context(), b.key, n)
		if err != nil || words(got) != want {
			t.Errorf("Replay(%d) = %s, %v, want %s", n, words(got), err, want)
		}
	}
	if got, err := b.store.Replay(t.Context(), b.key, 1000); err != nil || len(got) != 26 {
		t.Errorf("Replay(1000) = %d messages, %v, want 26", len(got), err)
	}
	must(t, b.store.ResetThread(t.Context(), b.key))
	if got, err := b.store.Replay(t.Context(), b.key, 20); err != nil || len(got) != 0 {
		t.Errorf("Replay() after the reset = %s, %v", words(got), err)
	}
	if got := b.all(t); len(got) != 27 {
		t.Errorf("%d messages after the reset, want 27", len(got))
	}
	b.append(t, text(thread.RoleUser, "fresh"))
	if got, err := b.store.Replay(t.Context(), b.key, 20); err != nil || words(got) != "fresh" {
		t.Errorf("Replay() = %s, %v, want fresh", words(got), err)
	}
}

func (s suite) oddTimeZones(t *testing.T) {
	b := s.setup(t)
	at := time.Date(2026, 3, 1, 0, 10, 0, 123456789, time.FixedZone("odd", -(3*60*60+30*60)))
	want := time.Date(2026, 3, 1, 3, 40, 0, 123456000, time.UTC)
	m := text(thread.RoleUser, "x")
	m.Metadata.CreatedAt = at
	saved := b.append(t, m)
	got, err := b.store.Message(t.Context(), b.key, saved.ID)
	if err != nil || got.Metadata.CreatedAt != want || saved.Metadata.CreatedAt != want {
		t.Errorf("Message() was created at %v, %v, want %v", got.Metadata.CreatedAt, err, want)
	}
	c := records.Call{ID: "c", StartedAt: at, ReadyAt: new(at.Add(time.Second))}
	must(t, b.store.Records.SaveCall(t.Context(), b.key, c))
	live, err := b.store.Records.LiveCall(t.Context(), b.key)
	if err != nil || live.StartedAt != want || *live.ReadyAt != want.Add(time.Second) {
		t.Errorf("LiveCall() started %v, was ready %v, %v", live.StartedAt, live.ReadyAt, err)
	}
}
