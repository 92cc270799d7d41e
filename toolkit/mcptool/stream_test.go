package mcptool

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// TestCutStream has streams of notifications that a proxy cuts.
func TestCutStream(t *testing.T) {
	t.Parallel()
	const second = "data: second\nid: 2\n\n" // with an id its end is final
	long, soon := time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		first string
		since time.Time
		gone  bool // it cannot be opened again
		want  string
	}{
		"silent":          {first: "", since: long, want: "\n\n" + second},
		"with an event":   {first: "data: first\n\n", since: long, want: "data: first\n\n\n\n" + second},
		"with event ids":  {first: "id: 1\ndata: first\n\n", since: long, want: "id: 1\ndata: first\n\n"},
		"cut at once":     {first: "data: first\n\n", since: soon, want: "data: first\n\n"},
		"no longer there": {first: "data: first\n\n", since: long, gone: true, want: "data: first\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &stream{ReadCloser: io.NopCloser(strings.NewReader(c.first)), since: c.since, again: func() (io.ReadCloser, error) {
				if c.gone {
					return nil, errors.New("connection refused")
				}
				return io.NopCloser(strings.NewReader(second)), nil
			}}
			if got, err := io.ReadAll(s); err != nil || string(got) != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
