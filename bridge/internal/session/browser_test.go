package session

import (
	"strings"
	"testing"
)

// TestLongEventID counts characters, as the API does.
func TestLongEventID(t *testing.T) {
	t.Parallel()
	for length, param := range map[int]string{maxEventID: "item_id", maxEventID + 1: "event_id"} {
		c := newScripted(t, "")
		c.play(`br {"type":"conversation.item.retrieve","item_id":"x","event_id":"` + strings.Repeat("é", length) + `"}`)
		if want := `"param":"` + param + `"`; !strings.Contains(c.out.String(), want) {
			t.Errorf("%d characters: %s is not in %s", length, want, &c.out)
		}
	}
}
