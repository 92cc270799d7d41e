package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
)

// TestLargeArguments has a call whose arguments do not fit into one event for the browser: it learns
// about the call, and is asked, without them.
func TestLargeArguments(t *testing.T) {
	t.Parallel()
	c := newScripted(t, "")
	long := strings.Repeat("x", c.s.BrowserLimit)
	arguments := encode(string(encode(map[string]string{"title": long})))
	for _, line := range []string{
		`up {"type":"session.created","event_id":"e1","session":{"id":"sess_1","type":"realtime","instructions":"x","tools":[]}}`,
		`up {"type":"session.updated","event_id":"e2","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad"}}}}}`,
		`up {"type":"response.created","response":{"id":"r1","status":"in_progress"}}`,
		`up {"type":"response.output_item.done","response_id":"r1","output_index":0,"item":{"id":"i1","type":"function_call","status":"completed",` +
			`"call_id":"c1","name":"create_line_chart","arguments":` + string(arguments) + `}}`,
		`br {"type":"bridge.tool.approve","event_id":"b2","tool_call_id":"c1","nonce":"id-4"}`,
	} {
		c.play(line)
	}
	var told []string
	for line := range strings.Lines(c.out.String()) {
		if strings.Contains(line, "→br") && strings.Contains(line, `"type":"bridge.tool.`) {
			told = append(told, line)
		}
	}
	if len(told) != 2 || !strings.Contains(told[0], "approval_required") || !strings.Contains(told[1], "bridge.tool.started") {
		t.Fatalf("the browser was told %.2000q", told)
	}
	for _, line := range told {
		if strings.Contains(line, long) || !strings.Contains(line, `"input_omitted":true`) {
			t.Errorf("the browser was told %.300s", line)
		}
	}
}

// renamed is a tool under another name.
type renamed struct {
	toolkit.Tool

	name string
}

func (r renamed) Definition() toolkit.Definition {
	d := r.Tool.Definition()
	d.Name = r.name
	return d
}

// TestNamesThatBeginWithADigit has the model know a server's tool under a name that every vendor takes, and all others under
// its own. A client's tool keeps the name by which the client knows its calls.
func TestNamesThatBeginWithADigit(t *testing.T) {
	t.Parallel()
	const own, clients = "21st-magic__logo", "1c_read"
	c := newScripted(t, "")
	c.reduce(NewTools{Entries: []toolkit.Entry{{Tool: renamed{charts.Tools()[0], own}, Executor: toolkit.ExecutorMCP, Server: "21st-magic"}}})
	call := func(n int, name string) string {
		return fmt.Sprintf(`up {"type":"response.output_item.done","response_id":"r1","item":{"id":"i%d","type":"function_call","status":"completed","call_id":"c%d","name":%q,"arguments":"{}"}}`, n, n, name)
	}
	for _, line := range []string{
		`br {"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","name":"` + clients + `","parameters":{"type":"object","properties":{}}}]}}`,
		`up {"type":"session.created","session":{"type":"realtime"}}`,
		`up {"type":"session.updated","session":{"type":"realtime","tools":[{"type":"function","name":"` + clients + `"},{"type":"function","name":"` + toolkit.ModelName(own) + `"}]}}`,
		`up {"type":"response.created","response":{"id":"r1","status":"in_progress"}}`,
		call(1, toolkit.ModelName(own)), call(2, clients),
	} {
		c.play(line)
	}
	out := c.out.String()
	for _, want := range []string{`"tools":["` + clients + `","cancel_running_tools","` + toolkit.ModelName(own) + `"]`, "run c1 " + own + " ", "run c2 " + clients + " ", `"tools":["` + clients + `"]`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
	testkit.Equal(t, strings.Count(out, toolkit.ModelName(own)), 1, "the model's name is told times in %s", out)
}

// TestShownOnce has images of a tool's result: the model is shown them once, and not at all if they are too large for it.
func TestShownOnce(t *testing.T) {
	t.Parallel()
	for size, times := range map[int]int{10: 1, 300 << 10: 0} {
		c := newScripted(t, "")
		for _, line := range []string{
			`up {"type":"session.created","session":{"type":"realtime"}}`,
			`up {"type":"session.updated","session":{"type":"realtime"}}`,
			`up {"type":"response.created","response":{"id":"r1","status":"in_progress"}}`,
			`up {"type":"response.output_item.done","response_id":"r1","item":{"id":"i1","type":"function_call","status":"completed","call_id":"c1","name":"create_bar_chart","arguments":"{}"}}`,
			`up {"type":"response.done","response":{"id":"r1","status":"completed"}}`,
			`up is failed`, // the next session is dialled while the tool runs, and catches up
			`tool c1 {} image data:image/png;base64,` + strings.Repeat("A", size),
			`up2 dialed`, `up2 {"type":"session.created","session":{"type":"realtime"}}`, `up2 {"type":"session.updated","session":{"type":"realtime"}}`,
			`up2 is failed`, `+1s`,
			`up3 dialed`, `up3 {"type":"session.created","session":{"type":"realtime"}}`, `up3 {"type":"session.updated","session":{"type":"realtime"}}`,
		} {
			c.play(line)
		}
		out := c.out.String()
		if n := strings.Count(out, "(Images that create_bar_chart returned)"); n != times || strings.Contains(out, "images of a tool not shown") != (times == 0) || !strings.Contains(out, "switch 3") {
			t.Errorf("%d bytes: shown %d times, want %d", size, n, times)
		}
	}
}

// TestPictureOfTool has a client tool answer with a picture before its output, again and again: the model is asked once after
// both, the pictures are no turns of the user, and so the limit on rounds of tools holds.
func TestPictureOfTool(t *testing.T) {
	t.Parallel()
	for _, words := range []string{"", "Look!"} {
		c := newScripted(t, "")
		c.s.ToolRounds = 2
		for _, line := range []string{
			`up {"type":"session.created","session":{"type":"realtime"}}`,
			`br {"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{}}}]}}`,
			`up {"type":"session.updated","session":{"type":"realtime"}}`,
		} {
			c.play(line)
		}
		for _, n := range []string{"1", "2"} {
			c.play(`up {"type":"response.created","response":{"id":"r` + n + `"}}`)
			c.play(`up {"type":"response.done","response":{"id":"r` + n + `","status":"completed","output":[{"id":"i` + n + `","type":"function_call","status":"completed","call_id":"c` + n + `","name":"look","arguments":"{}"}]}}`)
			part := ""
			if words != "" {
				part = `{"type":"input_text","text":"` + words + `"},`
			}
			c.reduce(BrowserEvent{
				Gen:    c.s.browserLeg.gen,
				Data:   []byte(`{"type":"conversation.item.create","item":{"id":"p` + n + `","type":"message","role":"user","content":[` + part + `{"type":"input_image","image_url":"data:image/png;base64,AAAA"}]}}`),
				Images: []Image{{URL: "data:image/png;base64,AAAA"}},
			})
			c.play(`up {"type":"conversation.item.added","previous_item_id":"i` + n + `","item":{"id":"p` + n + `","type":"message","role":"user","content":[]}}`)
			c.play(`br {"type":"conversation.item.create","item":{"type":"function_call_output","call_id":"c` + n + `","output":"seen"}}`)
			c.play(`tool c` + n + ` "seen"`)
		}
		out := c.out.String()
		picture, output := strings.Index(out, `"image_url":"data:image/png`), strings.Index(out, `"type":"function_call_output"},"type":"conversation.item.create"}`)
		asked := strings.Index(out, `"type":"response.create"`)
		if picture < 0 || picture > output || output > asked || strings.Count(out, `"type":"response.create"`) != 2 {
			t.Errorf("%q: the picture is at %d, the output at %d, the request at %d:\n%s", words, picture, output, asked, out)
		}
		turns := map[string]int64{"": 0, "Look!": 2}[words]
		if spent := strings.Contains(out, `"tool_choice":"none"`); c.s.record.Turns != turns || spent != (words == "") {
			t.Errorf("%q: %d turns, want %d; the rounds are used up: %v", words, c.s.record.Turns, turns, spent)
		}
	}
}

// TestDeniedClientTool leaves out a client's tool that the operator denies, and takes the others.
func TestDeniedClientTool(t *testing.T) {
	t.Parallel()
	c := newScripted(t, "")
	c.s.settings.client.deny = toolkit.MustNames("lo*")
	for _, line := range []string{
		`br {"type":"session.update","event_id":"b1","session":{"type":"realtime","tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{}}},{"type":"function","name":"theme","parameters":{"type":"object","properties":{}}}]}}`,
		`up {"type":"session.created","session":{"type":"realtime"}}`,
	} {
		c.play(line)
	}
	if out := c.out.String(); strings.Contains(out, "look") || !strings.Contains(out, `declare tools ["theme"]`) || strings.Contains(out, `"type":"error"`) {
		t.Errorf("declared:\n%s", out)
	}
}

// TestTellsOfImages says with bridge.ready, and when the upstream is another one, whether the model can be shown images.
func TestTellsOfImages(t *testing.T) {
	t.Parallel()
	for _, can := range []bool{true, false} {
		c := newScripted(t, "")
		c.s.up.can.Images = can
		c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
		c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
		c.s.UpstreamCan.Images = !can
		for _, line := range []string{`up is failed`, `up2 dialed`, `up2 {"type":"session.created","session":{"type":"realtime"}}`, `up2 {"type":"session.updated","session":{"type":"realtime"}}`} {
			c.play(line)
		}
		told := map[string]bool{}
		for line := range strings.Lines(c.out.String()) {
			for _, kind := range []string{"bridge.ready", "bridge.upstream.renewed"} {
				if strings.Contains(line, `"type":"`+kind+`"`) {
					told[kind] = strings.Contains(line, `"images":true`)
				}
			}
		}
		if len(told) != 2 || told["bridge.ready"] != can || told["bridge.upstream.renewed"] == can {
			t.Errorf("images: %v: told %v\n%s", can, told, c.out.String())
		}
	}
}

// TestManyCalls has responses that ask for more tools than they may start: no more are run or saved, and what is still being
// made of the response is not wanted.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	for name, lines := range map[string]func(call string) []string{
		"one by one": func(call string) (lines []string) {
			for i := range 100 {
				lines = append(lines, fmt.Sprintf(`up {"type":"response.output_item.done","response_id":"r1","item":%s}`, fmt.Sprintf(call, i, i)))
			}
			return append(lines, `up {"type":"response.done","response":{"id":"r1","status":"cancelled"}}`)
		},
		"at once": func(call string) []string {
			var calls []string
			for i := range 3408 {
				calls = append(calls, fmt.Sprintf(call, i, i))
			}
			return []string{`up {"type":"response.done","response":{"id":"r1","status":"completed","output":[` + strings.Join(calls, ",") + `]}}`}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newScripted(t, "")
			for _, line := range slices.Concat([]string{
				`up {"type":"session.created","session":{"type":"realtime"}}`,
				`up {"type":"session.updated","session":{"type":"realtime"}}`,
				`up {"type":"response.created","response":{"id":"r1","status":"in_progress"}}`,
			}, lines(`{"id":"i%d","type":"function_call","status":"completed","call_id":"c%d","name":"create_bar_chart","arguments":"{}"}`)) {
				c.play(line)
			}
			out := c.out.String()
			for what, want := range map[string]int{"\trun c": toolkit.MaxCalls, "\tsave tool c": toolkit.MaxCalls, "response.cancel\"": 1} {
				if name == "at once" && strings.HasPrefix(what, "response") {
					continue // it is over
				}
				testkit.Equal(t, strings.Count(out, what), want, "× %q", what)
			}
		})
	}
}
