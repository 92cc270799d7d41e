package web

import (
	"encoding/json"
	"strings"
	"testing"

	"voicebridge/web/access"
)

func TestExport(t *testing.T) {
	t.Parallel()
	b := setup(t, nil)
	key := b.thread(t, access.LocalOwner)
	wantStatus(t, b.do(t, "POST", messagesPath(key), `{"content":"hello"}`), 200)
	path := "/api/threads/" + key.Thread + "/export"
	for query, want := range map[string]struct{ media, file, begin string }{
		"":                 {"text/markdown; charset=utf-8", ".md", "# "},
		"?format=markdown": {"text/markdown; charset=utf-8", ".md", "# "},
		"?format=json":     {"application/json", ".json", `{"thread":{"id":"` + key.Thread},
		"?format=srt":      {"application/x-subrip; charset=utf-8", ".srt", "1\n00:00:00,000 --> "},
	} {
		r := b.do(t, "GET", path+query, "")
		wantStatus(t, r, 200)
		if r.Header.Get("Content-Type") != want.media || !strings.HasPrefix(r.body, want.begin) || !strings.Contains(r.body, "hello") || !strings.Contains(r.body, "simulator") {
			t.Errorf("%q: headers %v, body %s", query, r.Header, r.body)
		}
		if got := r.Header.Get("Content-Disposition"); got != `attachment; filename="thread-`+key.Thread+want.file+`"` {
			t.Errorf("%q: %s", query, got)
		}
		if query == "?format=json" && !json.Valid([]byte(r.body)) {
			t.Errorf("no JSON: %s", r.body)
		}
	}
	for _, query := range []string{"?format=pdf", "?format=SRT", "?format=..%2f", "?format=%00"} {
		wantError(t, b.do(t, "GET", path+query, ""), 400, "invalid_value")
	}
	wantError(t, b.do(t, "GET", "/api/threads/unknown/export", ""), 404, "thread_not_found")
}
