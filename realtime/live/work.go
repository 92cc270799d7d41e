package live

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"voicebridge/realtime"
)

// Times of delegated work.
const (
	// holdingAfter is how long the caller waits in silence before they are told that the work goes on, and
	// holdingAgain the same for later.
	holdingAfter, holdingAgain = 6 * time.Second, 25 * time.Second
	// apologyAfter is how long the caller waits for an answer that the model was told.
	apologyAfter = 8 * time.Second
	// A delegation comes before the sentence that it is about. wordsQuiet is how long nothing comes after that sentence
	// and after the delegation, and wordsWait how long the sentence may take to begin.
	wordsQuiet, wordsWait = time.Second, 4 * time.Second
)

// What the model is told to say.
const (
	holdingLine = "Tell the user in one short sentence that you are still working on it."
	apologyLine = "Tell the user in one short sentence that this did not work, and that they may ask again."
	repeatLine  = "The user has not heard an answer to what they said last. Give it now."
	stopLine    = "The user has stopped you. Say no more of this, and nothing until they speak or you have a result " +
		"to tell."
)

// work is what the voice has delegated, and what was typed: the client answers both, by the function AskTool.
type work struct {
	*core
	captions *captions
	lines    *lines

	seen seen
	// pending waits to be asked, running is being answered. A newer one takes the place of the one that waits, with all
	// that the user has said meanwhile.
	pending, running *ask
	texts            []string // typed, and not asked yet
	// rounds counts what was asked since the user's last words, of which there may be maxRounds, if that is not zero.
	rounds, maxRounds int
	outside           seen // calls of whoever does the work, which take their results themselves
	late              bool // an answer has come that nobody waits for
	// waits is since when the caller has heard nothing, although they wait for an answer; zero if they do not. held means
	// that they were told then that it takes longer.
	waits time.Time
	held  bool
}

// ask is something to be answered.
type ask struct {
	id         string
	known      bool // to the upstream, as a delegation
	since      time.Time
	text       string // what was typed; empty: what the user says
	superseded bool
}

// maxSeen is how many ids are remembered against repeats.
const maxSeen = 4096

// seen are the ids that have come.
type seen map[string]bool

// first reports whether an id is a new one.
func (s seen) first(id string) bool {
	if id == "" || s[id] {
		return false
	}
	if len(s) >= maxSeen {
		clear(s)
	}
	s[id] = true
	return true
}

// delegated takes session.delegation.created.
func (w *work) delegated(ev *event) {
	if w.seen.first(ev.Delegation.ID) {
		w.lines.about = w.now
		w.begin(&ask{id: ev.Delegation.ID, known: true})
	}
}

// begin makes something wait to be asked. What is being answered goes on, but the caller is not told the answer.
func (w *work) begin(a *ask) {
	a.since = w.now
	if w.waits.IsZero() || w.held {
		w.waits, w.held = w.now, false
	}
	if w.running != nil {
		w.running.superseded = true
	}
	w.pending = a
}

// isAnswering reports whether something was begun whose answer will be told.
func (w *work) isAnswering() bool { return w.pending != nil || w.running != nil }

// askNext asks what waits, once the whole sentence is there and nothing else is being answered.
func (w *work) askNext() {
	a := w.pending
	if a == nil || w.running != nil || w.captions.begun.text != "" || w.now.Before(w.askAt()) {
		return
	}
	w.pending = nil
	words, _ := w.captions.words()
	if a.text == "" {
		if a.text = words; a.text == "" {
			if u := w.captions.last(user); u != nil {
				a.text = u.text(0)
			}
		}
		w.captions.taken = w.captions.said
	}
	spent := w.maxRounds > 0 && w.rounds >= w.maxRounds
	if spent || strings.TrimSpace(a.text) == "" {
		return // unless the model says something by itself, it is told to apologise
	}
	w.running = a
	w.rounds++
	w.call(a.id, AskTool, string(realtime.Encode(tree{"question": a.text})))
}

// askAt is when the one that waits can be asked, as far as is known now.
func (w *work) askAt() time.Time {
	a := w.pending
	words, touched := w.captions.words()
	switch {
	case a.text != "":
		return w.now
	case words == "":
		return a.since.Add(wordsWait)
	case touched.Before(a.since):
		touched = a.since
	}
	return touched.Add(wordsQuiet)
}

// lent passes on a call that the work on an answer has for the client.
func (w *work) lent(it realtime.Item) {
	w.outside.first(it.CallID)
	w.call(it.CallID, it.Name, it.Arguments)
}

// call calls the client's function.
func (w *work) call(id, name, arguments string) {
	responseID := newID("resp_")
	w.emit(responseCreated(responseID))
	item := tree{
		"id": newID("item_"), "object": "realtime.item", "type": realtime.ItemFunctionCall, "status": "completed",
		"call_id": id, "name": name, "arguments": arguments,
	}
	begun := maps.Clone(item)
	begun["status"], begun["arguments"] = "in_progress", ""
	w.emit(tree{"type": realtime.TypeOutputItemAdded, "response_id": responseID, "output_index": 0, "item": begun})
	before := w.captions.append(begun)
	w.emit(tree{
		"type": realtime.TypeFunctionArgumentsDone, "response_id": responseID, "item_id": item["id"], "output_index": 0,
		"call_id": id, "name": name, "arguments": arguments,
	})
	w.emit(tree{"type": realtime.TypeOutputItemDone, "response_id": responseID, "output_index": 0, "item": item})
	w.emit(tree{"type": realtime.TypeItemDone, "previous_item_id": orNull(before), "item": item})
	done := response(responseID, realtime.ResponseCompleted)
	done["output"] = []tree{item}
	w.emit(tree{"type": realtime.TypeResponseDone, "response": done})
}

// output takes the result of the function.
func (w *work) output(callID, output string) {
	a := w.running
	if w.outside[callID] {
		delete(w.outside, callID)
		return
	}
	if a == nil || a.id != callID {
		w.late = true
		return
	}
	w.running = nil
	delegation := ""
	if a.known {
		delegation = a.id
	}
	if a.superseded {
		const earlier = "(An answer to an earlier question, which the user does not wait for any more: %s)"
		w.lines.know(fmt.Sprintf(earlier, output), delegation)
		return
	}
	w.waits, w.held = w.now, false
	if strings.HasPrefix(output, `{"error"`) {
		output = "This is how the work has ended. Tell the user what matters of it, in plain words: " + output
	}
	w.lines.say(output, delegation, true)
}

// turn takes that the user says something new.
func (w *work) turn() { w.rounds = 0 }

// text takes a text that the user has typed.
func (w *work) text(text string) {
	w.lines.know("The user has typed: "+text, "")
	w.turn()
	w.texts = append(w.texts, text)
}

// create takes that the client wants an answer. It reports false if there is nothing to answer.
func (w *work) create(typed bool) bool {
	switch {
	case typed:
		w.begin(&ask{id: newID("item_"), text: strings.Join(w.texts, "\n")})
		w.texts = nil
		w.askNext()
	case w.late || w.lines.expected() || w.isAnswering():
		w.late = false
		w.nothing()
	case w.captions.unheard:
		w.captions.unheard = false
		w.captions.repeatAt = w.sound.position()
		w.lines.say(repeatLine, "", true)
	default:
		return false
	}
	return true
}

// nothing answers a request for a response that is made anyway, or was.
func (w *work) nothing() {
	id := newID("resp_")
	w.emit(responseCreated(id))
	w.emit(tree{"type": realtime.TypeResponseDone, "response": response(id, realtime.ResponseCompleted)})
}

// heard takes that the model says something.
func (w *work) heard() {
	if w.waits = w.now; !w.isAnswering() && len(w.lines.waiting) == 0 {
		w.waits = time.Time{}
	}
}

// tick does what is due.
func (w *work) tick() {
	w.askNext()
	if w.waits.IsZero() || w.lines.busy() || len(w.lines.waiting) > 0 {
		return
	}
	switch silent := w.now.Sub(w.waits); {
	case !w.isAnswering() && silent >= apologyAfter:
		w.waits = time.Time{}
		w.lines.say(apologyLine, "", false)
	case w.isAnswering() && (silent >= holdingAgain || !w.held && silent >= holdingAfter):
		w.waits, w.held = w.now, true
		w.lines.say(holdingLine, "", false)
	}
}
