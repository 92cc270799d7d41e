package leg

import (
	"strings"
	"testing"

	"voicebridge/bridge/internal/session"
)

// TestManyValues has an event that is small enough as text, and large once it is decoded.
func TestManyValues(t *testing.T) {
	t.Parallel()
	var got []session.Input
	take := BrowserHandlers(3, func(in session.Input) { got = append(got, in) }).Message
	event := []byte(`{"type":"conversation.item.create","item":{"content":[` + strings.Repeat("{},", maxEventValues) + `{}]}}`)
	text := []byte(`{"type":"conversation.item.create","item":{"content":"` + strings.Repeat("{},", maxEventValues) + `{}"}}`)
	take(event)
	take(text)
	if len(got) != 2 {
		t.Fatalf("got %d inputs", len(got))
	}
	if in, ok := got[0].(session.BrowserTooLarge); !ok || in.Gen != 3 || in.Size != len(event) || in.Values <= maxEventValues {
		t.Errorf("many values: %T", got[0])
	}
	if in, ok := got[1].(session.BrowserEvent); !ok || in.Gen != 3 || len(in.Data) != len(text) {
		t.Errorf("a long text: %T", got[1])
	}
}
