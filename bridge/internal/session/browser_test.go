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

// TestJoinDuringAStorageFault reloads the page while changes wait for the database: the new one is told, too.
func TestJoinDuringAStorageFault(t *testing.T) {
	t.Parallel()
	c := limited(t, Limits{})
	c.reduce(StorageDelayed{Pending: 3})
	c.play("br joins")
	c.reduce(StorageDelayed{})
	c.play("br joins")
	out := c.out.String()
	if n, m := strings.Count(out, `"pending":3,"type":"bridge.storage.delayed"`), strings.Count(out, "bridge.storage.recovered"); n != 2 || m != 1 {
		t.Errorf("told %d times of the delay, %d times of its end:\n%s", n, m, out)
	}
}
