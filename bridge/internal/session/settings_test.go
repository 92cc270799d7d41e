package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

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
		"too large": {sizes: []int{clienttool.MaxDeclaration, 30_000, 40_000, 10}, left: []string{"t0", "t2"}},
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
			c := limited(t, Limits{})
			c.play(`br {"type":"session.update","event_id":"b1","session":{"tools":[` + strings.Join(tools, ",") + `]}}`)
			var got []string
			for _, d := range c.s.settings.declared {
				got = append(got, d.Name)
			}
			if !slices.Equal(got, kept) {
				t.Errorf("the call has %q, want %q", got, kept)
			}
			out := c.out.String()
			told := fmt.Sprintf("%d client tools are left out (%s)", len(tt.left), strings.Join(tt.left, ", "))
			if n := strings.Count(out, `"code":"too_many_tools","event_id":"b1"`); n != min(len(tt.left), 1) || n > 0 && !strings.Contains(out, told) {
				t.Errorf("%d errors, want one that says %q:\n%.4000s", n, told, out)
			}
		})
	}
}
