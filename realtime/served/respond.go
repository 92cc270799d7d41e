package served

import (
	"slices"
	"strings"
	"time"

	"voicebridge/realtime"
)

// Pace is how fast a session thinks.
type Pace struct {
	Think time.Duration // from the turn's end to the first output
	Step  time.Duration // between two deltas
}

// responder generates responses: one at a time in the conversation, and beside it any number outside it.
type responder struct {
	wire   *wire
	loop   *Loop
	set    *Settings
	items  *items
	player *player
	mind   Mind
	mouth  Mouth
	pace   Pace

	conversationID string
	active         *response   // in the conversation; nil if there is none
	asides         []*response // outside it
	begins         func()      // called when a response in the conversation begins
	quiet          func()      // called when one is done and no audio is playing
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
	if r.aside {
		g.asides = append(g.asides, r)
	} else {
		g.begins()
		g.active = r
	}
	g.wire.emit(object{"type": realtime.TypeResponseCreated, "response": r.shown(g.conversationID)})
	g.emitRateLimits()
	g.loop.After(g.pace.Think, func() {
		if r.ended() {
			return
		}
		g.plan(r)
		g.step(r)
	})
}

func (g *responder) emitRateLimits() {
	g.wire.emit(object{"type": realtime.TypeRateLimitsUpdated, "rate_limits": []any{
		object{"name": "requests", "limit": 1000, "remaining": 999, "reset_seconds": 0.06},
		object{"name": "tokens", "limit": 50000, "remaining": 49500, "reset_seconds": 0.6},
	}})
}

// plan asks the Mind what to say and turns it into steps.
func (g *responder) plan(r *response) {
	answer := g.mind.Answer(r.request(g.items.items))
	if len(answer.Say) > 0 {
		g.planMessage(r, answer.Say, answer.Incomplete)
	}
	for _, c := range answer.Calls {
		g.planCall(r, c)
	}
	r.steps = append(r.steps, func() {
		r.status = realtime.ResponseCompleted
		switch {
		case answer.Failed != nil:
			r.status, r.err = realtime.ResponseFailed, answer.Failed
		case answer.Incomplete:
			r.status, r.reason = realtime.ResponseIncomplete, "max_output_tokens"
		}
		g.finish(r)
	})
}

// step runs the next step now and schedules the one after it.
func (g *responder) step(r *response) {
	if r.ended() || len(r.steps) == 0 {
		return
	}
	f := r.steps[0]
	r.steps = r.steps[1:]
	f()
	if !r.ended() {
		g.loop.After(g.pace.Step, func() { g.step(r) })
	}
}

// addItem announces a new output item, empty and in progress.
func (g *responder) addItem(r *response, it *Item) {
	it.Status = "in_progress"
	r.items = append(r.items, it)
	r.open, r.openPart, r.generated = it, false, ""
	g.emitOutputItem(realtime.TypeOutputItemAdded, r, it)
	if !r.aside {
		g.items.append(it)
		g.items.announce(realtime.TypeItemAdded, it)
	}
}

func (g *responder) emitOutputItem(kind string, r *response, it *Item) {
	o := r.where(kind, it)
	delete(o, "item_id")
	o["item"] = it.shown()
	g.wire.emit(o)
}

// doneItem closes the open item.
func (g *responder) doneItem(r *response, status string) {
	it := r.open
	it.Status = status
	r.open = nil
	g.emitOutputItem(realtime.TypeOutputItemDone, r, it)
	if !r.aside {
		g.items.announce(realtime.TypeItemDone, it)
	}
}

// planMessage makes the steps of a message: spoken, or written in a text session. cut means that it lacks its end.
func (g *responder) planMessage(r *response, pieces []string, cut bool) {
	text := strings.Join(pieces, "")
	it := &Item{ID: NewID("item_"), Type: realtime.ItemMessage, Role: "assistant"}
	var spoken *utterance
	part, delta := "audio", realtime.TypeAudioTranscriptDelta
	if r.modality == "text" {
		part, delta = "text", realtime.TypeOutputTextDelta
	}
	r.steps = append(r.steps, func() {
		g.addItem(r, it)
		o := r.whereContent(realtime.TypeContentPartAdded, it)
		if part == "audio" {
			o["part"] = object{"type": "audio", "transcript": ""}
		} else {
			o["part"] = object{"type": "text", "text": ""}
		}
		g.wire.emit(o)
		r.openPart, r.whole = true, text
		if part == "audio" && !r.aside {
			spoken = &utterance{response: r.id, item: it, frames: g.mouth.Speak(text)}
			r.frames = len(spoken.frames)
			if !g.player.ahead {
				it.audioMS = int64(r.frames) * frameMS
				g.player.add(spoken)
			}
		}
	})
	for _, chunk := range pieces {
		r.steps = append(r.steps, func() {
			r.generated += chunk
			o := r.whereContent(delta, it)
			o["delta"] = chunk
			g.wire.emit(o)
			if g.player.ahead && spoken != nil {
				frames := r.frames * len(r.generated) / len(text)
				g.player.say(spoken, frames, r.whereContent(realtime.TypeOutputAudioDelta, it))
			}
		})
	}
	r.steps = append(r.steps, func() {
		g.closePart(r)
		if cut {
			g.doneItem(r, "incomplete")
		} else {
			g.doneItem(r, "completed")
		}
	})
}

// closePart sends the done events of the open message's content, with what was generated so far.
func (g *responder) closePart(r *response) {
	it, text := r.open, r.generated
	it.Words = text
	part := object{"type": "audio", "transcript": text}
	if r.modality == "text" {
		it.Content = []object{{"type": realtime.ContentOutputText, "text": text}}
		part = object{"type": "text", "text": text}
		o := r.whereContent(realtime.TypeOutputTextDone, it)
		o["text"] = text
		g.wire.emit(o)
	} else {
		it.Content = []object{{"type": realtime.ContentOutputAudio, "transcript": text}}
		g.wire.emit(r.whereContent(realtime.TypeOutputAudioDone, it))
		o := r.whereContent(realtime.TypeAudioTranscriptDone, it)
		o["transcript"] = text
		g.wire.emit(o)
	}
	o := r.whereContent(realtime.TypeContentPartDone, it)
	o["part"] = part
	g.wire.emit(o)
	r.openPart = false
}

// planCall makes the steps of a function call.
func (g *responder) planCall(r *response, c Call) {
	it := &Item{ID: NewID("item_"), Type: realtime.ItemFunctionCall, CallID: c.ID, Name: c.Name}
	r.steps = append(r.steps, func() {
		g.addItem(r, it)
		r.whole = c.Arguments
	})
	for part := range strings.SplitSeq(c.Arguments, ",") {
		r.steps = append(r.steps, func() {
			if r.generated != "" {
				part = "," + part
			}
			r.generated += part
			o := r.where(realtime.TypeFunctionArgumentsDelta, it)
			o["call_id"], o["delta"] = it.CallID, part
			g.wire.emit(o)
		})
	}
	r.steps = append(r.steps, func() {
		g.closeCall(r)
		g.doneItem(r, "completed")
	})
}

func (g *responder) closeCall(r *response) {
	it := r.open
	it.Arguments = r.generated
	o := r.where(realtime.TypeFunctionArgumentsDone, it)
	o["call_id"], o["name"], o["arguments"] = it.CallID, it.Name, it.Arguments
	g.wire.emit(o)
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
func (g *responder) cancel(r *response, reason string) {
	r.status, r.reason = realtime.ResponseCancelled, reason
	if it := r.open; it != nil {
		if it.Type == realtime.ItemFunctionCall {
			g.closeCall(r)
		} else if r.openPart {
			g.limitAudio(r)
			g.closePart(r)
		}
		g.doneItem(r, "incomplete")
	}
	g.finish(r)
}

// limitAudio leaves only the audio of the words that were generated in the open item: the rest can never be played.
func (g *responder) limitAudio(r *response) {
	if r.whole == "" {
		return
	}
	g.player.limit(r.open, r.frames*len(r.generated)/len(r.whole))
}

// finish ends a response, whatever its status.
func (g *responder) finish(r *response) {
	if r.aside {
		g.asides = slices.DeleteFunc(g.asides, func(other *response) bool { return other == r })
	} else {
		g.active = nil
	}
	o := r.shown(g.conversationID)
	if r.status != realtime.ResponseFailed {
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
