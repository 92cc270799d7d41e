package certificate

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

var must = testkit.Must

// writeCertificate writes a certificate for localhost and its key into a folder.
func writeCertificate(t *testing.T, dir string, serial int64, written time.Time) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: []string{"localhost"}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		must(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
		must(t, os.Chtimes(file, written, written))
	}
	return certFile, keyFile
}

// TestEnds tells when a certificate in files ends, also after it was renewed.
func TestEnds(t *testing.T) {
	t.Parallel()
	certFile, keyFile := writeCertificate(t, t.TempDir(), 1, time.Now())
	s, err := Open(certFile, keyFile, slog.New(slog.DiscardHandler))
	must(t, err)
	ends := s.Ends()
	if left := time.Until(ends["localhost"]); len(ends) != 1 || left <= 0 || left > time.Hour {
		t.Errorf("Ends() = %v", ends)
	}
	if ends := (*Source)(nil).Ends(); len(ends) != 0 {
		t.Errorf("without TLS Ends() = %v", ends)
	}
}

func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now().Truncate(time.Second)
	certFile, keyFile := writeCertificate(t, dir, 1, now.Add(-time.Hour))
	c, err := Open(certFile, keyFile, slog.New(slog.DiscardHandler))
	must(t, err)
	want := func(serial int64) {
		t.Helper()
		got, err := c.TLS().GetCertificate(nil)
		must(t, err)
		leaf, err := x509.ParseCertificate(got.Certificate[0])
		if err != nil || leaf.SerialNumber.Int64() != serial {
			t.Errorf("certificate %v, want %d, %v", leaf.SerialNumber, serial, err)
		}
	}
	want(1)
	writeCertificate(t, dir, 2, now)
	want(1) // the files are not checked on every connection
	c.looked = now.Add(-checkEvery)
	want(2)
	must(t, os.WriteFile(keyFile, []byte("half of a ke"), 0o600))
	c.looked = now.Add(-checkEvery)
	want(2) // while the renewal is written
	if _, err := Open(certFile, keyFile, slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a bad key is taken at the start")
	}
	if _, err := Open(filepath.Join(dir, "none.pem"), keyFile, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "tls.cert_file") {
		t.Errorf("a missing file at the start: %v", err)
	}
}
