package session

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// tools are the model's function calls.
type tools struct {
	*core
	script   *transcript
	answers  *responses
	registry *toolkit.Registry
	client   *clienttool.Toolkit

	byID map[string]*toolRun // by the call's id
	open []*toolRun          // those that may not be done
}

// toolRun is one function call of the model.
type toolRun struct {
	call      toolkit.Call
	entry     toolkit.Entry
	record    persistence.ToolCall
	message   *message
	part      int // index into message.tools
	response  *response
	gen       int  // of the upstream session that has the call
	delivered bool // the client has answered
	done      bool
	// output is what the model reads, when the run is done.
	output string

	// early is the client's answer when it came before the user's yes: some clients
	// run a function as soon as they see the call.
	early *string

	// nonce and askBy are set while the user is asked for an approval.
	nonce string
	askBy time.Time
	// approval is what the user has decided; nil when nobody was asked.
	approval *approval
	// fillAt is when the voice says that the tool still runs; zero is never.
	fillAt time.Time
}

// waits says whether the run waits for the user's approval.
func (r *toolRun) waits() bool { return r.nonce != "" && !r.done }

// called starts the tool of a completed function call, once.
func (t *tools) called(it *item, raw *realtime.Item, r *response) {
	if raw.CallID == "" || t.byID[raw.CallID] != nil {
		return
	}
	if r == nil {
		r = t.answers.of("")
	}
	entry, known := t.registry.Lookup(raw.Name)
	if !known {
		entry.Executor = toolkit.ExecutorApp // the router says that there is no such tool
	}
	run := &toolRun{entry: entry, response: r, gen: it.gen, call: toolkit.Call{
		ID: raw.CallID, Name: raw.Name, Arguments: raw.Arguments,
		Owner: t.Key.Owner, ThreadID: t.Key.Thread, CallID: t.CallID,
	}}
	t.byID[raw.CallID] = run
	t.open = append(t.open, run)
	if r != nil {
		r.tools++
		r.open++
	}
	arguments := toolkit.MaskArguments(raw.Arguments) // what is kept and shown
	t.show(it, run, known, arguments)
	run.record = persistence.ToolCall{
		ID: t.NewID(), MessageID: run.message.id, CallID: t.CallID, ToolCallID: raw.CallID, Name: raw.Name,
		Executor: string(entry.Executor), Server: entry.Server, Status: persistence.ToolCallRunning,
		Input: arguments, StartedAt: t.now,
	}
	t.save(SaveTool{run.record})
	switch {
	case t.phase >= draining: // it came too late to be run
		t.close(run, persistence.ToolCallCancelled, toolkit.Result{Error: tooLateForTools})
	case raw.Name == CancelToolName:
		t.cancelRunning(run)
	case known && t.Approve[raw.Name]:
		t.askUser(run)
	default:
		t.start(run)
	}
}

// start runs the tool of a call.
func (t *tools) start(run *toolRun) {
	if run.entry.Executor == toolkit.ExecutorClient {
		t.do(ExpectTool{run.call.ID})
	}
	if t.FillerAfter > 0 {
		run.fillAt = t.now.Add(t.FillerAfter)
	}
	e := run.event("bridge.tool.started")
	e.Input = run.message.tools[run.part].Input
	t.tell(e)
	t.watch(e)
	t.do(StartTool{run.call})
	if run.early != nil {
		t.do(DeliverTool{run.call.ID, *run.early})
	}
}

// show puts the call into the message of the same response that stands right
// before it, or into one of its own.
func (t *tools) show(it *item, run *toolRun, known bool, arguments string) {
	m := it.message
	if m == nil && run.response != nil && len(run.response.messages) > 0 {
		m = run.response.messages[len(run.response.messages)-1]
		it.message = m
	}
	if m == nil {
		m = t.answers.message(it, responseID(run.response))
		m.meta.Status = persistence.StatusCompleted
	}
	part := persistence.DynamicToolPart(cmp.Or(run.call.Name, "unknown")) // a part has a name
	if known && run.entry.Executor == toolkit.ExecutorApp {
		part = persistence.ToolPart(run.call.Name)
	}
	part.ToolCallID, part.State = run.call.ID, persistence.ToolInputAvailable
	part.Input = inputOf(arguments)
	run.message, run.part = m, len(m.tools)
	m.tools = append(m.tools, part)
	t.script.write(m)
}

func responseID(r *response) string {
	if r == nil {
		return ""
	}
	return r.id
}

// inputOf is a call's arguments as JSON: what the model wrote, or that text as a
// string when it is no JSON.
func inputOf(arguments string) json.RawMessage {
	if json.Valid([]byte(arguments)) {
		return json.RawMessage(arguments)
	}
	return encode(arguments)
}

func (r *toolRun) event(kind string) toolEvent {
	return toolEvent{
		Type: kind, ToolCallID: r.call.ID, Name: r.call.Name, Executor: r.entry.Executor, Server: r.entry.Server,
	}
}

// progressed takes a tool's progress.
func (t *tools) progressed(callID string, c toolkit.Chunk) {
	if c.MessageID != "" {
		t.script.standsHere(c.MessageID)
	}
	run := t.byID[callID]
	if run == nil || run.done {
		return
	}
	e := run.event("bridge.tool.progress")
	e.Message, e.Percent, e.Data = c.Message, &c.Percent, c.Data
	t.do(ToBrowser{Data: encode(e), Draft: true})
	t.watch(e)
}

// watch tells the thread's watchers of a tool, as the browser of the call is told.
func (t *tools) watch(e toolEvent) {
	kind := persistence.EventType(strings.ReplaceAll(strings.TrimPrefix(e.Type, "bridge."), ".", "_"))
	e.Type, e.Input, e.Output = "", nil, nil
	t.do(Publish{kind, e})
}

// ended records the result and answers the model.
func (t *tools) ended(callID string, result toolkit.Result) {
	run := t.byID[callID]
	if run == nil || run.done {
		return
	}
	status := persistence.ToolCallDone
	if result.Failed() {
		status = persistence.ToolCallFailed
	}
	t.close(run, status, result)
	t.answer(run)
}

// maxParts is how many bytes of results a message holds, below the store's limit of
// a message. What is above stays in the records of the calls.
const maxParts = 3 << 20

// close writes what came of a tool.
func (t *tools) close(run *toolRun, status persistence.ToolCallStatus, result toolkit.Result) {
	run.done, run.early, run.output = true, nil, result.ForModel()
	if run.response != nil {
		run.response.open--
	}
	result.Error = toolkit.MaskArguments(result.Error) // the model gets all
	part := &run.message.tools[run.part]
	if run.approval != nil && run.approval.Approved {
		part.Raw = encode(map[string]any{"approval": run.approval})
	}
	e := run.event("bridge.tool.done")
	if result.Failed() {
		part.State, part.ErrorText = persistence.ToolOutputError, result.Error
		e.Type, e.Message, e.Error = "bridge.tool.failed", result.Error, result.Error
		e.Cancelled = status == persistence.ToolCallCancelled
	} else {
		part.State, part.Output = persistence.ToolOutputAvailable, result.Output
		if partsSize(run.message.parts()) > maxParts {
			part.Output = encode(map[string]any{"omitted": true, "bytes": len(result.Output)})
		}
		e.Output = result.Output
	}
	t.script.write(run.message)
	rec := &run.record
	rec.Status, rec.Output, rec.Error, rec.FinishedAt = status, string(result.Output), result.Error, new(t.now)
	t.save(SaveTool{*rec})
	data := encode(e)
	if t.BrowserLimit > 0 && len(data) > t.BrowserLimit {
		e.Output, e.OutputOmitted = nil, true
		data = encode(e)
	}
	t.do(ToBrowser{Data: data})
	t.watch(e)
}

// answer sends the output of a call upstream. The answer to it is asked for
// when all calls of its response have theirs.
func (t *tools) answer(run *toolRun) {
	itemID := t.nextItemID()
	if !t.up.gone {
		t.sendOutput(run, itemID)
	}
	t.answers.need(need{id: itemID, batch: responseID(run.response)})
}

// sendOutput tells the upstream the output of a call, together with the call when the
// upstream session is another one than that which made it.
func (t *tools) sendOutput(run *toolRun, itemID string) {
	callID := t.up.names.theirs(run.call.ID)
	if run.gen != t.up.gen {
		callID = t.repeatCall(run)
	}
	output := run.output
	eventID := t.up.eventID(sentEvent{kind: sentOutput, itemID: itemID})
	event := realtime.FunctionCallOutput(eventID, itemID, callID, output)
	for len(event) > t.up.limit && len(output) > 0 {
		output = shorten(output, len(output)/2)
		event = realtime.FunctionCallOutput(eventID, itemID, callID, output)
	}
	t.up.send(event)
}

// repeatCall tells the upstream of a call that an earlier session has made. The id is
// one that this session will not use for a call of its own.
func (t *tools) repeatCall(run *toolRun) (callID string) {
	callID = t.nextItemID()
	t.up.names.link(run.call.ID, callID)
	arguments := run.call.Arguments
	if !isObject(json.RawMessage(arguments)) || !json.Valid([]byte(arguments)) || len(arguments) > t.up.limit/2 {
		arguments = "{}"
	}
	seed := t.up.SeedPrefix(t.up.gen) + "c" + callID[len(t.ItemPrefix):] // hidden from the browser, which has seen the call
	t.up.send(realtime.ItemCreate(t.up.eventID(sentEvent{}), realtime.Item{
		ID: seed, Type: realtime.ItemFunctionCall, CallID: callID, Name: run.call.Name, Arguments: arguments,
	}, ""))
	return callID
}

// shorten cuts text to at most n bytes, between characters.
func shorten(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// running says whether any tool runs.
func (t *tools) running() bool {
	return slices.ContainsFunc(t.open, func(r *toolRun) bool { return !r.done })
}

// unfinished are the calls without a result.
func (t *tools) unfinished() []*toolRun {
	return slices.DeleteFunc(slices.Clone(t.open), func(r *toolRun) bool { return r.done })
}

// tooLateForTools is the result of a tool call that the end of the call cut off.
const tooLateForTools = "The call ended before the tool did."

// end closes what runs when the call ends.
func (t *tools) end() {
	t.do(CancelTools{})
	for _, run := range t.unfinished() {
		t.close(run, persistence.ToolCallCancelled, toolkit.Result{Error: tooLateForTools})
	}
}

// onTime takes the deadlines of tool calls. quiet says that nobody speaks.
func (t *tools) onTime(quiet bool) {
	for _, run := range t.open {
		if run.waits() && t.due(run.askBy) {
			t.decided(run, false, "timeout")
			t.fail(run, "The user was asked to approve this tool call and did not answer in time.")
		}
		if t.due(run.fillAt) && !run.done {
			run.fillAt = time.Time{}
			if quiet && !t.answers.busy() && t.listening() {
				t.answers.fill() // the voice says that the tool still runs
			}
		}
	}
	t.open = t.unfinished()
}

func (t *tools) deadline() time.Time {
	var at time.Time
	for _, run := range t.open {
		if !run.done {
			at = until(at, run.askBy)
			at = until(at, run.fillAt)
		}
	}
	return at
}
