package uistream_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/web/uistream"
)

// TestAllQuestions: a stream that ends at questions has all those of the calls in it, however long
// one takes to be saved.
func TestAllQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		call := func(kind chat.EventType, id string) chat.Event {
			return chat.Event{Type: kind, Call: &chat.EventCall{ID: id, Name: "add", Input: json.RawMessage("{}"), Asks: kind == chat.EventToolInput}}
		}
		ctx, stop := context.WithCancel(t.Context())
		events := func(yield func(chat.Event, error) bool) {
			for _, e := range []chat.Event{
				{Type: chat.EventStart}, call(chat.EventToolInput, "c1"), call(chat.EventToolInput, "c2"), call(chat.EventToolInput, "c3"),
				call(chat.EventToolApproval, "c1"), call(chat.EventToolOutput, "c3"),
			} {
				if !yield(e, nil) {
					return
				}
			}
			time.Sleep(time.Minute) // the database is slow
			yield(call(chat.EventToolApproval, "c2"), nil)
			<-ctx.Done()
		}
		out := httptest.NewRecorder()
		w := uistream.New(out, uistream.Timing{KeepAlive: 10 * time.Second, Write: time.Second}, "", func(err error) string { return err.Error() })
		w.AskInStates()
		if err := w.Follow(events, stop); err != nil {
			t.Errorf("Follow() = %v", err)
		}
		if got := out.Body.String(); strings.Count(got, "tool-approval-request") != 2 || !strings.HasSuffix(got, "data: {\"type\":\"finish\",\"finishReason\":\"tool-calls\"}\n\ndata: [DONE]\n\n") {
			t.Errorf("the stream is\n%s", got)
		}
	})
}

// TestEnds: the last chunks of a turn, for a client that knows reasons and for one that does not.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		result chat.Result
		before string
		reason string
	}{
		"an answer":       {chat.Result{Finish: chat.FinishStop}, "", "stop"},
		"a long answer":   {chat.Result{Finish: chat.FinishLength}, "", "length"},
		"a filter":        {chat.Result{Finish: chat.FinishFilter}, "", "content-filter"},
		"calls":           {chat.Result{Finish: chat.FinishToolCalls}, "", "tool-calls"},
		"too many rounds": {chat.Result{Finish: chat.FinishToolRounds}, "", "other"},
		"an interruption": {chat.Result{Finish: chat.FinishInterrupted}, `{"type":"abort"}`, "other"},
		"a failure": {chat.Result{Finish: chat.FinishError, Err: &llm.Error{Kind: llm.KindQuota, Message: "no money"}},
			`{"type":"error","errorText":"no money"}`, "error"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, states := range []bool{false, true} {
				out := httptest.NewRecorder()
				w := uistream.New(out, uistream.DefaultTiming(), "", func(err error) string {
					failure, _ := errors.AsType[*llm.Error](err)
					return failure.Message
				})
				want := "data: " + tt.before + "\n\n"
				if tt.before == "" {
					want = ""
				}
				if states {
					w.AskInStates()
					want += `data: {"type":"finish","finishReason":"` + tt.reason + `"}`
				} else {
					want += `data: {"type":"finish"}`
				}
				if err := w.Follow(func(yield func(chat.Event, error) bool) {
					yield(chat.Event{Type: chat.EventFinish, Result: &tt.result}, nil)
				}, func() {}); err != nil {
					t.Error(err)
				}
				testkit.Equal(t, out.Body.String(), want+"\n\ndata: [DONE]\n\n", "in states %v: the stream is want %s", states, want)
			}
		})
	}
}

// TestClosing: a client learns why the stream of a turn that goes on elsewhere ends.
func TestClosing(t *testing.T) {
	t.Parallel()
	out := httptest.NewRecorder()
	w := uistream.New(out, uistream.DefaultTiming(), "", func(err error) string { return err.Error() })
	err := w.Follow(func(yield func(chat.Event, error) bool) {
		_ = yield(chat.Event{Type: chat.EventStart}, nil) && yield(chat.Event{}, chat.ErrClosed)
	}, func() {})
	if got := out.Body.String(); !errors.Is(err, chat.ErrClosed) || !strings.Contains(got, `{"type":"error","errorText":"the server is shutting down"}`) {
		t.Errorf("Follow() = %v, the stream is\n%s", err, got)
	}
}

// TestGoOn: after the answers to some questions, a client gets the results that it does not have, and nothing twice. At
// the questions that are left, the stream ends again.
func TestGoOn(t *testing.T) {
	t.Parallel()
	event := func(kind chat.EventType, id string) chat.Event {
		e := chat.Event{Type: kind, Call: &chat.EventCall{ID: id, Name: "add", Input: json.RawMessage("{}"), Output: json.RawMessage(`"` + id + `"`)}}
		e.Call.Asks, e.Call.Approved = kind == chat.EventToolInput, kind == chat.EventToolDecided
		return e
	}
	input, question, decided, output := chat.EventToolInput, chat.EventToolApproval, chat.EventToolDecided, chat.EventToolOutput
	for name, c := range map[string]struct {
		events   []chat.Event
		answered string
		open     map[string]bool
		want     string
	}{
		"all answers": {
			[]chat.Event{event(input, "c1"), event(question, "c1"), event(decided, "c1"), event(output, "c1"), {Type: chat.EventFinish, Result: &chat.Result{}}},
			"c1", map[string]bool{"c1": true}, "start c1 finish",
		},
		"one of two answers": {
			[]chat.Event{event(input, "c1"), event(input, "c2"), event(question, "c1"), event(question, "c2"), event(decided, "c1"), event(output, "c1")},
			"c1", map[string]bool{"c1": true, "c2": true}, "start c1 finish-step finish",
		},
		"the second of two answers": {
			[]chat.Event{event(input, "c1"), event(input, "c2"), event(question, "c1"), event(question, "c2"), event(decided, "c2"), event(output, "c2")},
			"c2", map[string]bool{"c1": true, "c2": true}, "start c2 finish-step finish",
		},
		"a result before the question, in the order of the message": {
			[]chat.Event{event(input, "c1"), event(input, "c2"), event(output, "c1"), event(question, "c2"), event(decided, "c2"), event(output, "c2"), {Type: chat.EventFinish, Result: &chat.Result{}}},
			"c2", map[string]bool{"c1": true, "c2": true}, "start c1 c2 finish",
		},
		"a question whose result the client has": {
			[]chat.Event{event(input, "c1"), event(input, "c2"), event(question, "c2"), event(question, "c1"), event(decided, "c1"), event(output, "c1"), event(decided, "c2"), event(output, "c2"), {Type: chat.EventFinish, Result: &chat.Result{}}},
			"c2", map[string]bool{"c1": false, "c2": true}, "start c2 finish",
		},
		"a result that the client has": {
			[]chat.Event{event(input, "c1"), event(input, "c2"), event(output, "c1"), event(question, "c2"), event(decided, "c2"), event(output, "c2"), {Type: chat.EventFinish, Result: &chat.Result{}}},
			"c2", map[string]bool{"c1": false, "c2": true}, "start c2 finish",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				events := func(yield func(chat.Event, error) bool) {
					for _, e := range append([]chat.Event{{Type: chat.EventStart}}, c.events...) {
						if !yield(e, nil) {
							return
						}
					}
					if c.events[len(c.events)-1].Type != chat.EventFinish {
						<-ctx.Done() // the turn waits for its questions
					}
				}
				out := httptest.NewRecorder()
				w := uistream.New(out, uistream.Timing{KeepAlive: 10 * time.Second, Write: time.Second}, "", func(err error) string { return err.Error() })
				w.AskInStates()
				w.GoOn(map[string]bool{c.answered: true}, c.open)
				if err := w.Follow(events, stop); err != nil {
					t.Errorf("Follow() = %v", err)
				}
				var got []string
				for line := range strings.Lines(out.Body.String()) {
					var chunk uistream.Chunk
					if json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &chunk) == nil {
						got = append(got, cmp.Or(chunk.ToolCallID, chunk.Type))
					}
				}
				testkit.Equal(t, strings.Join(got, " "), c.want, "the stream")
			})
		})
	}
}
