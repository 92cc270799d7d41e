package served

import (
	"context"
	"slices"
	"time"

	"voicebridge/realtime"
)

// responder generates responses: one at a time in the conversation, and beside it any number outside it.
type responder struct {
	speaker

	mind           Mind
	conversationID string
	active         *response   // in the conversation; nil if there is none
	asides         []*response // outside it
	begins         func()      // called when a response in the conversation begins
	quiet          func()      // called when one is done and no audio is playing
	waits          func() bool // reports whether the words of an utterance are still to come
	prepared       *response   // to what is perhaps not said to its end; nil if there is none
}

func activeResponse(id string) *realtime.Error {
	return refuse("conversation_already_has_active_response", "",
		"Conversation already has an active response in progress: %s. "+
			"Wait until the response is finished before creating a new one.", id)
}

// generates reports whether the response is still being generated.
func (g *responder) generates(response string) bool {
	return g.active != nil && g.active.id == response
}

// request answers response.create.
func (g *responder) request(params object, context []*Item) *realtime.Error {
	if g.active != nil && params["conversation"] != "none" {
		return activeResponse(g.active.id)
	}
	g.start(params, context)
	return nil
}

// start begins a response; params are the overrides of response.create, context the items that it sees in place of the
// conversation, nil if it sees that.
func (g *responder) start(params object, context []*Item) {
	r := g.make(params, context)
	if r.aside {
		g.asides = append(g.asides, r)
	}
	g.begin(r)
	if r.aside || !g.waits() {
		g.think(r, nil)
	}
}

// make makes a response that nobody knows of yet.
func (g *responder) make(params object, context []*Item) *response {
	r := &response{
		id: NewID("resp_"), status: realtime.ResponseInProgress, modality: g.set.modality,
		audio: responseAudio(g.set, params), maxTokens: g.set.value("max_output_tokens"), metadata: params["metadata"],
		aside: params["conversation"] == "none", tools: g.set.tools, choice: g.set.choice, context: context,
		instructions: g.set.value("instructions"),
	}
	if n, ok := params["max_output_tokens"]; ok {
		r.maxTokens = n
	}
	if m, ok := params["output_modalities"].([]any); ok {
		r.modality = m[0].(string)
	}
	if t, ok := params["tools"]; ok {
		r.tools = readTools(t)
	}
	if text, ok := params["instructions"]; ok {
		r.instructions = text
	}
	if c, ok := params["tool_choice"]; ok {
		r.choice = c
	}
	return r
}

// begin tells of a response.
func (g *responder) begin(r *response) {
	if !r.aside {
		g.discard()
		g.begins()
		g.active = r
	}
	g.wire.emit(object{"type": realtime.TypeResponseCreated, "response": r.shown(g.conversationID)})
	if g.player.exact { // it has no limits
		return
	}
	g.emitRateLimits()
}

// proceed has the Mind write the response that has waited for the words of an utterance.
func (g *responder) proceed() {
	if r := g.active; r.ctx == nil {
		g.think(r, nil)
	}
}

// prepare begins the answer to an utterance that is perhaps not complete. Nobody is told of it.
func (g *responder) prepare(it *Item) {
	g.discard()
	r := g.make(nil, nil)
	g.prepared = r
	r.seenItems = append(slices.Clone(g.items.items), it)
	g.think(r, it)
}

// discard throws the prepared answer away. If the Mind has begun it, that is told, as it has a price.
func (g *responder) discard() {
	r := g.prepared
	if r == nil {
		return
	}
	g.prepared = nil
	r.stop()
	if r.usage == nil {
		return
	}
	g.wire.emit(object{"type": realtime.TypeResponseCreated, "response": r.shown(g.conversationID)})
	r.status, r.reason = realtime.ResponseCancelled, "turn_detected"
	o := r.shown(g.conversationID)
	o["usage"] = r.usage
	g.wire.emit(object{"type": realtime.TypeResponseDone, "response": o})
}

// answer answers what was said: with the prepared answer if that is to the same words.
func (g *responder) answer(m marks) {
	r := g.prepared
	if r != nil && slices.Equal(r.seenItems, g.items.items) {
		g.prepared = nil
	} else {
		r = g.make(nil, nil)
	}
	m.text, r.marks = r.marks.text, m
	g.begin(r)
	switch {
	case r.ctx == nil:
		g.think(r, nil)
	case r.first != nil:
		r.first()
	}
	r.begun, r.first = true, nil
}

func (g *responder) emitRateLimits() {
	g.wire.emit(object{"type": realtime.TypeRateLimitsUpdated, "rate_limits": []any{
		object{"name": "requests", "limit": 1000, "remaining": 999, "reset_seconds": 0.06},
		object{"name": "tokens", "limit": 50000, "remaining": 49500, "reset_seconds": 0.6},
	}})
}

// maxUnspoken is how many pieces of a text wait for the Mouth before the Mind does.
const maxUnspoken = 1024

// think has the Mind write the answer, to an utterance that is no item yet unless that is nil.
func (g *responder) think(r *response, to *Item) {
	r.ctx, r.stop = context.WithCancel(g.wire.ctx)
	r.begun = to == nil
	items := g.items.items
	if to != nil {
		items = r.seenItems
	}
	answer, spoken := g.mind.Answer(r.ctx, r.request(items)), r.isSpoken()
	g.tasks.Go(func() {
		var text chan string // to the Mouth, while there is a message
		end := func() {
			if text != nil {
				close(text)
			}
			text = nil
		}
		defer end()
		for piece, err := range answer {
			switch {
			case err != nil || piece.Call.ID != "":
				end()
			case text == nil && piece.Text != "" && spoken:
				text = make(chan string, maxUnspoken)
			}
			to := text
			if !g.hand(r, func(taken func()) { g.take(r, piece, err, to, taken) }) {
				return
			}
			if to != nil && piece.Text != "" {
				select {
				case to <- piece.Text:
				case <-r.ctx.Done():
				}
			}
		}
		end()
		g.hand(r, func(func()) { g.onceBegun(r, func() { g.then(r, func() { g.complete(r) }) }) })
	})
}

// onceBegun does f once the client knows of the response.
func (g *responder) onceBegun(r *response, f func()) {
	if r.begun {
		f()
	} else {
		r.first = f
	}
}

// take takes a piece of the answer, and says when it has. text is what the Mouth gets of a message.
func (g *responder) take(r *response, p Piece, err error, text <-chan string, taken func()) {
	if p.Usage != nil {
		r.usage = p.Usage
	}
	if p.Stop != "" {
		r.reason = p.Stop
	}
	said := err != nil || p.Text != "" || p.Call.ID != ""
	if said && r.marks.text.IsZero() {
		r.marks.text = time.Now()
	}
	if said && !r.begun {
		r.first = func() { g.takeWords(r, p, err, text, taken) }
		return
	}
	g.takeWords(r, p, err, text, taken)
}

func (g *responder) takeWords(r *response, p Piece, err error, text <-chan string, taken func()) {
	switch {
	case err != nil:
		r.err = asError(err, "server_error")
		g.then(r, func() { g.complete(r) })
		return
	case p.Text != "":
		if r.open == nil || r.open.Type != realtime.ItemMessage {
			g.closeItem(r)
			g.openMessage(r, text)
		}
		r.untold = append(r.untold, p.Text)
		g.tell(r)
	case p.Call.ID != "" && (r.open == nil || r.open.CallID != p.Call.ID):
		g.then(r, func() {
			g.addItem(r, &Item{
				ID: NewID("item_"), Type: realtime.ItemFunctionCall, CallID: p.Call.ID, Name: p.Call.Name,
			})
			g.argue(r, p.Call.Arguments)
			taken()
		})
		return
	case p.Call.ID != "":
		g.argue(r, p.Call.Arguments)
	}
	taken()
}

// complete ends a response whose answer is written.
func (g *responder) complete(r *response) {
	switch {
	case r.err != nil:
		r.status = realtime.ResponseFailed
	case r.reason != "":
		r.status = realtime.ResponseIncomplete
	default:
		r.status = realtime.ResponseCompleted
	}
	g.finish(r)
}

// cancelByClient answers response.cancel; an empty id means the conversation's response.
func (g *responder) cancelByClient(id string) *realtime.Error {
	r := g.active
	if i := slices.IndexFunc(g.asides, func(r *response) bool { return r.id == id }); i >= 0 {
		r = g.asides[i]
	}
	if r == nil || (id != "" && id != r.id) {
		return refuse("response_cancel_not_active", "", "Cancellation failed: no active response found")
	}
	g.cancel(r, "client_cancelled")
	return nil
}

// cancel stops the generation and closes what is open: the events are those of an ordinary end, with incomplete items.
// Of its sound only that of the words that were told is left.
func (g *responder) cancel(r *response, reason string) {
	r.status, r.reason = realtime.ResponseCancelled, reason
	if r.speech != nil {
		g.player.limit(r.speech, len(r.generated))
	}
	g.closeItem(r)
	g.finish(r)
}

// finish ends a response, whatever its status.
func (g *responder) finish(r *response) {
	if r.stop != nil {
		r.stop()
	}
	g.tellSpeech(r)
	if r.aside {
		g.asides = slices.DeleteFunc(g.asides, func(other *response) bool { return other == r })
	} else {
		g.active = nil
	}
	o := r.shown(g.conversationID)
	switch {
	case r.usage != nil:
		o["usage"] = r.usage
	case r.status != realtime.ResponseFailed:
		o["usage"] = g.usage(r)
	}
	g.wire.emit(object{"type": realtime.TypeResponseDone, "response": o})
	if !r.aside && !g.player.active() {
		g.quiet()
	}
}

// usage estimates tokens: four characters each for text, 20 per second of audio.
func (g *responder) usage(r *response) object {
	var inText, inAudio, outText, outAudio int
	text := func(it *Item) int { return (len(it.Words)+len(it.Arguments)+len(it.Output))/4 + 4 }
	for _, it := range r.seen(g.items.items) {
		switch {
		case slices.Contains(r.items, it):
		case it.Spoken:
			inAudio += 40
		default:
			inText += text(it)
		}
	}
	for _, it := range r.items {
		outText += text(it)
		outAudio += int(it.audioMS) / 50
	}
	instructions, _ := g.set.value("instructions").(string)
	inText += len(instructions) / 4
	in, out := inText+inAudio, outText+outAudio
	return object{
		"total_tokens": in + out, "input_tokens": in, "output_tokens": out,
		"input_token_details": object{
			"text_tokens": inText, "audio_tokens": inAudio, "image_tokens": 0, "cached_tokens": 0,
			"cached_tokens_details": object{"text_tokens": 0, "audio_tokens": 0, "image_tokens": 0},
		},
		"output_token_details": object{"text_tokens": outText, "audio_tokens": outAudio},
	}
}
