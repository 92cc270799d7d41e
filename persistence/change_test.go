package persistence_test

import (
	"encoding/json"
	"testing"

	"voicebridge/persistence"
)

func TestChangesRefuse(t *testing.T) {
	t.Parallel()
	for name, data := range map[string]string{
		"no list":         `{}`,
		"no JSON":         `[`,
		"an unknown kind": `[{"kind":"delete","change":{}}]`,
		"no kind":         `[{}]`,
		"no change":       `[{"kind":"call"}]`,
		"a wrong type":    `[{"kind":"message","change":{"message":{"parts":5}}}]`,
		"a typeless part": `[{"kind":"message","change":{"message":{"parts":[{}]}}}]`,
	} {
		var c persistence.Changes
		if err := json.Unmarshal([]byte(data), &c); err == nil {
			t.Errorf("Unmarshal() of %s = %v", name, c)
		}
	}
}

func TestMergeChanges(t *testing.T) {
	t.Parallel()
	put := func(text string, at persistence.Place) persistence.Change {
		return persistence.PutMessage{Message: persistence.Message{ID: "m", Parts: []persistence.Part{persistence.TextPart(text)}}, Place: at}
	}
	last := persistence.Place{How: persistence.PlaceLast}
	for _, c := range []struct{ earlier, later, want persistence.Change }{
		{put("a", last), put("b", persistence.Place{}), put("b", last)},
		{put("a", persistence.Place{}), put("b", last), put("b", last)},
		{put("a", persistence.Place{}), put("b", persistence.Place{}), put("b", persistence.Place{})},
		{persistence.PutSent{ID: "1"}, persistence.PutSent{ID: "1", Attempt: 2}, persistence.PutSent{ID: "1", Attempt: 2}},
	} {
		got, _ := json.Marshal(persistence.Changes{persistence.MergeChanges(c.earlier, c.later)})
		want, _ := json.Marshal(persistence.Changes{c.want})
		if string(got) != string(want) {
			t.Errorf("MergeChanges() = %s, want %s", got, want)
		}
	}
}
