package anthropic

import (
	"encoding/json"
	"maps"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// event is one event of an answer.
type event struct {
	Type    string `json:"type"`
	Index   int64  `json:"index"`
	Message struct {
		Usage json.RawMessage `json:"usage"`
	} `json:"message"`
	ContentBlock struct {
		Type      string          `json:"type"`
		Text      string          `json:"text"`
		Thinking  string          `json:"thinking"`
		Signature string          `json:"signature"`
		Data      string          `json:"data"`
		ID        string          `json:"id"`
		Name      string          `json:"name"`
		Input     json.RawMessage `json:"input"`
	} `json:"content_block"`
	Delta struct {
		Type        string `json:"type"`
		Text        string `json:"text"`
		Thinking    string `json:"thinking"`
		Signature   string `json:"signature"`
		PartialJSON string `json:"partial_json"`
		StopReason  string `json:"stop_reason"`
	} `json:"delta"`
	Usage json.RawMessage `json:"usage"`
}

// early are the stop reasons of an answer that was cut off:
// https://platform.claude.com/docs/en/test-and-evaluate/strengthen-guardrails/handle-streaming-refusals.
var early = map[string]llm.StopReason{
	"max_tokens": llm.StopLength, "model_context_window_exceeded": llm.StopLength, "refusal": llm.StopRefusal,
}

// answer collects what single events do not say.
type answer struct {
	tools    []tool // of the request
	thoughts thoughtPieces
	calls    []piece
	reason   string // why the model has finished
	counts   map[string]json.RawMessage
	done     bool
}

// Event returns what an event has for the user now. Other types of blocks and events are ignored.
func (a *answer) Event(raw json.RawMessage) ([]llm.Delta, *wire.Problem) {
	var d llm.Delta
	var e event
	_ = json.Unmarshal(raw, &e) // a field of an unexpected form must not hide the others
	switch e.Type {
	case "error":
		if a.done = a.reason != ""; !a.done {
			return nil, new(wire.ParseProblem(raw))
		}
	case "message_start":
		a.count(e.Message.Usage)
		d.Usage = a.usage()
	case "content_block_start":
		begun := block{Type: e.ContentBlock.Type, Signature: e.ContentBlock.Signature, Data: e.ContentBlock.Data}
		if begun.Type == thinking {
			begun.Thinking = &e.ContentBlock.Thinking
		}
		a.thoughts.begin(e.Index, begun)
		switch begun.Type {
		case "text":
			d.Text = e.ContentBlock.Text
		case thinking:
			d.Reasoning = e.ContentBlock.Thinking
		case "tool_use":
			p := piece{
				index: e.Index, call: llm.ToolCall{ID: e.ContentBlock.ID, Name: e.ContentBlock.Name},
				whole: e.ContentBlock.Input,
			}
			a.calls = append(a.calls, p)
		}
	case "content_block_delta":
		a.thoughts.add(e.Index, e.Delta.Thinking, e.Delta.Signature)
		switch e.Delta.Type {
		case "text_delta":
			d.Text = e.Delta.Text
		case "thinking_delta":
			d.Reasoning = e.Delta.Thinking
		case "input_json_delta":
			if n := len(a.calls); n > 0 && a.calls[n-1].index == e.Index {
				a.calls[n-1].call.Arguments += e.Delta.PartialJSON
			}
		}
	case "message_delta":
		a.count(e.Usage)
		if e.Delta.StopReason != "" {
			a.reason = e.Delta.StopReason
		}
	case "message_stop":
		a.done = true
	}
	if d == (llm.Delta{}) {
		return nil, nil
	}
	return []llm.Delta{d}, nil
}

// Over reports whether the answer has ended.
func (a *answer) Over() bool { return a.done }

// End returns the calls, the usage and the stop reason.
func (a *answer) End() []llm.Delta {
	if a.reason == "" {
		return nil
	}
	calls := complete(a.calls, early[a.reason] != "")
	if len(calls) > 0 {
		calls[0].Metadata = a.thoughts.metadata()
	}
	for i := range calls {
		for _, t := range a.tools {
			if t.Name == calls[i].Name {
				calls[i].Arguments = withOwnKeys(calls[i].Arguments, t.own)
			}
		}
	}
	return wire.End(calls, a.usage(), early[a.reason])
}

// count takes a usage object. Those at the beginning and the end of an answer have different
// fields; of common ones the later counts.
func (a *answer) count(raw json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return
	}
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	if a.counts == nil {
		a.counts = map[string]json.RawMessage{}
	}
	maps.Copy(a.counts, fields)
}

// usage returns the totals. Anthropic counts cache reads and writes separately from the other
// input, not as part of it.
func (a *answer) usage() *llm.Usage {
	if len(a.counts) == 0 {
		return nil
	}
	number := func(field string) int64 {
		var n wire.Count
		_ = json.Unmarshal(a.counts[field], &n) // 0 if it is not there
		return int64(n)
	}
	var written struct {
		Hour wire.Count `json:"ephemeral_1h_input_tokens"`
	}
	_ = json.Unmarshal(a.counts["cache_creation"], &written) // older servers do not say
	raw, _ := json.Marshal(a.counts)                         // what has been read can be written
	cached, write := number("cache_read_input_tokens"), number("cache_creation_input_tokens")
	return &llm.Usage{
		InputTokens:  number("input_tokens") + write + cached,
		OutputTokens: number("output_tokens"),
		CachedTokens: cached,
		CacheWrites:  write,
		HourWrites:   min(int64(written.Hour), write),
		Raw:          raw,
	}
}

// thoughtPieces are the thoughts with which an answer begins, as they arrive.
type thoughtPieces struct {
	blocks []block
	index  int64 // of the last one's content block
	// over means that something else has begun, broken that another thought followed: then they cannot be
	// sent back in their places.
	over, broken bool
}

// begin takes the beginning of a content block.
func (t *thoughtPieces) begin(index int64, b block) {
	if b.Type != thinking && b.Type != redactedThinking {
		t.over = true
		return
	}
	t.broken = t.broken || t.over
	t.blocks, t.index = append(t.blocks, b), index
}

// add takes a piece of a content block.
func (t *thoughtPieces) add(index int64, words, signature string) {
	if n := len(t.blocks); n > 0 && t.index == index && t.blocks[n-1].Type == thinking {
		last := &t.blocks[n-1]
		last.Thinking = new(*last.Thinking + words)
		last.Signature += signature
	}
}

// metadata returns what is kept with the first call; nil if there is nothing that could be sent back.
func (t *thoughtPieces) metadata() json.RawMessage {
	if len(t.blocks) == 0 || t.broken {
		return nil
	}
	for _, b := range t.blocks {
		if b.Type == thinking && b.Signature == "" { // other servers have none
			return nil
		}
	}
	kept, err := json.Marshal(metadata{t.blocks})
	if err != nil || len(kept) > maxMetadata {
		return nil
	}
	return kept
}
