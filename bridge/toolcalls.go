package bridge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// toolRun is one function call of the model.
type toolRun struct {
	call      toolkit.Call
	entry     toolkit.Entry
	record    persistence.ToolCall
	message   *message
	part      int // index into message.tools
	response  *response
	delivered bool // the client has answered
	done      bool

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

// functionCall starts the tool of a completed function call, once.
func (s *state) functionCall(it *item, raw *realtime.Item, r *response) {
	if raw.CallID == "" || s.tools[raw.CallID] != nil {
		return
	}
	if r == nil {
		r = s.responseOf("")
	}
	entry, known := s.registry.Lookup(raw.Name)
	if !known {
		entry.Executor = toolkit.ExecutorApp // the router says that there is no such tool
	}
	run := &toolRun{entry: entry, response: r, call: toolkit.Call{
		ID: raw.CallID, Name: raw.Name, Arguments: raw.Arguments,
		Owner: s.key.Owner, ThreadID: s.key.Thread, CallID: s.callID,
	}}
	s.tools[raw.CallID] = run
	s.open = append(s.open, run)
	if r != nil {
		r.tools = append(r.tools, run)
	}
	arguments := toolkit.MaskArguments(raw.Arguments) // what is kept and shown
	s.showCall(it, run, known, arguments)
	run.record = persistence.ToolCall{
		ID: s.newID(), MessageID: run.message.id, CallID: s.callID, ToolCallID: raw.CallID, Name: raw.Name,
		Executor: string(entry.Executor), Server: entry.Server, Status: persistence.ToolCallRunning,
		Input: arguments, StartedAt: s.now,
	}
	s.save(saveTool{run.record})
	switch {
	case s.phase >= draining: // it came too late to be run
		s.closeTool(run, persistence.ToolCallCancelled, toolkit.Result{Error: tooLateForTools})
	case raw.Name == cancelToolName:
		s.cancelRunning(run)
	case known && s.approve[raw.Name]:
		s.askUser(run)
	default:
		s.startTool(run)
	}
}

// startTool runs the tool of a call.
func (s *state) startTool(run *toolRun) {
	if run.entry.Executor == toolkit.ExecutorClient {
		s.do(expectTool{run.call.ID})
	}
	if s.fillerAfter > 0 {
		run.fillAt = s.now.Add(s.fillerAfter)
	}
	e := s.toolEvent("bridge.tool.started", run)
	e.Input = run.message.tools[run.part].Input
	s.tell(e)
	s.watch(e)
	s.do(startTool{run.call})
	if run.early != nil {
		s.do(deliverTool{run.call.ID, *run.early})
	}
}

// showCall puts the call into the message of the same response that stands right
// before it, or into one of its own.
func (s *state) showCall(it *item, run *toolRun, known bool, arguments string) {
	m := it.message
	if m == nil && run.response != nil && len(run.response.messages) > 0 {
		m = run.response.messages[len(run.response.messages)-1]
		it.message = m
	}
	if m == nil {
		m = s.assistantMessage(it, responseID(run.response))
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
	s.write(m)
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

func (s *state) toolEvent(kind string, run *toolRun) toolEvent {
	return toolEvent{
		Type: kind, ToolCallID: run.call.ID, Name: run.call.Name, Executor: run.entry.Executor, Server: run.entry.Server,
	}
}

func (s *state) toolProgressed(callID string, c toolkit.Chunk) {
	if c.MessageID != "" {
		s.standsHere(c.MessageID)
	}
	run := s.tools[callID]
	if run == nil || run.done {
		return
	}
	e := s.toolEvent("bridge.tool.progress", run)
	e.Message, e.Percent, e.Data = c.Message, &c.Percent, c.Data
	s.do(toBrowser{data: encode(e), draft: true})
	s.watch(e)
}

// watch tells the thread's watchers of a tool, as the browser of the call is told.
func (s *state) watch(e toolEvent) {
	kind := persistence.EventType(strings.ReplaceAll(strings.TrimPrefix(e.Type, "bridge."), ".", "_"))
	e.Type, e.Input, e.Output = "", nil, nil
	s.do(publish{kind, e})
}

// toolEnded records the result and answers the model.
func (s *state) toolEnded(callID string, result toolkit.Result) {
	run := s.tools[callID]
	if run == nil || run.done {
		return
	}
	status := persistence.ToolCallDone
	if result.Failed() {
		status = persistence.ToolCallFailed
	}
	s.closeTool(run, status, result)
	s.answerCall(run, result.ForModel())
}

// closeTool writes what came of a tool.
func (s *state) closeTool(run *toolRun, status persistence.ToolCallStatus, result toolkit.Result) {
	run.done, run.early = true, nil
	result.Error = toolkit.MaskArguments(result.Error) // the model gets all
	part := &run.message.tools[run.part]
	if run.approval != nil && run.approval.Approved {
		part.Raw = encode(map[string]any{"approval": run.approval})
	}
	e := s.toolEvent("bridge.tool.done", run)
	if result.Failed() {
		part.State, part.ErrorText = persistence.ToolOutputError, result.Error
		e.Type, e.Message, e.Error = "bridge.tool.failed", result.Error, result.Error
		e.Cancelled = status == persistence.ToolCallCancelled
	} else {
		part.State, part.Output = persistence.ToolOutputAvailable, result.Output
		e.Output = result.Output
	}
	s.write(run.message)
	rec := &run.record
	rec.Status, rec.Output, rec.Error, rec.FinishedAt = status, string(result.Output), result.Error, new(s.now)
	s.save(saveTool{*rec})
	data := encode(e)
	if s.browserLimit > 0 && len(data) > s.browserLimit {
		e.Output, e.OutputOmitted = nil, true
		data = encode(e)
	}
	s.do(toBrowser{data: data})
	s.watch(e)
}

// answerCall sends the output of a call upstream. The answer to it is asked for
// when all calls of its response have theirs.
func (s *state) answerCall(run *toolRun, output string) {
	itemID := s.nextItemID()
	eventID := s.nextEventID(sentEvent{kind: sentOutput, itemID: itemID})
	event := realtime.FunctionCallOutput(eventID, itemID, run.call.ID, output)
	for len(event) > s.upstreamLimit && len(output) > 0 {
		output = shorten(output, len(output)/2)
		event = realtime.FunctionCallOutput(eventID, itemID, run.call.ID, output)
	}
	s.do(toUpstream{event})
	s.turns.needs = append(s.turns.needs, need{id: itemID, batch: responseID(run.response)})
}

// shorten cuts text to at most n bytes, between characters.
func shorten(text string, n int) string {
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// toolsRun says whether any tool runs.
func (s *state) toolsRun() bool {
	return slices.ContainsFunc(s.open, func(r *toolRun) bool { return !r.done })
}

// tooLateForTools is the result of a tool call that the end of the call cut off.
const tooLateForTools = "The call ended before the tool did."

// endTools closes what runs when the call ends.
func (s *state) endTools() {
	s.do(cancelTools{})
	for _, run := range s.open {
		if !run.done {
			s.closeTool(run, persistence.ToolCallCancelled, toolkit.Result{Error: tooLateForTools})
		}
	}
}

// clientOutput takes the client's answer to a tool call.
func (s *state) clientOutput(clientID, callID, output string) {
	run := s.tools[callID]
	if run != nil && run.entry.Executor == toolkit.ExecutorClient {
		// The client will ask for a response, too. The bridge asks by itself, when
		// all calls are answered.
		s.turns.clientAsks, s.turns.asksTill = true, time.Time{}
	}
	switch {
	case run == nil || run.entry.Executor != toolkit.ExecutorClient:
		s.refuse(clientID, codeNotAllowed, fmt.Sprintf("There is no open call of a client tool with the call_id %q.", clip(callID)), "item.call_id")
	case run.done || run.delivered:
		s.refuse(clientID, codeNotAllowed, fmt.Sprintf("The tool call %q is answered already.", clip(callID)), "item.call_id")
	default:
		if len(output) > clienttool.MaxOutput {
			s.refuse(clientID, "tool_output_too_large", fmt.Sprintf(
				"The output has %d bytes; the limit is %d. The tool call has failed.", len(output), clienttool.MaxOutput), "item.output")
		}
		run.delivered = true
		if run.waits() {
			run.early = &output
		} else {
			s.do(deliverTool{callID, output})
		}
	}
	s.letAsk()
}

// clip makes a client's value fit into a message.
func clip(v string) string {
	if len(v) > 64 {
		return shorten(v, 64) + "…"
	}
	return v
}
