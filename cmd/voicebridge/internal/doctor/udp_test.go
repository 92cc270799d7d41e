package doctor

import (
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"testing"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
)

func listenUDP(t *testing.T) *net.UDPConn {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	testkit.Must(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestArrives sends packets to oneself, and to somebody else who keeps them and sends others.
func TestArrives(t *testing.T) {
	t.Parallel()
	conn := listenUDP(t)
	testkit.Must(t, arrives(t.Context(), conn, conn.LocalAddr().String()))

	ctx, cancel := context.WithCancelCause(t.Context())
	other, done, seen := listenUDP(t), make(chan struct{}), errors.New("the test has seen enough")
	go func() {
		defer close(done)
		buf := make([]byte, 1500)
		_, from, err := other.ReadFromUDP(buf)
		if err == nil {
			_, err = other.WriteToUDP([]byte("noise"), from)
		}
		if err != nil {
			t.Error(err)
		}
		cancel(seen)
	}()
	if err := arrives(ctx, conn, other.LocalAddr().String()); !errors.Is(err, seen) {
		t.Errorf("arrives() = %v", err)
	}
	testkit.Take(t, "the end", done)
	if err := arrives(t.Context(), conn, "127.0.0.1"); err == nil {
		t.Error("arrives() accepts an address without a port")
	}
}

// TestUDP checks the port for audio at the addresses that browsers are told, and STUN servers.
func TestUDP(t *testing.T) {
	t.Parallel()
	free := listenUDP(t)
	port := strconv.Itoa(free.LocalAddr().(*net.UDPAddr).Port)
	testkit.Must(t, free.Close())
	taken, err := net.ListenUDP("udp", nil)
	testkit.Must(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	for name, c := range map[string]struct {
		environ string
		check   func(*doctor, context.Context)
		want    string
	}{
		"no address":     {"VOICEBRIDGE_UDP_PORT=" + port, (*doctor).publicAddresses, ""},
		"no port":        {"VOICEBRIDGE_PUBLIC_IPS=127.0.0.1", (*doctor).publicAddresses, ""},
		"a taken port":   {"VOICEBRIDGE_PUBLIC_IPS=127.0.0.1 VOICEBRIDGE_UDP_PORT=" + strconv.Itoa(taken.LocalAddr().(*net.UDPAddr).Port), (*doctor).publicAddresses, ""},
		"an own address": {"VOICEBRIDGE_PUBLIC_IPS=127.0.0.1 VOICEBRIDGE_UDP_PORT=" + port, (*doctor).publicAddresses, "ok: media (UDP): what is sent to 127.0.0.1:" + port + " by UDP arrives here"},
		"no server":      {"VOICEBRIDGE_ICE_SERVERS=stun:does-not-exist.invalid", (*doctor).iceServers, "problem: ICE server stun:does-not-exist.invalid: it does not answer"},
	} {
		cfg, err := config.Load(config.Sources{File: inFile(t, nil), Environ: strings.Fields(c.environ)})
		testkit.Must(t, err)
		var got []string
		c.check(&doctor{cfg: cfg, report: func(f finding) { got = append(got, f.String()) }}, t.Context())
		if all := strings.Join(got, "|"); !strings.HasPrefix(all, c.want) || (all == "") != (c.want == "") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
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
