package served

import (
	"cmp"
	"math"
	"sync"
	"time"

	"voicebridge/realtime"
)

// speaker tells of the items of responses while they are made, and has messages spoken.
type speaker struct {
	wire        *wire
	loop        *Loop
	set         *Settings
	items       *items
	player      *player
	mouth       Mouth
	tasks       *sync.WaitGroup
	speechModel string // as records name it
}

// hand has the session's goroutine call f, and waits until f's argument was called or the response has ended.
func (g *speaker) hand(r *response, f func(taken func())) bool {
	return g.loop.hand(r.ctx, func(taken func()) {
		if !r.ended() {
			f(taken)
		}
	})
}

// then does what follows the open item, once that is spoken.
func (g *speaker) then(r *response, f func()) {
	if r.speech != nil && !r.speech.over {
		r.after = f
		return
	}
	g.closeItem(r)
	f()
}

// addItem announces a new output item, empty and in progress.
func (g *speaker) addItem(r *response, it *Item) {
	it.Status = "in_progress"
	r.items = append(r.items, it)
	r.open, r.generated, r.untold = it, "", nil
	g.emitOutputItem(realtime.TypeOutputItemAdded, r, it)
	if !r.aside {
		g.items.append(it)
		g.items.announce(realtime.TypeItemAdded, it)
	}
}

func (g *speaker) emitOutputItem(kind string, r *response, it *Item) {
	o := r.where(kind, it)
	delete(o, "item_id")
	o["item"] = it.shown()
	g.wire.emit(o)
}

// closeItem closes the open item, if there is one: its text or arguments are those that were told.
func (g *speaker) closeItem(r *response) {
	it := r.open
	if it == nil {
		return
	}
	if it.Type == realtime.ItemFunctionCall {
		g.closeCall(r)
	} else {
		g.closePart(r)
	}
	it.Status = "completed"
	if r.reason != "" || r.err != nil {
		it.Status = "incomplete"
	}
	r.open, r.speech = nil, nil
	g.emitOutputItem(realtime.TypeOutputItemDone, r, it)
	if !r.aside {
		g.items.announce(realtime.TypeItemDone, it)
	}
}

// openMessage begins a message: spoken, or written in a text session.
func (g *speaker) openMessage(r *response, text <-chan string) {
	it := &Item{ID: NewID("item_"), Type: realtime.ItemMessage, Role: "assistant"}
	g.addItem(r, it)
	part := object{"type": "text", "text": ""}
	if r.modality != "text" {
		part = object{"type": "audio", "transcript": ""}
	}
	o := r.whereContent(realtime.TypeContentPartAdded, it)
	o["part"] = part
	g.wire.emit(o)
	if text != nil {
		g.speak(r, it, text)
	}
}

// speak has the Mouth speak a message.
func (g *speaker) speak(r *response, it *Item, text <-chan string) {
	u := &utterance{response: r.id, item: it}
	r.speech = u
	r.sounds = append(r.sounds, u)
	saying := Saying{Response: r.id, Item: it.ID, Text: text, Speed: g.set.speed()}
	saying.Voice, _ = r.audio["output"].(object)["voice"].(string)
	frames := g.mouth.Speak(r.ctx, saying)
	g.tasks.Go(func() {
		var failed error
		for f, err := range frames {
			if failed = err; err != nil || !g.hand(r, func(taken func()) {
				g.hear(r, u, f)
				g.player.add(u, f, taken)
				g.tell(r)
			}) {
				break
			}
		}
		g.hand(r, func(taken func()) { g.spoken(r, u, failed); taken() })
		for range text { // what the Mouth leaves, or the Mind would wait
		}
	})
}

// hear takes what a Frame says about the sound of a message.
func (g *speaker) hear(r *response, u *utterance, f Frame) {
	if f.Sent > 0 && r.marks.clause.IsZero() {
		r.marks.clause = time.Now()
	}
	r.sent += f.Sent
	if f.Skipped != nil {
		g.wire.log.Warn("part of an answer not spoken", "error", f.Skipped)
		u.skipped = append(u.skipped, [2]int{u.end, f.Spoken})
		r.skipping = f.Skipped
	}
	u.end = f.Spoken
}

// spoken takes that all of the open message is spoken, or that nothing more of it will be.
func (g *speaker) spoken(r *response, u *utterance, failed error) {
	u.over = true
	if failed != nil {
		g.wire.log.Warn("answer not spoken", "error", failed)
		u.skipped = append(u.skipped, [2]int{u.end, math.MaxInt})
	}
	failed = cmp.Or(failed, r.skipping)
	switch {
	case len(u.frames) > 0:
		g.wire.failures = 0
	case failed != nil:
		g.wire.refuse(&realtime.Error{Type: "server_error", Code: "speech_failed", Message: failed.Error()})
		if g.player.exact {
			g.wire.outcome(failed)
		}
	}
	g.tell(r)
	if f := r.after; f != nil {
		r.after = nil
		g.closeItem(r)
		f()
	}
}

// tellSpeech tells how a response was spoken, which the Realtime API has no event for.
func (g *speaker) tellSpeech(r *response) {
	if len(r.sounds) == 0 || !g.player.exact {
		return
	}
	texts := object{}
	for _, u := range r.sounds {
		if len(u.skipped) > 0 {
			texts[u.item.ID] = u.spokenText()
		}
	}
	g.wire.emit(object{
		"type": realtime.TypeSpeech, "response_id": r.id, "spoken_texts": texts, "model": g.speechModel,
		"latency_ms": r.marks.shown(r.sounds[0].began),
		"usage":      object{"type": "characters", "characters": r.sent},
	})
}

// tell tells the words of the open message, of one that is spoken those whose sound has begun.
func (g *speaker) tell(r *response) {
	u := r.speech
	for len(r.untold) > 0 && (u == nil || u.over || u.end > len(r.generated)) {
		o := r.whereContent(realtime.TypeOutputTextDelta, r.open)
		if r.modality != "text" {
			o["type"] = realtime.TypeAudioTranscriptDelta
		}
		o["delta"] = r.untold[0]
		r.generated, r.untold = r.generated+r.untold[0], r.untold[1:]
		r.open.Words = r.generated
		g.wire.emit(o)
	}
	g.say(r, framesPerEvent)
}

// say sends the sound of the words that were told, if sound goes out in events, of which each has at least so many
// frames.
func (g *speaker) say(r *response, least int) {
	if g.player.ahead && r.speech != nil {
		g.player.say(r.speech, len(r.generated), least, r.whereContent(realtime.TypeOutputAudioDelta, r.open))
	}
}

// closePart sends the done events of the open message's content, with what was generated so far.
func (g *speaker) closePart(r *response) {
	g.say(r, 1)
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
}

// argue tells a piece of the open call's arguments.
func (g *speaker) argue(r *response, piece string) {
	if piece == "" {
		return
	}
	r.generated += piece
	o := r.where(realtime.TypeFunctionArgumentsDelta, r.open)
	o["call_id"], o["delta"] = r.open.CallID, piece
	g.wire.emit(o)
}

func (g *speaker) closeCall(r *response) {
	it := r.open
	it.Arguments = r.generated
	o := r.where(realtime.TypeFunctionArgumentsDone, it)
	o["call_id"], o["name"], o["arguments"] = it.CallID, it.Name, it.Arguments
	g.wire.emit(o)
}
