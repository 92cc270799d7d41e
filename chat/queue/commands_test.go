package queue_test

import (
	"encoding/json"
	"strings"
	"testing"

	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// Requests of another process are checked like those of a client.
func TestHostileCommands(t *testing.T) {
	t.Parallel()
	b := start(t, persistencetest.Open(t, persistencetest.SQLiteURL(t), persistence.Options{}), &provider{}, queue.Config{NoTitles: true, Disabled: true})
	waits := b.add("one")
	for name, c := range map[string]struct{ kind, body, reply string }{
		"no kind":              {"", `{}`, ""},
		"an unknown kind":      {"queue.drop", `{}`, ""},
		"a command of calls":   {"call.hangup", `{}`, ""},
		"no body":              {"queue.send", ``, ""},
		"half a body":          {"queue.send", `{"id":`, ""},
		"a list":               {"queue.send", `[]`, ""},
		"a number":             {"queue.send", `{"id":7}`, ""},
		"nesting":              {"queue.send", strings.Repeat("[", 100_000), ""},
		"nothing":              {"queue.send", `null`, `{"refused":"not_found"}`},
		"an empty id":          {"queue.send", `{"id":""}`, `{"refused":"not_found"}`},
		"an odd id":            {"queue.send", `{"id":"'; DROP TABLE threads"}`, `{"refused":"not_found"}`},
		"a message, and more":  {"queue.send", `{"id":"x","owner":"bert"}`, `{"refused":"not_found"}`},
		"a message of another": {"queue.send", `{"id":"` + waits.ID + `"}`, `{"refused":"not_found"}`},
	} {
		key := b.key
		if name == "a message of another" {
			key.Owner = "bert"
		}
		reply, err := b.q.HandleCommand(b.within(), persistence.Command{Kind: c.kind, Key: key, Body: json.RawMessage(c.body)})
		if (err == nil) != (c.reply != "") || string(reply) != c.reply {
			t.Errorf("%s: %s, %v, want %s", name, reply, err, c.reply)
		}
	}
	body, err := json.Marshal(map[string]string{"id": waits.ID})
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := b.q.HandleCommand(b.within(), persistence.Command{Kind: "queue.send", Key: b.key, Body: body}); err != nil || string(reply) != "{}" {
		t.Errorf("a message that waits: %s, %v", reply, err)
	}
}
