package persistencetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
)

func wantColumns(t *testing.T, url, view, want string) {
	t.Helper()
	columns, _ := table(t, url, "SELECT * FROM "+view)
	if got := strings.Join(columns, " "); got != want {
		t.Errorf("%s has the columns %s, want %s", view, got, want)
	}
}

func (s suite) transcriptView(t *testing.T) {
	b := s.setup(t)
	at := start
	say := func(role persistence.Role, status persistence.Status, parts ...persistence.Part) {
		m := persistence.Message{Role: role, Parts: parts}
		m.Metadata.Source, m.Metadata.Status, m.Metadata.CreatedAt = persistence.SourceVoice, status, at
		m.Metadata.HeardText = new("heard")
		at = at.Add(time.Second)
		b.append(t, m)
	}
	call := persistence.ToolPart("x")
	call.ToolCallID, call.State = "t", persistence.ToolInputAvailable
	say(persistence.RoleUser, persistence.StatusFailed)
	say(persistence.RoleAssistant, persistence.StatusCompleted, persistence.StepStart(), call) // only a tool call: not shown
	say(persistence.RoleAssistant, persistence.StatusInterrupted, persistence.TextPart("all of"), call, persistence.TextPart("the answer"))
	say(persistence.RoleAssistant, persistence.StatusInProgress)
	other := newThread(t, b.store, "anna")
	if _, err := b.store.AppendMessage(t.Context(), other, text(persistence.RoleUser, "typed")); err != nil {
		t.Fatalf("AppendMessage() = %v", err)
	}
	wantColumns(t, b.url, "conversation_transcript", "thread title position said_at source role status text")
	id := b.key.Thread
	wantRows(t, b.url, fmt.Sprintf("SELECT * FROM conversation_transcript WHERE thread = '%s'", id),
		id+" a title 1 2026-01-02T15:04:05.000999Z voice user failed ",
		id+" a title 2 2026-01-02T15:04:07.000999Z voice assistant interrupted all of\nthe answer",
		id+" a title 3 2026-01-02T15:04:08.000999Z voice assistant in_progress ")
	wantRows(t, b.url, fmt.Sprintf("SELECT position, source, text FROM conversation_transcript WHERE thread = '%s'", other.Thread), "1 text typed")
}

func (s suite) toolCallView(t *testing.T) {
	b := s.setup(t)
	for i, c := range []persistence.ToolCall{
		{Name: "a", Executor: "app", Status: persistence.ToolCallDone, Input: "{}", Output: "1", FinishedAt: new(start.Add(time.Minute + 1_999_999))},
		{Name: "b", Executor: "mcp", Server: "srv", Status: persistence.ToolCallFailed, Error: "no", FinishedAt: new(start.Add(999_001 * time.Nanosecond))},
		{Name: "c", Executor: "client", Status: persistence.ToolCallRunning},
	} {
		c.ID, c.StartedAt = fmt.Sprint(i), start
		if err := b.store.SaveToolCall(t.Context(), b.key, c); err != nil {
			t.Fatalf("SaveToolCall() = %v", err)
		}
	}
	wantColumns(t, b.url, "tool_call_log", "thread name executor server status duration_ms input output error")
	id := b.key.Thread
	wantRows(t, b.url, "SELECT * FROM tool_call_log",
		id+" a app  done 60001 {} 1 ", id+" b mcp srv failed 0   no", id+" c client  running NULL   ")
}

func (s suite) callSummaryView(t *testing.T) {
	b := s.setup(t)
	other := newThread(t, b.store, "anna")
	save := func(key persistence.Key, call string, ended *time.Time, responses ...persistence.ResponseRecord) {
		err := b.store.Batch(t.Context(), key, func(w *persistence.Batch) error {
			for i, r := range responses {
				r.ID, r.CallID = fmt.Sprint(call, i), call
				if err := w.SaveResponse(r); err != nil {
					return err
				}
			}
			return w.SaveCall(persistence.CallRecord{
				ID: call, StartedAt: start.Add(time.Duration(call[0]) * time.Second), EndedAt: ended, EndReason: "hangup", Turns: 3, Interruptions: 1,
			})
		})
		if err != nil {
			t.Fatalf("Batch() = %v", err)
		}
	}
	answer := func(ms int64) persistence.ResponseRecord {
		return persistence.ResponseRecord{AnswerMS: &ms, CostUSD: new(0.1), Usage: persistence.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 7}}
	}
	silent := persistence.ResponseRecord{Usage: persistence.Usage{InputTokens: 1}}
	end := start.Add(time.Hour)
	save(b.key, "1", &end, answer(900), answer(100), answer(300), silent)
	save(b.key, "2", &end, answer(100), answer(201))
	save(b.key, "3", &end, silent)
	save(b.key, "4", nil)
	save(other, "5", nil, answer(7)) // of another thread: counted there
	if err := b.store.SaveResponse(t.Context(), b.key, answer(7)); err == nil {
		t.Error("SaveResponse() without an id = nil")
	}
	wantColumns(t, b.url, "call_summary", "thread started_at ended_at end_reason turns interruptions tokens cost_usd answer_p50_ms")
	id := b.key.Thread
	const ended = "2026-01-02T16:04:05.000999Z hangup 3 1 "
	wantRows(t, b.url, "SELECT * FROM call_summary",
		id+" 2026-01-02T15:04:54.000999Z "+ended+"46 0.3 300",
		id+" 2026-01-02T15:04:55.000999Z "+ended+"30 0.2 151",
		id+" 2026-01-02T15:04:56.000999Z "+ended+"1 NULL NULL",
		id+" 2026-01-02T15:04:57.000999Z NULL hangup 3 1 0 NULL NULL",
		other.Thread+" 2026-01-02T15:04:58.000999Z NULL hangup 3 1 15 0.1 7")
}
