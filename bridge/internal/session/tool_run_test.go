package session

import (
	"strings"
	"testing"
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
