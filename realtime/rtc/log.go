package rtc

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/pion/logging"
)

// pionLoggers sends Pion's log to slog. Remotes can provoke most of it, so Pion's warnings become debug lines and its
// errors warnings.
type pionLoggers struct{ log *slog.Logger }

func (f pionLoggers) NewLogger(scope string) logging.LeveledLogger {
	return pionLogger{below, f.log, scope}
}

// below takes what is below a warning, which helps only Pion's developers, and drops it.
var below = logging.NewDefaultLeveledLoggerForScope("", logging.LogLevelDisabled, io.Discard)

// pionLogger keeps its scope in a field, which is cheaper than a derived slog.Logger: each peer has a dozen of them.
type pionLogger struct {
	logging.LeveledLogger

	log   *slog.Logger
	scope string
}

func (l pionLogger) write(level slog.Level, format string, args ...any) {
	if l.log.Enabled(context.Background(), level) {
		l.log.Log(context.Background(), level, "pion says", "pion", l.scope, "text", fmt.Sprintf(format, args...))
	}
}

// Warn logs at debug level.
func (l pionLogger) Warn(msg string) { l.write(slog.LevelDebug, "%s", msg) }

// Warnf logs at debug level.
func (l pionLogger) Warnf(format string, args ...any) { l.write(slog.LevelDebug, format, args...) }

// Error logs a warning.
func (l pionLogger) Error(msg string) { l.write(slog.LevelWarn, "%s", msg) }

// Errorf logs a warning, except about audio that no description names: Forward takes it all the same.
func (l pionLogger) Errorf(format string, args ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, "Incoming unhandled RTP ssrc") {
		level = slog.LevelDebug
	}
	l.write(level, format, args...)
}
