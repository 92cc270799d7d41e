package persistencetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

var start = time.Date(2026, 1, 2, 15, 4, 5, 999_000, time.UTC)

func (s suite) records(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	call := records.Call{
		ID: "c", Owner: b.key.Owner, ThreadID: b.key.Thread, Upstream: "openai", UpstreamCallID: "rtc_1", Model: "gpt", Voice: "ash",
		StartedAt: start, ReadyAt: new(start.Add(time.Second)), Turns: 2, Interruptions: 1, Replayed: 20,
		Client: records.ClientPhone, Line: "desk", Caller: "+4930111", Direction: records.Inbound,
	}
	tool := thread.ToolCall{
		ID: "t", MessageID: "m", CallID: "c", ToolCallID: "fc_1", Name: "bar_chart", Executor: "app", Server: "srv",
		Status: thread.ToolCallRunning, Input: `{"broken`, StartedAt: start,
	}
	response := records.Response{
		ID: "r", CallID: "c", MessageID: "m", Upstream: "openai", UpstreamID: "resp_1", Model: "gpt", Status: "in_progress", CreatedAt: start,
	}
	for range 2 { // saving it twice changes nothing
		for what, err := range map[string]error{
			"SaveCall": b.store.Records.SaveCall(ctx, b.key, call), "SaveToolCall": b.store.Records.SaveToolCall(ctx, b.key, tool),
			"SaveResponse": b.store.Records.SaveResponse(ctx, b.key, response),
		} {
			if err != nil {
				t.Fatalf("%s() = %v", what, err)
			}
		}
	}
	live, err := b.store.Records.LiveCall(ctx, b.key)
	call.Instance = b.store.Instance()
	if byID, err := b.store.Records.Call(ctx, "anna", "c"); err != nil || diff(call, byID) != "" {
		t.Errorf("Call() = %+v, %v", byID, err)
	}
	for _, name := range [][2]string{{"bert", "c"}, {"anna", "d"}, {"", "c"}, {"anna", ""}} {
		wantErr(t, fmt.Sprintf("Call(%q)", name), errOf(b.store.Records.Call(ctx, name[0], name[1])), persistence.ErrNotFound)
	}
	if d := diff(call, live); err != nil || d != "" {
		t.Errorf("LiveCall() = %v, differs (-want +got):\n%s", err, d)
	}
	for _, c := range []struct {
		owner, line, caller string
		since               time.Time
		want                string
	}{
		{"anna", "desk", "+4930111", start, b.key.Thread}, {"anna", "desk", "+4930111", time.Now().Add(time.Hour), "not found"},
		{"bert", "desk", "+4930111", start, "not found"}, {"anna", "desk", "+4930222", start, "not found"},
		{"anna", "other", "+4930111", start, "not found"}, {"anna", "", "", start, "not found"},
	} {
		got, err := b.store.Records.LastThreadOf(ctx, c.owner, c.line, c.caller, c.since)
		if errors.Is(err, persistence.ErrNotFound) {
			got = "not found"
		}
		testkit.Equal(t, got, c.want, "the thread of %+v", c)
	}
	if ofLine, ofCaller, err := b.store.Records.LineCalls(ctx, "anna", "desk", "+4930111"); err != nil || ofLine+ofCaller != 0 {
		t.Errorf("%d and %d calls of other processes, %v", ofLine, ofCaller, err)
	}
	wantRows(t, b.url, "SELECT caller, direction FROM call_summary", "+4930111 inbound")
	tool.Status, tool.Output, tool.FinishedAt = thread.ToolCallDone, `{"a":1}`, new(start.Add(time.Second))
	response.Status, response.StatusReason, response.RawUsage = "cancelled", "turn_detected", json.RawMessage(`{"total":3}`)
	response.Upstream = "grok"
	response.Usage = thread.Usage{InputTokens: 1, OutputTokens: 2, CachedTokens: 3, InputAudioTokens: 4, OutputAudioTokens: 5}
	response.CostUSD, response.AnswerMS, response.FirstTokenMS = new(0.25), new(int64(300)), new(int64(200))
	must(t, b.store.Records.SaveToolCall(ctx, b.key, tool))
	must(t, b.store.Records.SaveResponse(ctx, b.key, response))
	wantRows(t, b.url, "SELECT id, message_id, call_id, tool_call_id, name, executor, server, status, input, output, error, instance FROM tool_calls",
		"t m c fc_1 bar_chart app srv done {\"broken {\"a\":1}  "+b.store.Instance())
	wantRows(t, b.url, `SELECT id, kind, call_id, message_id, upstream, upstream_id, model, status, status_reason, input_tokens, output_tokens, cached_tokens,
		input_audio_tokens, output_audio_tokens, cost_usd, answer_ms, first_token_ms, finished_at FROM responses`,
		"r response c m grok resp_1 gpt cancelled turn_detected 1 2 3 4 5 0.25 300 200 NULL")
}

// sessionRecords saves what is known of a session that is billed by its length, in any order.
func (s suite) sessionRecords(t *testing.T) {
	b := s.setup(t)
	save := func(id string, seconds float64, estimated, finished bool) {
		t.Helper()
		r := records.Response{ID: id, Kind: records.KindSession, Status: "in_progress", Estimated: estimated, CreatedAt: start}
		if seconds > 0 {
			r.RawUsage, r.CostUSD = fmt.Appendf(nil, `{"seconds":%v}`, seconds), new(seconds)
		}
		if finished {
			r.Status, r.FinishedAt = "completed", new(start.Add(time.Hour))
		}
		must(t, b.store.Records.SaveResponse(t.Context(), b.key, r))
	}
	for id, seconds := range map[string][]float64{"a": {0, 1e-7, 9.5, 10}, "b": {200, 5}, "c": {10, 0}} {
		for _, n := range seconds {
			save(id, n, false, false)
		}
	}
	save("b", 15, true, true) // a worse estimate
	save("c", 12.5, true, true)
	save("c", 11, false, false) // saved late
	save("d", 30, true, true)
	save("d", 29, false, true) // the session's own word
	save("e", 1, false, true)
	save("e", 2, false, false)
	wantRows(t, b.url, "SELECT id, status, cost_usd, raw_usage ->> 'seconds', CASE WHEN estimated THEN 'estimated' ELSE 'told' END FROM responses ORDER BY id",
		"a in_progress 10 10 told", "b completed 200 200 told", "c completed 12.5 12.5 estimated", "d completed 29 29 told", "e completed 2 2 told")
}

// wantRows compares a query's rows, their cells joined by spaces.
func wantRows(t *testing.T, url, query string, want ...string) {
	t.Helper()
	_, rows := table(t, url, query)
	got := make([]string, 0, len(rows))
	for _, r := range rows {
		got = append(got, strings.Join(r, " "))
	}
	testkit.Equal(t, diff(want, got), "", "%s differs", query)
}

func (s suite) hostileRecords(t *testing.T) {
	b := s.setup(t)
	bad := "a\x00\xff'\"\\u0000"
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		if err := w.Records.SaveToolCall(thread.ToolCall{
			ID: "t", MessageID: bad, CallID: bad, ToolCallID: bad, Name: bad, Executor: bad, Server: bad,
			Status: thread.ToolCallFailed, Input: bad, Output: bad, Error: bad,
		}); err != nil {
			return err
		}
		if err := w.Records.SaveCall(records.Call{ID: "c", Upstream: bad, UpstreamCallID: bad, Model: bad, Voice: bad, EndReason: bad}); err != nil {
			return err
		}
		return w.Records.SaveResponse(records.Response{
			ID: "r", CallID: bad, MessageID: bad, UpstreamID: bad, Model: bad, Status: bad, StatusReason: bad, RawUsage: json.RawMessage(bad),
		})
	})
	must(t, err)
	want := "a\ufffd'\"\\u0000"
	wantRows(t, b.url, "SELECT message_id, input, output, error FROM tool_calls", strings.Join([]string{want, want, want, want}, " "))
	wantRows(t, b.url, "SELECT upstream, end_reason FROM calls", want+" "+want)
	for i, raw := range []string{`5`, `1.5`, `"x"`, `null`, `true`, `[1e999999]`} {
		r := records.Response{ID: fmt.Sprint("raw", i), RawUsage: json.RawMessage(raw)}
		if err := b.store.Records.SaveResponse(t.Context(), b.key, r); err != nil {
			t.Errorf("SaveResponse() with usage %s = %v", raw, err)
		}
	}
	long := strings.Repeat("x", thread.MaxIDBytes+1)
	for what, err := range map[string]error{
		"SaveToolCall() without id":     b.store.Records.SaveToolCall(t.Context(), b.key, thread.ToolCall{Status: thread.ToolCallDone}),
		"SaveToolCall() without status": b.store.Records.SaveToolCall(t.Context(), b.key, thread.ToolCall{ID: "x"}),
		"SaveToolCall() too large": b.store.Records.SaveToolCall(t.Context(), b.key, thread.ToolCall{
			ID: "x", Status: thread.ToolCallDone, Output: strings.Repeat("x", thread.MaxMessageBytes+1),
		}),
		"SaveCall() without id":       b.store.Records.SaveCall(t.Context(), b.key, records.Call{}),
		"SaveCall() with a long id":   b.store.Records.SaveCall(t.Context(), b.key, records.Call{ID: long}),
		"SaveResponse() without id":   b.store.Records.SaveResponse(t.Context(), b.key, records.Response{}),
		"SaveResponse() of long call": b.store.Records.SaveResponse(t.Context(), b.key, records.Response{ID: "x", CallID: long}),
	} {
		wantErr(t, what, err, persistence.ErrInvalid)
	}
	other := newThread(t, b.store, "anna")
	for what, err := range map[string]error{
		"SaveToolCall": b.store.Records.SaveToolCall(t.Context(), other, thread.ToolCall{ID: "t", Status: thread.ToolCallDone}),
		"SaveCall":     b.store.Records.SaveCall(t.Context(), other, records.Call{ID: "c"}),
		"SaveResponse": b.store.Records.SaveResponse(t.Context(), other, records.Response{ID: "r"}),
	} {
		wantErr(t, what+"() with another thread's id", err, persistence.ErrConflict)
	}
}

func (s suite) liveCall(t *testing.T) {
	b := s.setup(t)
	save := func(c records.Call) error { return b.store.Records.SaveCall(t.Context(), b.key, c) }
	live := func() (records.Call, error) { return b.store.Records.LiveCall(t.Context(), b.key) }
	wantErr(t, "LiveCall() before any", errOf(live()), persistence.ErrNotFound)
	call := records.Call{ID: "1", StartedAt: start}
	must(t, save(call))
	wantErr(t, "SaveCall() of a second", save(records.Call{ID: "2"}), persistence.ErrConflict)
	call.UpstreamCallID = "rtc"
	must(t, save(call))
	if got, err := live(); err != nil || got.ID != "1" || got.UpstreamCallID != "rtc" || got.Owner != "anna" || got.ThreadID != b.key.Thread {
		t.Errorf("LiveCall() = %+v, %v", got, err)
	}
	for owner, want := range map[string]map[string]string{"anna": {b.key.Thread: "1"}, "bob": {}} {
		if got, err := b.store.Records.LiveCalls(t.Context(), owner); err != nil || !maps.Equal(got, want) {
			t.Errorf("LiveCalls() of %s = %v, %v, want %v", owner, got, err, want)
		}
	}
	call.EndedAt, call.EndReason = new(start.Add(time.Minute)), "hangup"
	must(t, save(call))
	wantErr(t, "LiveCall() after the end", errOf(live()), persistence.ErrNotFound)
	if got, err := b.store.Records.LiveCalls(t.Context(), "anna"); err != nil || len(got) > 0 {
		t.Errorf("LiveCalls() after the end = %v, %v", got, err)
	}
	// A late write does not bring it back to life, nor change why it ended.
	call.EndedAt, call.EndReason, call.Turns = nil, "late", 3
	must(t, save(call))
	call.EndedAt = new(start.Add(time.Hour))
	must(t, save(call))
	wantErr(t, "LiveCall() after a late write", errOf(live()), persistence.ErrNotFound)
	wantRows(t, b.url, "SELECT end_reason, ended_at, turns FROM call_summary", "hangup 2026-01-02T15:05:05.000999Z 3")
	must(t, save(records.Call{ID: "2"}))
	// Each call has its own cost, in the list of a thread's calls.
	for id, cost := range map[string]*float64{"r1": new(0.1), "r2": new(0.2), "r3": nil} {
		must(t, b.store.Records.SaveResponse(t.Context(), b.key, records.Response{ID: id, Kind: records.KindResponse, CallID: call.ID, CostUSD: cost, CreatedAt: start}))
	}
	calls, err := b.store.Records.Calls(t.Context(), b.key)
	if err != nil || len(calls) != 2 || calls[0].CostUSD == nil || *calls[0].CostUSD != 0.3 || calls[1].CostUSD != nil {
		t.Errorf("Calls() = %+v, %v, want one for 0.3 dollars and one whose price is unknown", calls, err)
	}
}

// strangers tries every method on a thread of another owner and on a missing one: the
// answers are the same, and nothing changes.
func (s suite) strangers(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	m := b.append(t, text(thread.RoleUser, "mine"))
	must(t, b.store.Records.SaveCall(ctx, b.key, records.Call{ID: "c"}))
	own := newThread(t, b.store, "bert")
	for name, key := range map[string]thread.Key{
		"a stranger's": {Owner: "bert", Thread: b.key.Thread},
		"no owner's":   {Thread: b.key.Thread},
		"no":           {Owner: "anna", Thread: "nothing"},
		"an empty":     {Owner: "anna"},
		"a strange":    {Owner: "anna", Thread: "\x00\xff"},
		"a wild":       {Owner: "%", Thread: b.key.Thread},
	} {
		n := text(thread.RoleUser, "theirs")
		changed := m
		changed.Parts = n.Parts
		for what, err := range map[string]error{
			"Thread":                errOf(b.store.Thread(ctx, key)),
			"RenameThread":          errOf(b.store.RenameThread(ctx, key, "x")),
			"DeleteThread":          b.store.DeleteThread(ctx, key),
			"ResetThread":           b.store.ResetThread(ctx, key),
			"AppendMessage":         errOf(AppendMessage(ctx, b.store, key, n)),
			"InsertMessage first":   errOf(InsertMessage(ctx, b.store, key, n, "")),
			"InsertMessage after":   errOf(InsertMessage(ctx, b.store, key, n, m.ID)),
			"UpdateMessage":         errOf(UpdateMessage(ctx, b.store, key, changed)),
			"Message":               errOf(b.store.Message(ctx, key, m.ID)),
			"Messages":              errOf(b.store.Messages(ctx, key, 0, 0)),
			"LastSeq":               errOf(b.store.LastSeq(ctx, key)),
			"Replay":                errOf(b.store.Replay(ctx, key, 20)),
			"Instructions":          errOf(b.store.Instructions(ctx, key, 100, 20)),
			"SaveToolCall":          b.store.Records.SaveToolCall(ctx, key, thread.ToolCall{ID: "t", Status: thread.ToolCallDone}),
			"SaveCall":              b.store.Records.SaveCall(ctx, key, records.Call{ID: "new"}),
			"SaveCall of the owner": b.store.Records.SaveCall(ctx, key, records.Call{ID: "c", EndReason: "theirs"}),
			"SaveResponse":          b.store.Records.SaveResponse(ctx, key, records.Response{ID: "r"}),
			"LiveCall":              errOf(b.store.Records.LiveCall(ctx, key)),
			"Batch": b.store.Batch(ctx, key, func(w *persistence.Batch) error {
				return errOf(w.AppendMessage(n))
			}),
		} {
			wantErr(t, fmt.Sprintf("%s() of %s thread", what, name), err, persistence.ErrNotFound)
		}
		for e, err := range b.store.Watch(key).Events(ctx, 0) {
			wantErr(t, "Watch() of "+name+" thread", err, persistence.ErrNotFound)
			if e.Data != nil {
				t.Errorf("Watch() of %s thread gives %s", name, e.Data)
			}
		}
	}
	// The key of one's own thread gives no access to another thread.
	wantErr(t, "Message() of another thread", errOf(b.store.Message(ctx, own, m.ID)), persistence.ErrNotFound)
	wantErr(t, "InsertMessage() after a stranger's", errOf(InsertMessage(ctx, b.store, own, text(thread.RoleUser, "x"), m.ID)), persistence.ErrNotFound)
	wantErr(t, "UpdateMessage() of a stranger's", errOf(UpdateMessage(ctx, b.store, own, m)), persistence.ErrNotFound)
	wantErr(t, "SaveCall() of a stranger's", b.store.Records.SaveCall(ctx, own, records.Call{ID: "c"}), persistence.ErrConflict)
	if threads, _, err := b.store.Threads(ctx, "bert", persistence.ThreadFilter{Query: "mine"}); err != nil || len(threads) != 0 {
		t.Errorf("Threads() of a stranger = %v, %v", threads, err)
	}
	testkit.Equal(t, words(b.all(t)), "mine", "the thread is")
	wantRows(t, b.url, "SELECT id, end_reason FROM calls", "c ")
	wantRows(t, b.url, "SELECT (SELECT count(*) FROM tool_calls) + (SELECT count(*) FROM responses) AS n", "0")
}
