// Package certificate provides the server's TLS certificate, from files that are read again when they change.
package certificate

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkEvery is how often the files are checked.
const checkEvery = time.Minute

// Source is a certificate with its chain, and its key, in PEM files. It is safe for concurrent use.
type Source struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	written time.Time // modification time of the newer file
	looked  time.Time
}

// Open reads the files.
func Open(certFile, keyFile string, log *slog.Logger) (*Source, error) {
	s := &Source{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	if err := s.load(); err != nil {
		return nil, fmt.Errorf("%w (check tls.cert_file and tls.key_file)", err)
	}
	return s, nil
}

// TLS returns the configuration for the server's listener.
func (s *Source) TLS() *tls.Config {
	return &tls.Config{
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return s.current(), nil },
		NextProtos:     []string{"http/1.1"}, // HTTP/1.1 only, for WebSockets
		MinVersion:     tls.VersionTLS12,
	}
}

// Ends returns when the certificate expires, under the first name in it. A nil Source has none.
func (s *Source) Ends() map[string]time.Time {
	if s == nil {
		return nil
	}
	leaf := s.current().Leaf
	name := ""
	switch {
	case len(leaf.DNSNames) > 0:
		name = leaf.DNSNames[0]
	case len(leaf.IPAddresses) > 0:
		name = leaf.IPAddresses[0].String()
	}
	return map[string]time.Time{name: leaf.NotAfter}
}

// Fingerprint returns the SHA-256 of the certificate in hexadecimal.
func (s *Source) Fingerprint() string {
	sum := sha256.Sum256(s.current().Leaf.Raw)
	return hex.EncodeToString(sum[:])
}

// load reads both files if one of them is newer than the loaded pair.
func (s *Source) load() error {
	var newest time.Time
	for _, file := range []string{s.certFile, s.keyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	if s.loaded != nil && newest.Equal(s.written) {
		return nil
	}
	loaded, err := tls.LoadX509KeyPair(s.certFile, s.keyFile)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	s.loaded, s.written = &loaded, newest
	return nil
}

// current returns the certificate for a connection. If changed files cannot be read, the loaded pair
// stays in use.
func (s *Source) current() *tls.Certificate {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.looked) >= checkEvery {
		s.looked = now
		if err := s.load(); err != nil {
			s.log.Warn("renewed certificate not read", "error", err)
		}
	}
	return s.loaded
}
