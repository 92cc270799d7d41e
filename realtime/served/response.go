package served

import (
	"encoding/json"
	"slices"

	"voicebridge/realtime"
)

// response is a response being generated. Its steps run one after the other, Pace apart; cancelling
// stops them.
type response struct {
	id       string
	aside    bool // outside the conversation ("none"): adds no items to it and no audio
	modality string
	audio    object
	// maxTokens is a number or inf.
	maxTokens    any
	metadata     any
	tools        []Tool
	choice       any
	instructions any
	context      []*Item // what it sees in place of the conversation; nil if it sees that

	items  []*Item
	status string
	reason string
	err    *realtime.Error
	steps  []func()

	// open is the item being generated, nil between items.
	open      *Item
	openPart  bool   // its content part was announced and is not done
	generated string // its text or arguments so far
	frames    int    // of audio for the whole item
	whole     string // the whole text or arguments
}

// ended reports whether the response is done, whatever its status.
func (r *response) ended() bool { return r.status != realtime.ResponseInProgress }

// seen returns the items that the response sees.
func (r *response) seen(conversation []*Item) []*Item {
	if r.context != nil {
		return r.context
	}
	return conversation
}

// responseAudio returns how a response speaks: as the session, but for the overrides of response.create.
func responseAudio(set *Settings, params object) object {
	output := object{}
	for _, name := range []string{"format", "voice"} {
		output[name] = set.value("audio.output." + name)
		if own, ok := Lookup(params, "audio", "output", name); ok {
			output[name] = own
		}
	}
	return object{"output": output}
}

// request returns what the Mind makes it from.
func (r *response) request(conversation []*Item) *Request {
	q := &Request{Items: r.seen(conversation), Tools: r.tools, Choice: r.choice}
	q.Instructions, _ = r.instructions.(string)
	if n, ok := r.maxTokens.(json.Number); ok {
		tokens, _ := n.Float64() // it was checked
		q.MaxTokens = int(tokens)
	}
	return q
}

func (r *response) shown(convID string) object {
	output := make([]any, len(r.items))
	for i, it := range r.items {
		output[i] = it.shown()
	}
	var details any
	if r.reason != "" || r.err != nil {
		d := object{"type": r.status}
		if r.reason != "" {
			d["reason"] = r.reason
		}
		if r.err != nil {
			d["error"] = object{"type": r.err.Type, "code": r.err.Code, "message": r.err.Message}
		}
		details = d
	}
	o := object{
		"id": r.id, "object": "realtime.response", "status": r.status, "status_details": details, "output": output,
		"conversation_id": convID, "output_modalities": []any{r.modality}, "max_output_tokens": r.maxTokens,
		"audio": r.audio,
		"usage": nil, "metadata": r.metadata,
	}
	if r.aside {
		o["conversation_id"] = nil
	}
	return o
}

// where returns an event about an item, with its place in the response.
func (r *response) where(kind string, it *Item) object {
	return object{"type": kind, "response_id": r.id, "item_id": it.ID, "output_index": slices.Index(r.items, it)}
}

func (r *response) whereContent(kind string, it *Item) object {
	o := r.where(kind, it)
	o["content_index"] = 0
	return o
}
