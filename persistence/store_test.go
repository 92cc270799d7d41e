package persistence

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestClock(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	type reading struct {
		ahead, took time.Duration // of the database's clock, and of the query, which reads it in the middle
		err         error
		want        time.Duration
	}
	for name, readings := range map[string][]reading{
		"the same":             {{want: 0}, {ahead: 90 * time.Millisecond, want: 0}, {ahead: -90 * time.Millisecond, want: 0}},
		"ahead":                {{ahead: time.Hour, took: time.Second, want: time.Hour}},
		"behind":               {{ahead: -time.Hour, took: time.Second, want: -time.Hour}},
		"a slow query":         {{ahead: 4 * time.Second, took: 10 * time.Second, want: 0}},
		"it stays":             {{ahead: time.Hour, want: time.Hour}, {ahead: time.Hour + time.Second, took: 4 * time.Second, want: time.Hour}},
		"it is set right":      {{ahead: time.Hour, want: time.Hour}, {want: 0}},
		"it could not be read": {{ahead: time.Hour, want: time.Hour}, {err: failed, want: time.Hour}},
	} {
		at := time.Now()
		c := clock{machine: func() time.Time { return at }}
		for i, r := range readings {
			_, err := c.compare(t.Context(), func(context.Context) (time.Time, error) {
				at = at.Add(r.took / 2)
				read := at.Add(r.ahead)
				at = at.Add(r.took / 2)
				return read, r.err
			})
			if !errors.Is(err, r.err) || !c.now().Equal(at.Add(r.want)) || !c.local(c.now()).Equal(at) {
				t.Errorf("%s, reading %d: compare() = %v, now it is %v ahead, want %v", name, i+1, err, c.now().Sub(at), r.want)
			}
		}
	}
}
