package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTold tells a client of items, and asks at times in ms what it may then ask for: each line of a transcript ends
// with the answer.
func TestTold(t *testing.T) {
	t.Parallel()
	for name, transcript := range map[string]string{
		"in order":        "0 sees a root, 0 sees b a, 3000 end b yes, 3000 end a no, 3000 end root no, 3000 end x no",
		"on its way":      "0 sees a root, 5000 sees b a, 6999 end a yes, 7000 end a no",
		"the first ones":  "0 end root yes, 0 sees a root, 1999 end root yes, 2000 end root no",
		"again":           "0 sees a root, 5000 sees b a, 9000 sees a root, 9000 end b yes, 9000 end a no",
		"between two":     "0 sees a root, 0 sees c a, 0 sees b a, 3000 end c yes, 3000 end b no",
		"its own":         "0 sees a root, 0 makes m, 3000 end m yes, 3000 end root no",
		"deleted":         "0 sees a root, 0 sees b a, 3000 forgets b, 3000 end a yes, 3000 sees c a, 9000 end c yes",
		"asks in time":    "1000 replied, 3000 late no, 3001 late yes",
		"not replied":     "9000 late no",
		"after the end":   "1000 replied, 4000 done old, 6000 late no, 6001 late yes",
		"another's end":   "1000 replied, 4000 done new, 4000 late yes",
		"still hears it":  "1000 replied, 1000 hears old, 9000 late no",
		"hears the other": "1000 replied, 1000 hears new, 9000 late yes",
	} {
		client := new(told)
		for line := range strings.SplitSeq(transcript, ", ") {
			var ms int
			var verb, a, b string
			_, _ = fmt.Sscan(line, &ms, &verb, &a, &b) // some have fewer words
			now := epoch.Add(time.Duration(ms) * time.Millisecond)
			var got bool
			switch verb {
			case "sees":
				client.sees(a, b, now)
				continue
			case "makes":
				client.made = a
				continue
			case "forgets":
				client.forgets(a)
				continue
			case "replied":
				client.repliedAt = now
				continue
			case "done":
				client.Done, client.At = a, now
				continue
			case "hears":
				client.Pending = []string{a}
				continue
			case "end":
				got = client.isEnd(a, now)
			case "late":
				got, b = client.isLate(now, func(id string) bool { return id == "old" }), a
			}
			if got != (b == "yes") {
				t.Errorf("%s: %s: got %v", name, line, got)
			}
		}
	}
}
