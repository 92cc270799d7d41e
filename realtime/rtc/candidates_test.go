package rtc

import (
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

// TestCandidateRule judges single candidates.
func TestCandidateRule(t *testing.T) {
	t.Parallel()
	private, public := candidateRule{browser: true}, candidateRule{browser: true, loopback: true, public: true}
	local, upstream := candidateRule{browser: true, loopback: true}, candidateRule{loopback: true}
	for _, tt := range []struct {
		candidate                        string
		private, public, local, upstream bool
	}{
		{"1 1 udp 2122260223 198.51.100.7 54321 typ host generation 0", true, true, true, true},
		{"1 1 UDP 2122260223 198.51.100.7 54321 typ srflx raddr 0.0.0.0 rport 0", true, true, true, true},
		{"1 1 udp 2122260223 2001:db8::7 54321 typ host", true, true, true, true},
		{"1 1 udp 2122260223 192.168.1.7 54321 typ host", true, false, true, true},
		{"1 1 udp 2122260223 10.1.2.3 54321 typ host", true, false, true, true},
		{"1 1 udp 2122260223 172.16.0.1 54321 typ relay", true, false, true, true},
		{"1 1 udp 2122260223 100.64.3.4 54321 typ host", true, false, true, true},
		{"1 1 udp 2122260223 fd00::1 54321 typ host", true, false, true, true},
		{"1 1 udp 2122260223 ::ffff:10.1.2.3 54321 typ host", true, false, true, true},
		{"1 1 udp 2122260223 127.0.0.1 54321 typ host", false, false, true, true},
		{"1 1 udp 2122260223 ::1 54321 typ host", false, false, true, true},
		{"1 1 udp 2122260223 ::ffff:127.0.0.1 54321 typ host", false, false, true, true},
		{"1 1 udp 2122260223 169.254.169.254 54321 typ host", false, false, false, false},
		{"1 1 udp 2122260223 fe80::1 54321 typ host", false, false, false, false},
		{"1 1 udp 2122260223 0.0.0.0 54321 typ host", false, false, false, false},
		{"1 1 udp 2122260223 255.255.255.255 54321 typ host", false, false, false, false},
		{"1 1 udp 2122260223 239.1.2.3 54321 typ host", false, false, false, false},
		{"1 1 udp 2122260223 ff02::1 54321 typ host", false, false, false, false},
		{"1 1 udp 2122260223 198.51.100.7 53 typ host", false, false, false, true},
		{"1 1 udp 2122260223 198.51.100.7 0 typ host", false, false, false, false},
		{"1 1 udp 2122260223 198.51.100.7 99999 typ host", false, false, false, false},
		{"1 1 udp 2122260223 198.51.100.7 -1 typ host", false, false, false, false},
		{"1 2 udp 2122260223 198.51.100.7 54321 typ host", false, false, false, false},
		{"1 1 tcp 2122260223 198.51.100.7 443 typ host tcptype passive", false, false, false, true},
		{"1 1 udp 2122260223 6a2d.local 54321 typ host", false, false, false, false},
		{"1 1 udp 2122260223 metadata.internal 54321 typ host", false, false, false, false},
		{"1 1 udp", false, false, false, false},
		{"", false, false, false, false},
	} {
		for rule, want := range map[candidateRule]bool{private: tt.private, public: tt.public, local: tt.local, upstream: tt.upstream} {
			trimmed, dropped := rule.trim("v=0\r\na=candidate:" + tt.candidate + "\r\na=x\r\n")
			if got := strings.Contains(trimmed, "candidate"); got != want || (dropped == 0) != want || !strings.HasSuffix(trimmed, "a=x\r\n") {
				t.Errorf("%+v: %q is used: %t, want %t", rule, tt.candidate, got, want)
			}
		}
	}
}

// manyCandidates puts n candidates for ports of one address into an offer.
func manyCandidates(offer, address string, port, n int) string {
	var lines strings.Builder
	for i := range n {
		fmt.Fprintf(&lines, "a=candidate:%d 1 udp 2122260223 %s %d typ host\r\n", i, address, port+i)
	}
	offer = without(offer, "a=candidate:")
	return strings.Replace(offer, "a=rtcp-mux\r\n", "a=rtcp-mux\r\n"+lines.String(), 1)
}

// TestManyCandidates uses only a few of the addresses that a hostile offer names, each once.
func TestManyCandidates(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{})
	for _, tt := range []struct {
		name, offer string
		want        int
	}{
		{"250 ports", manyCandidates(readSDP(t, "chrome_offer.sdp"), "127.0.0.1", 40_000, 250), maxUsed},
		{"one port", manyCandidates(readSDP(t, "chrome_offer.sdp"), "127.0.0.1", 40_000, 1), 1},
		{"250 low ports", manyCandidates(readSDP(t, "chrome_offer.sdp"), "127.0.0.1", 1, 250), 0},
		{"none", manyCandidates(readSDP(t, "chrome_offer.sdp"), "127.0.0.1", 1, 0), 0},
	} {
		p, _, err := a.Answer(testContext(t), tt.offer, media.Handlers{})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		testkit.Equal(t, strings.Count(p.pc.RemoteDescription().SDP, "a=candidate:"), tt.want, "%s: candidates are used", tt.name)
		closePeer(t, p)
	}
}

// TestPublicAsksNoPrivateAddress answers, as a public server, an offer that names a private listener. The listener
// hears nothing, and a browser connects although none of its candidates is reachable.
func TestPublicAsksNoPrivateAddress(t *testing.T) {
	t.Parallel()
	a := newAPI(t, Config{UDPPort: freePort(t), PublicIPs: []string{"203.0.113.9"}})
	listener, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	defer listener.Close()
	hostile := manyCandidates(readSDP(t, "chrome_offer.sdp"), "127.0.0.1", listener.LocalAddr().(*net.UDPAddr).Port, 1)
	victim, _, err := a.Answer(testContext(t), hostile, media.Handlers{})
	must(t, err)
	t.Cleanup(func() { closePeer(t, victim) })
	b := newRawBrowser(t, a, rawOptions{answer: func(answer string) string {
		return strings.ReplaceAll(answer, "203.0.113.9", "127.0.0.1") // what the NAT would do
	}})
	b.rec.waitState(t, media.StateConnected)
	for line := range strings.Lines(b.peer.pc.RemoteDescription().SDP) {
		if strings.HasPrefix(line, "a=candidate:") && (strings.Contains(line, " 127.") || strings.Contains(line, " fd")) {
			t.Errorf("a private candidate is used: %s", line)
		}
	}
	must(t, listener.SetReadDeadline(time.Unix(1, 0)))
	if n, _, err := listener.ReadFromUDP(make([]byte, 100)); err == nil {
		t.Errorf("the listener got %d bytes", n)
	}
}

// TestAnnounced checks that public addresses take the place of all of their family, and of no others.
func TestAnnounced(t *testing.T) {
	t.Parallel()
	candidate := func(address, kind string) string {
		return "a=candidate:1 1 udp 2130706431 " + address + " 40000 typ " + kind + "\r\n"
	}
	own := candidate("127.0.0.1", "host") + candidate("10.1.2.3", "host") + candidate("2001:db8::5", "host") + candidate("198.51.100.7", "srflx")
	for _, tt := range []struct {
		public []string
		want   string
	}{
		{nil, own},
		{[]string{"203.0.113.9"}, candidate("203.0.113.9", "host") + candidate("2001:db8::5", "host") + candidate("198.51.100.7", "srflx")},
		{[]string{"::ffff:203.0.113.9", "203.0.113.10", "2001:db8::9"}, candidate("203.0.113.9", "host") + candidate("203.0.113.10", "host") + candidate("2001:db8::9", "host") + candidate("198.51.100.7", "srflx")},
		{[]string{"10.1.2.3"}, candidate("10.1.2.3", "host") + candidate("2001:db8::5", "host") + candidate("198.51.100.7", "srflx")},
	} {
		testkit.Equal(t, announced("v=0\r\n"+own+"a=end-of-candidates\r\n", tt.public), "v=0\r\n"+tt.want+"a=end-of-candidates\r\n", "%v: want %s", tt.public, tt.want)
	}
}

// TestRoutes finds the local addresses that lead to a remote.
func TestRoutes(t *testing.T) {
	t.Parallel()
	local := []net.Addr{
		&net.IPNet{IP: net.ParseIP("127.0.0.1"), Mask: net.CIDRMask(8, 32)}, &net.IPNet{IP: net.ParseIP("::1"), Mask: net.CIDRMask(128, 128)},
		&net.IPNet{IP: net.ParseIP("198.51.100.7"), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.ParseIP("2001:db8::7"), Mask: net.CIDRMask(64, 128)},
	}
	for _, tt := range []struct {
		name   string
		remote []string
		want   string // whether 127.0.0.1, ::1, 198.51.100.7, 2001:db8::7 are used: y or n
	}{
		{"an upstream with IPv4", []string{"203.0.113.1", "203.0.113.2"}, "ynyn"},
		{"an upstream with IPv6", []string{"2001:db8:1::1"}, "nyny"},
		{"an upstream with both", []string{"203.0.113.1", "2001:db8:1::1"}, "yyyy"},
		{"this machine", []string{"127.0.0.1", "::1", "198.51.100.7", "2001:db8::7"}, "ynnn"},
		{"this machine with IPv6 alone", []string{"::1", "2001:db8::7"}, "nynn"},
		{"another machine that names its loopback", []string{"127.0.0.1", "203.0.113.1"}, "ynyn"},
		{"no candidates", nil, "yyyy"},
	} {
		var answer strings.Builder
		for _, address := range tt.remote {
			answer.WriteString("a=candidate:1 1 udp 1 " + address + " 3478 typ host\r\n")
		}
		r, got := routesTo(answer.String(), local), ""
		for _, a := range local {
			got += map[bool]string{true: "y", false: "n"}[r.allow(a.(*net.IPNet).IP)]
		}
		testkit.Equal(t, got, tt.want, "%s", tt.name)
	}
}

// TestFacing has public addresses to which no packet leaves from the addresses given: of those, one of the same family
// stands for them, and that of loopback only if there is no other.
func TestFacing(t *testing.T) {
	t.Parallel()
	addresses := func(texts ...string) (all []netip.Addr) {
		for _, text := range texts {
			all = append(all, netip.MustParseAddr(text))
		}
		return all
	}
	for _, tt := range []struct {
		public string
		own    []netip.Addr
		want   string
	}{
		{"198.51.100.1", addresses("127.0.0.1", "192.0.2.7", "192.0.2.8"), "192.0.2.7"},
		{"198.51.100.1", addresses("::1", "127.0.0.1"), "127.0.0.1"},
		{"2001:db8::1", addresses("192.0.2.7", "::1", "2001:db8::7"), "2001:db8::7"},
		{"2001:db8::1", addresses("192.0.2.7"), "invalid IP"},
	} {
		if got := facing(netip.MustParseAddr(tt.public), tt.own); got.String() != tt.want {
			t.Errorf("%s with %v: %s, want %s", tt.public, tt.own, got, tt.want)
		}
	}
}
