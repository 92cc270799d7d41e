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
