package mcptool

import (
	"bytes"
	"strings"
	"time"

	"golang.org/x/time/rate"
)

const (
	maxLine     = 2048 // bytes of one line that are kept
	linesPerSec = 20
	lineBurst   = 100
)

// lineLog is a child's stderr, or what else it writes: each line is logged; long ones are cut, and too
// many are dropped and counted.
// Only one goroutine writes to it.
type lineLog struct {
	log     func(attrs ...any)
	secrets *strings.Replacer

	line    []byte
	limiter *rate.Limiter
	dropped int
}

// Write implements io.Writer. It never fails, because that would stop the child.
func (l *lineLog) Write(data []byte) (int, error) {
	for rest := data; len(rest) > 0; {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(l.line); room > 0 {
			l.line = append(l.line, line[:min(room, len(line))]...)
		}
		if ended {
			l.flush()
		}
		rest = after
	}
	return len(data), nil
}

func (l *lineLog) flush() {
	text := strings.TrimSpace(strings.ToValidUTF8(string(l.line), "\uFFFD"))
	l.line = l.line[:0]
	if text == "" {
		return
	}
	if l.limiter == nil {
		l.limiter = rate.NewLimiter(linesPerSec, lineBurst)
	}
	if !l.limiter.AllowN(time.Now(), 1) {
		l.dropped++
		return
	}
	attrs := []any{"line", l.secrets.Replace(text)}
	if l.dropped > 0 {
		attrs = append(attrs, "dropped_before", l.dropped)
		l.dropped = 0
	}
	l.log(attrs...)
}
