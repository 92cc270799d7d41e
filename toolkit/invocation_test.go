package toolkit

import (
	"context"
	"encoding/json"
	"iter"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/thread"
)

// uncalled is a tool that is never called.
type uncalled struct{ name string }

func (u uncalled) Definition() Definition { return Definition{Name: u.name} }

func (uncalled) Call(context.Context, Call) iter.Seq2[Chunk, error] { panic("not to be called") }

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// invoke begins a call in a registry with an app tool, an MCP tool and a client's tool.
func invoke(t *testing.T, name, arguments string) *Invocation {
	t.Helper()
	r := NewRegistry()
	for _, e := range []Entry{
		{Tool: uncalled{"chart"}, Executor: ExecutorApp}, {Tool: uncalled{"files__read"}, Executor: ExecutorMCP, Server: "files"},
		{Tool: uncalled{"theme"}, Executor: ExecutorClient},
	} {
		must(t, r.Add(e))
	}
	return r.Invoke("r1", Call{ID: "c1", Name: name, Arguments: arguments, CallID: "live"}, 0, noon)
}

// show returns a part as JSON, which is easier to read than the struct.
func show(p thread.Part) string {
	var text strings.Builder
	text.WriteString(string(p.State) + " " + p.ToolName)
	if p.Type == thread.PartDynamicTool {
		text.WriteString(" dynamic")
	}
	for _, piece := range []string{string(p.Input), string(p.Output), p.ErrorText, string(p.Raw)} {
		if piece != "" {
			text.WriteString(" | " + piece)
		}
	}
	return text.String()
}

func TestInvocation(t *testing.T) {
	t.Parallel()
	later := noon.Add(time.Second)
	for name, tt := range map[string]struct {
		tool, arguments    string
		do                 func(*Invocation)
		part, whole        string
		status             thread.ToolCallStatus
		executor, recorded string // of the record: input | output | error
	}{
		"runs": {tool: "chart", arguments: `{"n":1}`, do: func(*Invocation) {},
			part: `input-available chart | {"n":1}`, status: thread.ToolCallRunning, executor: "app", recorded: `{"n":1} |  | `},
		"done": {tool: "chart", arguments: `{"n":1}`, do: func(v *Invocation) { v.Finish(Result{Output: json.RawMessage(`{"a":1}`)}, later) },
			part: `output-available chart | {"n":1} | {"a":1}`, status: thread.ToolCallDone, executor: "app", recorded: `{"n":1} | {"a":1} | `},
		"words for the model": {tool: "files__read", arguments: `{}`, do: func(v *Invocation) {
			v.Finish(Result{Output: json.RawMessage(`{"a":1}`), Model: "one"}, later)
		}, part: `output-available files__read dynamic | {} | {"a":1} | {"callProviderMetadata":{"voicebridge":{"result":"one"}}}`,
			status: thread.ToolCallDone, executor: "mcp", recorded: `{} | {"a":1} | `},
		"secrets": {tool: "theme", arguments: `{"token":"t1"}`, do: func(v *Invocation) {
			v.Finish(Result{Error: `it said {"password": "p1"}`}, later)
		}, part: `output-error theme dynamic | {"token":"[masked]"} | it said {"password": "[masked]"}`,
			whole:  `output-error theme dynamic | {"token":"t1"} | it said {"password": "p1"}`,
			status: thread.ToolCallFailed, executor: "client", recorded: `{"token":"[masked]"} |  | it said {"password": "[masked]"}`},
		"unknown": {tool: "none", arguments: `{`, do: func(v *Invocation) { v.Cancel(Result{Error: WhyCallEnded}, later) },
			part: `output-error none dynamic | "{" | ` + WhyCallEnded, status: thread.ToolCallCancelled, executor: "app", recorded: `{ |  | ` + WhyCallEnded},
		"no name": {arguments: `{}`, do: func(*Invocation) {}, part: `input-available unknown dynamic | {}`, status: thread.ToolCallRunning, executor: "app", recorded: `{} |  | `},
		"approved": {tool: "chart", arguments: `{}`, do: func(v *Invocation) { v.Ask("n", noon); v.Close(thread.ApprovalApproved) },
			part:   `input-available chart | {} | {"callProviderMetadata":{"voicebridge":{"approval":{"id":"n","approved":true}}}}`,
			status: thread.ToolCallRunning, executor: "app", recorded: `{} |  | `},
		"approved and done": {tool: "chart", arguments: `{}`, do: func(v *Invocation) {
			v.Ask("n", noon)
			v.Close(thread.ApprovalApproved)
			v.Finish(Result{Output: json.RawMessage(`1`)}, later)
		}, part: `output-available chart | {} | 1 | {"approval":{"id":"n","approved":true}}`, status: thread.ToolCallDone, executor: "app", recorded: `{} | 1 | `},
		"refused": {tool: "chart", arguments: `{}`, do: func(v *Invocation) {
			v.Ask("n", noon)
			v.Close(thread.ApprovalTimeout)
			v.Close(thread.ApprovalApproved) // too late
			v.Refuse(later)
		}, part: `output-error chart | {} | The user was asked to approve this tool call and did not answer in time.` +
			` | {"callProviderMetadata":{"voicebridge":{"approval":{"id":"n","approved":false,"reason":"timeout"}}}}`,
			status: thread.ToolCallFailed, executor: "app", recorded: `{} |  | The user was asked to approve this tool call and did not answer in time.`},
		"a provider's data": {tool: "chart", arguments: `{}`, do: func(v *Invocation) {
			v.SetMetadata("one", json.RawMessage(`"s"`))
			v.SetMetadata("two", json.RawMessage(`{"k":1}`))
			v.SetMetadata("bad", json.RawMessage(`{`))
		}, part: `input-available chart | {} | {"callProviderMetadata":{"one":{"value_":"s"},"two":{"k":1}}}`,
			status: thread.ToolCallRunning, executor: "app", recorded: `{} |  | `},
		"too long": {tool: "chart", arguments: `"` + strings.Repeat("x", 5*MaxKeptArguments) + `"`, do: (*Invocation).Discard,
			part: `input-available chart | {"note":"too large to keep"}`, status: thread.ToolCallRunning, executor: "app",
			recorded: `{"note":"too large to keep"} |  | the result is too large to keep`},
		"left": {tool: "theme", arguments: `{}`, do: (*Invocation).Leave, part: `input-available theme dynamic | {}`, status: thread.ToolCallWaiting, executor: "client", recorded: `{} |  | `},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := invoke(t, tt.tool, tt.arguments)
			tt.do(v)
			testkit.Equal(t, show(v.Part()), tt.part, "Part()")
			if tt.whole != "" && show(v.WholePart()) != tt.whole {
				t.Errorf("WholePart() = %s\nwant          %s", show(v.WholePart()), tt.whole)
			}
			r := v.Record()
			if got := r.Input + " | " + r.Output + " | " + r.Error; got != tt.recorded || r.Executor != tt.executor || r.Status != tt.status || r.ToolCallID != "c1" || r.CallID != "live" {
				t.Errorf("Record() = %+v", r)
			}
			if (r.FinishedAt != nil) != v.Done() {
				t.Errorf("FinishedAt = %v, Done() = %v", r.FinishedAt, v.Done())
			}
		})
	}
}

// TestInvocationEndsOnce ends one call several times: the first end counts.
func TestInvocationEndsOnce(t *testing.T) {
	t.Parallel()
	v := invoke(t, "chart", "{}")
	v.Ask("nonce", noon)
	if v.Answers("guess") || v.Answers("") || !v.Answers("nonce") {
		t.Error("Answers() accepts another nonce, or refuses its own")
	}
	if !v.Cancel(Result{Error: WhyCancelled}, noon) || v.Finish(Result{Model: "late"}, noon) || v.Refuse(noon) {
		t.Error("the call ended more than once, or never")
	}
	if a, asked := v.Approval(); !asked || a.Outcome != thread.ApprovalInterrupted || v.Asking() || v.Answers("nonce") || v.Close(thread.ApprovalApproved) {
		t.Errorf("Approval() = %+v, %v", a, asked)
	}
	if got := v.Result().ForModel(); got != "Error: "+WhyCancelled || v.Record().Status != thread.ToolCallCancelled || v.Open() {
		t.Errorf("result %q, status %s", got, v.Record().Status)
	}
}

// TestInvocationKeepsHostileArguments has arguments that a message cannot hold unchanged.
func TestInvocationKeepsHostileArguments(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("é", MaxKeptArguments)
	for name, tt := range map[string]struct{ arguments, input string }{
		"deep":           {strings.Repeat("[", 101) + strings.Repeat("]", 101), string(Encode(strings.Repeat("[", 101) + strings.Repeat("]", 101)))},
		"long JSON":      {`{"a":"` + long + `"}`, `{"a":"` + long + `"}`},
		"very long JSON": {`{"a":"` + long + long + `"}`, `{"note":"the arguments are too long to keep"}`},
		"long text":      {"x" + long, string(Encode("x" + strings.Repeat("é", MaxKeptArguments/2-1) + " […]"))},
		"not UTF-8":      {"\xff<", `"\ufffd<"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := invoke(t, "chart", tt.arguments)
			testkit.Equal(t, string(v.Part().Input), tt.input, "Input")
			if n := len(v.Record().Input); n > MaxKeptArguments+10 {
				t.Errorf("the record has %d bytes", n)
			}
		})
	}
}

func TestResultText(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ output, fields, want string }{
		"nothing":         {"", "", "null"},
		"null":            {"null", "", "null"},
		"a text":          {`"two words"`, "", "two words"},
		"white space":     {`{ "a" : [1, 2] }`, "", `{"a":[1,2]}`},
		"a chart":         {`{"chartId":"c","chartData":{},"message":"Made","title":"T"}`, "", `{"summary":"Made","chartId":"c"}`},
		"own words":       {`{"a":1}`, `{"callProviderMetadata":{"voicebridge":{"result":"one"}}}`, "one"},
		"another's":       {`{"a":1}`, `{"callProviderMetadata":{"google":{"result":"one"}}}`, `{"a":1}`},
		"hostile fields":  {`{"a":1}`, `{"callProviderMetadata":[]}`, `{"a":1}`},
		"not JSON":        {`{"a`, "", `{"a`},
		"words of a list": {`{"a":1}`, `{"callProviderMetadata":{"voicebridge":{"result":[1]}}}`, `{"a":1}`},
	} {
		testkit.Equal(t, ResultText([]byte(tt.output), []byte(tt.fields)), tt.want, "%s: ResultText()", name)
	}
}
