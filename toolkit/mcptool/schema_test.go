package mcptool

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestObjectSchema(t *testing.T) {
	t.Parallel()
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{"type":"number"}}}`:                                                                   `{"properties":{"a":{"type":"number"}},"type":"object"}`,
		`{"properties":[],"required":[],"default":[]}`:                                                                             `{"default":[],"properties":{},"required":[],"type":"object"}`,
		`{"properties":{"default":[],"properties":{"items":[],"enum":[],"properties":[]},"a":{"enum":[[]]}},"anyOf":[{"not":[]}]}`: `{"anyOf":[{"not":{}}],"properties":{"a":{"enum":[[]]},"default":{},"properties":{"enum":[],"items":{},"properties":{}}},"type":"object"}`,
		`{"properties":{"a":{"default":9007199254740993,"maximum":18446744073709551615}}}`:                                         `{"properties":{"a":{"default":9007199254740993,"maximum":18446744073709551615}},"type":"object"}`,
		`{"type":null}`:                          `{"type":"object"}`,
		`{}`:                                     `{"type":"object"}`,
		`{"$schema":"http://x","properties":{}}`: `{"$schema":"http://x","properties":{},"type":"object"}`,
		`{"type":["null","object"]}`:             `{"type":"object"}`,
		`{"type":["null"]}`:                      "error: of type",
		`{"type":"string"}`:                      "error: of type",
		`{"type":1}`:                             "error: of type",
		`{"type":{}}`:                            "error: of type",
		`[]`:                                     "error: not an object",
		`true`:                                   "error: not an object",
	} {
		got, err := objectSchema(json.RawMessage(schema))
		if wrong, ok := strings.CutPrefix(want, "error: "); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%s: got %s, %v", schema, got, err)
			}
		} else if err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v", schema, got, err)
		}
	}
	if got, err := objectSchema(nil); err != nil || !strings.Contains(string(got), "object") {
		t.Errorf("none: got %s, %v", got, err)
	}
}
