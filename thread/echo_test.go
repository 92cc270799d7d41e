package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

func TestWithoutEchoes(t *testing.T) {
	t.Parallel()
	call := func(id string, state ToolState) Part {
		p := ToolPart("ask")
		p.ToolCallID, p.State = id, state
		return p
	}
	answer := func(by string, parts ...Part) Message {
		m := Message{ID: "answer", Role: RoleAssistant, Parts: append([]Part{StepStart()}, parts...)}
		if by != "" {
			m.Metadata.Extra = map[string]json.RawMessage{MetadataAskedBy: json.RawMessage(by)}
		}
		return m
	}
	asking := func(state ToolState) Message {
		return Message{ID: "asking", Role: RoleAssistant, Parts: []Part{TextPart("One moment."), call("c1", state)}}
	}
	notice := func(text string) Message {
		m := answer(`"c1"`, TextPart(text))
		m.Metadata.Extra[MetadataNotice] = json.RawMessage("true")
		return m
	}
	for name, c := range map[string]struct {
		in   []Message
		want string
	}{
		"nothing":             {nil, ""},
		"an echo":             {[]Message{asking(ToolOutputAvailable), answer(`"c1"`, TextPart("Three."))}, "asking:2"},
		"one before its call": {[]Message{answer(`"c1"`, TextPart("Three.")), asking(ToolOutputAvailable)}, "asking:2"},
		"its calls stay":      {[]Message{asking(ToolOutputAvailable), answer(`"c1"`, TextPart("Three."), call("c2", ToolOutputAvailable))}, "asking:2 answer:2"},
		"a call that failed":  {[]Message{asking(ToolOutputError), answer(`"c1"`, TextPart("Half of"))}, "asking:2 answer:2"},
		"a notice of it":      {[]Message{asking(ToolOutputError), notice("No money is left.")}, "asking:2"},
		"a call that runs":    {[]Message{asking(ToolInputAvailable), answer(`"c1"`, TextPart("Half of"))}, "asking:2 answer:2"},
		"a call long ago":     {[]Message{answer(`"c1"`, TextPart("Three."))}, "answer:2"},
		"another call":        {[]Message{asking(ToolOutputAvailable), answer(`"c9"`, TextPart("Three."))}, "asking:2 answer:2"},
		"by nobody":           {[]Message{asking(ToolOutputAvailable), answer("", TextPart("Three."))}, "asking:2 answer:2"},
		"by no string":        {[]Message{asking(ToolOutputAvailable), answer(`{"c1":1}`, TextPart("Three."))}, "asking:2 answer:2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, err := json.Marshal(c.in)
			must(t, err)
			var got []string
			for _, m := range WithoutEchoes(c.in) {
				got = append(got, fmt.Sprintf("%s:%d", m.ID, len(m.Parts)))
			}
			testkit.Equal(t, strings.Join(got, " "), c.want, "WithoutEchoes()")
			if after, err := json.Marshal(c.in); err != nil || string(after) != string(before) {
				t.Errorf("WithoutEchoes() has changed what it was given: %s", after)
			}
		})
	}
}
