package session

import (
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// tools are the model's function calls.
type tools struct {
	*line
	transcript *transcript
	answers    *responses
	registry   *toolkit.Registry
	client     *clientTools

	byID map[string]*toolRun // by the call's id
	open []*toolRun          // those that may not be done yet
	// handed are the calls that application's servers had before this call, by their ids, and whose they are.
	handed map[string]int
	// early are clients' answers to calls that are not complete yet.
	// A client may answer their arguments.
	early []clientAnswer
	// waitsSince is when the first of the tools that run now was started, zero if none runs. fillerAt is when something
	// is said meanwhile, zero for never.
	waitsSince, fillerAt time.Time
	leaving              leaving
}

// leaving is a tool by which the model leaves the call, and which waits until what is being said was said.
type leaving struct {
	run *toolRun // nil if there is none
	// at is when it is started, zero as long as something is said. Nothing is waited for longer than until by.
	at, by time.Time
	// within means that run is not that tool but the one that has run it, and is to be answered first.
	within, started bool
	// Of a transfer: says is what is to be said before, may who is waiting for that, paused that the recording was on. run
	// is the one with the id, once that is known.
	id     string
	says   string
	may    chan<- bool
	paused bool
}

// farewell is how long after the end of what is said, as far as that is known, the client is done with it, too.
const farewell = time.Second

// leaves reports whether a run is one that waits. There is one of them at a time.
func (t *tools) leaves(run *toolRun) bool {
	if run.Call.Name != EndCallName || !t.owns(run.Call.Name) || run.Entry.Executor != toolkit.ExecutorApp {
		return false
	}
	if t.isLeaving {
		run.Finish(toolkit.Result{Error: "The call is about to end."}, t.now)
		t.close(run)
		t.answer(run)
		return true
	}
	t.isLeaving, t.leaving = true, leaving{run: run, by: t.now.Add(lostAfter)}
	return true
}

// transfer has a run wait that is to connect the caller with somebody.
func (t *tools) transfer(in Transfer) {
	run := t.byID[in.CallID]
	if t.isLeaving || t.phase != live || run != nil && run.Done() {
		t.do(Answer{To: in.May})
		return
	}
	l := leaving{run: run, id: in.CallID, by: t.now.Add(lostAfter), may: in.May}
	said := func(m *message) bool { return m.text() != "" }
	if in.Says != "" {
		l.says = realtime.SayExactly + in.Says
	} else if run != nil && run.response != nil && !slices.ContainsFunc(run.response.messages, said) {
		l.says = "Say in one short sentence, in the caller's language, that you are putting them through. " +
			"Do not say anything else."
	}
	t.isLeaving, t.leaving = true, l
	t.fillerAt = time.Time{}
}

// isOut reports whether a run, or what it has run, is connecting the caller: nothing takes that back.
func (t *tools) isOut(run *toolRun) bool {
	l := t.leaving
	return l.may != nil && l.started && (l.run == run || l.run.within == run)
}

// hasLeft takes the result of such a run: unless it has failed the call is over.
func (t *tools) hasLeft(run *toolRun) bool {
	failed := run.Result().Failed()
	switch {
	case t.leaving.run != run, t.leaving.within:
		return false
	case t.leaving.may != nil: // State.leave sees to the rest
		return !failed
	}
	t.isLeaving, t.leaving = false, leaving{}
	if failed {
		return false
	}
	t.mustEnd = EndAssistant
	return true
}

// clientAnswer is a client's answer to a call, in an item with the id of its choice if that is not empty.
type clientAnswer struct {
	clientID, itemID, callID, output string
	// server means that an application's server gives it.
	server bool
}

// maxEarly is how many of them are held.
const maxEarly = 16

// toolRun is one function call of the model.
type toolRun struct {
	*toolkit.Invocation
	within    *toolRun // the one whose tool makes the call, which then is not saved here; nil for the model's
	message   *message
	part      int // index into message.tools
	response  *response
	gen       int  // of the upstream session that made the call
	delivered bool // the client has answered
	side      int  // whose tool it is if a client runs it: 0 is the browser, others are sidebands
	// output is what the model reads once the run is done, in the item with the id itemID; empty for one of ours.
	output, itemID string
	// images are the result's images for the model, as data URLs.
	images []string

	// early is the client's answer if it came before the user's approval: some clients run a
	// function as soon as they see the call.
	early *string
	// closedPublished means that the thread's watchers know that the approval is closed.
	closedPublished bool
}

// start runs the tool of a call.
func (t *tools) start(run *toolRun) {
	if !t.joined(run.side) && run.early == nil {
		t.fail(run)
		return
	}
	if t.leaves(run) {
		return
	}
	if t.waitsSince.IsZero() && t.FillerAfter > 0 {
		t.waitsSince, t.fillerAt = t.now, t.now.Add(t.FillerAfter)
	}
	t.run(run)
}

func (t *tools) run(run *toolRun) {
	t.do(StartTool{Call: run.Call, Lends: t.up.can.Duplex})
	t.watch(t.announce(run))
	if run.early != nil {
		t.do(DeliverTool{CallID: run.Call.ID, Output: *run.early})
	}
}

// record saves a run in its current state, with its approval.
func (t *tools) record(run *toolRun) {
	t.transcript.saveChanged() // its message first
	t.save(persistence.PutToolCall{ToolCall: run.saved()})
	if a, asked := run.Approval(); asked {
		if a.Outcome == thread.ApprovalApproved || a.Outcome == thread.ApprovalDenied {
			a.AnsweredBy = t.Key.Owner
		}
		t.save(persistence.PutApproval{Approval: a})
	}
}

// saved returns the run as a row of the table of tool calls.
func (r *toolRun) saved() thread.ToolCall {
	saved := r.Record()
	saved.MessageID = r.message.id
	return saved
}

// update puts a run in its current state into its message.
func (t *tools) update(run *toolRun) {
	p := run.Part()
	run.message.tools[run.part] = p
	if len(p.Output) > 0 && partsSize(run.message.parts()) > maxParts {
		run.message.tools[run.part].Output = encode(map[string]any{"omitted": true, "bytes": len(p.Output)})
	}
	run.message.changed = true
}

func (r *toolRun) event(kind string) toolEvent {
	return toolEvent{
		Type: kind, ToolCallID: r.Call.ID, Name: r.Call.Name, Executor: r.Entry.Executor, Server: r.Entry.Server,
	}
}

// watch tells the thread's watchers about a tool, just as the call's browser is told.
func (t *tools) watch(e toolEvent) {
	kind := persistence.EventType(strings.ReplaceAll(strings.TrimPrefix(e.Type, "bridge."), ".", "_"))
	e.Type, e.Input = "", nil
	e.InputOmitted, e.Output = false, nil
	t.do(Publish{Kind: kind, Data: e})
}

// goneMessage is what the model reads in place of the result of a tool whose sideband is gone.
const goneMessage = "The application that runs this tool is not connected any more."

// fail ends a run whose sideband is gone, and tells the model.
func (t *tools) fail(run *toolRun) {
	if run.within != nil {
		t.do(DeliverTool{CallID: run.Call.ID, Output: goneMessage})
		return
	}
	if !run.Close(thread.ApprovalCancelled) {
		t.do(CancelTool{CallID: run.Call.ID})
	}
	run.Finish(toolkit.Result{Error: goneMessage}, t.now)
	t.close(run)
	t.answer(run)
}

// tell tells the browser (0) or a sideband about a tool, without what is too large for the data channel.
func (t *tools) tell(e toolEvent, side int) {
	data := encode(e)
	if side == 0 && t.BrowserLimit > 0 && len(data) > t.BrowserLimit {
		e.InputOmitted, e.OutputOmitted = e.Input != nil, e.Output != nil
		e.Input, e.Output = nil, nil
		data = encode(e)
	}
	t.sendTo(side, data, false)
}

// tellAll tells the browser and the sidebands about a tool.
func (t *tools) tellAll(e toolEvent) {
	for _, c := range t.clients {
		if c.welcomed {
			t.tell(e, c.side)
		}
	}
}

// maxParts limits the bytes of results in a message, below the store's limit for a message.
// Anything more is only in the records of the calls.
const maxParts = 3 << 20

// close saves the result of a run that is done.
func (t *tools) close(run *toolRun) {
	run.early, run.output = nil, run.Result().ForModel()
	if run.response != nil {
		run.response.open--
	}
	for _, inner := range t.unfinished() {
		if inner.within == run {
			t.cancelled(inner, "The tool that has called this one has ended.")
		}
	}
	if run.within != nil {
		t.tellAll(t.ending(run))
		return
	}
	t.update(run)
	t.record(run)
	t.publishClosed(run)
	e := t.ending(run)
	t.tellAll(e)
	t.watch(e)
}

// ending is the event about the end of a run.
func (t *tools) ending(run *toolRun) toolEvent {
	record := run.Record()
	e := run.event("bridge.tool.done")
	if record.Error != "" {
		e.Type, e.Message = "bridge.tool.failed", record.Error
		e.Error = record.Error
		e.SignIn = run.Result().SignIn
		e.Cancelled = record.Status == thread.ToolCallCancelled
	} else {
		e.Output = json.RawMessage(record.Output)
	}
	return e
}

// answer sends the output of a call upstream. Once all calls of its response have theirs, an answer
// is requested.
func (t *tools) answer(run *toolRun) {
	itemID := run.itemID
	if itemID == "" {
		itemID = t.nextItemID()
	}
	if !t.up.gone {
		t.showImages(run)
		t.sendOutput(run, itemID)
	}
	t.answers.need(need{id: itemID, batch: run.response})
}

// sendOutput sends the output of a call upstream, together with the call if another upstream
// session made it.
func (t *tools) sendOutput(run *toolRun, itemID string) {
	callID := t.up.names.theirs(run.Call.ID)
	if run.gen != t.up.gen {
		if !t.up.can.CallItems {
			m := run.message
			t.do(Append{Gen: t.up.gen, Messages: []thread.Message{
				{ID: m.id, Role: m.role, Parts: []thread.Part{run.Part()}, Metadata: m.meta},
			}})
			return
		}
		callID = t.repeatCall(run)
	}
	output := run.output
	eventID := t.up.eventID(sentEvent{kind: sentOutput, itemID: itemID})
	event := realtime.FunctionCallOutput(eventID, itemID, callID, output)
	for len(event) > t.up.limit && len(output) > 0 {
		output = toolkit.Head(output, len(output)/2)
		event = realtime.FunctionCallOutput(eventID, itemID, callID, output)
	}
	t.up.send(event)
}

// showImages sends the images of a result, which an output cannot contain, as a user message that
// nobody else sees: the page shows them with the result. It comes before the output, which is what
// the model should answer.
func (t *tools) showImages(run *toolRun) {
	if len(run.images) == 0 || !t.up.can.Images {
		return
	}
	content := []realtime.Content{
		{Type: realtime.ContentInputText, Text: "(Images that " + run.Call.Name + " returned)"},
	}
	for _, url := range run.images {
		content = append(content, realtime.Content{Type: realtime.ContentInputImage, ImageURL: url})
	}
	run.images = nil
	event := realtime.ItemCreate(t.up.eventID(sentEvent{}), realtime.Item{
		ID: t.hiddenID("i", t.nextItemID()), Type: realtime.ItemMessage, Role: string(thread.RoleUser),
		Content: content,
	}, "")
	if len(event) > t.up.limit {
		t.log(slog.LevelWarn, "images of a tool not shown, they are too large for the upstream", "tool", run.Call.Name,
			"bytes", len(event), "limit", t.up.limit)
		return
	}
	t.up.send(event)
}

// hiddenID derives, from an item id of ours, the id of an item that the browser does not learn about.
func (t *tools) hiddenID(kind, itemID string) string {
	return t.up.SeedPrefix(t.up.gen) + kind + itemID[len(t.ItemPrefix):]
}

// repeatCall sends the upstream a call that an earlier session made, with an id that this session
// will not use for its own calls.
func (t *tools) repeatCall(run *toolRun) (callID string) {
	callID = t.nextItemID()
	t.up.names.link(run.Call.ID, callID)
	arguments := run.Call.Arguments
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil || len(arguments) > t.up.limit/2 {
		arguments = "{}"
	}
	t.up.send(realtime.ItemCreate(t.up.eventID(sentEvent{}), realtime.Item{
		ID: t.hiddenID("c", callID), Type: realtime.ItemFunctionCall, CallID: callID, Name: run.Call.Name,
		Arguments: arguments,
	}, ""))
	return callID
}

// running reports whether any tool is running.
func (t *tools) running() bool {
	return slices.ContainsFunc(t.open, func(r *toolRun) bool { return !r.Done() })
}

// unfinished returns the calls without a result.
func (t *tools) unfinished() []*toolRun {
	return slices.DeleteFunc(slices.Clone(t.open), func(r *toolRun) bool { return r.Done() })
}

// cancelled closes a run as cancelled.
func (t *tools) cancelled(run *toolRun, why string) {
	if run.Cancel(toolkit.Result{Error: why}, t.now) {
		t.close(run)
	}
}

// publishClosed tells the thread's watchers, once, that an approval is closed.
func (t *tools) publishClosed(run *toolRun) {
	a, asked := run.Approval()
	if !asked || run.Asking() || run.closedPublished {
		return
	}
	run.closedPublished = true
	t.do(Publish{Kind: "bridge.tool.approval_closed", Data: closedEvent{run.Call.ID, a.Approved(), a.Reason()}})
}

// askBy is the deadline for the user's decision, zero if nobody is asked.
func (r *toolRun) askBy() time.Time {
	if a, _ := r.Approval(); r.Asking() {
		return a.ExpiresAt
	}
	return time.Time{}
}

// announce tells the clients that a call has begun, or that it waits for the user's approval. The decision is bound to
// the call by a nonce, and comes through the data channel or the approval's row.
func (t *tools) announce(run *toolRun) toolEvent {
	e := t.announcement(run)
	t.tellAll(e)
	return e
}

func (t *tools) announcement(run *toolRun) toolEvent {
	e := run.event("bridge.tool.started")
	if a, _ := run.Approval(); run.Asking() {
		e.Type, e.Nonce = "bridge.tool.approval_required", a.Nonce
		e.ExpiresAt = &a.ExpiresAt
	}
	if run.message != nil {
		e.Input = run.message.tools[run.part].Input
	} else {
		e.Input = run.Part().Input
	}
	return e
}
