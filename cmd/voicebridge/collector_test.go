package main

import (
	"fmt"
	"slices"
	"testing"
)

// TestPace looks at the percentages that follow from what is allocated in each second.
func TestPace(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for _, test := range []struct {
		name  string
		alive uint64 // in MB
		made  []uint64
		want  string // percentages; ! marks what is given back
	}{
		{"audio of a few calls", 5, []uint64{0, mb / 10, 0}, "[80 80 80]"},
		{"audio of 100 calls", 50, []uint64{mb, mb, mb}, "[16 20 20]"},
		{"audio of 500 calls", 200, []uint64{4 * mb, 4 * mb, 4 * mb, 4 * mb, 4 * mb}, "[4 8 16 20 20]"},
		{"words", 50, slices.Repeat([]uint64{25 * mb}, 10), "[16 32 64 128 128 128 128 128 128 128]"},
		{"words of many calls", 500, []uint64{250 * mb, 250 * mb, 250 * mb}, "[1 3 6]"},
		{"much alive, little made", 2000, []uint64{mb, mb}, "[1 1]"},
		{"a burst", 50, []uint64{50 * mb, 50 * mb, 50 * mb, 0, 0, 0, 0, 0, 0}, "[16 32 64 64 64 64 64 8! 8]"},
		{"calm times are whole", 50, []uint64{50 * mb, 0, 0, 0, 0, 50 * mb, 0, 0, 0, 0, 0}, "[16 16 16 16 16 32 32 32 32 32 8!]"},
		{"the busiest second of a calm time counts", 50, []uint64{50 * mb, 50 * mb, 0, 0, 2 * mb, 0, 0}, "[16 32 32 32 40 40 40]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := pace{}
			var got []string
			var allocated uint64
			for _, made := range test.made {
				allocated += made
				given := ""
				if p.look(allocated, test.alive*mb) {
					given = "!"
				}
				got = append(got, fmt.Sprint(p.percent(test.alive*mb))+given)
			}
			if fmt.Sprint(got) != test.want {
				t.Errorf("percentages %v, want %v", got, test.want)
			}
		})
	}
	if got := new(pace).percent(0); got != 1 {
		t.Errorf("nothing of nothing is %d %%", got)
	}
	allocated, alive := heapNow()
	if slices.Contains([]uint64{allocated, alive}, 0) {
		t.Errorf("heapNow() = %d, %d", allocated, alive)
	}
}
