package mcptool

import (
	"strings"
	"testing"

	"golang.org/x/time/rate"

	"voicebridge/internal/testkit"
)

// TestLineLog cuts long lines, and counts those that were dropped because they came too fast.
func TestLineLog(t *testing.T) {
	t.Parallel()
	var got [][]any
	l := &lineLog{limiter: rate.NewLimiter(0, 2), secrets: strings.NewReplacer("hunter22", "[secret]"), log: func(attrs ...any) { got = append(got, attrs) }}
	write := func(text string) {
		if n, err := l.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write() = %d, %v", n, err)
		}
	}
	write("with hunter22\r\n\n" + strings.Repeat("x", maxLine) + "yyy")
	write("y\nlost\nlost, too\n")
	l.limiter.SetLimit(rate.Inf)
	write("again\nand \xff again\nunfinished")
	want := [][]any{{"line", "with [secret]"}, {"line", strings.Repeat("x", maxLine)}, {"line", "again", "dropped_before", 2}, {"line", "and \ufffd again"}}
	testkit.Equal(t, got, want, "got")
}
