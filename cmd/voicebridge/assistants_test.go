package main

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"strings"
	"testing"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
	"voicebridge/toolkit/httptool"
	"voicebridge/toolkit/mcptool"
)

func TestToolsOfAssistants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"name":"x"}`:                                                    "agent area bar pie",
		`{"name":"x","tools":{"allow":[]}}`:                               "",
		`{"name":"x","tools":{"allow":["*bar*"]}}`:                        "bar",
		`{"name":"x","tools":{"deny":["create_*"]}}`:                      "agent",
		`{"name":"x","mcp_servers":["others"]}`:                           "agent area bar",
		`{"name":"x","mcp_servers":["charts"],"tools":{"deny":["ask*"]}}`: "area bar pie",
		`{"name":"x","tools":{"allow":["look"]},"http_tools":[{"name":"look","url":"https://a.example/"},{"name":"denied","url":"https://a.example/"}]}`: "look",
	} {
		a, err := assistant.Parse([]byte(text))
		must(t, err)
		tools := &tools{http: httptool.New(nil, nil), mcp: new(mcptool.Servers)}
		for _, tool := range charts.Tools() {
			e := toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}
			switch tool.Definition().Name {
			case "create_pie_chart":
				e.Executor, e.Server = toolkit.ExecutorMCP, "charts"
			case "create_bar_chart", "create_area_chart":
			default:
				continue
			}
			tools.own = append(tools.own, e)
		}
		tools.agent = named("ask_agent")
		r, err := tools.spoken(t.Context(), "anna", a)
		must(t, err)
		var names []string
		for _, d := range r.Definitions() {
			names = append(names, strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(d.Name, "create_"), "ask_"), "_chart"))
		}
		slices.Sort(names)
		testkit.Equal(t, strings.Join(names, " "), want, "%s has the tools", text)
		if all, err := tools.spoken(t.Context(), "anna", assistant.Assistant{}); err != nil || all.Len() != 4 {
			t.Errorf("without an assistant there are %d tools, %v", all.Len(), err)
		}
	}
}

// named is a tool that only has a name.
type named string

func (n named) Definition() toolkit.Definition {
	return toolkit.Definition{Name: string(n), Description: "x", Parameters: json.RawMessage(`{"type":"object"}`)}
}

func (named) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] { return nil }
