package simulator

import (
	"encoding/json"
	"slices"
	"strings"

	"voicebridge/realtime"
)

// response is what is being generated. Its steps run one after the other, Pace
// apart; whoever cancels it stops them.
type response struct {
	id       string
	aside    bool // conversation none: no items, no audio
	modality string
	voice    any
	metadata any
	tools    []tool
	choice   any

	items  []*item
	status string
	reason string
	err    *realtime.Error
	steps  []func()

	// open is the item that is being generated and what of it there is so far.
	open      *item
	openPart  bool
	generated string
	frames    int // of audio for the whole open item
	whole     string
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
		"conversation_id": convID, "output_modalities": []any{r.modality}, "max_output_tokens": "inf",
		"audio": object{"output": object{"format": object{"type": "audio/pcm", "rate": 24000}, "voice": r.voice}},
		"usage": nil, "metadata": r.metadata,
	}
	if r.aside {
		o["conversation_id"] = nil
	}
	return o
}

func activeResponse(id string) *realtime.Error {
	return refuse("conversation_already_has_active_response", "",
		"Conversation already has an active response in progress: %s. Wait until the response is finished before creating a new one.", id)
}

// requestResponse answers response.create.
func (s *Session) requestResponse(params object) *realtime.Error {
	if s.resp != nil {
		return activeResponse(s.resp.id)
	}
	s.startResponse(params)
	return nil
}

// startResponse begins a response; params are the overrides of response.create.
func (s *Session) startResponse(params object) {
	s.idle++
	r := &response{
		id: newID("resp_"), status: realtime.ResponseInProgress, modality: s.set.modality,
		voice: voiceOf(s.set.shown), metadata: params["metadata"],
		aside: params["conversation"] == "none", tools: s.set.tools, choice: s.set.choice,
	}
	if m, ok := params["output_modalities"].([]any); ok {
		r.modality = m[0].(string)
	}
	if t, ok := params["tools"]; ok {
		r.tools = readTools(t)
	}
	if c, ok := params["tool_choice"]; ok {
		r.choice = c
	}
	s.resp = r
	s.injectOddities()
	s.emit(object{"type": realtime.TypeResponseCreated, "response": r.shown(s.convID)})
	s.emitRateLimits()
	s.after(s.cfg.Pace.Think, func() {
		if s.resp != r {
			return
		}
		s.plan(r)
		s.step(r)
	})
}

func (s *Session) emitRateLimits() {
	s.emit(object{"type": realtime.TypeRateLimitsUpdated, "rate_limits": []any{
		object{"name": "requests", "limit": 1000, "remaining": 999, "reset_seconds": 0.06},
		object{"name": "tokens", "limit": 50000, "remaining": 49500, "reset_seconds": 0.6},
	}})
}

// plan asks the script what to say and makes the steps of it.
func (s *Session) plan(r *response) {
	if s.failed < s.faults.FailResponses {
		s.failed++
		code := s.faults.FailCode
		if code == "" {
			code = "rate_limit_exceeded"
		}
		r.steps = []func(){func() {
			r.status = realtime.ResponseFailed
			r.err = &realtime.Error{Type: "rate_limit_error", Code: code, Message: "The response failed on purpose."}
			s.finish(r)
		}}
		return
	}
	answer := s.choose(r)
	if answer.say != "" {
		s.planMessage(r, answer.say)
	}
	for _, c := range answer.calls {
		s.planCall(r, c, answer.reply)
	}
	r.steps = append(r.steps, func() {
		r.status = realtime.ResponseCompleted
		s.finish(r)
	})
}

// step runs the next step now and the one after it in Pace.Step.
func (s *Session) step(r *response) {
	if s.resp != r || len(r.steps) == 0 {
		return
	}
	f := r.steps[0]
	r.steps = r.steps[1:]
	f()
	if s.resp == r {
		s.after(s.cfg.Pace.Step, func() { s.step(r) })
	}
}

// where is the address of an event inside a response.
func (r *response) where(kind string, it *item) object {
	index := 0
	for i, other := range r.items {
		if other == it {
			index = i
		}
	}
	return object{"type": kind, "response_id": r.id, "item_id": it.id, "output_index": index}
}

func (r *response) whereContent(kind string, it *item) object {
	o := r.where(kind, it)
	o["content_index"] = 0
	return o
}

// addItem announces a new output item, empty and in progress.
func (s *Session) addItem(r *response, it *item) {
	it.status = "in_progress"
	r.items = append(r.items, it)
	r.open, r.openPart, r.generated = it, false, ""
	s.emitOutputItem(realtime.TypeOutputItemAdded, r, it)
	if !r.aside {
		s.conv.append(it)
		s.emitItem(realtime.TypeItemAdded, it)
	}
}

func (s *Session) emitOutputItem(kind string, r *response, it *item) {
	o := r.where(kind, it)
	delete(o, "item_id")
	o["item"] = it.shown()
	s.emit(o)
}

// doneItem closes the open item.
func (s *Session) doneItem(r *response, status string) {
	it := r.open
	it.status = status
	r.open = nil
	s.emitOutputItem(realtime.TypeOutputItemDone, r, it)
	if !r.aside {
		s.emitItem(realtime.TypeItemDone, it)
	}
}

// planMessage makes the steps of a message: spoken, or written in a text session.
func (s *Session) planMessage(r *response, text string) {
	it := &item{id: newID("item_"), kind: realtime.ItemMessage, role: "assistant"}
	part, delta := "audio", realtime.TypeAudioTranscriptDelta
	if r.modality == "text" {
		part, delta = "text", realtime.TypeOutputTextDelta
	}
	r.steps = append(r.steps, func() {
		s.addItem(r, it)
		o := r.whereContent(realtime.TypeContentPartAdded, it)
		if part == "audio" {
			o["part"] = object{"type": "audio", "transcript": ""}
		} else {
			o["part"] = object{"type": "text", "text": ""}
		}
		s.emit(o)
		r.openPart, r.whole = true, text
		if part == "audio" && !r.aside {
			frames := s.voice.say(text)
			r.frames = len(frames)
			it.audioMS = int64(len(frames)) * frameMS
			s.queueAudio(&utterance{response: r.id, item: it, frames: frames})
		}
	})
	for _, chunk := range chunks(text) {
		r.steps = append(r.steps, func() {
			r.generated += chunk
			o := r.whereContent(delta, it)
			o["delta"] = chunk
			s.emit(o)
		})
	}
	r.steps = append(r.steps, func() {
		s.closePart(r)
		s.doneItem(r, "completed")
	})
}

// closePart sends the done events of the open message's content, with what was
// generated of it.
func (s *Session) closePart(r *response) {
	it, text := r.open, r.generated
	it.words = text
	part := object{"type": "audio", "transcript": text}
	if r.modality == "text" {
		it.content = []object{{"type": realtime.ContentOutputText, "text": text}}
		part = object{"type": "text", "text": text}
		o := r.whereContent(realtime.TypeOutputTextDone, it)
		o["text"] = text
		s.emit(o)
	} else {
		it.content = []object{{"type": realtime.ContentOutputAudio, "transcript": text}}
		s.emit(r.whereContent(realtime.TypeOutputAudioDone, it))
		o := r.whereContent(realtime.TypeAudioTranscriptDone, it)
		o["transcript"] = text
		s.emit(o)
	}
	o := r.whereContent(realtime.TypeContentPartDone, it)
	o["part"] = part
	s.emit(o)
	r.openPart = false
}

// planCall makes the steps of a function call.
func (s *Session) planCall(r *response, c chosenCall, reply *Reply) {
	arguments := c.arguments
	if s.faults.BadArguments {
		arguments = arguments[:len(arguments)/2]
	}
	it := &item{id: newID("item_"), kind: realtime.ItemFunctionCall, callID: newID("call_"), name: c.name}
	r.steps = append(r.steps, func() {
		s.addItem(r, it)
		r.whole = arguments
	})
	for part := range strings.SplitSeq(arguments, ",") {
		r.steps = append(r.steps, func() {
			if r.generated != "" {
				part = "," + part
			}
			r.generated += part
			o := r.where(realtime.TypeFunctionArgumentsDelta, it)
			o["call_id"], o["delta"] = it.callID, part
			s.emit(o)
		})
	}
	r.steps = append(r.steps, func() {
		s.follow[it.callID] = reply
		s.closeCall(r)
		s.doneItem(r, "completed")
	})
}

func (s *Session) closeCall(r *response) {
	it := r.open
	it.arguments = r.generated
	o := r.where(realtime.TypeFunctionArgumentsDone, it)
	o["call_id"], o["name"], o["arguments"] = it.callID, it.name, it.arguments
	s.emit(o)
}

// cancelResponse stops the generation and closes what is open: the events of an
// ordinary end, with items that are incomplete.
func (s *Session) cancelResponse(reason string) {
	r := s.resp
	r.status, r.reason = realtime.ResponseCancelled, reason
	if it := r.open; it != nil {
		if it.kind == realtime.ItemFunctionCall {
			s.closeCall(r)
		} else {
			if r.openPart {
				s.limitAudio(r)
				s.closePart(r)
			}
		}
		s.doneItem(r, "incomplete")
	}
	s.finish(r)
}

// limitAudio leaves of the open item only the audio of the words that were
// generated: what was never generated cannot be played.
func (s *Session) limitAudio(r *response) {
	if r.whole == "" {
		return
	}
	s.play.limit(r.open, r.frames*len(r.generated)/len(r.whole))
}

// finish ends a response, whatever its status.
func (s *Session) finish(r *response) {
	s.resp = nil
	o := r.shown(s.convID)
	if r.status != realtime.ResponseFailed {
		o["usage"] = s.usage(r)
	}
	s.emit(object{"type": realtime.TypeResponseDone, "response": o})
	if !s.play.active() {
		s.armIdle()
	}
}

// usage estimates tokens: four characters each for text, 20 per second of audio.
func (s *Session) usage(r *response) object {
	var inText, inAudio, outText, outAudio int
	for _, it := range s.conv.items {
		n := (len(it.words)+len(it.arguments)+len(it.output))/4 + 4
		switch {
		case containsItem(r.items, it):
			outText += n
			outAudio += int(it.audioMS) / 50
		case it.spoken:
			inAudio += 40
		default:
			inText += n
		}
	}
	instructions, _ := s.set.shown["instructions"].(string)
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

func containsItem(list []*item, it *item) bool {
	return slices.Contains(list, it)
}

// injectOddities sends what the faults ask for before a response.
func (s *Session) injectOddities() {
	if s.faults.InjectUnknown {
		s.emit(object{"type": "response.hologram.delta", "response_id": newID("resp_"), "frames": []any{1, object{"a": nil}}})
	}
	if !s.faults.InjectMalformed {
		return
	}
	for _, raw := range []string{
		`this is not JSON`, `[]`, `{"event_id":"event_no_type"}`, `{"type":7}`,
		`{"type":"conversation.item.added","event_id":"event_bad_item","item":"no object"}`,
		`{"type":"response.done","event_id":"event_bad_response","response":[1,2]}`,
		`{"type":"conversation.item.done","event_id":"event_null_item","item":null}`,
		`{"type":"error","error":{"code":null,"message":null}}`,
	} {
		s.sendRaw(json.RawMessage(raw))
	}
}
