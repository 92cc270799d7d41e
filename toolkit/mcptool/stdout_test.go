package mcptool

import (
	"io"
	"strings"
	"testing"
)

// filler gives ever more of a line.
type filler struct{}

func (filler) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestOverlongLines has children write lines that are longer than a message may be. An answer is replaced if its line
// ends; otherwise nothing that follows could be read.
func TestOverlongLines(t *testing.T) {
	t.Parallel()
	const begin = `{"jsonrpc":"2.0","id":7,"result":"`
	for name, c := range map[string]struct {
		length int64
		end    string
		want   string
	}{
		"an answer":     {maxMessage, "\"}\n", `"id":7`},
		"no end":        {maxSkipped + 1<<20, "\"}\n", ""},
		"a broken pipe": {maxMessage, "", ""},
	} {
		stdout := io.MultiReader(strings.NewReader(begin), io.LimitReader(filler{}, c.length), strings.NewReader(c.end))
		l := linesOf(io.NopCloser(stdout), func(message []byte) []byte { return message }, io.Discard)
		got := make([]byte, 4<<10)
		n, err := l.Read(got)
		if (err == nil) != (c.want != "") || !strings.Contains(string(got[:n]), c.want) {
			t.Errorf("%s: read %q, %v", name, got[:n], err)
		}
	}
}
