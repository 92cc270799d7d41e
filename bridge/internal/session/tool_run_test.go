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
