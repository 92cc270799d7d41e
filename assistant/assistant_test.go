package assistant_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
)

func TestFill(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 5, 4, 15, 4, 0, 0, time.UTC)
	a := assistant.Assistant{
		Instructions: "It is {{date}}, {{ time }}. {{user}}? {{shop}}, {{city}}, {{nothing}}! {{ {{a b}}", Greeting: "Hello {{user}} of {{city}}",
		Variables: map[string]string{"shop": "ours", "city": "Bonn"}, Values: map[string]string{"city": "{{shop}}"},
	}
	got := a.Filled(now, "{{date}}")
	testkit.Equal(t, got.Instructions, "It is Monday, 4 May 2026, 15:04 UTC. {{date}}? ours, {{shop}}, ! {{ {{a b}}", "Filled()")
	testkit.Equal(t, got.Greeting, "Hello {{date}} of {{shop}}", "Filled()")
	if a.Variables["city"] != "Bonn" {
		t.Error("Filled() has changed the assistant")
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{`{"name":"x"}`, `{"name":"x","voice":null,"http_tools":[null],"variables":{"a":null}}`, `{"name":"\ud800"}`, `[]`, `{"name":"x"}{}`, `{"name":1e400}`, `{"name":"x","text":{"max_tokens":1e3}}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := assistant.Parse(data)
		if err != nil {
			if _, ok := errors.AsType[*assistant.Error](err); !ok || err.Error() == "" {
				t.Fatalf("Parse(%q) = %v, which names no path", data, err)
			}
			return
		}
		again, err := assistant.Parse(a.JSON())
		if err != nil {
			t.Fatalf("Parse(%s) = %v, though it was read from %q", a.JSON(), err, data)
		}
		if got := string(again.JSON()); got != string(a.JSON()) {
			t.Fatalf("%s became %s", a.JSON(), got)
		}
		if a.ID == "" || strings.TrimSpace(a.Name) == "" {
			t.Fatalf("Parse(%q) = %+v", data, a)
		}
	})
}

// TestShown: who may only use an assistant sees no numbers of others; its owner does.
func TestShown(t *testing.T) {
	t.Parallel()
	a := assistant.Assistant{Transfers: map[string]assistant.Transfer{"boss": {Number: "+493012345678"}}}
	testkit.Equal(t, len(a.Shown().Transfers), 1, "transfers that the owner sees")
	a.ReadOnly = true
	testkit.Equal(t, len(a.Shown().Transfers), 0, "transfers that others see")
}
