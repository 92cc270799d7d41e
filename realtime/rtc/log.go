package rtc

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/pion/logging"
)

// pionLoggers sends Pion's log to slog. Remotes can provoke most of it, so Pion's warnings become debug lines and its
// errors warnings.
type pionLoggers struct{ log *slog.Logger }

func (f pionLoggers) NewLogger(scope string) logging.LeveledLogger {
	return pionLogger{f.log, scope}
}

// pionLogger keeps its scope in a field, which is cheaper than a derived slog.Logger: each peer has a dozen of them.
type pionLogger struct {
	log   *slog.Logger
	scope string
}

func (l pionLogger) write(level slog.Level, msg string) {
	l.log.Log(context.Background(), level, "pion says", "pion", l.scope, "text", msg)
}

func (l pionLogger) writef(level slog.Level, format string, args []any) {
	if !l.log.Enabled(context.Background(), level) {
		return
	}
	l.write(level, fmt.Sprintf(format, args...))
}

// Trace implements logging.LeveledLogger. Anything below a warning helps only Pion's developers and is dropped.
func (pionLogger) Trace(string) {}

// Tracef is like Trace.
func (pionLogger) Tracef(string, ...any) {}

// Debug is like Trace.
func (pionLogger) Debug(string) {}

// Debugf is like Trace.
func (pionLogger) Debugf(string, ...any) {}

// Info is like Trace.
func (pionLogger) Info(string) {}

// Infof is like Trace.
func (pionLogger) Infof(string, ...any) {}

// Warn logs at debug level.
func (l pionLogger) Warn(msg string) { l.write(slog.LevelDebug, msg) }

// Warnf logs at debug level.
func (l pionLogger) Warnf(format string, args ...any) { l.writef(slog.LevelDebug, format, args) }

// Error logs a warning.
func (l pionLogger) Error(msg string) { l.write(slog.LevelWarn, msg) }

// Errorf logs a warning, except about audio that no description names: Forward takes it all the same.
func (l pionLogger) Errorf(format string, args ...any) {
	level := slog.LevelWarn
	if strings.HasPrefix(format, "Incoming unhandled RTP ssrc") {
		level = slog.LevelDebug
	}
	l.writef(level, format, args)
}
