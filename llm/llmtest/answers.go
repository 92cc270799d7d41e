package llmtest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/llm"
)

// TwoCalls returns the calls of the exchanges with two calls. The number does not fit into a float64.
func TwoCalls() []Call {
	return []Call{
		{Name: "get_time", Arguments: `{"zone":"Europe/Berlin"}`},
		{Name: "add", Arguments: `{"a":12345678901234567890,"b":2}`},
	}
}

var someUsage = &Usage{Input: 12, Output: 5, Cached: 4}

// answers are the successful exchanges of every vendor.
var answers = []Answer{
	{Exchange: "text", Text: "Hello, wörld ☃", Usage: someUsage, Stop: llm.StopEnd},
	{Exchange: "two_calls", Calls: TwoCalls(), Usage: someUsage, Stop: llm.StopToolCalls},
	{Exchange: "split_calls", Text: "Let me look.", Calls: TwoCalls(), Usage: someUsage, Stop: llm.StopToolCalls},
	{Exchange: "call_without_arguments", Calls: []Call{{Name: "get_time", Arguments: "{}"}}, Usage: someUsage, Stop: llm.StopToolCalls},
	{Exchange: "empty_deltas", Text: "ok", Usage: someUsage, Stop: llm.StopEnd},
	{Exchange: "unknown_events", Text: "ok", Usage: someUsage, Stop: llm.StopEnd},
	{Exchange: "other_line_ends", Text: "ok", Usage: someUsage, Stop: llm.StopEnd},
	{Exchange: "no_last_line_end", Text: "ok", Usage: someUsage, Stop: llm.StopEnd},
	{Exchange: "thoughts", Text: "ok", Thinks: true, Usage: someUsage, Stop: llm.StopEnd},
	{Exchange: "not_utf8", Text: "a\uFFFDb", Usage: someUsage, Stop: llm.StopEnd},
	{Exchange: "length", Text: "cut", Usage: someUsage, Stop: llm.StopLength},
	{Exchange: "length_in_call", Text: "Let me look.", Usage: someUsage, Stop: llm.StopLength},
	{Exchange: "filter", Text: "I", Usage: someUsage, Stop: llm.StopFilter},
	{Exchange: "cut_after_stop", Text: "ok", Stop: llm.StopEnd},
}

func (w Wire) answers(t *testing.T) {
	t.Parallel()
	for _, want := range slices.Concat(answers, w.Answers) {
		for how, piece := range map[string]int{"at once": 0, "by lines": -1, "by 7 bytes": 7} {
			t.Run(want.Exchange+" "+how, func(t *testing.T) {
				t.Parallel()
				x := w.exchange(t, want.Exchange)
				if x.status == 0 {
					return // the vendor cannot send it
				}
				x.piece = piece
				s := serve(t, x)
				p := w.New(t, s.URL, s.client(t))
				got, err := drain(t, p, t.Context(), greeting)
				if err != nil {
					t.Fatalf("Stream() = %v", err)
				}
				if diff := cmp.Diff(w.expect(want), forget(got, want)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
				once(t, s)
			})
		}
	}
}

// expect returns the part of an answer that this vendor can give.
func (w Wire) expect(want Answer) Answer {
	want.Exchange = ""
	if want.Usage != nil && w.Uncached {
		want.Usage = &Usage{Input: want.Usage.Input, Output: want.Usage.Output}
	}
	if want.Stop == llm.StopFilter && w.Refuses {
		want.Stop = llm.StopRefusal
	}
	return want
}

// forget removes from an answer what is not checked.
func forget(got, want Answer) Answer {
	if want.Usage == nil {
		got.Usage = nil
	}
	for i := range min(len(got.Calls), len(want.Calls)) {
		if want.Calls[i].ID == "" {
			got.Calls[i].ID = ""
		}
		if want.Calls[i].Metadata == "" {
			got.Calls[i].Metadata = ""
		}
	}
	return got
}

// greeting is a small request.
var greeting = llm.Request{Model: "some-model", System: "Be brief.", Messages: []llm.Message{{Role: llm.RoleUser, Content: "Hello"}}}

// drain reads an answer and checks what must hold for every answer.
func drain(t *testing.T, p llm.Provider, ctx context.Context, req llm.Request) (Answer, error) { //nolint:revive // the provider is the subject
	t.Helper()
	var got Answer
	var text strings.Builder
	ids := map[string]bool{}
	for d, err := range p.Stream(ctx, req) {
		if err != nil {
			got.Text = text.String()
			return got, err
		}
		if got.Stop != "" {
			t.Errorf("a delta comes after the one with Stop: %+v", d)
		}
		got.Thinks = got.Thinks || strings.Contains(d.Reasoning, "hink")
		text.WriteString(d.Text)
		got.Stop = d.Stop
		if d.Usage != nil {
			got.Usage = &Usage{d.Usage.InputTokens, d.Usage.OutputTokens, d.Usage.CachedTokens}
			if !json.Valid(d.Usage.Raw) {
				t.Errorf("the usage as sent is not JSON: %q", d.Usage.Raw)
			}
		}
		if d.ToolCall != nil {
			if d.ToolCall.ID == "" || ids[d.ToolCall.ID] {
				t.Errorf("the id %q of a call is empty or not unique", d.ToolCall.ID)
			}
			ids[d.ToolCall.ID] = true
			if d.ToolCall.Metadata != nil && !json.Valid(d.ToolCall.Metadata) {
				t.Errorf("the metadata of a call is not JSON: %q", d.ToolCall.Metadata)
			}
			got.Calls = append(got.Calls, Call{
				Name: d.ToolCall.Name, Arguments: compact(d.ToolCall.Arguments),
				ID: d.ToolCall.ID, Metadata: string(d.ToolCall.Metadata),
			})
		}
	}
	if got.Stop == "" {
		t.Error("the answer ends without Stop and without an error")
	}
	got.Text = text.String()
	return got, nil
}

// compact returns JSON without spaces, and other text as it is.
func compact(text string) string {
	var b bytes.Buffer
	if json.Compact(&b, []byte(text)) != nil {
		return text
	}
	return b.String()
}

// once checks that the server got exactly one request: retries are not a provider's business.
func once(t *testing.T, s *server) {
	t.Helper()
	if requests, _ := s.seen(); len(requests) != 1 {
		t.Errorf("the server saw %d requests, want 1", len(requests))
	}
}
