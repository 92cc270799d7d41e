package web

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"voicebridge/persistence"
)

// TestInvalidValue checks that clients get the store's reasons, and nothing of the database's.
func TestInvalidValue(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, "alice")
	_, title := b.db.CreateThread(t.Context(), "alice", strings.Repeat("x", persistence.MaxTitleBytes+1))
	_, role := b.db.AppendMessage(t.Context(), key, persistence.Message{Role: "nobody"})
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
	for defaults, want := range map[string]string{
		`{"speed":1}`:      `invalid defaults: they must be a JSON object`,
		`{"max_tokens":0}`: `invalid defaults: max_tokens is 0`,
	} {
		if got := b.do(t, "POST", "/text/session", `{"defaults":`+defaults+`}`); !strings.Contains(got.body, want) {
			t.Errorf("the defaults %s are refused with %s, want %q", defaults, got.body, want)
		}
	}
}
