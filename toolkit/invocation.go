package toolkit

import (
	"bytes"
	"encoding/json"
	"time"
	"unicode/utf8"
)

// Status is where a call stands, in the words of the table tool_calls.
type Status string

// The statuses of a call.
const (
	StatusRunning   Status = "running"
	StatusWaiting   Status = "waiting" // for a client whose answer may come to another process
	StatusDone      Status = "done"
	StatusFailed    Status = "failed"
	StatusCancelled Status = "cancelled"
)

// MaxKeptArguments is how much of a call's arguments its record keeps, in bytes.
const MaxKeptArguments = 64 << 10

// maxKeptDepth is how deep JSON may nest that is kept as JSON.
const maxKeptDepth = 100

// What the model reads of calls that ended without their tool.
const (
	// WhyCancelled answers a call that the user has cancelled.
	WhyCancelled = "The user cancelled this tool call."
	// WhyCallEnded answers a call that the end of a voice call cut off.
	WhyCallEnded = "The call ended before the tool did."
)

// Invocation is one function call of a model from the moment it is read until it
// has its result: who runs it, whether the user has to agree, and how it is kept
// and shown. Secrets are masked in [Invocation.Record] and [Invocation.Part]; only the
// model of the conversation reads everything ([Invocation.WholePart]).
//
// It is plain state: it knows no clock, no database and no goroutine, and a voice call and
// a text turn use it alike. It is not safe for concurrent use.
type Invocation struct {
	// ID is that of the call's record, Call what the model wrote, Entry the tool.
	// Of an unknown tool Entry holds the executor only: the router has the words.
	ID    string
	Call  Call
	Entry Entry

	known               bool
	metadata            map[string]json.RawMessage
	arguments           string          // masked
	input, wholeInput   json.RawMessage // as JSON, masked and not
	result, wholeResult Result
	status              Status
	startedAt           time.Time
	finishedAt          time.Time
	approval            *Approval
}

// Invoke begins a call at the time now. id becomes the id of its record; room is how many bytes
// its part has for the arguments, 0 meaning four times [MaxKeptArguments].
// What does not fit is left out of the part, and the part says so.
func (r *Registry) Invoke(id string, call Call, room int, now time.Time) *Invocation {
	entry, known := r.Lookup(call.Name)
	if !known {
		entry.Executor = ExecutorApp
	}
	if room == 0 {
		room = 4 * MaxKeptArguments
	}
	v := &Invocation{ID: id, Call: call, Entry: entry, known: known, status: StatusRunning, startedAt: now}
	v.arguments = MaskArguments(call.Arguments)
	v.input = inputJSON(v.arguments, room)
	v.wholeInput = v.input
	if v.arguments != call.Arguments {
		v.wholeInput = inputJSON(call.Arguments, room)
	}
	return v
}

// inputJSON is a call's arguments as JSON: what the model wrote, or that text as a string
// when it is no JSON.
func inputJSON(arguments string, room int) json.RawMessage {
	data := json.RawMessage(arguments)
	if !json.Valid(data) || Depth(data) > maxKeptDepth {
		data = Encode(keep(arguments))
	}
	if len(data) > room {
		data = Encode(map[string]string{"note": "the arguments are too long to keep"})
	}
	return data
}

// keep cuts the arguments of a call to what its record keeps.
func keep(arguments string) string {
	if len(arguments) <= MaxKeptArguments {
		return arguments
	}
	n := MaxKeptArguments
	for n > 0 && !utf8.RuneStart(arguments[n]) {
		n--
	}
	return arguments[:n] + " […]"
}

// SetMetadata attaches what a language model's API wants to see again with the call, under
// the API's name. It becomes part of the call's part.
func (v *Invocation) SetMetadata(provider string, data json.RawMessage) {
	if len(data) == 0 || !json.Valid(data) {
		return
	}
	if v.metadata == nil {
		v.metadata = map[string]json.RawMessage{}
	}
	v.metadata[provider] = wrapMetadata(data)
}

// Metadata returns what SetMetadata attached for the provider, nil if nothing.
func (v *Invocation) Metadata(provider string) json.RawMessage {
	return unwrapMetadata(v.metadata[provider])
}

// Done reports whether the call has its result.
func (v *Invocation) Done() bool { return !v.finishedAt.IsZero() }

// Open reports whether the call is to have its result here: it has none, and was not left.
func (v *Invocation) Open() bool { return !v.Done() && v.status == StatusRunning }

// Result is the call's result as the model reads it.
func (v *Invocation) Result() Result { return v.wholeResult }

// Leave leaves the call to a client that will answer it in a later request.
func (v *Invocation) Leave() { v.status = StatusWaiting }

// Finish ends the call with the result of its tool. It reports false, and changes
// nothing, when the call has one already.
func (v *Invocation) Finish(result Result, now time.Time) bool {
	return v.FinishMasked(result, result.Masked(), now)
}

// FinishMasked is Finish for who has masked the result already: a large one takes its time.
func (v *Invocation) FinishMasked(result, masked Result, now time.Time) bool {
	status := StatusDone
	if result.Failed() {
		status = StatusFailed
	}
	return v.finish(status, result, masked, now)
}

// Cancel ends the call because nobody is waiting for its tool; a result that the tool
// has given nonetheless may be passed. The report is that of Finish.
func (v *Invocation) Cancel(result Result, now time.Time) bool {
	return v.finish(StatusCancelled, result, result.Masked(), now)
}

func (v *Invocation) finish(status Status, result, masked Result, now time.Time) bool {
	if v.Done() {
		return false
	}
	v.Close(ApprovalInterrupted)
	v.status, v.finishedAt = status, now
	v.wholeResult, v.result = result, masked
	return true
}

// Masked returns the result without secrets, as it is kept and shown.
func (r Result) Masked() Result {
	return Result{Output: Mask(r.Output), Model: string(Mask([]byte(r.Model))), Error: MaskArguments(r.Error)}
}

// Discard drops the arguments and the result of a call whose message turned out too large to
// be saved. What is kept says so.
func (v *Invocation) Discard() {
	const why = "the result is too large to keep"
	v.input = Encode(map[string]string{"note": "too large to keep"})
	v.wholeInput, v.arguments = v.input, string(v.input)
	v.result = Result{Error: why}
	v.wholeResult = v.result
}

// Record is what the table tool_calls keeps of a call.
type Record struct {
	ID         string // the record's
	ToolCallID string // the model's id of the call
	CallID     string // of the voice call, empty in a text turn
	Name       string
	Executor   string
	Server     string // MCP server, else empty
	Status     Status
	Input      string // as the model wrote it, malformed or not
	Output     string // JSON, empty until done
	Error      string
	StartedAt  time.Time
	FinishedAt *time.Time
}

// Record returns the call as it is kept.
func (v *Invocation) Record() Record {
	r := Record{
		ID: v.ID, ToolCallID: v.Call.ID, CallID: v.Call.CallID, Name: v.Call.Name, Executor: string(v.Entry.Executor), Server: v.Entry.Server,
		Status: v.status, Input: keep(v.arguments), Output: string(v.result.Output), Error: v.result.Error, StartedAt: v.startedAt,
	}
	if v.Done() {
		r.FinishedAt = new(v.finishedAt)
	}
	return r
}

// Encode is JSON without the escapes for HTML, over which people who read the tables would
// stumble. It panics on a value that has no JSON.
func Encode(v any) json.RawMessage {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("encode: " + err.Error())
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}
