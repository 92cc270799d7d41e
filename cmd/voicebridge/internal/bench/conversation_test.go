package bench

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"voicebridge/realtime"
)

// say sends events to a conversation and returns a line for each answer.
func say(t *testing.T, c *conversation, events ...string) []string {
	t.Helper()
	var out []string
	for _, raw := range events {
		for _, answer := range c.receive([]byte(raw)) {
			e, err := realtime.Decode(answer)
			if err != nil || e.EventID == "" {
				t.Fatalf("answer %s: %v", answer, err)
			}
			line := e.Type
			if e.Error != nil {
				line += fmt.Sprintf(" %s %s for %s", e.Error.Code, e.Error.Param, e.Error.EventID)
			}
			if e.Item != nil {
				item, err := realtime.DecodeItem(e.Item)
				if err != nil {
					t.Fatal(err)
				}
				line += fmt.Sprintf(" %s %q %s after %q %v", item.ID, item.Text(), item.Status, e.PreviousItemID, e.HasPrevious)
			}
			out = append(out, line)
		}
	}
	return out
}

func item(id, before, text string) string {
	return string(realtime.ItemCreate("ev_"+text, realtime.Item{
		ID: id, Type: realtime.ItemMessage, Role: "user", Content: []realtime.Content{{Type: realtime.ContentInputText, Text: text}},
	}, before))
}

func TestItemsKeepTheirChain(t *testing.T) {
	t.Parallel()
	c := newConversation("rtc_1", object{"type": "realtime", "model": "m"})
	got := say(t, c,
		item("a", "root", "one"), item("b", "a", "two"), item("", "", "three"), item("d", "root", "four"), item("e", "a", "five"),
		item("a", "", "again"), item("f", "nowhere", "lost"),
	)
	want := []string{
		`conversation.item.added a "one" completed after "" true`, `conversation.item.done a "one" completed after "" true`,
		`conversation.item.added b "two" completed after "a" true`, `conversation.item.done b "two" completed after "a" true`,
		`conversation.item.added item_5 "three" completed after "b" true`, `conversation.item.done item_5 "three" completed after "b" true`,
		`conversation.item.added d "four" completed after "" true`, `conversation.item.done d "four" completed after "" true`,
		`conversation.item.added e "five" completed after "a" true`, `conversation.item.done e "five" completed after "a" true`,
		`error invalid_value item.id for ev_again`, `error item_not_found previous_item_id for ev_lost`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"d", "a", "e", "b", "item_5"}, c.items); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestSessionMerges(t *testing.T) {
	t.Parallel()
	c := newConversation("rtc_1", object{"type": "realtime", "model": "m", "audio": object{"output": object{"voice": "marin"}}})
	created, err := realtime.Decode(c.created())
	if err != nil || created.Type != realtime.TypeSessionCreated {
		t.Fatalf("%s, %v", created.Raw, err)
	}
	answers := c.receive([]byte(`{"type":"session.update","event_id":"e","session":{"type":"realtime","model":"other","instructions":"be brief",
		"tools":[{"type":"function","name":"x"}],"audio":{"input":{"turn_detection":null,"transcription":{"model":"t"}},"output":{"speed":1.10}}}}`))
	answers = append(answers, c.receive([]byte(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"transcription":null}}}}`))...)
	if len(answers) != 2 {
		t.Fatalf("%d answers", len(answers))
	}
	var last struct {
		Type    string
		Session object
	}
	if err := json.Unmarshal(answers[1], &last); err != nil || last.Type != realtime.TypeSessionUpdated {
		t.Fatalf("%s, %v", answers[1], err)
	}
	want := object{
		"id": "sess_rtc_1", "object": "realtime.session", "type": "realtime", "model": "m", "instructions": "be brief",
		"output_modalities": []any{"audio"}, "tools": []any{object{"type": "function", "name": "x"}},
		"audio": object{
			"input":  object{"turn_detection": nil, "transcription": nil},
			"output": object{"voice": "marin", "speed": 1.1},
		},
		"expires_at": last.Session["expires_at"],
	}
	if diff := cmp.Diff(want, last.Session); diff != "" {
		t.Errorf("session (-want +got):\n%s", diff)
	}
}

func TestHostileEvents(t *testing.T) {
	t.Parallel()
	c := newConversation("rtc_1", object{"model": "m"})
	deep := strings.Repeat("[", 100) + strings.Repeat("]", 100)
	for raw, want := range map[string]string{
		``: "invalid_event", `{`: "invalid_event", `[]`: "invalid_event", `{"x":1}`: "invalid_event", "\xff": "invalid_event",
		`{"type":"session.update","event_id":"e","session":[]}`:              "invalid_event",
		`{"type":"session.update","event_id":"e"}`:                           "invalid_value session",
		`{"type":"session.update","event_id":"e","session":{}}`:              "missing_required_parameter session.type for e",
		`{"type":"conversation.item.create","event_id":"e"}`:                 "invalid_value item for e",
		`{"type":"conversation.item.create","event_id":"e","item":7}`:        "invalid_event",
		`{"type":"response.create","event_id":"e"}`:                          "invalid_value type for e",
		`{"type":"no.such.event","event_id":"e"}`:                            "invalid_value type for e",
		`{"type":"conversation.item.create","item":{"content":` + deep + `}`: "invalid_event",
	} {
		got := say(t, c, raw)
		if len(got) != 1 || !strings.HasPrefix(got[0], "error "+want) {
			t.Errorf("%.60q: %q, want an error %s", raw, got, want)
		}
	}
	if got := say(t, c, item("a", "", "fine")); len(got) != 2 {
		t.Errorf("afterwards: %q", got)
	}
}
