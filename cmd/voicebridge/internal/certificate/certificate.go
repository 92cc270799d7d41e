// Package certificate provides the server's TLS certificates, from files or by ACME (RFC 8555) from
// an authority such as Let's Encrypt.
package certificate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/crypto/acme"
	"golang.org/x/crypto/acme/autocert"
	"golang.org/x/sync/errgroup"
)

// Config says where certificates come from: CertFile with KeyFile, or Domains.
type Config struct {
	// CertFile and KeyFile are PEM files, reloaded when they change.
	CertFile, KeyFile string
	// Domains get certificates from the authority whose ACME directory is at Directory; empty means
	// Let's Encrypt. Using it means agreeing to its terms. Email, if set, is sent to it.
	Domains          []string
	Directory, Email string
	// Folder keeps the account's key and the certificates.
	Folder string
	// HTTPListen is the address that answers the authority by HTTP and redirects browsers to https.
	// If it is empty, the authority is answered within TLS only (RFC 8737).
	HTTPListen string
	Logger     *slog.Logger

	client *http.Client // sends requests to the authority; nil means http.DefaultClient
}

// Pauses between attempts to get a certificate, because authorities limit failures.
const (
	firstPause = time.Minute
	maxPause   = time.Hour
)

// Source provides the certificates of a server. It is safe for concurrent use.
type Source struct {
	cfg     Config
	get     func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	manager *autocert.Manager // nil for files
	ln      net.Listener      // of HTTPListen
	pause   time.Duration

	obtained sync.Map // domains that have a certificate
}

// Open reads the files, or prepares to get certificates from the authority, which Run does.
func Open(ctx context.Context, cfg Config) (*Source, error) {
	if len(cfg.Domains) == 0 {
		f, err := openFiles(cfg.CertFile, cfg.KeyFile, cfg.Logger)
		if err != nil {
			return nil, fmt.Errorf("%w (check tls.cert_file and tls.key_file)", err)
		}
		return &Source{cfg: cfg, get: f.get}, nil
	}
	m := &autocert.Manager{
		Prompt: autocert.AcceptTOS, Cache: autocert.DirCache(cfg.Folder), HostPolicy: autocert.HostWhitelist(cfg.Domains...), Email: cfg.Email,
		Client: &acme.Client{DirectoryURL: cfg.Directory, UserAgent: "voicebridge", HTTPClient: cfg.client},
	}
	s := &Source{cfg: cfg, get: m.GetCertificate, manager: m, pause: firstPause}
	if cfg.HTTPListen == "" {
		return s, nil
	}
	// This makes the manager answer by HTTP, too.
	m.HTTPHandler(nil)
	var err error
	if s.ln, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.HTTPListen); err != nil {
		return nil, fmt.Errorf("%w (choose another address with tls.acme.http_listen)", err)
	}
	return s, nil
}

// TLS returns the configuration for the server's listener.
func (s *Source) TLS() *tls.Config {
	protocols := []string{"http/1.1"} // HTTP/1.1 only, for WebSockets
	if s.manager != nil {
		protocols = append(protocols, acme.ALPNProto)
	}
	return &tls.Config{GetCertificate: s.get, NextProtos: protocols, MinVersion: tls.VersionTLS12}
}

// Close releases what Run would have served. A nil Source does nothing.
func (s *Source) Close() {
	if s != nil && s.ln != nil {
		_ = s.ln.Close()
	}
}

// Run gets missing certificates and answers the authority, until ctx ends. The server's listener
// must be open. Certificates are renewed a month before they expire. A nil Source only waits.
func (s *Source) Run(ctx context.Context) error {
	if s == nil {
		<-ctx.Done()
		return nil
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, domain := range s.cfg.Domains {
		g.Go(func() error { s.obtain(ctx, domain); return nil })
	}
	if s.ln != nil {
		g.Go(func() error { return s.answer(ctx) })
	}
	<-ctx.Done()
	return g.Wait()
}

// hello is what a current browser sends, so that the certificate has an elliptic-curve key.
func hello(domain string) *tls.ClientHelloInfo {
	return &tls.ClientHelloInfo{
		ServerName: domain, SupportedVersions: []uint16{tls.VersionTLS13}, CipherSuites: []uint16{tls.TLS_AES_128_GCM_SHA256},
		SignatureSchemes: []tls.SignatureScheme{tls.ECDSAWithP256AndSHA256}, SupportedCurves: []tls.CurveID{tls.CurveP256},
	}
}

// obtain gets the certificate of a domain before the first browser asks for it and would have to
// wait, and logs why that fails.
func (s *Source) obtain(ctx context.Context, domain string) {
	asking := hello(domain)
	for pause := s.pause; ; pause = min(5*pause, maxPause) {
		// The manager takes no context, and may wait for the authority for minutes: a stopping process does not.
		answered := make(chan error, 1)
		go func() {
			c, err := s.manager.GetCertificate(asking)
			if err == nil {
				s.obtained.Store(domain, true)
				s.cfg.Logger.Info("certificate", "domain", domain, "valid_until", ends(c))
			}
			answered <- err
		}()
		var err error
		select {
		case err = <-answered:
		case <-ctx.Done():
			return
		}
		if err == nil {
			return
		}
		s.cfg.Logger.Error("no certificate: the authority must reach this server by the domain's name, on port 443, or 80 with tls.acme.http_listen",
			"domain", domain, "error", err, "next_try_in", pause)
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// Ends returns when the certificates expire, by domain; the one from files is under the first name in
// it. Domains without a certificate are left out. A nil Source has none.
func (s *Source) Ends() map[string]time.Time {
	out := map[string]time.Time{}
	switch {
	case s == nil:
	case s.manager == nil:
		if c, err := s.get(nil); err == nil {
			out[name(c)] = ends(c)
		}
	default:
		s.obtained.Range(func(domain, _ any) bool { // for any other domain the manager would ask the authority
			if c, err := s.manager.GetCertificate(hello(domain.(string))); err == nil {
				out[domain.(string)] = ends(c)
			}
			return true
		})
	}
	return out
}

// name is the first name in a certificate.
func name(c *tls.Certificate) string {
	switch leaf := c.Leaf; {
	case leaf == nil:
	case len(leaf.DNSNames) > 0:
		return leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		return leaf.IPAddresses[0].String()
	}
	return ""
}

// ends returns when a certificate expires.
func ends(c *tls.Certificate) time.Time {
	if c.Leaf == nil {
		return time.Time{}
	}
	return c.Leaf.NotAfter
}

// withoutPort removes the port from the requested host: a private authority may use a port other
// than 80.
func withoutPort(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host, _, err := net.SplitHostPort(r.Host); err == nil {
			r.Host = host
		}
		next.ServeHTTP(w, r)
	})
}

// answer answers the authority by HTTP, and redirects everybody else to https.
func (s *Source) answer(ctx context.Context) error {
	srv := &http.Server{
		Handler: withoutPort(s.manager.HTTPHandler(nil)), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second,
		MaxHeaderBytes: 16 << 10, ErrorLog: slog.NewLogLogger(s.cfg.Logger.Handler(), slog.LevelDebug),
	}
	defer context.AfterFunc(ctx, func() { _ = srv.Close() })()
	if err := srv.Serve(s.ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("answer the authority: %w", err)
	}
	return nil
}
