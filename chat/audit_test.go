package chat_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// auditTools end in several ways. The outputs of echo and fails contain secrets.
func auditTools() []toolkit.Tool {
	waits := func(ctx context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
		<-ctx.Done()
		yield(toolkit.Chunk{}, context.Cause(ctx))
	}
	return []toolkit.Tool{
		tool{"echo", func(_ context.Context, call toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			if yield(toolkit.Chunk{Message: "half way", Data: json.RawMessage(`{"session_token":"hush"}`)}, nil) {
				yield(result(toolkit.Result{Output: json.RawMessage(call.Arguments), Model: `{"token":"hush","seen":true}`}), nil)
			}
		}},
		tool{"fails", func(_ context.Context, _ toolkit.Call, yield func(toolkit.Chunk, error) bool) {
			yield(result(toolkit.Result{Error: "out of order: https://a.org/?api_key=hush&x=1", Output: json.RawMessage(`{"password":"hush"}`)}), nil)
		}},
		tool{"panics", func(context.Context, toolkit.Call, func(toolkit.Chunk, error) bool) { panic("oh") }},
		tool{"waits", waits},
		brief{tool{"times_out", waits}},
		tool{"risky", echo.run},
	}
}

// brief is a tool with a short limit of its own.
type brief struct{ tool }

func (brief) Timeout() time.Duration { return 100 * time.Millisecond }

// wantCalls compares the records of a thread's tool calls, by the model's ids.
func wantCalls(t *testing.T, url string, want map[string]string) {
	t.Helper()
	got := map[string]string{}
	for _, row := range persistencetest.Rows(t, url, "SELECT tool_call_id, executor, status, error, finished_at, instance FROM tool_calls") {
		if _, twice := got[row[0]]; twice {
			t.Errorf("two rows of %s", row[0])
		}
		got[row[0]] = strings.Join(row[1:4], " ")
		if ended := row[4] != "NULL"; ended == (row[2] == "waiting") || row[5] == "" {
			t.Errorf("row %q", row)
		}
	}
	for id, prefix := range want {
		if !strings.HasPrefix(got[id], prefix) {
			t.Errorf("%s: row %q, want %q", id, got[id], prefix)
		}
	}
	testkit.Equal(t, len(got), len(want), "rows: %v", got)
}

// wantNoSecret looks for secrets in all tables.
func wantNoSecret(t *testing.T, url string) {
	t.Helper()
	for _, query := range []string{"SELECT input, output, error FROM tool_calls", "SELECT parts, metadata, text FROM messages", "SELECT nonce FROM approvals"} {
		for _, row := range persistencetest.Rows(t, url, query) {
			if text := strings.Join(row, "\n"); strings.Contains(text, "hush") {
				t.Errorf("a secret is saved: %.500s", text[max(0, strings.Index(text, "hush")-200):])
			}
		}
	}
}

// TestEveryCallHasARow has calls of a turn that end in every possible way. Each leaves one
// row with its end, and no secret is saved, or sent to anyone but the model.
func TestEveryCallHasARow(t *testing.T) {
	t.Parallel()
	for name, newURL := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			const secret = `{"api_key":"hush","body":"{\"password\":\"hush\"}"}`
			provider := deltas(
				calls("good", "echo", secret, "fails", "fails", `{}`, "panics", "panics", `{}`, "late", "times_out", `{}`, "malformed", "echo", `{"token":"hush","n":`,
					"list", "echo", `["secret"]`, "unknown", "nothing", `{"password":"hush"}`, "empty", "", ``, "denied", "risky", `{"cookie":"hush"}`),
				says("Done."), calls("stopped", "waits", `{}`), says("Done."))
			store := persistencetest.Open(t, url, persistence.Options{})
			cfg := asks(t, provider, auditTools()...)
			cfg.ToolLimits.Timeout = time.Hour // only the brief one is meant to run into its own
			b := start(t, store, cfg)
			var received strings.Builder
			watched, stop := b.watch(&received)
			turn := b.turn(chat.TurnRequest{Text: "Go"})
			q := b.question(turn)
			b.openApproval()
			must(t, b.c.Decide(t.Context(), b.key, chat.Decision{ToolCallID: "denied", Nonce: q.Nonce, By: "anna"}))
			if r := b.wait(turn); r.Text != "Done." || r.Status != thread.StatusCompleted || r.Message.Parts == nil {
				t.Errorf("Wait() = %+v", r)
			}
			for _, e := range b.follow(turn, 0) {
				if data, err := json.Marshal(e); err != nil || strings.Contains(string(data), "hush") {
					t.Errorf("event %s, %v", data, err)
				}
			}
			// The model gets everything now, but not in later turns.
			if got := talk(provider.seen()[1].Messages); !strings.Contains(got, `good=echo(`+secret+`)`) || !strings.Contains(got, `tool: {"token":"hush","seen":true} <- good`) ||
				!strings.Contains(got, `api_key=hush&x=1 <- fails`) {
				t.Errorf("the model reads\n%s", got)
			}
			stopped := b.turn(chat.TurnRequest{Text: "Go on"})
			b.until(stopped, chat.EventToolInput)
			b.interrupt(t)
			b.wait(stopped)
			if got := talk(provider.seen()[2].Messages); strings.Contains(got, "hush") || !strings.Contains(got, `{"token":"[masked]","seen":true} <- good`) {
				t.Errorf("a later turn reads\n%s", got)
			}
			wantCalls(t, url, map[string]string{
				"good": "app done ", "fails": "app failed out of order: https://a.org/?api_key=[masked]&x=1", "panics": "app failed the tool broke down", "late": "app failed the tool timed out",
				"malformed": "app failed the arguments are not valid JSON", "list": "app failed the arguments must be a JSON object",
				"unknown": `app failed there is no tool named "nothing"`, "empty": `app failed there is no tool named ""`,
				"denied": "app failed The user refused", "stopped": "app cancelled ",
			})
			wantNoSecret(t, url)
			stop()
			testkit.Take(t, "an event", watched)
			if strings.Contains(received.String(), "hush") || !strings.Contains(received.String(), "tool_progress") || !strings.Contains(received.String(), "approval_required") {
				t.Errorf("the watchers get\n%s", received.String())
			}
		})
	}
}

// watch records what the watchers of the thread are sent.
func (b *bench) watch(into *strings.Builder) (done <-chan struct{}, stop func()) {
	ctx, cancel := context.WithCancel(b.t.Context())
	ended, events := make(chan struct{}), b.store.Watch(b.key).Events(ctx, 0)
	go func() {
		defer close(ended)
		for e, err := range events {
			if err != nil {
				return
			}
			fmt.Fprintf(into, "%s %s\n", e.Type, e.Data)
		}
	}()
	return ended, cancel
}

// TestClientCallsHaveRows has calls that the client of a turn runs: the client gets the
// arguments unchanged, everyone else without secrets.
func TestClientCallsHaveRows(t *testing.T) {
	t.Parallel()
	for name, newURL := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			const secret = `{"api_key":"hush"}`
			provider := deltas(
				calls("a", "look", secret, "b", "look", `{"token":`, "c", "look", `{}`), says("Next."),
				calls("d", "look", secret, "e", "look", `{}`), says("Done."))
			store := persistencetest.Open(t, url, persistence.Options{})
			b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, NoTitles: true, ClientTimeout: 5 * time.Second})
			look := []toolkit.Definition{{Name: "look", Parameters: json.RawMessage(`{"type":"object"}`)}}
			s, err := b.c.CreateSession(t.Context(), "anna", chat.SessionRequest{Tools: look})
			must(t, err)
			b.key.Thread = s.ID
			answer, session, err := b.c.SessionMessage(t.Context(), b.key, "Go", nil)
			if err != nil || len(answer.ToolCalls) != 3 || answer.ToolCalls[0].Arguments != secret {
				t.Fatalf("SessionMessage() = %+v, %v", answer, err)
			}
			if got := session.Messages[1].ToolCalls[0].Arguments; strings.ReplaceAll(got, " ", "") != `{"api_key":"[masked]"}` {
				t.Errorf("the snapshot has %s", got)
			}
			if _, err := b.c.SessionToolOutput(t.Context(), b.key, []chat.ToolResult{{CallID: "a", Output: `{"n":1}`}, {CallID: "b", Error: "no"}}); err != nil {
				t.Fatalf("SessionToolOutput() = %v", err)
			}
			if _, _, err := b.c.SessionMessage(t.Context(), b.key, "And?", nil); err != nil {
				t.Fatalf("SessionMessage() = %v", err)
			}
			// The same tools, but the turn waits for them.
			turn := b.turn(chat.TurnRequest{Text: "Go on", Client: &chat.ClientTools{Tools: look, Wait: true}})
			for e := range turn.Events(b.within(), 0) {
				if e.Type == chat.EventToolAsked && e.Call.ID == "d" {
					if e.Call.Arguments != secret {
						t.Errorf("asked %+v", e.Call)
					}
					break
				}
			}
			must(t, turn.Deliver(chat.ToolResult{CallID: "d", Output: `{"password":"hush"}`}))
			b.wait(turn)
			if got := talk(provider.seen()[3].Messages); !strings.Contains(got, "d=look("+secret+")") || !strings.Contains(got, `{"password":"hush"} <- d`) {
				t.Errorf("the model reads\n%s", got)
			}
			wantCalls(t, url, map[string]string{
				"a": "client done ", "b": "client failed no", "c": "client failed the conversation went on before this call was answered",
				"d": "client done ", "e": "client failed tool_result_timeout",
			})
			wantNoSecret(t, url)
		})
	}
}
