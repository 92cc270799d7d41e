package chat_test

import (
	"encoding/json"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/simulator"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
)

// TestSimulatorCharts draws what the simulator's script asks for.
func TestSimulatorCharts(t *testing.T) {
	t.Parallel()
	registry := toolkit.NewRegistry()
	var offered []llm.Tool
	for _, tool := range charts.Tools() {
		must(t, registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
		offered = append(offered, llm.Tool(tool.Definition()))
	}
	router := toolkit.NewRouter(registry, toolkit.RouterConfig{})
	calls := 0
	request := llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Content: "two charts, both as charts"}}, Tools: offered}
	for d, err := range simulator.New(simulator.Config{}).Stream(t.Context(), request) {
		must(t, err)
		if d.ToolCall == nil {
			continue
		}
		calls++
		result := router.Call(t.Context(), toolkit.Call{ID: d.ToolCall.ID, Name: d.ToolCall.Name, Arguments: d.ToolCall.Arguments}, nil)
		if result.Failed() || !json.Valid(result.Output) {
			t.Errorf("%s: %s", d.ToolCall.Name, result.Error)
		}
	}
	testkit.Equal(t, calls, 2, "calls")
}
