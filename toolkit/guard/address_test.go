package guard

import (
	"errors"
	"net"
	"net/netip"
	"testing"
)

func TestCheckAddress(t *testing.T) {
	t.Parallel()
	own := func() ([]net.Addr, error) {
		return []net.Addr{
			&net.IPNet{IP: net.IPv4(198, 41, 0, 4), Mask: net.CIDRMask(24, 32)},
			&net.IPNet{IP: net.ParseIP("2a00:1450::1"), Mask: net.CIDRMask(64, 128)},
		}, nil
	}
	a := New(Rules{
		Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd12::/16"), netip.MustParsePrefix("168.63.129.16/32")},
		Deny:  []netip.Prefix{netip.MustParsePrefix("10.1.9.0/24"), netip.MustParsePrefix("9.9.9.0/24")},
		Own:   own,
	})
	for text, open := range map[string]bool{
		"8.8.8.8": true, "1.1.1.1": true, "2606:4700:4700::1111": true, "2001:4860:4860::8888": true, "198.41.0.5": true, "2a00:1450:0:1::1": true,
		"10.1.2.3": true, "fd12::1": true, "168.63.129.16": true,
		"10.1.9.9": false, "9.9.9.9": false, "10.2.0.1": false, "fd13::1": false, "198.41.0.4": false, "2a00:1450::1": false, "2a00:1450::99": false,
		"::ffff:8.8.8.8": false, "::ffff:10.1.2.3": false, "fd12::1%eth0": false,
	} {
		if err := a.Check(netip.MustParseAddr(text)); (err == nil) != open {
			t.Errorf("%s: %v", text, err)
		}
	}
	a.Own = func() ([]net.Addr, error) { return nil, errors.New("no") }
	if a.Check(netip.MustParseAddr("8.8.8.8")) == nil {
		t.Error("an address passes although it may be our own")
	}
}

func TestControl(t *testing.T) {
	t.Parallel()
	a := New(Rules{Own: func() ([]net.Addr, error) { return nil, nil }})
	for address, open := range map[string]bool{
		"8.8.8.8:80": true, "[2606:4700:4700::1111]:443": true,
		"8.8.8.8:22": false, "127.0.0.1:80": false, "[::ffff:127.0.0.1]:80": false, "[::1]:443": false, "[fe80::1%lo]:80": false, "8.8.8.8": false, "": false, "example.com:80": false,
	} {
		if err := a.Control("tcp4", address, nil); (err == nil) != open {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, network := range []string{"udp4", "unix", "tcp", "ip4:icmp", ""} {
		if a.Control(network, "8.8.8.8:80", nil) == nil {
			t.Errorf("the network %q passes", network)
		}
	}
}

func TestGoodURLs(t *testing.T) {
	t.Parallel()
	a := New(Rules{Ports: []int{8443}, Own: func() ([]net.Addr, error) { return nil, nil }})
	for raw, want := range map[string]string{
		"https://example.com":                     "https://example.com",
		" https://example.com/a?b=c#d ":           "https://example.com/a?b=c",
		"HTTP://EXAMPLE.com:80/":                  "http://EXAMPLE.com:80/",
		"https://bücher.example/ü":                "https://xn--bcher-kva.example/%C3%BC",
		"https://example.com/?q=a b&c=ü%20":       "https://example.com/?q=a%20b&c=%C3%BC%20",
		"https://example.com:8443/":               "https://example.com:8443/",
		"https://a_b.example.com./":               "https://a_b.example.com./",
		"https://[2606:4700:4700::1111]/":         "https://[2606:4700:4700::1111]/",
		"https://[2606:4700:4700::1111]:8443/":    "https://[2606:4700:4700::1111]:8443/",
		"http://8.8.8.8/":                         "http://8.8.8.8/",
		"https://example.com/?next=http://[::1]/": "https://example.com/?next=http://[::1]/",
		"https://4chan.example/":                  "https://4chan.example/",
		"https://0x7f.example/":                   "https://0x7f.example/",
	} {
		u, err := a.ParseURL(raw)
		if err != nil || u.String() != want {
			t.Errorf("%q: got %v, %v, want %s", raw, u, err, want)
		}
	}
}
