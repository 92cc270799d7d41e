package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/realtime"
	"voicebridge/toolkit"
)

// model is a model that uses tools, with the bridge's part of the exchange. It is the session of its
// batches.
type model struct {
	t        *testing.T
	batches  *batches
	events   []object // since the last call of lines
	failures []error
}

func newModel(t *testing.T, size int) *model {
	t.Helper()
	m := &model{t: t}
	m.batches = newBatches(m, uses, size, func(err error) { m.failures = append(m.failures, err) })
	return m
}

// Emit implements upstreamSession.
func (m *model) Emit(event map[string]any) { m.events = append(m.events, event) }

// AddCall implements upstreamSession.
func (m *model) AddCall(id, callID, name string) {
	m.Emit(object{"type": realtime.TypeItemAdded, "item": object{
		"id": id, "type": realtime.ItemFunctionCall, "status": realtime.ResponseInProgress, "call_id": callID, "name": name,
	}})
}

// Forget implements upstreamSession.
func (m *model) Forget() {}

// lines returns one line for each new event.
func (m *model) lines() []string {
	m.t.Helper()
	var out []string
	for _, event := range m.events {
		raw, err := json.Marshal(event)
		must(m.t, err)
		e, err := realtime.Decode(raw)
		if err != nil || e.Malformed != nil {
			m.t.Fatalf("event %s: %v, %v", raw, err, e.Malformed)
		}
		line := e.Type
		switch {
		case e.Item != nil:
			it, err := realtime.DecodeItem(e.Item)
			must(m.t, err)
			line += fmt.Sprintf(" %s %s %s", it.CallID, it.Name, it.Status)
		case e.Response != nil:
			r, err := realtime.DecodeResponse(e.Response)
			must(m.t, err)
			line += fmt.Sprintf(" %s %s with %d", r.ID, r.Status, len(r.Output))
		}
		out = append(out, line)
	}
	m.events = nil
	return out
}

// success is the output of a successful call.
func success(callID string) string {
	if strings.HasSuffix(callID, "1") {
		return fmt.Sprintf(`{"stdout":%q,"exit":"completed"}`, markOf(callID))
	}
	return fmt.Sprintf(`{"summary":%q,"chartId":"x"}`, markOf(callID))
}

func (m *model) answer(callID, output string) { m.batches.output(callID, output) }

func (m *model) ask() []string {
	m.t.Helper()
	m.batches.create()
	return m.lines()
}

// serve answers everything open and asks for the next response.
func (m *model) serve() []string {
	m.t.Helper()
	for callID := range m.batches.missing {
		m.answer(callID, success(callID))
	}
	return m.ask()
}

func TestBatch(t *testing.T) {
	t.Parallel()
	m := newModel(t, 3)
	want := []string{
		`response.created resp_1 in_progress with 0`,
		`conversation.item.added call_1 mini-javascript-execution in_progress`,
		`response.output_item.done call_1 mini-javascript-execution completed`,
		`conversation.item.added call_2 create_bar_chart in_progress`,
		`response.output_item.done call_2 create_bar_chart completed`,
		`conversation.item.added call_3 mini-javascript-execution in_progress`,
		`response.output_item.done call_3 mini-javascript-execution completed`,
		`response.done resp_1 completed with 3`,
	}
	m.batches.next()
	if diff := cmp.Diff(want, m.lines()); diff != "" {
		t.Fatalf("batch (-want +got):\n%s", diff)
	}
	for _, callID := range []string{"call_2", "call_3", "call_1"} {
		m.answer(callID, success(callID))
	}
	got := m.ask()
	if len(got) != 2+len(want) || got[0][:len("response.created")] != "response.created" || !strings.HasSuffix(got[1], "completed with 0") ||
		!strings.Contains(got[3], "conversation.item.added call_4 mini-javascript-execution in_progress") {
		t.Errorf("answer %q", got)
	}
	m.batches.last = true
	if got := m.serve(); len(got) != 2 || !m.batches.over() {
		t.Errorf("after the last batch: %q", got)
	}
	b := m.batches
	if b.answered.Load() != 6 || b.asked != 6 || b.batch != 2 || b.took.count() != 2 || len(m.failures) != 0 {
		t.Errorf("%d of %d answered in %d batches, %v", b.answered.Load(), b.asked, b.batch, m.failures)
	}
}

func TestFailuresOfTheBridge(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do   func(m *model)
		want string
	}{
		"a second output":       {func(m *model) { m.answer("call_1", success("call_1")); m.answer("call_1", success("call_1")) }, `"call_1", which nobody made or which has one`},
		"a stranger's output":   {func(m *model) { m.answer("call_3", "{}") }, `"call_3", which nobody made`},
		"a hostile output":      {func(m *model) { m.answer("call_"+strings.Repeat("9", 5000), "{}") }, "which nobody made"},
		"a failure":             {func(m *model) { m.answer("call_1", "Error: "+markOf("call_1")+" it crashed") }, "call_1 of mini-javascript-execution did not succeed: Error: for call_1. it crashed"},
		"a program that threw":  {func(m *model) { m.answer("call_1", `{"exit":"exception","stdout":"for call_1."}`) }, "did not succeed"},
		"the output of another": {func(m *model) { m.answer("call_1", success("call_12")) }, "call_1 of mini-javascript-execution did not succeed"},
		"a request too early":   {func(m *model) { m.answer("call_1", success("call_1")); m.ask() }, "while batch 1 lacks 1 of 2 outputs"},
		"a second request":      {func(m *model) { m.serve(); m.ask() }, "while batch 2 lacks 2 of 2 outputs"},
		"after the last":        {func(m *model) { m.batches.last = true; m.serve(); m.ask() }, "while batch 1 lacks 0 of 2 outputs"},
	} {
		m := newModel(t, 2)
		m.batches.next()
		c.do(m)
		if len(m.failures) != 1 || !strings.Contains(m.failures[0].Error(), c.want) || len(m.failures[0].Error()) > 500 {
			t.Errorf("%s: %v, want %q", name, m.failures, c.want)
		}
	}
}

func TestOverdueNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	m := newModel(t, 2)
	m.batches.next()
	m.answer("call_2", success("call_2"))
	if got := m.batches.overdue().Error(); got != "batch 1 has no output of call_1 of mini-javascript-execution" {
		t.Error(got)
	}
	m.answer("call_1", success("call_1"))
	if got := m.batches.overdue().Error(); got != "batch 1 has all its outputs and no response.create" {
		t.Error(got)
	}
}

func TestOffered(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{}`: "", `{"tools":null}`: "", `{"tools":{}}`: "", `{"tools":["create_bar_chart",7,null,{}]}`: "",
		`{"tools":[{"name":"createTable"},{"name":"create_bar_chart"}]}`:                 "create_bar_chart",
		`{"tools":[{"name":"create_bar_chart"},{"name":"mini-javascript-execution"}]}`:   "mini-javascript-execution create_bar_chart",
		`{"tools":[{"name":["create_bar_chart"]},{"name":"mini-javascript-execution"}]}`: "mini-javascript-execution",
	} {
		var session object
		must(t, json.Unmarshal([]byte(raw), &session))
		var names []string
		for _, u := range offered(session) {
			names = append(names, u.name)
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s offers %q, want %q", raw, got, want)
		}
	}
}

func TestArgumentsAreJSON(t *testing.T) {
	t.Parallel()
	for _, u := range uses {
		var got struct{ Title, Code string }
		if err := json.Unmarshal(toolkit.Encode(u.arguments(markOf("call_1"))), &got); err != nil || !strings.Contains(got.Title+got.Code, "for call_1.") {
			t.Errorf("%s: %+v, %v", u.name, got, err)
		}
	}
}

// openToolTraffic makes a call without a bridge; its caller declares the tools, and the test plays
// the bridge.
func openToolTraffic(t *testing.T) (*traffic, func(event []byte)) {
	t.Helper()
	r := openDirect(t, 0)
	k, err := r.startTraffic(1)
	must(t, err)
	t.Cleanup(func() {
		if err := k.stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	if err := k.startTools(2); !errors.Is(err, errNoTools) {
		t.Fatalf("without tools: %v", err)
	}
	send := func(event []byte) {
		t.Helper()
		must(t, k.browsers[0].peer.Send(t.Context(), event))
	}
	tools := []object{{"type": "function", "name": uses[0].name}, {"type": "function", "name": uses[1].name}}
	send(realtime.SessionUpdate("ev", object{"type": "realtime", "tools": tools}))
	await(t, k, func(c *upstreamCall) bool { return len(offered(c.session.Settings())) == 2 })
	must(t, k.startTools(2))
	return k, send
}

// await waits until everything sent has reached the upstream's end of a call.
func await(t *testing.T, k *traffic, there func(*upstreamCall) bool) {
	t.Helper()
	look := time.Tick(5 * time.Millisecond)
	for done := false; !done; <-look {
		must(t, k.calls[0].order(k.alive, func() { done = there(k.calls[0]) }))
	}
}

func TestToolsOfACall(t *testing.T) {
	t.Parallel()
	k, send := openToolTraffic(t)
	for _, callID := range []string{"call_1", "call_2"} {
		send(realtime.FunctionCallOutput("", "", callID, success(callID)))
	}
	send(realtime.ResponseCreate(""))
	await(t, k, func(c *upstreamCall) bool { return c.batches.batch == 2 })
	for _, callID := range []string{"call_3", "call_4"} {
		send(realtime.FunctionCallOutput("", "", callID, success(callID)))
	}
	await(t, k, func(c *upstreamCall) bool { return len(c.batches.missing) == 0 })
	if err := k.stopTools(time.Millisecond); err == nil || !strings.Contains(err.Error(), "batch 2 has all its outputs and no response.create") {
		t.Errorf("a bridge that does not ask: %v", err)
	}
	send(realtime.ResponseCreate(""))
	must(t, k.stopTools(connectTimeout))
	if n := k.batches.answered.Load(); n != 4 {
		t.Errorf("%d outputs", n)
	}
}

func TestABrokenRuleEndsTheMeasurement(t *testing.T) {
	t.Parallel()
	k, send := openToolTraffic(t)
	send(realtime.FunctionCallOutput("", "", "call_9", "{}"))
	<-k.alive.Done()
	for name, err := range map[string]error{"stop": k.stopTools(connectTimeout), "start": k.startTools(1)} {
		if err == nil || !strings.Contains(err.Error(), `"call_9", which nobody made`) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := k.half(Config{}, k); err == nil || !strings.Contains(err.Error(), `"call_9", which nobody made`) {
		t.Errorf("half: %v", err)
	}
}
