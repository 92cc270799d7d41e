package session

import (
	"context"
	"encoding/json"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/toolkit"
)

// TestToolsOfAnUpdate checks that the tools stand where an encoder would put them, whatever is
// beside them, and that the tools of another call are not taken for those of this one.
func TestToolsOfAnUpdate(t *testing.T) {
	t.Parallel()
	const (
		head = `{"type":"session.update","event_id":"vb_1","session":{"type":"realtime"`
		end  = `}}`
	)
	registry := func(description string) *toolkit.Registry {
		r := toolkit.NewRegistry()
		err := r.Add(toolkit.Entry{Tool: described{description}, Executor: toolkit.ExecutorApp})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := `,"instructions":"<be brief>","audio":{"input":{"transcription":{"model":""},"turn_detection":{"type":"server_vad"}}}`
	tool := func(description string) string {
		return `{"type":"function","name":"tool","description":"` + description + `","parameters":{"type":"object","properties":{}}}`
	}
	hostile := json.RawMessage(`{"x":"}}","tools":[],"y":{"tools":{}}}`)
	for name, c := range map[string]struct {
		update update
		tools  *toolkit.Registry
		want   string
	}{
		"first":           {update{first: true}, registry("a"), first + `,"tools":[` + tool("a") + `],"tool_choice":"auto"`},
		"of another call": {update{first: true}, registry("b"), first + `,"tools":[` + tool("b") + `],"tool_choice":"auto"`},
		"first, none":     {update{first: true}, toolkit.NewRegistry(), first + `,"tools":[],"tool_choice":"auto"`},
		"only tools":      {update{patch: Patch{hasTools: true}}, registry("a"), `,"tools":[` + tool("a") + `]`},
		"no tools":        {update{patch: Patch{speed: json.RawMessage("1.5")}}, registry("a"), `,"audio":{"output":{"speed":1.5}}`},
		"nothing":         {update{}, registry("a"), ``},
		"hostile beside it": {update{patch: Patch{hasTools: true, turns: hostile, maxTokens: json.RawMessage("5"), modalities: hostile}}, registry("a"),
			`,"audio":{"input":{"turn_detection":` + string(hostile) + `}},"tools":[` + tool("a") + `],"max_output_tokens":5,"output_modalities":` + string(hostile)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.update.eventID = "vb_1"
			got := c.update.event(&Defaults{Instructions: "<be brief>"}, c.tools)
			if diff := cmp.Diff(head+c.want+end, string(got)); diff != "" || !json.Valid(got) {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// described is a tool that has only a description.
type described struct{ text string }

func (d described) Definition() toolkit.Definition {
	return toolkit.Definition{Name: "tool", Description: d.text}
}

func (described) Call(context.Context, toolkit.Call) iter.Seq2[toolkit.Chunk, error] { return nil }
