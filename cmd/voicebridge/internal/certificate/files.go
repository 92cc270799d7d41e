package certificate

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// checkEvery is how often the certificate's files are checked.
const checkEvery = time.Minute

// files are a certificate and its key in files, read again when they change. They are safe for
// concurrent use.
type files struct {
	certFile, keyFile string
	log               *slog.Logger

	mu      sync.Mutex
	loaded  *tls.Certificate
	written time.Time // modification time of the newer file
	looked  time.Time
}

func openFiles(certFile, keyFile string, log *slog.Logger) (*files, error) {
	f := &files{certFile: certFile, keyFile: keyFile, log: log, looked: time.Now()}
	if err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

// load reads both files if one of them is newer than the loaded pair.
func (f *files) load() error {
	var newest time.Time
	for _, file := range []string{f.certFile, f.keyFile} {
		info, err := os.Stat(file)
		if err != nil {
			return fmt.Errorf("read certificate: %w", err)
		}
		if info.ModTime().After(newest) {
			newest = info.ModTime()
		}
	}
	if f.loaded != nil && newest.Equal(f.written) {
		return nil
	}
	loaded, err := tls.LoadX509KeyPair(f.certFile, f.keyFile)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	f.loaded, f.written = &loaded, newest
	return nil
}

// get returns the certificate for a connection. If changed files cannot be read, the loaded pair
// stays in use.
func (f *files) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if now := time.Now(); now.Sub(f.looked) >= checkEvery {
		f.looked = now
		if err := f.load(); err != nil {
			f.log.Warn("renewed certificate not read", "error", err)
		}
	}
	return f.loaded, nil
}
