package media

import (
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// TestFlowFirst covers a sound that has just begun, one that goes on (the next packet counts), and a channel replaced
// by a later First.
func TestFlowFirst(t *testing.T) {
	t.Parallel()
	var f Flow
	begin := time.Unix(1_000, 0)
	f.Count(time.Time{}, begin)
	f.Count(begin, begin.Add(20*time.Millisecond))
	if got := testkit.Take(t, "the first", f.First(begin.Add(-time.Second))); !got.Equal(begin) {
		t.Errorf("a sound that has begun: %v", got)
	}
	replaced := f.First(begin.Add(time.Millisecond))
	first := f.First(begin.Add(time.Millisecond))
	if _, ok := testkit.Receive(t, "replaced", replaced); ok {
		t.Error("whoever asked before was told")
	}
	last := begin.Add(20 * time.Millisecond)
	for range 3 {
		f.Count(last, last.Add(20*time.Millisecond))
		last = last.Add(20 * time.Millisecond)
	}
	if got := testkit.Take(t, "the first", first); !got.Equal(begin.Add(40 * time.Millisecond)) {
		t.Errorf("a sound that goes on: %v", got)
	}
	// A gap of 100 ms is one of a late packet; a longer one is a pause.
	for gap, pauses := range map[time.Duration]bool{Pause: false, Pause + time.Millisecond: true} {
		var f Flow
		f.Count(time.Time{}, begin)
		f.Count(begin, begin.Add(gap))
		select {
		case at := <-f.First(begin.Add(time.Millisecond)):
			if !pauses || !at.Equal(begin.Add(gap)) {
				t.Errorf("after a gap of %s sound began at %v", gap, at)
			}
		default:
			if pauses {
				t.Errorf("a gap of %s is no pause", gap)
			}
		}
	}
}
