package served

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"voicebridge/realtime"
)

// response is a response being generated. Cancelling stops its Mind and Mouth.
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

	ctx    context.Context //nolint:containedctx // its own, which ends its goroutines
	stop   func()
	items  []*Item
	status string
	reason string
	err    *realtime.Error
	usage  map[string]any // as the Mind says; nil if it does not
	// begun means that the client knows of it; until then the Mind's first word waits in first.
	begun bool
	first func()
	// seenItems are what an answer sees that is prepared, the last of them the utterance.
	seenItems []*Item

	marks    marks
	sounds   []*utterance // of its messages
	sent     int          // characters that were sent to be spoken
	skipping error        // why the latest of them are not

	// open is the item being generated, nil between items.
	open      *Item
	generated string     // its text or arguments, as far as they were told
	untold    []string   // the rest of its text so far
	speech    *utterance // its sound; nil if it is not spoken
	after     func()     // what comes when it is spoken; nil if the Mind is still writing
}

// marks are when the stages of an answer to what was spoken were done, since the end of speech.
type marks struct{ since, turn, transcription, text, clause time.Time }

// shown returns the stages in ms.
func (m *marks) shown(sound time.Time) object {
	o := object{}
	for name, at := range map[string]time.Time{
		"turn": m.turn, "transcription": m.transcription, "first_text": m.text, "first_clause": m.clause,
		"first_audio": sound,
	} {
		if !m.since.IsZero() && !at.IsZero() {
			o[name] = max(0, at.Sub(m.since).Milliseconds())
		}
	}
	return o
}

// ended reports whether the response is done, whatever its status.
func (r *response) ended() bool { return r.status != realtime.ResponseInProgress }

// isSpoken reports whether the Mouth speaks it.
func (r *response) isSpoken() bool { return r.modality != "text" && !r.aside }

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
	q := &Request{Response: r.id, Spoken: r.isSpoken(), Tools: r.tools, Choice: r.choice}
	for _, it := range r.seen(conversation) {
		q.Items = append(q.Items, *it)
	}
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
