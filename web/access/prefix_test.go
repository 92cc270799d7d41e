package access

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

func TestPrefix(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ remote, header, want string }{
		{"127.0.0.1:9", "/voice", "/voice"},
		{"[::1]:9", "/a/b-c.d", "/a/b-c.d"},
		{"10.1.2.3:9", "/voice", "/voice"},
		{"192.0.2.1:9", "/voice", ""}, // not a proxy of ours
		{"nonsense", "/voice", ""},
		{"127.0.0.1:9", "", ""},
		{"127.0.0.1:9", "/", ""},
		{"127.0.0.1:9", "voice", ""},
		{"127.0.0.1:9", "/voice/", "/voice"},
		{"127.0.0.1:9", "/voice//", ""},
		{"127.0.0.1:9", "//evil.example", ""},
		{"127.0.0.1:9", "/a/../b", ""},
		{"127.0.0.1:9", "https://evil.example", ""},
		{"127.0.0.1:9", "/a\\b", ""},
		{"127.0.0.1:9", "/a b", ""},
		{"127.0.0.1:9", "/" + strings.Repeat("a", 300), ""},
		{"127.0.0.1:9", strings.Repeat("/a", 17), ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/v1/realtime/calls", nil)
		r.RemoteAddr = tt.remote
		r.Header.Set("X-Forwarded-Prefix", tt.header)
		testkit.Equal(t, Prefix(r, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}), tt.want, "%s said by %s", tt.header, tt.remote)
	}
}
