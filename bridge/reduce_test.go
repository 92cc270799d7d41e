package bridge

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
	"voicebridge/toolkit/clienttool"
)

var rewrite = flag.Bool("update", false, "write what the calls do into testdata/calls")

// TestCalls plays the transcripts in testdata/calls. In the file "call" a line
// is an input,
//
//	up {…}       an event of the upstream
//	br {…}       an event of the browser
//	+1.5s        time passes, deadline by deadline
//	tool ID {…}  a tool ends with this output; "tool ID !words" is a failure
//	wrote ID M   a tool says that it writes the message M
//	tools A B    the server's tools are these from now on
//	say words    text from elsewhere; "deliver words" is one that a queue keeps
//	             until it is saved
//	interrupt    somebody stops the turn; "forget" starts afresh
//	stop reason  somebody ends the call
//	up is STATE  the connection's state; also "br is STATE"
//
// and the indented lines below it are the effects. The file "thread" holds the
// messages that the call has found, "filler" when the voice speaks for a tool, "limit"
// how many bytes an event for the upstream may have. The tool create_line_chart asks
// the user first, and a client may declare its own in its place.
func TestCalls(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/calls/*.txtar")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d transcripts, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for i := range archive.Files {
				if archive.Files[i].Name != "call" {
					continue
				}
				want := string(archive.Files[i].Data)
				got := playScript(t, archive, want)
				if *rewrite {
					archive.Files[i].Data = []byte(got)
				} else if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
			if *rewrite {
				if err := os.WriteFile(file, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func section(a *txtar.Archive, name string) string {
	for _, f := range a.Files {
		if f.Name == name {
			return string(f.Data)
		}
	}
	return ""
}

// scripted is a call in a transcript.
type scripted struct {
	t   *testing.T
	s   *state
	now time.Time
	out strings.Builder
}

func playScript(t *testing.T, archive *txtar.Archive, script string) string {
	t.Helper()
	c := newScripted(t, section(archive, "thread"))
	var err error
	if limit := section(archive, "limit"); limit != "" {
		if c.s.upstreamLimit, err = strconv.Atoi(strings.TrimSpace(limit)); err != nil {
			t.Fatal(err)
		}
	}
	if filler := section(archive, "filler"); filler != "" {
		if c.s.fillerAfter, err = time.ParseDuration(strings.TrimSpace(filler)); err != nil {
			t.Fatal(err)
		}
	}
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		if line == "" || strings.HasPrefix(line, "\t") {
			continue
		}
		c.out.WriteString(line + "\n")
		if strings.HasPrefix(line, "#") {
			continue
		}
		c.play(line)
	}
	return c.out.String()
}

// newTestState makes a state without a call around it.
func newTestState(t testing.TB, f facts) *state {
	t.Helper()
	registry := toolkit.NewRegistry()
	for _, tool := range charts.Tools()[:2] {
		if err := registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}); err != nil {
			t.Fatal(err)
		}
	}
	if err := registry.Add(toolkit.Entry{Tool: cancelEntry{}, Executor: toolkit.ExecutorApp}); err != nil {
		t.Fatal(err)
	}
	n := 0
	f.approve = approvals([]string{"create_line_chart"})
	f.callID, f.key = "call-1", persistence.Key{Owner: "ada", Thread: "thread-1"}
	f.session = SessionConfig{Model: "model-1", Voice: "marin", TranscriptionModel: "words-1", Instructions: "SECRET"}
	f.upstreamLimit, f.browserLimit = 256<<10, 64<<10
	f.itemPrefix = "vb"
	f.cost = func(realtime.Usage) *float64 { return nil }
	f.newID = func() string { n++; return fmt.Sprintf("id-%d", n) }
	client := clienttool.New(registry, clienttool.Config{Places: map[string]clienttool.Place{"create_line_chart": {}}})
	return newState(f, persistence.CallRecord{ID: f.callID, ThreadID: "thread-1"}, registry, client, epoch)
}

var epoch = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func newScripted(t *testing.T, thread string) *scripted {
	t.Helper()
	var history []persistence.Message
	for line := range strings.Lines(thread) {
		role, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		history = append(history, persistence.Message{
			ID: fmt.Sprintf("old-%d", len(history)+1), Role: persistence.Role(role), Parts: []persistence.Part{persistence.TextPart(text)},
		})
	}
	f := facts{history: replayItems(history, 256<<10, seedIDs("vb")), replayed: len(history)}
	if n := len(history); n > 0 {
		f.lastMessage = history[n-1].ID
	}
	return &scripted{t: t, s: newTestState(t, f), now: epoch}
}

func (c *scripted) play(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	state, isState := strings.CutPrefix(rest, "is ")
	switch {
	case strings.HasPrefix(verb, "+"):
		c.pass(verb[1:])
	case verb == "up" && isState:
		c.reduce(upstreamState{states[state]})
	case verb == "br" && isState:
		c.reduce(browserState{states[state]})
	case verb == "up":
		c.reduce(upstreamEvent{[]byte(rest)})
	case verb == "br":
		c.reduce(browserEvent{[]byte(rest)})
	case verb == "tool":
		id, output, _ := strings.Cut(rest, " ")
		result := toolkit.Result{Output: json.RawMessage(output)}
		if words, failed := strings.CutPrefix(output, "!"); failed {
			result = toolkit.Result{Error: words}
		}
		c.reduce(toolEnd{callID: id, result: result})
	case verb == "wrote":
		id, message, _ := strings.Cut(rest, " ")
		c.reduce(toolProgress{callID: id, chunk: toolkit.Chunk{Message: "It writes.", MessageID: message}})
	case verb == "tools":
		var entries []toolkit.Entry
		for _, tool := range charts.Tools() {
			if slices.Contains(strings.Fields(rest), tool.Definition().Name) {
				entries = append(entries, toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp})
			}
		}
		c.reduce(newTools{entries})
	case verb == "say":
		c.reduce(said{messageID: "said-1", text: rest})
	case verb == "deliver":
		c.reduce(said{messageID: "queued-1", text: rest, with: func(*persistence.Batch) error { return nil }})
	case verb == "interrupt":
		c.reduce(interruption{})
	case verb == "forget":
		c.reduce(freshStart{})
	case verb == "stop":
		c.reduce(stop{EndReason(rest)})
	default:
		c.t.Fatalf("unknown input %q", line)
	}
}

var states = map[string]rtc.State{"connected": rtc.StateConnected, "closed": rtc.StateClosed, "failed": rtc.StateFailed}

// pass lets time pass and wakes the state when it asked for it.
func (c *scripted) pass(text string) {
	d, err := time.ParseDuration(text)
	if err != nil {
		c.t.Fatal(err)
	}
	end := c.now.Add(d)
	for range 1000 {
		at := c.s.deadline()
		if at.IsZero() || at.After(end) || c.s.phase == ended {
			c.now = end
			return
		}
		if at.After(c.now) {
			c.now = at
		}
		c.reduce(tick{})
	}
	c.t.Fatal("the state asks to be woken without an end")
}

func (c *scripted) reduce(in input) {
	raw, _ := in.(upstreamEvent)
	for _, e := range c.s.reduce(c.now, in) {
		text := show(c.t, e)
		if b, ok := e.(toBrowser); ok && bytes.Equal(b.data, raw.data) {
			text = strings.TrimSuffix("→br as it came, "+map[bool]string{true: "draft"}[b.draft], ", ")
		}
		fmt.Fprintf(&c.out, "\t%s\n", text)
	}
}

// show is an effect in one line.
func show(t *testing.T, e effect) string {
	t.Helper()
	switch e := e.(type) {
	case toUpstream:
		return "→up " + compact(e.data)
	case toBrowser:
		if e.draft {
			return "→br draft " + compact(e.data)
		}
		return "→br " + compact(e.data)
	case write:
		return "save " + showOp(e.op)
	case publish:
		return "tell " + string(e.kind) + " " + string(encode(e.data))
	case expectTool:
		return "expect " + e.callID
	case startTool:
		return "run " + e.call.ID + " " + e.call.Name + " " + e.call.Arguments
	case cancelTool:
		return "cancel " + e.callID
	case cancelTools:
		return "cancel tools"
	case deliverTool:
		return "deliver " + e.callID + " " + e.output
	case gate:
		return fmt.Sprintf("gate open=%t", e.open)
	case answer:
		return fmt.Sprintf("answer %t", e.yes)
	case report:
		return "log " + e.message
	case finish:
		return "finish " + string(e.reason)
	}
	t.Fatalf("unknown effect %T", e)
	return ""
}

// compact is an event without the schemas of tools.
func compact(data []byte) string {
	var v map[string]any
	if json.Unmarshal(data, &v) != nil {
		return string(data)
	}
	if session, ok := v["session"].(map[string]any); ok {
		if tools, ok := session["tools"].([]any); ok {
			names := []string{}
			for _, tool := range tools {
				names = append(names, tool.(map[string]any)["name"].(string))
			}
			session["tools"] = names
		}
	}
	return string(encode(v))
}

func showOp(o op) string {
	switch o := o.(type) {
	case saveMessage:
		m := o.message
		text := fmt.Sprintf("message %s %s %s %s", m.ID, m.Role, m.Metadata.Source, m.Metadata.Status)
		switch o.place.how {
		case placeLast:
			text += " last"
		case placeAfter:
			text += fmt.Sprintf(" after %q", o.place.after)
		case placeKept:
		}
		parts, err := json.Marshal(m.Parts)
		if err != nil {
			return err.Error()
		}
		text += " " + string(parts)
		if h := m.Metadata.HeardText; h != nil {
			text += fmt.Sprintf(" heard %q %dms", *h, *m.Metadata.AudioEndMS)
		}
		if len(m.Metadata.LatencyMS) > 0 {
			text += fmt.Sprint(" ", m.Metadata.LatencyMS)
		}
		return text
	case saveTool:
		return fmt.Sprintf("tool %s %s %s %s in=%s out=%s error=%q", o.call.ToolCallID, o.call.Name, o.call.Executor, o.call.Status,
			o.call.Input, o.call.Output, o.call.Error)
	case saveResponse:
		text := fmt.Sprintf("response %s %s %s", o.response.UpstreamID, o.response.Status, o.response.StatusReason)
		if o.response.AnswerMS != nil {
			text += fmt.Sprintf(" answer=%dms", *o.response.AnswerMS)
		}
		return text
	case saveCall:
		return fmt.Sprintf("call ready=%t ended=%t %s turns=%d interruptions=%d replayed=%d", o.call.ReadyAt != nil, o.call.EndedAt != nil,
			o.call.EndReason, o.call.Turns, o.call.Interruptions, o.call.Replayed)
	}
	return fmt.Sprintf("%T", o)
}
