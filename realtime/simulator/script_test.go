package simulator_test

import (
	"encoding/json"
	"strings"
	"testing"

	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// TestSpokenRotation goes through what a newcomer hears.
func TestSpokenRotation(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.update(`{"type":"realtime","tools":[{"type":"function","name":"create_bar_chart","parameters":{"type":"object"}},{"type":"function","name":"changeBrowserTheme","parameters":{"type":"object"}},{"type":"function","name":"files__read","parameters":{"type":"object"}}]}`)
	for i, want := range []struct{ says, calls string }{
		{"Hello, I am the simulator.", ""}, {"Let me draw that for you.", "create_bar_chart"}, {"Let me tell you how a call travels.", ""},
		{"", "changeBrowserTheme"}, {"I will ask the tool", "files__read"}, {"Hello, I am the simulator.", ""},
	} {
		c.ses.SimulateSpeech()
		r := response(t, c.next(realtime.TypeResponseDone))
		var says, calls string
		for _, it := range r.Output {
			says += it.Text()
			calls += it.Name
			if it.Type != realtime.ItemFunctionCall {
				continue
			}
			c.send(realtime.FunctionCallOutput(c.id(), "", it.CallID, `{"status":"success"}`))
			c.send(realtime.ResponseCreate(c.id()))
			if after := response(t, c.next(realtime.TypeResponseDone)); after.Status != "completed" || after.Output[0].Text() == "" {
				t.Errorf("turn %d: after the tool %+v", i+1, after)
			}
		}
		if !strings.HasPrefix(says, want.says) || (want.says == "" && says != "") || calls != want.calls {
			t.Errorf("turn %d says %q and calls %q", i+1, says, calls)
		}
	}
}

// TestKnowsReplayedHistory replays a thread and asks about it.
func TestKnowsReplayedHistory(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	previous := "root"
	for _, it := range []realtime.Item{
		{ID: "m1", Type: realtime.ItemMessage, Role: "user", Content: []realtime.Content{{Type: realtime.ContentInputText, Text: "My cat is called Tom."}}},
		{ID: "m2", Type: realtime.ItemMessage, Role: "assistant", Content: []realtime.Content{{Type: realtime.ContentOutputText, Text: "Noted."}}},
		{ID: "m3", Type: realtime.ItemFunctionCall, CallID: "call_1", Name: "note", Arguments: "{}"},
		{ID: "m4", Type: realtime.ItemFunctionCallOutput, CallID: "call_1", Output: "ok"},
	} {
		c.send(realtime.ItemCreate(c.id(), it, previous))
		c.next(realtime.TypeItemDone)
		previous = it.ID
	}
	c.say("What did I say before?")
	r := response(t, c.next(realtime.TypeResponseDone))
	if got := r.Output[0].Text(); !strings.HasSuffix(got, "You said: My cat is called Tom.") || r.Output[0].Content[0].Type != realtime.ContentOutputAudio {
		t.Errorf("answer is %q as %s", got, r.Output[0].Content[0].Type)
	}
}

func TestToolChoice(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	c.update(`{"type":"realtime","tools":` + chartTools + `,"tool_choice":"none"}`)
	c.say("a chart")
	if r := response(t, c.next(realtime.TypeResponseDone)); r.Output[0].Name != "" {
		t.Errorf("output is %+v", r.Output)
	}
	c.send([]byte(`{"type":"response.create","response":{"tool_choice":{"type":"function","name":"create_pie_chart"},"metadata":{"k":"v"},"output_modalities":["text"]}}`))
	r := response(t, c.next(realtime.TypeResponseDone))
	if r.Output[0].Name != "create_pie_chart" || !json.Valid([]byte(r.Output[0].Arguments)) || r.Metadata["k"] != "v" {
		t.Errorf("response is %+v", r)
	}
}
