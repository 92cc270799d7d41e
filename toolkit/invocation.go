package toolkit

import (
	"bytes"
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"time"

	"voicebridge/thread"
)

// approvalTimeout is how long the user has to decide about a tool call.
const approvalTimeout = time.Minute

// ErrCallEnded is the cause why a tool is cancelled whose voice call has ended. What it has begun may go on.
var ErrCallEnded = errors.New("the call has ended")

// MaxKeptArguments is how much of a call's arguments its record keeps, in bytes.
const MaxKeptArguments = 64 << 10

// maxKeptDepth limits the nesting of JSON that is kept as JSON.
const maxKeptDepth = 100

// What the model reads as the result of a call that ended before its tool did.
const (
	// WhyCancelled is for a call that the user has cancelled.
	WhyCancelled = "The user cancelled this tool call."
	// WhyCallEnded is for a call that was cut off by the end of the voice call.
	WhyCallEnded = "The call ended before the tool did."
)

// Invocation is one function call of a model, from the moment it is read until it has its result:
// what runs it, whether the user must approve it, and how it is saved and shown. Secrets are masked
// in [Invocation.Record] and [Invocation.Part]; only the model of the conversation reads everything
// ([Invocation.WholePart]).
//
// It is plain state, without a clock, a database or goroutines; voice calls and text turns use it
// alike. It is not safe for concurrent use.
type Invocation struct {
	// ID is the id of the call's record, Call is what the model wrote, Entry is the tool. For an
	// unknown tool Entry holds only an executor; the router explains that there is no such tool.
	ID    string
	Call  Call
	Entry Entry

	found               bool
	metadata            map[string]json.RawMessage
	arguments           string          // masked
	input, wholeInput   json.RawMessage // as JSON, masked and not
	result, wholeResult Result
	status              thread.ToolCallStatus
	startedAt           time.Time
	finishedAt          time.Time
	approval            *thread.Approval
}

// Invoke begins a call, under the tool's own name. id becomes the id of its record; room limits the arguments in its
// part, in bytes; 0 means four times [MaxKeptArguments]. If they do not fit, the part says so.
func (r *Registry) Invoke(id string, call Call, room int, now time.Time) *Invocation {
	entry, found := r.Lookup(call.Name)
	if found {
		call.Name = entry.made.name
	} else {
		entry.Executor = ExecutorApp
	}
	room = cmp.Or(room, 4*MaxKeptArguments)
	v := &Invocation{ID: id, Call: call, Entry: entry, found: found, status: thread.ToolCallRunning, startedAt: now}
	v.arguments = hide(MaskArguments(call.Arguments), call.Secrets)
	v.input = inputJSON(v.arguments, room)
	v.wholeInput = v.input
	if v.arguments != call.Arguments {
		v.wholeInput = inputJSON(call.Arguments, room)
	}
	return v
}

// inputJSON returns a call's arguments as JSON: what the model wrote, or a string with that text if
// it is not JSON.
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

// keep shortens the arguments of a call to what its record keeps.
func keep(arguments string) string {
	if len(arguments) <= MaxKeptArguments {
		return arguments
	}
	return Head(arguments, MaxKeptArguments) + " […]"
}

// SetMetadata attaches the JSON that a language model's API wants back with the call, under the
// provider's name. It is saved in the call's part; anything but JSON is ignored.
func (v *Invocation) SetMetadata(provider string, data json.RawMessage) {
	if len(data) == 0 || !json.Valid(data) {
		return
	}
	if v.metadata == nil {
		v.metadata = map[string]json.RawMessage{}
	}
	v.metadata[provider] = wrapMetadata(data)
}

// Metadata returns what SetMetadata attached for the provider, or nil.
func (v *Invocation) Metadata(provider string) json.RawMessage {
	return unwrapMetadata(v.metadata[provider])
}

// Done reports whether the call has its result.
func (v *Invocation) Done() bool { return !v.finishedAt.IsZero() }

// Open reports whether the call is still waiting for its result here: it has none, and was not left
// to a client.
func (v *Invocation) Open() bool { return !v.Done() && v.status == thread.ToolCallRunning }

// Result returns the call's result as the model reads it.
func (v *Invocation) Result() Result { return v.wholeResult }

// Leave leaves the call to a client, which will answer in a later request.
func (v *Invocation) Leave() { v.status = thread.ToolCallWaiting }

// Finish ends the call with the result of its tool. It returns false and changes nothing if the call
// already has a result.
func (v *Invocation) Finish(result Result, now time.Time) bool {
	return v.FinishMasked(result, result.Masked(v.Call.Secrets...), now)
}

// FinishMasked is Finish for callers that have already masked the result, which takes time for a
// large one.
func (v *Invocation) FinishMasked(result, masked Result, now time.Time) bool {
	status := thread.ToolCallDone
	if result.Failed() {
		status = thread.ToolCallFailed
	}
	return v.finish(status, result, masked, now)
}

// Cancel ends the call because nobody is waiting for its tool any longer; result is what the model
// reads. It returns what Finish does.
func (v *Invocation) Cancel(result Result, now time.Time) bool {
	return v.finish(thread.ToolCallCancelled, result, result.Masked(v.Call.Secrets...), now)
}

func (v *Invocation) finish(status thread.ToolCallStatus, result, masked Result, now time.Time) bool {
	if v.Done() {
		return false
	}
	v.Close(thread.ApprovalInterrupted)
	v.status, v.finishedAt = status, now
	v.wholeResult, v.result = result, masked
	return true
}

// Masked returns the result without secrets, and those of its call, as it is saved and shown.
func (r Result) Masked(secrets ...string) Result {
	output := Mask(r.Output)
	if shown := hide(string(output), secrets); shown != string(output) {
		output = inputJSON(shown, len(shown)+2) // a number may have been one
	}
	return Result{
		Output: output, Model: hide(string(Mask([]byte(r.Model))), secrets), Error: hide(MaskArguments(r.Error), secrets),
		SignIn: r.SignIn,
	}
}

// Discard replaces the arguments and the result of a call by a note, because its message is too
// large to be saved.
func (v *Invocation) Discard() {
	const why = "the result is too large to keep"
	v.input = Encode(map[string]string{"note": "too large to keep"})
	v.wholeInput, v.arguments = v.input, string(v.input)
	v.result = Result{Error: why}
	v.wholeResult = v.result
}

// Record returns the call as it is saved in its table, without the id of its message.
func (v *Invocation) Record() thread.ToolCall {
	r := thread.ToolCall{
		ID: v.ID, ToolCallID: v.Call.ID, CallID: v.Call.CallID, Name: v.Call.Name, Executor: string(v.Entry.Executor),
		Server: v.Entry.Server, Status: v.status, Input: keep(v.arguments), Output: string(v.result.Output),
		Error: v.result.Error, StartedAt: v.startedAt,
	}
	if v.Done() {
		r.FinishedAt = new(v.finishedAt)
	}
	return r
}

// Ask asks the user to approve the call, with a new random nonce.
func (v *Invocation) Ask(nonce string, now time.Time) {
	r := v.Record()
	v.approval = &thread.Approval{
		ID: v.ID, ToolCallID: r.ToolCallID, Nonce: nonce, AskedAt: now, ExpiresAt: now.Add(approvalTimeout),
		Name: r.Name, Executor: r.Executor, Input: r.Input,
	}
}

// Approval returns the approval of the call; false if there was none.
func (v *Invocation) Approval() (thread.Approval, bool) {
	if v.approval == nil {
		return thread.Approval{}, false
	}
	return *v.approval, true
}

// Asking reports whether the call is waiting for approval.
func (v *Invocation) Asking() bool {
	return v.approval != nil && v.approval.Outcome == thread.ApprovalOpen
}

// Answers reports whether the nonce is that of the open approval.
func (v *Invocation) Answers(nonce string) bool {
	return v.Asking() && subtle.ConstantTimeCompare([]byte(v.approval.Nonce), []byte(nonce)) == 1
}

// Close records the outcome of the approval, and reports whether one was open.
func (v *Invocation) Close(outcome thread.ApprovalOutcome) bool {
	if !v.Asking() || outcome == thread.ApprovalOpen {
		return false
	}
	v.approval.Outcome = outcome
	return true
}

// Refuse ends a call that was not approved. It returns what Finish does. The call must have an
// approval.
func (v *Invocation) Refuse(now time.Time) bool {
	v.Close(thread.ApprovalInterrupted)
	return v.Finish(Result{Error: v.approval.Refusal()}, now)
}

// ownMetadata is the name of our own entry in the metadata of a part.
const ownMetadata = "voicebridge"

// wrappedKey holds metadata that is not an object: a UIMessage accepts only objects.
const wrappedKey = "value_"

func wrapMetadata(data json.RawMessage) json.RawMessage {
	if bytes.TrimSpace(data)[0] == '{' {
		return bytes.Clone(data)
	}
	return Encode(map[string]json.RawMessage{wrappedKey: data})
}

// Metadata returns what [Invocation.SetMetadata] attached for the provider, from the fields of a
// part, or nil.
func Metadata(fields json.RawMessage, provider string) json.RawMessage {
	var part struct {
		Call map[string]json.RawMessage `json:"callProviderMetadata"`
	}
	if fields == nil || json.Unmarshal(fields, &part) != nil {
		return nil
	}
	return unwrapMetadata(part.Call[provider])
}

func unwrapMetadata(data json.RawMessage) json.RawMessage {
	var wrapped map[string]json.RawMessage
	if json.Unmarshal(data, &wrapped) == nil && len(wrapped) == 1 && wrapped[wrappedKey] != nil {
		return wrapped[wrappedKey]
	}
	return data
}
