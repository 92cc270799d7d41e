package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit/clienttool"
)

// TestManyClientTools has a client declare more than a call has room for. It keeps what fits, in order, and is told the
// rest.
func TestManyClientTools(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		sizes []int // of the tools t0, t1, …
		left  []string
	}{
		"all fit":   {sizes: slices.Repeat([]int{100}, clienttool.MaxTools)},
		"too many":  {sizes: slices.Repeat([]int{1}, clienttool.MaxTools+2), left: []string{"t64", "t65"}},
		"too large": {sizes: []int{30_000, 40_000, 10, 40_000}, left: []string{"t1", "t3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var tools, kept []string
			for i, size := range tt.sizes {
				name := fmt.Sprintf("t%d", i)
				tools = append(tools, fmt.Sprintf(`{"type":"function","name":%q,"parameters":{"type":"object","description":%q}}`, name, strings.Repeat("x", size)))
				if !slices.Contains(tt.left, name) {
					kept = append(kept, name)
				}
			}
			c := limited(t, Config{})
			c.play(`br {"type":"session.update","event_id":"b1","session":{"tools":[` + strings.Join(tools, ",") + `]}}`)
			var got []string
			for _, d := range c.s.settings.client.declared.all() {
				got = append(got, d.Name)
			}
			testkit.Equal(t, got, kept, "the call")
			out := c.out.String()
			told := fmt.Sprintf("%d client tools are left out (%s)", len(tt.left), strings.Join(tt.left, ", "))
			if n := strings.Count(out, `"code":"too_many_tools","event_id":"b1"`); n != min(len(tt.left), 1) || n > 0 && !strings.Contains(out, told) {
				t.Errorf("%d errors, want one that says %q:\n%.4000s", n, told, out)
			}
		})
	}
}

// TestNewToolBesideAClients has the server get a tool whose name is one of the client's. The client keeps its own, and
// the server's other tools come.
func TestNewToolBesideAClients(t *testing.T) {
	t.Parallel()
	c := limited(t, Config{})
	c.play(`br {"type":"session.update","session":{"tools":[{"type":"function","name":"create_pie_chart"}]}}`)
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	c.play("tools create_pie_chart create_gauge_chart")
	if out := c.out.String(); !strings.Contains(out, `"tools":["create_pie_chart","cancel_running_tools","create_gauge_chart"]`) {
		t.Errorf("the model does not get the new tool:\n%s", out)
	}
	if !c.s.settings.client.isDeclared("create_pie_chart") {
		t.Error("the client has lost its tool")
	}
}

// TestSessionAsKept has the upstream repeat the server's instructions and tools beside a client's. Only the client's is
// kept for those that join later.
func TestSessionAsKept(t *testing.T) {
	t.Parallel()
	c := limited(t, Config{})
	c.play(`br {"type":"session.update","session":{"tools":[{"type":"function","name":"mine"}]}}`)
	c.play(`up {"type":"session.updated","session":{"type":"realtime","instructions":"secret","audio":{"output":{"voice":"marin"}},` +
		`"tools":[{"type":"function","name":"theirs"},{"type":"function","name":"mine"}]}}`)
	const want = `{"session":{"audio":{"output":{"voice":"marin"}},"tools":[{"type":"function","name":"mine"}],"type":"realtime"},` +
		`"type":"session.updated"}`
	testkit.Equal(t, string(c.s.view.updated), want, "kept")
	if got := string(c.s.view.redactedFor(c.s.view.updated, 1)); strings.Contains(got, "mine") {
		t.Errorf("a sideband sees %s", got)
	}
}
