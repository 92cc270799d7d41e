package persistencetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

func wantColumns(t *testing.T, url, view, want string) {
	t.Helper()
	columns, _ := table(t, url, "SELECT * FROM "+view)
	testkit.Equal(t, strings.Join(columns, " "), want, "%s has the columns", view)
}

func (s suite) transcriptView(t *testing.T) {
	b := s.setup(t)
	at := start
	say := func(id string, role thread.Role, status thread.Status, parts ...thread.Part) {
		m := thread.Message{ID: id, Role: role, Parts: parts}
		m.Metadata.Source, m.Metadata.Status, m.Metadata.CreatedAt, m.Metadata.CallID = thread.SourceVoice, status, at, "c"
		m.Metadata.HeardText = new("all of\nthe")
		at = at.Add(time.Second)
		b.append(t, m)
	}
	tool := func(name string, state thread.ToolState, output, raw string) thread.Part {
		p := thread.ToolPart(name)
		p.ToolCallID, p.State, p.Output = "t", state, json.RawMessage(output)
		if raw != "" {
			p.Raw = json.RawMessage(raw)
		}
		return p
	}
	mcp := thread.DynamicToolPart("srv__x")
	mcp.ToolCallID, mcp.State, mcp.ErrorText = "t", thread.ToolOutputError, "no way"
	own := func(result string) string {
		data, err := json.Marshal(map[string]any{"callProviderMetadata": map[string]any{"voicebridge": map[string]any{"result": result}}})
		must(t, err)
		return string(data)
	}
	say("1", thread.RoleUser, thread.StatusFailed)
	say("2", thread.RoleAssistant, thread.StatusCompleted, thread.StepStart(),
		tool("bar_chart", thread.ToolOutputAvailable, `{"chartId":"x","message":"Created \"it\"","chartData":{}}`, ""),
		tool("pie_chart", thread.ToolOutputAvailable, `{"message":"m"}`, own(`{"summary":"3 \"slices\", total 7.","chartId":"x"}`)),
		tool("odd", thread.ToolOutputAvailable, `{"title":"t"}`, own(`{"summary":"\q`)),
		tool("text", thread.ToolOutputAvailable, `"words"`, own("not JSON")),
		tool("no_output", thread.ToolOutputAvailable, `null`, ""))
	say("3", thread.RoleAssistant, thread.StatusInterrupted, thread.TextPart("all of"), mcp,
		tool("slow", thread.ToolInputAvailable, "", ""), thread.TextPart("the answer"))
	say("4", thread.RoleAssistant, thread.StatusInProgress)
	slow := tool("slow", thread.ToolInputAvailable, "", "")
	say("5", thread.RoleAssistant, thread.StatusInProgress, thread.StepStart(), thread.TextPart("One."), thread.TextPart(""),
		thread.TextPart("Two."), slow, thread.StepStart(), thread.TextPart("Th"))
	say("6", thread.RoleAssistant, thread.StatusInProgress, slow, thread.TextPart(""))
	must(t, b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		return errors.Join(w.SaveDraft(persistence.Draft{MessageID: "5", Start: 2, Text: "ree."}), w.SaveDraft(persistence.Draft{MessageID: "6", Text: "Later."}))
	}))
	other := newThread(t, b.store, "bert")
	must(t, errOf(AppendMessage(t.Context(), b.store, other, text(thread.RoleUser, "typed"))))
	wantColumns(t, b.url, "conversation_transcript", "thread title position said_at source role status text heard message_id call_id owner assistant")
	id := b.key.Thread
	wantRows(t, b.url, fmt.Sprintf("SELECT * FROM conversation_transcript WHERE thread = '%s'", id),
		id+" a title 1 2026-01-02T15:04:05.000999Z voice user failed  NULL 1 c anna ",
		id+` a title 2 2026-01-02T15:04:06.000999Z voice tool completed bar_chart: Created "it" NULL 2 c anna `,
		id+` a title 3 2026-01-02T15:04:06.000999Z voice tool completed pie_chart: 3 "slices", total 7. NULL 2 c anna `,
		id+" a title 4 2026-01-02T15:04:06.000999Z voice tool completed odd: t NULL 2 c anna ",
		id+" a title 5 2026-01-02T15:04:06.000999Z voice tool completed text: words NULL 2 c anna ",
		id+" a title 6 2026-01-02T15:04:06.000999Z voice tool completed no_output NULL 2 c anna ",
		id+" a title 7 2026-01-02T15:04:07.000999Z voice assistant interrupted all of all of 3 c anna ",
		id+" a title 8 2026-01-02T15:04:07.000999Z voice tool failed srv__x: no way NULL 3 c anna ",
		id+" a title 9 2026-01-02T15:04:07.000999Z voice tool in_progress slow NULL 3 c anna ",
		id+" a title 10 2026-01-02T15:04:07.000999Z voice assistant interrupted the answer the 3 c anna ",
		id+" a title 11 2026-01-02T15:04:08.000999Z voice assistant in_progress  NULL 4 c anna ",
		id+" a title 12 2026-01-02T15:04:09.000999Z voice assistant in_progress One.\nTwo. NULL 5 c anna ",
		id+" a title 13 2026-01-02T15:04:09.000999Z voice tool in_progress slow NULL 5 c anna ",
		id+" a title 14 2026-01-02T15:04:09.000999Z voice assistant in_progress Three. NULL 5 c anna ",
		id+" a title 15 2026-01-02T15:04:10.000999Z voice tool in_progress slow NULL 6 c anna ",
		id+" a title 16 2026-01-02T15:04:10.000999Z voice assistant in_progress Later. NULL 6 c anna ")
	wantRows(t, b.url, fmt.Sprintf("SELECT position, source, text, owner FROM conversation_transcript WHERE thread = '%s'", other.Thread), "1 text typed bert")
}

func (s suite) toolCallView(t *testing.T) {
	b := s.setup(t)
	for i, c := range []thread.ToolCall{
		{Name: "a", Executor: "app", Status: thread.ToolCallDone, Input: "{}", Output: "1", FinishedAt: new(start.Add(time.Minute + 1_999_999))},
		{Name: "b", Executor: "mcp", Server: "srv", Status: thread.ToolCallFailed, Error: "no", FinishedAt: new(start.Add(999_001 * time.Nanosecond))},
		{Name: "c", Executor: "client", Status: thread.ToolCallRunning},
	} {
		c.ID, c.MessageID, c.CallID, c.StartedAt = fmt.Sprint(i), "m", "c", start
		must(t, b.store.Records.SaveToolCall(t.Context(), b.key, c))
	}
	wantColumns(t, b.url, "tool_call_log", "thread name executor server status duration_ms input output error called_at message_id call_id owner")
	id := b.key.Thread
	const rest = "2026-01-02T15:04:05.000999Z m c anna"
	wantRows(t, b.url, "SELECT * FROM tool_call_log",
		id+" a app  done 60001 {} 1  "+rest, id+" b mcp srv failed 0   no "+rest, id+" c client  running NULL    "+rest)
}

func (s suite) callSummaryView(t *testing.T) {
	b := s.setup(t)
	other := newThread(t, b.store, "bert")
	save := func(key thread.Key, call string, ended *time.Time, responses ...records.Response) {
		err := b.store.Batch(t.Context(), key, func(w *persistence.Batch) error {
			for i, r := range responses {
				r.ID, r.CallID = fmt.Sprint(call, i), call
				if err := w.Records.SaveResponse(r); err != nil {
					return err
				}
			}
			return w.Records.SaveCall(records.Call{
				ID: call, StartedAt: start.Add(time.Duration(call[0]) * time.Second), EndedAt: ended, EndReason: "hangup", Turns: 3, Interruptions: 1,
				Model: "gpt", Voice: "ash", Upstream: "up", AssistantID: "helper",
			})
		})
		must(t, err)
	}
	answer := func(ms int64) records.Response {
		return records.Response{AnswerMS: &ms, CostUSD: new(0.1), Usage: thread.Usage{InputTokens: 10, OutputTokens: 5, CachedTokens: 7}}
	}
	silent := records.Response{Usage: thread.Usage{InputTokens: 1}}
	end := start.Add(time.Hour)
	save(b.key, "1", &end, answer(900), answer(100), answer(300), silent)
	save(b.key, "2", &end, answer(100), answer(201))
	save(b.key, "3", &end, silent)
	save(b.key, "4", nil)
	save(other, "5", nil, answer(7)) // belongs to another thread: counted there
	for i := range 3 {
		saveLegs(t, b, records.Leg{CallID: "1", Generation: int64(i) + 1})
	}
	saveLegs(t, b, records.Leg{CallID: "2", Generation: 1})
	if err := b.store.Records.SaveResponse(t.Context(), b.key, answer(7)); err == nil {
		t.Error("SaveResponse() without an id = nil")
	}
	wantColumns(t, b.url, "call_summary", "thread started_at ended_at end_reason turns interruptions tokens cost_usd answer_p50_ms call_id model voice renewals owner upstream assistant summary extracted caller direction")
	id := b.key.Thread
	const ended = "2026-01-02T16:04:05.000999Z hangup 3 1 "
	wantRows(t, b.url, "SELECT * FROM call_summary",
		id+" 2026-01-02T15:04:54.000999Z "+ended+"46 0.3 300 1 gpt ash 2 anna up helper  NULL  ",
		id+" 2026-01-02T15:04:55.000999Z "+ended+"30 0.2 151 2 gpt ash 0 anna up helper  NULL  ",
		id+" 2026-01-02T15:04:56.000999Z "+ended+"1 NULL NULL 3 gpt ash 0 anna up helper  NULL  ",
		id+" 2026-01-02T15:04:57.000999Z NULL hangup 3 1 0 NULL NULL 4 gpt ash 0 anna up helper  NULL  ",
		other.Thread+" 2026-01-02T15:04:58.000999Z NULL hangup 3 1 15 0.1 7 5 gpt ash 0 bert up helper  NULL  ")
}
