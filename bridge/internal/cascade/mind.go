package cascade

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"sync"

	"voicebridge/llm"
	"voicebridge/persistence/pictures"
	"voicebridge/realtime"
	"voicebridge/realtime/served"
	"voicebridge/toolkit"
)

const (
	// readAloud begins the instructions of answers that are spoken.
	readAloud = "Your answers are read aloud. Unless you are told otherwise, write what a person would say: plain " +
		"sentences, without Markdown, lists, code or emoji.\n\n"
	// pending is what the model reads as the result of a call that has none.
	pending = "There is no result yet."
	// maxKept is how many calls Mind.kept remembers.
	maxKept = 200
)

// Mind is a [served.Mind] that asks a text model. It belongs to one session.
type Mind struct {
	ask llm.Ask

	mu    sync.Mutex
	kept  map[string]json.RawMessage // [llm.ToolCall.Metadata], by the ids of calls
	first string                     // the item from which on the conversation is not too long
}

// NewMind returns a Mind that asks as ask says, the request of which has the model and how it answers.
func NewMind(ask llm.Ask) *Mind { return &Mind{ask: ask, kept: map[string]json.RawMessage{}} }

// Answer implements [served.Mind]. What the model thinks is not said.
func (m *Mind) Answer(ctx context.Context, r *served.Request) iter.Seq2[served.Piece, error] {
	return func(yield func(served.Piece, error) bool) {
		if text, ok := strings.CutPrefix(r.Instructions, realtime.SayExactly); ok {
			yield(served.Piece{Text: text}, nil)
			return
		}
		ask := m.request(r)
		req, written := &ask.Request, 0
		tokens := llm.Tokens(req.Messages...) + (len(req.System)+len(toolkit.Encode(req.Tools)))/4
		used := llm.Usage{InputTokens: int64(tokens)}
		if !yield(served.Piece{Usage: usage(&used)}, nil) {
			return
		}
		for d, err := range ask.Stream(ctx) {
			failure, ok := errors.AsType[*llm.Error](err)
			switch {
			case ok && failure.Kind == llm.KindRefused:
				d.Stop = llm.StopRefusal
			case ok:
				yield(served.Piece{}, explain(failure))
				return
			case err != nil: // ctx has ended
				return
			}
			if d.Usage != nil {
				used = *d.Usage
			} else if n := len(d.Text) + len(d.Reasoning); n > 0 {
				written += n
				used.OutputTokens = max(used.OutputTokens, int64(written/4))
			}
			p := served.Piece{Text: d.Text, Usage: usage(&used), Stop: stops[d.Stop]}
			if c := d.ToolCall; c != nil {
				if p.Text != "" && !yield(served.Piece{Text: p.Text}, nil) {
					return
				}
				p.Text, p.Call = "", served.Call{ID: m.keep(c), Name: c.Name, Arguments: cmp.Or(c.Arguments, "{}")}
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// stops are why answers are incomplete, as responses say it.
var stops = map[llm.StopReason]string{
	llm.StopLength: "max_output_tokens", llm.StopFilter: "content_filter", llm.StopRefusal: "content_filter",
}

// codes are the types and codes of failures that clients of the Realtime API know.
var codes = map[llm.ErrorKind][2]string{
	llm.KindRate:    {"rate_limit_error", "rate_limit_exceeded"},
	llm.KindQuota:   {"insufficient_quota", "insufficient_quota"},
	llm.KindAuth:    {"authentication_error", "invalid_api_key"},
	llm.KindTooLong: {"invalid_request_error", "context_length_exceeded"},
}

func explain(failure *llm.Error) error {
	code, ok := codes[failure.Kind]
	if !ok {
		code = [2]string{"server_error", string(failure.Kind)}
	}
	return &realtime.Error{Type: code[0], Code: code[1], Message: failure.Message}
}

// usage returns a usage as a response shows it.
func usage(u *llm.Usage) map[string]any {
	text := func(n int64) map[string]any { return map[string]any{"text_tokens": n} }
	return map[string]any{
		"total_tokens": u.InputTokens + u.OutputTokens, "input_tokens": u.InputTokens, "output_tokens": u.OutputTokens,
		"input_token_details": map[string]any{
			"text_tokens": u.InputTokens, "cached_tokens": u.CachedTokens, "cached_tokens_details": text(u.CachedTokens),
		},
		"output_token_details": text(u.OutputTokens),
	}
}

// keep keeps what the provider must get back with a call, and returns an id for it: those of some models are long, or
// begin with 0 in each answer.
func (m *Mind) keep(c *llm.ToolCall) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.kept) >= maxKept {
		clear(m.kept)
	}
	id := served.NewID("call_")
	m.kept[id] = c.Metadata
	return id
}

// request returns how the model is asked for a response.
func (m *Mind) request(r *served.Request) llm.Ask {
	ask, items := m.ask, m.told(r.Items)
	req := &ask.Request
	req.System, req.MaxTokens = r.Instructions, cmp.Or(r.MaxTokens, req.MaxTokens)
	if r.Spoken {
		req.System = strings.TrimSpace(readAloud + r.Instructions)
	}
	ask.MayBeEmpty = len(items) > 0 && items[len(items)-1].Type == realtime.ItemFunctionCallOutput
	offer(req, r, ask.MayBeEmpty)
	accepts := llm.Of(ask.Provider, req.Model)
	req.Messages = m.messages(items, accepts.Images)
	ask.Shorter = func() ([]llm.Message, bool) {
		m.shorten(items)
		before := len(items)
		items = m.told(items)
		return m.messages(items, accepts.Images), len(items) < before
	}
	for ok := true; ok && accepts.ContextTokens > 0 && llm.Tokens(req.Messages...) > accepts.ContextTokens/2; {
		req.Messages, ok = ask.Shorter()
	}
	return ask
}

// offer puts the tools into a request. After the outputs of tools, the model may speak in any case.
func offer(req *llm.Request, r *served.Request, after bool) {
	chosen, _ := r.Choice.(map[string]any)
	if after {
		chosen = nil
	}
	for _, t := range r.Tools {
		if r.Choice == "none" || chosen != nil && chosen["name"] != t.Name {
			continue
		}
		schema, _ := json.Marshal(t.Parameters) // it was read from JSON
		req.Tools = append(req.Tools, llm.Tool{Name: t.Name, Description: t.Description, Parameters: schema})
	}
	req.MustCall = chosen != nil || r.Choice == "required" && !after
}

// told returns the items that the model is told: those that are not too long, and the instructions before them.
func (m *Mind) told(items []served.Item) (told []served.Item) {
	m.mu.Lock()
	defer m.mu.Unlock()
	first := slices.IndexFunc(items, func(it served.Item) bool { return it.ID == m.first })
	for i, it := range items {
		if i >= first || it.Role == string(llm.RoleSystem) {
			told = append(told, it)
		}
	}
	return told
}

// shorten leaves out the oldest three quarters of a conversation, now and later, but not what the user has said last.
func (m *Mind) shorten(items []served.Item) {
	for i, it := range items {
		if it.Role != string(llm.RoleUser) {
			continue
		}
		m.mu.Lock()
		m.first = it.ID
		m.mu.Unlock()
		if i >= len(items)*3/4 {
			return
		}
	}
}

// messages returns what the model is told. Each call has a result right after it.
func (m *Mind) messages(items []served.Item, limits llm.ImageLimits) (all []llm.Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	outputs, called := map[string]*served.Item{}, map[string]bool{}
	for i := range items {
		if items[i].Type == realtime.ItemFunctionCallOutput {
			outputs[items[i].CallID] = &items[i]
		}
	}
	var results []llm.Message // of the calls of the last message
	for i := range items {
		it := &items[i]
		if it.Type == realtime.ItemFunctionCall {
			if called[it.CallID] {
				continue
			}
			called[it.CallID] = true
			if len(all) == 0 || all[len(all)-1].Role != llm.RoleAssistant {
				all = append(all, llm.Message{Role: llm.RoleAssistant})
			}
			calls, name := &all[len(all)-1].ToolCalls, toolkit.ModelName(it.Name)
			*calls = append(*calls, llm.ToolCall{
				ID: it.CallID, Name: name, Arguments: it.Arguments, Metadata: m.kept[it.CallID],
			})
			results = append(results, llm.Message{
				Role: llm.RoleTool, ToolCallID: it.CallID, ToolName: name,
				Content: cmp.Or(outputs[it.CallID], &served.Item{Output: pending}).Output,
			})
			continue
		}
		all, results = append(all, results...), nil
		if said := message(it, limits); it.Type == realtime.ItemMessage && !said.Empty() {
			all = append(all, said)
		}
	}
	return append(all, results...)
}

// message returns what somebody has said.
func message(it *served.Item, limits llm.ImageLimits) llm.Message {
	said := llm.Message{Role: llm.Role(it.Role), Content: it.Words}
	for _, part := range it.Content {
		if part["type"] != realtime.ContentInputImage {
			continue
		}
		url, _ := part["image_url"].(string)
		image, err := pictures.ReadDataURL(url)
		if err == nil {
			image, err = pictures.Fit(image, limits.Types, limits.Bytes, limits.Side)
		}
		if err != nil {
			said.Content = strings.TrimSpace(llm.LostImage + "\n" + said.Content)
			continue
		}
		said.Images = append(said.Images, llm.Image{MediaType: image.MediaType, Data: image.Data})
	}
	return said
}
