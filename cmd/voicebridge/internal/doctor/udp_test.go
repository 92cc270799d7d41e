package doctor

import (
	"strings"
	"testing"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
)

// TestICEServers asks STUN servers.
func TestICEServers(t *testing.T) {
	t.Parallel()
	for environ, want := range map[string]string{
		"VOICEBRIDGE_ICE_SERVERS=stun:does-not-exist.invalid":  "problem: ICE server stun:does-not-exist.invalid: it does not answer",
		"VOICEBRIDGE_ICE_SERVERS=stuns:does-not-exist.invalid": "ok: ICE server stuns:does-not-exist.invalid: it was not tried",
	} {
		cfg, err := config.Load(config.Sources{File: inFile(t, nil), Environ: []string{environ}})
		testkit.Must(t, err)
		var got []string
		(&doctor{cfg: cfg, report: func(f finding) { got = append(got, f.String()) }}).iceServers(t.Context())
		if all := strings.Join(got, "|"); !strings.HasPrefix(all, want) {
			t.Errorf("%s: got %q, want %q", environ, got, want)
		}
	}
}

func TestSTUNAddress(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"stun.example.org": "stun.example.org:3478", "stun.example.org:19302": "stun.example.org:19302", "[2001:db8::1]": "[2001:db8::1]:3478",
		"[2001:db8::1]:5": "[2001:db8::1]:5", "192.0.2.1?transport=udp": "192.0.2.1:3478",
	} {
		testkit.Equal(t, stunAddress(server), want, "stunAddress(%q)", server)
	}
}
