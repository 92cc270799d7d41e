package live

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"voicebridge/realtime"
)

// Times of delegated work.
const (
	// startedAfter is how long a call is open before the backend is told that it has only begun: while one is, the
	// caller is not heard.
	startedAfter = 1500 * time.Millisecond
	// holdingAfter is how long the caller waits in silence before they are told that the work goes on, and
	// holdingAgain the same for later.
	holdingAfter, holdingAgain = 6 * time.Second, 25 * time.Second
	// apologyAfter is how long after its end the caller waits for the result.
	apologyAfter = 4 * time.Second
	// stalled is how long a backend that says nothing counts as one that works.
	stalled = 90 * time.Second
)

// Limits of what the backend of a session is told in all. Source: the error response_input_buffer_full; what counts
// is the JSON of each item.
const (
	maxItems, maxBytes = 128, 32768
	// spare is kept so that every call can be answered, and reserve what is left when the session is replaced.
	spare, reserve = 1 << 10, 6 << 10
	spareItems     = 16
)

// What the model is told to say.
const (
	holdingLine = "Tell the user in one short sentence that you are still working on it."
	apologyLine = "Tell the user in one short sentence that this did not work, and that they may ask again."
	repeatLine  = "The user has not heard an answer to what they said last. Give it now."
	stopLine    = "The user has stopped you. Say no more of this, and nothing until they speak or you have a result " +
		"to tell."
	startedText = `{"status":"started","note":"It is still running, or waits for the user's permission. The user ` +
		`will be told the result by itself: say only that it has begun, and do not call it again."}`
	cutNote  = "\n[cut: the rest did not fit]"
	lostText = `{"error":"the result could not be passed on"}`
)

// task is a delegation, of which the caller is told something every few seconds.
type task struct {
	id    string
	since time.Time
	news  time.Time // when the caller was told something last, or the task began
	held  bool      // a holding line was said
	over  time.Time // when it ended
}

// work is what the voice has delegated.
type work struct {
	*core
	captions *captions
	lines    *lines
	chat     bool // it is delegated to the client

	batches []*batch
	calls   []*call // without a result
	seen    seen
	tasks   []*task
	// creating is when the backend was asked to go on, zero once it does.
	creating time.Time
	creates  int  // how often it was
	typed    bool // a text waits for the backend
	voided   bool // a result has come that nobody waits for
	askedBy  string
	texts    []string // typed ones, for a delegation to the client
	// rounds counts the calls' answers since the user's last words; most that there may be; quiet means that the
	// backend was told to call nothing.
	rounds, maxRounds int
	quiet             bool
	items             int
	bytes             int
	most              struct{ items, bytes int }
	renewed           bool
	// delegations that wait to be asked: the newest one, since when; running is the one that is.
	pending *ask
	running *ask
}

// ask is a delegation to the client.
type ask struct {
	id         string
	since      time.Time
	offset     time.Duration
	text       string // what is asked; empty: what the user says
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
	id := ev.Delegation.ID
	if !w.seen.first("delegation " + id) {
		return
	}
	w.begin(id)
	if w.chat {
		w.supersede(&ask{id: id, since: w.now, offset: time.Duration(ev.Offset) * time.Millisecond})
	}
}

// begin begins a task.
func (w *work) begin(id string) *task {
	for _, t := range w.tasks {
		if t.id == id {
			return t
		}
	}
	t := &task{id: id, since: w.now, news: w.now}
	w.tasks = append(w.tasks, t)
	return t
}

// end ends a task: now the caller should hear the result.
func (w *work) end(id string) {
	t := w.begin(id)
	t.over, t.news = w.now, w.now
	t.held = false
}

// heard takes that the model says something: each task has told something.
func (w *work) heard() {
	for _, t := range w.tasks {
		t.news = w.now
	}
	w.tasks = slices.DeleteFunc(w.tasks, func(t *task) bool { return !t.over.IsZero() })
}

// supersede makes a delegation the one that waits. What runs goes on, but is not told the caller.
func (w *work) supersede(a *ask) {
	if w.pending != nil {
		w.drop(w.pending.id)
	}
	if w.running != nil {
		w.running.superseded = true
	}
	w.pending = a
}

// drop forgets a task of which nothing will be told.
func (w *work) drop(id string) {
	w.tasks = slices.DeleteFunc(w.tasks, func(t *task) bool { return t.id == id })
}

// Times of a delegation to the client: it comes before the sentence that it is about.
const (
	wordsQuiet = time.Second     // after the last fragment, and after it
	wordsWait  = 4 * time.Second // for the first one
)

// askNext asks what waits, once the whole sentence is there and nothing else runs.
func (w *work) askNext() {
	a := w.pending
	if a == nil || w.running != nil || w.now.Before(w.askAt()) {
		return
	}
	w.pending, w.running = nil, a
	words, _ := w.captions.words()
	if a.text == "" {
		if a.text = words; a.text == "" {
			if u := w.captions.last(user); u != nil {
				a.text = u.text(0)
			}
		}
		w.captions.taken = w.captions.said
	}
	if strings.TrimSpace(a.text) == "" {
		w.running = nil
		w.drop(a.id)
		return
	}
	c := &call{id: a.id, name: AskTool, since: w.now, started: true}
	w.calls = append(w.calls, c)
	id := newID("resp_")
	w.emit(responseCreated(id))
	item := w.called(id, c, string(realtime.Encode(tree{"question": a.text})))
	done := response(id, spoken, realtime.ResponseCompleted)
	done["output"] = []tree{item}
	w.emit(tree{"type": realtime.TypeResponseDone, "response": done})
}

// askAt is when the delegation that waits can be asked, as far as is known now.
func (w *work) askAt() time.Time {
	a := w.pending
	words, touched := w.captions.words()
	switch {
	case a.text != "":
		return w.now
	case words == "":
		return a.since.Add(wordsWait)
	}
	return later(touched, a.since).Add(wordsQuiet)
}

// called tells of a function call, and returns its item.
func (w *work) called(responseID string, c *call, arguments string) tree {
	item := tree{
		"id": newID("item_"), "object": "realtime.item", "type": realtime.ItemFunctionCall, "status": "completed",
		"call_id": c.id, "name": c.name, "arguments": arguments,
	}
	begun := maps.Clone(item)
	begun["status"], begun["arguments"] = "in_progress", ""
	w.emit(tree{"type": realtime.TypeOutputItemAdded, "response_id": responseID, "output_index": 0, "item": begun})
	before := w.captions.lastItem
	w.captions.lastItem, _ = item["id"].(string)
	w.captions.turnAt = w.sound.position()
	w.captions.announce(before, begun)
	w.emit(tree{
		"type": realtime.TypeFunctionArgumentsDone, "response_id": responseID, "item_id": item["id"], "output_index": 0,
		"call_id": c.id, "name": c.name, "arguments": arguments,
	})
	w.emit(tree{"type": realtime.TypeOutputItemDone, "response_id": responseID, "output_index": 0, "item": item})
	w.emit(tree{"type": realtime.TypeItemDone, "previous_item_id": orNull(before), "item": item})
	return item
}

// backend takes an event of the backend.
func (w *work) backend(ev *event) {
	var e backendEvent
	if readLoosely(ev.Event, &e) != nil {
		return
	}
	switch e.Type {
	case "response.created", "response.in_progress":
		w.responding(ev.DelegationID, &e)
	case "response.output_item.done":
		if e.Item.Type == realtime.ItemFunctionCall && (e.Item.Status == "" || e.Item.Status == "completed") {
			w.calledBy(w.newest(ev.DelegationID), &e)
		}
	case "response.completed", "response.failed", "response.incomplete", "response.cancelled":
		w.completed(w.byID(ev.DelegationID, &e), strings.TrimPrefix(e.Type, "response."), &e)
	default:
		if b := w.newest(ev.DelegationID); b != nil {
			b.touched = w.now
		}
	}
}

// responding takes that the backend works.
func (w *work) responding(delegation string, e *backendEvent) *batch {
	for _, b := range w.batches {
		if b.id == e.Response.ID || e.Response.ID == "" && b.delegate == delegation && !b.done {
			b.touched = w.now
			return b
		}
	}
	b := &batch{id: e.Response.ID, delegate: delegation, touched: w.now}
	if b.id == "" {
		b.id = newID("resp_")
	}
	if !w.seen.first("response " + b.id) {
		b.done = true // it is over, and this comes late
		return b
	}
	w.batches = append(w.batches, b)
	w.creating, w.askedBy = time.Time{}, ""
	if delegation != "" {
		w.drop("") // the text that it answers
	}
	w.begin(delegation).over = time.Time{}
	made := response(b.id, written, realtime.ResponseInProgress)
	made["model"] = e.Response.Model
	w.emit(tree{"type": realtime.TypeResponseCreated, "response": made})
	return b
}

// newest returns the newest response of a delegation that is not over; one may go on without having been announced.
func (w *work) newest(delegation string) *batch {
	for _, b := range slices.Backward(w.batches) {
		if b.delegate == delegation && !b.done {
			return b
		}
	}
	return nil
}

func (w *work) byID(delegation string, e *backendEvent) *batch {
	for _, b := range w.batches {
		if b.id == e.Response.ID {
			return b
		}
	}
	if e.Response.ID == "" {
		return w.newest(delegation)
	}
	return w.responding(delegation, e)
}

// calledBy takes a function call, once.
func (w *work) calledBy(b *batch, e *backendEvent) {
	if e.Item.CallID == "" || slices.ContainsFunc(w.calls, func(c *call) bool { return c.id == e.Item.CallID }) {
		return
	}
	if b == nil {
		b = w.responding("", &backendEvent{})
	}
	if !w.seen.first("call " + b.id + " " + e.Item.CallID) {
		return
	}
	c := &call{id: e.Item.CallID, name: e.Item.Name, batch: b, since: w.now}
	b.calls, b.touched = append(b.calls, c), w.now
	w.calls = append(w.calls, c)
	b.items = append(b.items, w.called(b.id, c, e.Item.Arguments))
}

// completed takes the end of a response of the backend.
func (w *work) completed(b *batch, status string, e *backendEvent) {
	if b == nil || b.done {
		return
	}
	b.done = true
	done := response(b.id, written, status)
	done["model"], done["output"] = e.Response.Model, append([]tree{}, b.items...)
	if len(e.Response.Usage) > 0 && string(e.Response.Usage) != "null" {
		done["usage"] = e.Response.Usage
	}
	if status != realtime.ResponseCompleted {
		details := tree{"type": status, "reason": e.Response.Why.Reason}
		if e.Response.Error != nil {
			details["error"] = e.Response.Error
		}
		done["status_details"] = details
		w.void(b)
	}
	w.emit(tree{"type": realtime.TypeResponseDone, "response": done})
	if len(b.calls) == 0 {
		w.end(b.delegate)
	}
	w.goOn()
}

// void drops the calls of a response that has failed: nobody waits for their results.
func (w *work) void(b *batch) {
	w.calls = slices.DeleteFunc(w.calls, func(c *call) bool { return c.batch == b })
	b.calls = nil
}

// output takes the result of a call.
func (w *work) output(callID, output, eventID string) {
	at := slices.IndexFunc(w.calls, func(c *call) bool { return c.id == callID })
	if at < 0 {
		w.voided = true
		return
	}
	c := w.calls[at]
	w.calls = slices.Delete(w.calls, at, at+1)
	switch a := w.running; {
	case a != nil && a.id == callID:
		w.running = nil
		if a.superseded {
			const earlier = "(An answer to an earlier question, which the user does not wait for any more: %s)"
			w.lines.know(fmt.Sprintf(earlier, output), w.named(a.id))
			w.drop(a.id)
			return
		}
		w.end(a.id)
		w.lines.say(result(c.name, output), w.named(a.id), true)
	case c.started:
		w.end(c.batch.delegate)
		w.lines.say(result(c.name, output), "", true)
	default:
		w.reply(c, output, eventID)
		w.goOn()
	}
}

// result introduces the result of a function that is told by voice.
func result(name, output string) string {
	if name == AskTool && !strings.HasPrefix(output, `{"error"`) {
		return output
	}
	return fmt.Sprintf("This is the result of %s. Tell the user what matters of it, in plain words: %s", name, output)
}

// reply answers a call to the backend, as far as there is room.
func (w *work) reply(c *call, output, eventID string) {
	c.answered = true
	room := max(w.most.bytes-w.bytes-spare, 0) / 2
	item := func(text string) tree {
		return outputItem(c.id, text)
	}
	for len(output) > 0 && len(realtime.Encode(item(output))) > max(room, spare/4) {
		over := len(realtime.Encode(item(output))) - max(room, spare/4)
		keep := len(strings.TrimSuffix(output, cutNote)) - over - len(cutNote)
		output = realtime.HeadOf(output, max(keep, 0))
		if output != "" {
			output += cutNote
		}
		if keep <= 0 {
			output = lostText
			break
		}
	}
	w.item(command{kind: sentOutput, call: c, client: eventID}, item(output))
}

// item sends an item to the backend, and counts it.
func (w *work) item(what command, item tree) {
	what.bytes = len(realtime.Encode(item))
	w.items, w.bytes = w.items+1, w.bytes+what.bytes
	w.command(what, tree{"type": typeItem, "item": item})
	if !w.renewed && (w.bytes > w.most.bytes-reserve || w.items > w.most.items-spareItems) {
		w.renewed = true
		w.emit(tree{"type": realtime.TypeSessionExpiring})
	}
}

// goOn asks the backend to go on, once, when every open call of the session is answered and no response is being made.
func (w *work) goOn() {
	open := slices.ContainsFunc(w.batches, func(b *batch) bool {
		return !b.done || slices.ContainsFunc(b.calls, func(c *call) bool { return !c.answered })
	})
	if open || !w.creating.IsZero() {
		return
	}
	due := w.typed
	for _, b := range w.batches {
		if len(b.calls) > 0 && !b.replied {
			b.replied, due = true, true
			w.rounds++
		}
	}
	w.batches = slices.DeleteFunc(w.batches, func(b *batch) bool { return b.done && (b.replied || len(b.calls) == 0) })
	if !due {
		return
	}
	w.limit(w.maxRounds > 0 && w.rounds >= w.maxRounds)
	w.typed, w.creating = false, w.now
	w.creates++
	w.command(command{kind: sentCreate, client: w.askedBy, create: w.creates}, tree{"type": typeCreate})
}

// limit has the backend call nothing, or whatever it wants.
func (w *work) limit(quiet bool) {
	if quiet == w.quiet {
		return
	}
	w.quiet = quiet
	choice := "auto"
	if quiet {
		choice = "none"
	}
	w.command(command{kind: sentOther}, tree{"type": typeUpdate, "session": tree{
		"delegation": tree{"type": "responses", "responses": tree{"tool_choice": choice}},
	}})
}

// turn takes that the user says something new.
func (w *work) turn() {
	w.rounds = 0
	if !w.chat {
		w.limit(false)
	}
}

// text takes a text that the user has typed.
func (w *work) text(text, eventID string) {
	w.lines.know("The user has typed: "+text, "")
	w.turn()
	if w.chat {
		w.texts = append(w.texts, text)
		return
	}
	w.item(command{kind: sentText, client: eventID}, tree{
		"type": "message", "role": "user", "content": []tree{{"type": "input_text", "text": text}},
	})
	// The client sees the response that was asked for begin after this text, which it does not answer.
	w.typed = w.typed || !w.creating.IsZero()
}

// create takes that the client wants an answer. It reports false if there is nothing to answer.
func (w *work) create(eventID string, typed bool) bool {
	switch {
	case typed && w.chat:
		a := &ask{id: newID("item_"), since: w.now, text: strings.Join(w.texts, "\n")}
		w.texts = nil
		w.begin(a.id)
		w.supersede(a)
		w.askNext()
	case typed:
		w.typed, w.askedBy = true, eventID
		w.begin("")
		w.goOn()
	case !w.creating.IsZero() || slices.ContainsFunc(w.batches, func(b *batch) bool { return !b.done }):
	case w.voided || w.lines.expected() || w.isAnswering():
		w.voided = false
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

// isAnswering reports whether something was begun whose result will be told.
func (w *work) isAnswering() bool {
	if w.running != nil || w.pending != nil {
		return true
	}
	return slices.ContainsFunc(w.calls, func(c *call) bool { return c.started })
}

// nothing answers a request for a response that is made anyway, or was.
func (w *work) nothing() {
	id := newID("resp_")
	w.emit(responseCreated(id))
	w.emit(tree{"type": realtime.TypeResponseDone, "response": response(id, spoken, realtime.ResponseCompleted)})
}

var (
	limits = regexp.MustCompile(`(\d+) items and (\d+)`)
	calls  = regexp.MustCompile(`call_[A-Za-z0-9_-]+`)
)

// refused takes that an item was refused, or a request to go on.
func (w *work) refused(what command, e *realtime.Error) {
	if what.bytes > 0 {
		w.items, w.bytes = w.items-1, w.bytes-what.bytes
	}
	if found := limits.FindStringSubmatch(e.Message); e.Code == "response_input_buffer_full" && found != nil {
		items, _ := strconv.Atoi(found[1])
		size, _ := strconv.Atoi(found[2])
		w.most.items, w.most.bytes = max(items, 1), max(size, 1)
	}
	switch {
	case what.kind == sentOutput && !what.call.refused:
		what.call.refused = true
		w.item(command{kind: sentOutput, call: what.call}, outputItem(what.call.id, lostText))
		w.again()
	case what.kind == sentCreate && what.create != w.creates: // another was sent since
	case what.kind == sentCreate && e.Code == "function_call_outputs_required":
		w.creating = time.Time{}
		w.missing(e.Message)
	case what.kind == sentCreate:
		w.creating = time.Time{}
	}
}

func outputItem(callID, output string) tree {
	return tree{"type": realtime.ItemFunctionCallOutput, "call_id": callID, "output": output}
}

// again asks the backend once more to go on: it may have refused to.
func (w *work) again() {
	w.creating, w.typed = time.Time{}, true
	w.goOn()
}

// missing answers the calls that the backend waits for and nobody else does.
func (w *work) missing(message string) {
	w.typed = true // it is asked again when they are answered
	for _, id := range calls.FindAllString(message, -1) {
		waits := func(c *call) bool { return c.id == id && !c.answered }
		if slices.ContainsFunc(w.calls, waits) || !w.seen.first("missing "+id) {
			continue
		}
		w.item(command{kind: sentOutput, call: &call{id: id, refused: true}}, outputItem(id, lostText))
	}
	w.goOn()
}

// tick does what is due.
func (w *work) tick() {
	for _, c := range w.calls {
		if !c.started && !c.answered && w.now.Sub(c.since) >= startedAfter {
			c.started = true
			w.reply(c, startedText, "")
		}
	}
	for _, b := range slices.Clone(w.batches) {
		if !b.done && w.now.Sub(b.touched) >= stalled {
			w.completed(b, realtime.ResponseFailed, &backendEvent{})
		}
	}
	if !w.creating.IsZero() && w.now.Sub(w.creating) >= stalled/6 {
		w.creating = time.Time{}
	}
	w.goOn()
	w.askNext()
	for _, t := range w.tasks {
		w.tell(t)
	}
	w.tasks = slices.DeleteFunc(w.tasks, func(t *task) bool { return !t.over.IsZero() && t.news.IsZero() })
}

// tell has the caller told something of a task if they have heard nothing for long.
func (w *work) tell(t *task) {
	if w.now.Before(w.tellAt(t)) || w.lines.expected() || w.captions.speaking() {
		return
	}
	t.news = w.now
	if t.over.IsZero() {
		t.held = true
		w.lines.say(holdingLine, "", false)
		return
	}
	t.news = time.Time{}
	w.lines.say(apologyLine, "", false)
}

func (w *work) tellAt(t *task) time.Time {
	switch {
	case !t.over.IsZero():
		return t.news.Add(apologyAfter)
	case t.held:
		return t.news.Add(holdingAgain)
	}
	return t.news.Add(holdingAfter)
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// named returns the id of a delegation if the upstream knows it: one that a typed text has begun it does not.
func (w *work) named(id string) string {
	if w.seen["delegation "+id] {
		return id
	}
	return ""
}
