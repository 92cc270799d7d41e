package certificate

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/letsencrypt/challtestsrv"
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
)

const domain = "voice.example.org"

// authority is Pebble, Let's Encrypt's own test authority. It resolves the domain at a name server
// of the test and connects to ports of this machine.
func authority(t *testing.T, httpPort, tlsPort int) (directory string, client *http.Client, roots *x509.CertPool) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	names := listen(t)
	address := names.Addr().String()
	must(t, names.Close())
	silent := slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)
	dns, err := challtestsrv.New(challtestsrv.Config{Log: silent, DNSAddrs: []string{address}})
	must(t, err)
	dns.SetDefaultDNSIPv4("127.0.0.1")
	dns.SetDefaultDNSIPv6("")
	go dns.Run()
	t.Cleanup(dns.Shutdown)
	store := db.NewMemoryStore()
	issuer := ca.New(silent, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {ValidityPeriod: uint64((90 * 24 * time.Hour).Seconds())}})
	front := wfe.New(silent, store, va.New(silent, httpPort, tlsPort, false, address, store), issuer, nil, false, false, 1, 1)
	s := httptest.NewTLSServer(front.Handler())
	t.Cleanup(s.Close)
	roots = x509.NewCertPool()
	roots.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: issuer.GetRootCert(0).Cert.Raw}))
	return s.URL + wfe.DirectoryPath, s.Client(), roots
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func portOf(ln net.Listener) int { return ln.Addr().(*net.TCPAddr).Port }

// running runs a source with a server behind it on ln until the test ends.
func running(t *testing.T, s *Source, ln net.Listener) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "secure") }), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	go func() { _ = srv.Serve(tls.NewListener(ln, s.TLS())) }()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		_ = srv.Close()
	})
}

// ask requests the server's page, as a browser that trusts the authority.
func ask(t *testing.T, ln net.Listener, name string, roots *x509.CertPool) (string, error) {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: name}, DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
		},
	}}
	res, err := client.Get("https://" + name)
	if err != nil {
		return "", err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// lines passes on the lines of a log.
func lines(t *testing.T) (*slog.Logger, func(text string) string) {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	found := make(chan string, 100)
	go func() {
		for scan := bufio.NewScanner(r); scan.Scan(); {
			found <- scan.Text()
		}
	}()
	return slog.New(slog.NewTextHandler(w, nil)), func(text string) string {
		t.Helper()
		var seen []string
		limit := time.After(2 * time.Minute)
		for {
			select {
			case line := <-found:
				seen = append(seen, line)
				if strings.Contains(line, text) {
					return line
				}
			case <-limit:
				t.Fatalf("%q is not in the log:\n%s", text, strings.Join(seen, "\n"))
			}
		}
	}
}

// TestACME gets a certificate through the server's own port, and by HTTP, and reuses it after a
// restart without the authority.
func TestACME(t *testing.T) {
	for name, byHTTP := range map[string]bool{"TLS": false, "HTTP": true} {
		t.Run(name, func(t *testing.T) {
			ln, plain := listen(t), listen(t)
			httpPort := portOf(plain)
			must(t, plain.Close())
			tlsPort := portOf(ln)
			if byHTTP {
				tlsPort = 1 // the authority cannot connect there
			}
			directory, client, roots := authority(t, httpPort, tlsPort)
			log, until := lines(t)
			cfg := Config{Domains: []string{domain}, Directory: directory, Email: "anna@example.org", client: client, Folder: filepath.Join(t.TempDir(), "certificates"), Logger: log}
			if byHTTP {
				cfg.HTTPListen = plain.Addr().String()
			}
			s, err := Open(t.Context(), cfg)
			must(t, err)
			running(t, s, ln)
			if ends := s.Ends(); len(ends) != 0 && ends[domain].IsZero() {
				t.Errorf("Ends() = %v", ends)
			}
			until("msg=certificate domain=" + domain)
			if ends := s.Ends(); len(ends) != 1 || !ends[domain].After(time.Now()) {
				t.Errorf("Ends() = %v", ends)
			}
			if got, err := ask(t, ln, domain, roots); got != "secure" || err != nil {
				t.Errorf("got %q, %v", got, err)
			}
			if _, err := ask(t, ln, "other.example.org", roots); err == nil {
				t.Error("a certificate for a domain that is not ours")
			}
			if byHTTP {
				checkRedirect(t, cfg.HTTPListen)
			}
			files, err := os.ReadDir(cfg.Folder)
			if err != nil || len(files) < 2 {
				t.Errorf("%d files, %v", len(files), err)
			}
			for _, f := range files {
				if info, err := f.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
					t.Errorf("%s can be read by others (%v)", f.Name(), err)
				}
			}

			cfg.Directory, cfg.HTTPListen = "http://127.0.0.1:1/", ""
			again, err := Open(t.Context(), cfg)
			must(t, err)
			second := listen(t)
			running(t, again, second)
			if got, err := ask(t, second, domain, roots); got != "secure" || err != nil {
				t.Errorf("after a restart: %q, %v", got, err)
			}
		})
	}
}

// checkRedirect requests the HTTP port as a browser does.
func checkRedirect(t *testing.T, address string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/x?y=1", http.NoBody)
	must(t, err)
	r.Host, r.Close = domain, true
	res, err := http.DefaultTransport.RoundTrip(r)
	must(t, err)
	_ = res.Body.Close()
	if got := res.Header.Get("Location"); res.StatusCode != http.StatusFound || got != "https://"+domain+"/x?y=1" {
		t.Errorf("%d to %q", res.StatusCode, got)
	}
}

// TestACMEFails says why there is no certificate, and retries.
func TestACMEFails(t *testing.T) {
	log, until := lines(t)
	s, err := Open(t.Context(), Config{Domains: []string{domain}, Directory: "http://127.0.0.1:1/dir", Folder: t.TempDir(), Logger: log})
	must(t, err)
	s.pause = 10 * time.Millisecond
	running(t, s, listen(t))
	for range 2 {
		if line := until("no certificate"); !strings.Contains(line, "port 443") {
			t.Error(line)
		}
	}
}

func TestOpenFails(t *testing.T) {
	t.Parallel()
	taken := listen(t)
	var log bytes.Buffer
	cfg := Config{Domains: []string{domain}, HTTPListen: taken.Addr().String(), Folder: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, nil))}
	if _, err := Open(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "tls.acme.http_listen") {
		t.Errorf("a taken port: %v", err)
	}
	if _, err := Open(t.Context(), Config{CertFile: "/does/not/exist", KeyFile: "/does/not/exist"}); err == nil {
		t.Error("missing files are taken")
	}
}

// silent is an authority that does not answer.
type silent struct{ asked, end chan struct{} }

// RoundTrip implements [http.RoundTripper].
func (s silent) RoundTrip(*http.Request) (*http.Response, error) {
	s.asked <- struct{}{}
	<-s.end
	return nil, net.ErrClosed
}

// TestStopWhileTheAuthorityIsSilent ends without waiting for the answer.
func TestStopWhileTheAuthorityIsSilent(t *testing.T) {
	t.Parallel()
	authority := silent{make(chan struct{}, 100), make(chan struct{})}
	t.Cleanup(func() { close(authority.end) })
	s, err := Open(t.Context(), Config{
		Domains: []string{"voice.example.org"}, Directory: "https://ca.example.org/directory", Folder: t.TempDir(),
		Logger: slog.New(slog.DiscardHandler), client: &http.Client{Transport: authority},
	})
	must(t, err)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	<-authority.asked
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Fatal("it waits for the authority")
	}
}

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
