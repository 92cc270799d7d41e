package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificateCheck is how often the files of the certificate are looked at.
const certificateCheck = time.Minute

// certificate is that of the server, read again when its files have been renewed. Safe
// for concurrent use.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	written time.Time // of the newer file
	looked  time.Time
}

func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// load reads both files if one of them is newer than what is loaded.
func (c *certificate) load() error {
	var newest time.Time
	for _, file := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	if c.loaded != nil && newest.Equal(c.written) {
		return nil
	}
	loaded, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	c.loaded, c.written = &loaded, newest
	return nil
}

// get is the certificate for a connection. Renewed files that cannot be read leave the
// one that there is.
func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certificateCheck {
		c.looked = now
		if err := c.load(); err != nil {
			c.log.Warn("renewed certificate not read", "error", err)
		}
	}
	return c.loaded, nil
}
