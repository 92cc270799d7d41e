package llm

import (
	"strings"
	"testing"
)

// TestRename has each name begin with a letter, be short enough, stay another than all others, and come back.
func TestRename(t *testing.T) {
	t.Parallel()
	long := "9" + strings.Repeat("x", maxName-1)
	names := []string{"plain", "21st", "_21st", "t_21st", "-21st", "1", "_", long, "9" + strings.Repeat("x", maxName-2) + "y"}
	req := Request{Messages: []Message{
		{Role: RoleAssistant, ToolCalls: []ToolCall{{Name: "21st"}, {Name: "0gone"}}}, {Role: RoleTool, ToolName: "21st"},
	}}
	for _, n := range names {
		req.Tools = append(req.Tools, Tool{Name: n})
	}
	before := req
	own := req.rename()
	seen := map[string]bool{}
	for i, tool := range req.Tools {
		back := own[tool.Name]
		if back == "" {
			back = tool.Name
		}
		if !isLetter(tool.Name[0]) || len(tool.Name) > maxName || seen[tool.Name] || back != names[i] || before.Tools[i].Name != names[i] {
			t.Errorf("%q is sent as %q and comes back as %q", names[i], tool.Name, back)
		}
		seen[tool.Name] = true
	}
	calls := req.Messages[0].ToolCalls
	if calls[0].Name != req.Tools[1].Name || req.Messages[1].ToolName != calls[0].Name || !isLetter(calls[1].Name[0]) {
		t.Errorf("the conversation has %+v", req.Messages)
	}
	if before.Messages[0].ToolCalls[0].Name != "21st" {
		t.Error("the caller's request has changed")
	}
	plain := Request{Tools: []Tool{{Name: "a"}}}
	if own := plain.rename(); len(own) > 0 {
		t.Errorf("renamed %v", own)
	}
}
