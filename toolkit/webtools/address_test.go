package webtools

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit/guard"
)

// hostileNames resolve to addresses that must not be reached.
var hostileNames = map[string][][]string{
	"loopback.test": {{"127.0.0.1"}}, "loopback6.test": {{"::1"}}, "mapped.test": {{"::ffff:127.0.0.1"}}, "private.test": {{"10.1.2.3"}},
	"metadata.test": {{"169.254.169.254"}}, "metadata6.test": {{"fd00:ec2::254"}}, "azure.test": {{"168.63.129.16"}}, "nat64.test": {{"64:ff9b::7f00:1"}},
	"6to4.test": {{"2002:7f00:1::"}}, "both.test": {{"127.0.0.1", "::1"}}, "zero.test": {{"0.0.0.0"}}, "cgnat.test": {{"100.64.0.1"}},
	"multicast.test": {{"224.0.0.1"}}, "linklocal6.test": {{"fe80::1"}}, "teredo.test": {{"2001:0:7f00:1::"}},
}

// hostileURLs are refused whatever tool asks. PORT is the port of a listener on 127.0.0.1
// and ::1.
var hostileURLs = []string{
	// IPv4, by range
	"http://127.0.0.1/", "http://127.0.0.1:PORT/", "http://127.255.255.254:PORT/", "http://0.0.0.0:PORT/", "http://0.1.2.3/",
	"http://10.0.0.1/", "http://10.255.255.255/", "http://172.16.0.1/", "http://172.31.255.255/", "http://192.168.0.1/", "http://192.168.1.254/",
	"http://169.254.169.254/latest/meta-data/", "http://169.254.170.2/", "http://100.64.0.1/", "http://100.100.100.200/", "http://100.127.255.255/",
	"http://192.0.0.192/", "http://192.0.2.1/", "http://198.51.100.1/", "http://203.0.113.1/", "http://198.18.0.1/", "http://198.19.255.255/",
	"http://224.0.0.1/", "http://239.255.255.255/", "http://240.0.0.1/", "http://255.255.255.255/", "http://192.88.99.1/", "http://168.63.129.16/",
	// IPv4 in forms that some programs read
	"http://2130706433/", "http://2130706433:PORT/", "http://0x7f000001/", "http://0x7f.0.0.1/", "http://0x7F.1/", "http://017700000001/", "http://0177.0.0.1/",
	"http://127.1/", "http://127.0.1/", "http://127.0.0.1./", "http://127.000.000.001/", "http://0/", "http://0x0/", "http://3232235521/", "http://127.0.0.0x1/",
	"http://127.0.0.01/", "http://１２７.０.０.１/", "http://127。0。0。1/", "http://①②⑦.⓪.⓪.①/", "http://1.1.1.1.1/", "http://256.256.256.256/", "http://0xa9fea9fe/", "http://2852039166/",
	// IPv6
	"http://[::1]/", "http://[::1]:PORT/", "http://[::]/", "http://[::]:PORT/", "http://[0:0:0:0:0:0:0:1]:PORT/", "http://[::ffff:127.0.0.1]:PORT/", "http://[::ffff:7f00:1]:PORT/",
	"http://[::ffff:8.8.8.8]/", "http://[::127.0.0.1]/", "http://[::ffff:0:127.0.0.1]/", "http://[64:ff9b::7f00:1]/", "http://[64:ff9b::8.8.8.8]/", "http://[64:ff9b:1::1]/",
	"http://[2002:7f00:1::]/", "http://[2002:a9fe:a9fe::]/", "http://[2001:0:7f00:1::]/", "http://[2001:db8::1]/", "http://[3fff::1]/", "http://[5f00::1]/", "http://[100::1]/",
	"http://[fc00::1]/", "http://[fd00:ec2::254]/", "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[::1%25lo]:PORT/", "http://[fec0::1]/", "http://[ff02::1]/", "http://[fe80::1%eth0]/",
	// Names
	"http://loopback.test:PORT/", "http://loopback6.test:PORT/", "http://mapped.test:PORT/", "http://private.test/", "http://metadata.test/", "http://metadata6.test/", "http://azure.test/",
	"http://nat64.test/", "http://6to4.test/", "http://both.test:PORT/", "http://zero.test:PORT/", "http://cgnat.test/", "http://multicast.test/", "http://linklocal6.test/", "http://teredo.test/",
	"https://loopback.test/", "http://LOOPBACK.test:PORT/", "http://loopback.test.:PORT/",
	// Users, ports, schemes, and what does not parse
	"http://user@example.com/", "http://user:password@127.0.0.1:PORT/", "http://example.com@127.0.0.1:PORT/", "http://127.0.0.1:PORT@example.com/", "http://@127.0.0.1:PORT/", "http://%31%32%37.0.0.1:PORT/",
	"http://example.com:22/", "http://example.com:25/", "http://example.com:3306/", "http://example.com:6379/", "http://example.com:8080/", "https://example.com:0/", "http://example.com:65536/", "http://example.com:-1/", "http://example.com:80a/",
	"file:///etc/passwd", "file://localhost/etc/passwd", "gopher://127.0.0.1:PORT/_x", "ftp://127.0.0.1/", "data:text/plain,hello", "javascript:alert(1)", "dict://127.0.0.1:PORT/", "ldap://127.0.0.1/", "ws://127.0.0.1:PORT/", "unix:///var/run/docker.sock", "jar:http://127.0.0.1!/",
	"//127.0.0.1:PORT/", "127.0.0.1:PORT", "/etc/passwd", "http:", "http://", "http:///path", "http://:PORT/", "http:127.0.0.1", "http:/127.0.0.1/", "http://127.0.0.1:PORT\\@example.com/", "http://exa mple.com/", "http://exam\tple.com/",
	"http://example.com\r\nHost: evil/", "http://a_b%00.com/", "http://[::1", "http://::1/", "http://[127.0.0.1]/", "http://[::1]evil.com/", "http://exa%mple.com/", "http://<script>/", " ", "http://\u202e.com/", "http://*.com/",
}

// counting is a server that counts its connections, on 127.0.0.1 and ::1.
func counting(t *testing.T) (port int, hits *atomic.Int64) {
	t.Helper()
	hits = new(atomic.Int64)
	four, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port = four.Addr().(*net.TCPAddr).Port
	listeners := []net.Listener{four}
	if six, err := net.Listen("tcp", fmt.Sprintf("[::1]:%d", port)); err == nil { // not every machine has IPv6
		listeners = append(listeners, six)
	}
	for _, l := range listeners {
		s := &httptest.Server{Listener: l, Config: &http.Server{
			Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "secret") }),
			ConnState: func(_ net.Conn, state http.ConnState) { hits.Add(map[http.ConnState]int64{http.StateNew: 1}[state]) },
		}}
		s.Start()
		t.Cleanup(s.Close)
	}
	return port, hits
}

func TestHostileURLs(t *testing.T) {
	t.Parallel()
	if len(hostileURLs) < 60 {
		t.Fatalf("only %d URLs", len(hostileURLs))
	}
	port, hits := counting(t)
	resolver := &names{answers: maps.Clone(hostileNames)}
	// The port is open: the address is what gets refused.
	router := newRouter(t, Config{AllowPorts: []int{port}, resolver: resolver.resolver()})
	t.Run("all", func(t *testing.T) {
		for i, address := range hostileURLs {
			address = strings.ReplaceAll(address, "PORT", fmt.Sprint(port))
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				for name, input := range map[string]object{"http": {"url": address}, "webContent": {"urls": []string{address}}} {
					result := call(t, router, name, input)
					if !result.Failed() {
						t.Fatalf("%s let %q through: %s", name, address, result.Output)
					}
					// The guard refused; it was not a connection that failed by chance.
					for _, tried := range []string{"no connection", "did not answer", "no host named", "cannot be resolved", "failed:"} {
						if strings.Contains(result.Error, tried) {
							t.Errorf("%s tried %q: %s", name, address, result.Error)
						}
					}
					if strings.Contains(result.Error, "password") && strings.Contains(address, "password") && !strings.Contains(result.Error, "a user name or a password") {
						t.Errorf("the error repeats a password: %s", result.Error)
					}
				}
			})
		}
	})
	testkit.Equal(t, hits.Load(), 0, "connections were made")
	if resolver.asked.Load() == 0 {
		t.Error("no name was resolved, so none was refused for its address")
	}
}

func TestRedirectsToHostileURLs(t *testing.T) {
	t.Parallel()
	port, hits := counting(t)
	resolver := &names{answers: map[string][][]string{"public.test": {{"127.0.0.2"}}}}
	maps.Copy(resolver.answers, hostileNames)
	// 127.0.0.2 stands for a public address.
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Skip("this machine has no 127.0.0.2")
	}
	public := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusFound)
	}))
	public.Listener.Close()
	public.Listener = l
	public.Start()
	t.Cleanup(public.Close)
	own := portNumber(t, public.URL)
	router := newRouter(t, Config{AllowPorts: []int{port, own}, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, resolver: resolver.resolver()})
	t.Run("all", func(t *testing.T) {
		for i, address := range hostileURLs {
			if address = strings.ReplaceAll(address, "PORT", fmt.Sprint(port)); strings.TrimSpace(address) == "" {
				continue // not a redirect
			}
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				from := fmt.Sprintf("http://public.test:%d/?to=%s", own, urlQuery(address))
				result := call(t, router, "http", object{"url": from})
				// A path redirects to the same server, which goes round in circles.
				if !result.Failed() && parse[httpOutput](t, result.Output).Status != http.StatusFound {
					t.Fatalf("the redirect to %q was followed: %s", address, result.Output)
				}
			})
		}
	})
	testkit.Equal(t, hits.Load(), 0, "connections were made")
}

func TestRebinding(t *testing.T) {
	t.Parallel()
	port, hits := counting(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err != nil {
		t.Skip("this machine has no 127.0.0.2")
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/again" {
			http.Redirect(w, r, "/", http.StatusFound)
			return
		}
		fmt.Fprint(w, "public")
	}))
	s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	resolver := &names{answers: map[string][][]string{
		"first.test":    {{"127.0.0.2"}, {"127.0.0.1"}},
		"redirect.test": {{"127.0.0.2"}, {"127.0.0.1"}},
		"mixed.test":    {{"127.0.0.1", "127.0.0.2"}},
	}}
	router := newRouter(t, Config{AllowPorts: []int{port}, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.2/32")}, resolver: resolver.resolver()})
	at := func(host, path string) object {
		return object{"url": "http://" + net.JoinHostPort(host, fmt.Sprint(port)) + path}
	}

	if got := get(t, router, at("first.test", "/")); got.Body != "public" {
		t.Errorf("got %q", got.Body)
	}
	if result := call(t, router, "http", at("first.test", "/")); !strings.Contains(result.Error, "not a public one") {
		t.Errorf("the second answer of the name server was used: %v", result)
	}
	if result := call(t, router, "http", at("redirect.test", "/again")); !strings.Contains(result.Error, "not a public one") {
		t.Errorf("the second answer of the name server was used after a redirect: %v", result)
	}
	if got := get(t, router, at("mixed.test", "/")); got.Body != "public" {
		t.Errorf("got %q", got.Body)
	}
	testkit.Equal(t, hits.Load(), 0, "connections to 127.0.0.1 were made")
}

func FuzzParseURL(f *testing.F) {
	for _, address := range hostileURLs {
		f.Add(strings.ReplaceAll(address, "PORT", "80"))
	}
	f.Add("https://example.com:443/a?b#c")
	a := newAddresses(Config{ownAddresses: func() ([]net.Addr, error) { return nil, nil }})
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := a.ParseURL(raw)
		if err != nil {
			return
		}
		if !slices.Contains([]string{"http", "https"}, u.Scheme) || u.User != nil || !slices.Contains([]string{"", "80", "443"}, u.Port()) {
			t.Errorf("%q was let through as %v", raw, u)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && a.Check(addr) != nil {
			t.Errorf("%q was let through as %v", raw, addr)
		}
		if len(u.String()) > guard.MaxURL {
			return // escapes have made it longer than what is read
		}
		if again, err := a.ParseURL(u.String()); err != nil || again.String() != u.String() {
			t.Errorf("%q became %v and then %v, %v", raw, u, again, err)
		}
	})
}
