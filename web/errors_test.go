package web

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

// TestFailuresAreLogged logs failures, but not the requests that a stopping server refuses.
func TestFailuresAreLogged(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	w := errorWriter{slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct {
		err    error
		logged bool
	}{
		{errors.New("oh"), true}, {persistence.ErrFenced, true}, {problem.ErrShuttingDown, false}, {problem.NotFound("not_found", "There is none."), false},
	} {
		log.Reset()
		w.write(c.err, echo.New().NewContext(httptest.NewRequest(http.MethodGet, "/readyz", nil), httptest.NewRecorder()))
		if logged := log.Len() > 0; logged != c.logged {
			t.Errorf("%v: the log has %q", c.err, log.String())
		}
	}
}

// TestInvalidValue checks that clients get the store's reasons, and nothing of the database's.
func TestInvalidValue(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, "alice")
	_, title := b.db.CreateThread(t.Context(), "alice", strings.Repeat("x", persistence.MaxTitleBytes+1))
	_, role := persistencetest.AppendMessage(t.Context(), b.db, key, thread.Message{Role: "nobody"})
	_, _, cursor := b.db.Threads(t.Context(), "alice", persistence.ThreadFilter{Cursor: "?"})
	sql := errors.New(`ERROR: invalid byte sequence for encoding "UTF8": 0x00 (SQLSTATE 22021)`)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"title":             {title, fmt.Sprintf("invalid title: %d bytes are more than %d.", persistence.MaxTitleBytes+1, persistence.MaxTitleBytes)},
		"role":              {fmt.Errorf("begin turn: %w", role), `invalid message: role "nobody" is not system, user or assistant.`},
		"cursor":            {cursor, "invalid cursor."},
		"of the database":   {fmt.Errorf("save message: %w: %w", persistence.ErrInvalid, sql), "invalid value: it cannot be stored."},
		"without any words": {persistence.ErrInvalid, "invalid value: it cannot be stored."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if e := classify(c.err); e.Status != 400 || e.Code != "invalid_value" || e.Message != c.want {
				t.Errorf("%v becomes %d %s, want the message %q", c.err, e.Status, e, c.want)
			}
		})
	}
}

// TestDatabaseAway checks that clients are told to try again later, unless they themselves went away.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("%w: %w", persistence.ErrUnavailable, errors.New("dial tcp 10.0.0.5:5432: connection refused"))
	for name, c := range map[string]struct {
		err    error
		status int
		code   string
	}{
		"away":               {fmt.Errorf("read thread: %w", away), 503, "storage_unavailable"},
		"taken for dead":     {fmt.Errorf("save message: %w", persistence.ErrFenced), 503, "storage_unavailable"},
		"closed":             {fmt.Errorf("read thread: %w", persistence.ErrClosed), 503, "shutting_down"},
		"closed meanwhile":   {fmt.Errorf("read thread: %w: %w", persistence.ErrClosed, context.Canceled), 503, "shutting_down"},
		"a client that left": {fmt.Errorf("read thread: %w: %w", persistence.ErrUnavailable, context.Canceled), statusClientClosed, "client_closed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := classify(c.err)
			if e.Status != c.status || e.Code != c.code || e.RetryAfter == 0 && c.status == 503 || strings.Contains(e.Message, "10.0.0.5") {
				t.Errorf("%v becomes %d %s, retry after %s", c.err, e.Status, e, e.RetryAfter)
			}
		})
	}
}
