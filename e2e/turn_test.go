package e2e

import (
	"net"
	"strings"
	"testing"

	"github.com/pion/logging"
	"github.com/pion/turn/v5"
)

// relay is a TURN server that accepts passwords derived from a secret, as coturn does with
// static-auth-secret.
func relay(t *testing.T, secret string) (address string) {
	t.Helper()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	must(t, err)
	address = conn.LocalAddr().String()
	quiet := logging.NewDefaultLoggerFactory()
	quiet.DefaultLogLevel = logging.LogLevelDisabled
	server, err := turn.NewServer(turn.ServerConfig{
		Realm: "voice.example.org", AuthHandler: turn.LongTermTURNRESTAuthHandler(secret, quiet.NewLogger("turn")), LoggerFactory: quiet,
		PacketConnConfigs: []turn.PacketConnConfig{{
			PacketConn:            conn,
			RelayAddressGenerator: &turn.RelayAddressGeneratorStatic{RelayAddress: net.IPv4(127, 0, 0, 1), Address: "127.0.0.1"},
		}},
	})
	must(t, err)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return "turn:" + address + "?transport=udp"
}

// TestDoctorTriesTURN has doctor, at a real port, allocate a relay with a password of its own making, using
// the server's secret and another one.
func TestDoctorTriesTURN(t *testing.T) {
	t.Parallel()
	address := relay(t, "canary-right")
	for secret, want := range map[string]string{
		"canary-right": "ok: ICE server " + address + ": it relays",
		"canary-wrong": "problem: ICE server " + address + ": it provides no relay",
	} {
		code, report, stderr := runCommand(t, append(environment(t), "VOICEBRIDGE_TURN__URLS="+address, "VOICEBRIDGE_TURN_SECRET="+secret), "doctor", "--listen", "127.0.0.1:0")
		if (code == 0) != strings.HasPrefix(want, "ok") || !strings.Contains(report, want) || strings.Contains(report+stderr, "canary") {
			t.Errorf("code %d, want %q in\n%s%s", code, want, report, stderr)
		}
	}
}
