package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// certified returns the settings of a server of https on this machine, and a client that trusts it. The certificate is in a
// file, too.
func certified(t *testing.T) (environ []string, client *http.Client, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	dir := t.TempDir()
	for name, content := range map[string][]byte{"cert.pem": cert, "key.pem": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		must(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	file = filepath.Join(dir, "cert.pem")
	return []string{"VOICEBRIDGE_TLS__CERT_FILE=" + file, "VOICEBRIDGE_TLS__KEY_FILE=" + filepath.Join(dir, "key.pem")},
		&http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: pool}}, Timeout: testkit.Patience}, file
}

// TestServeTLS uses https, and checks what a browser is told about TURN.
func TestServeTLS(t *testing.T) {
	t.Parallel()
	https, client, _ := certified(t)
	environ := environment(t, append(https, "VOICEBRIDGE_TURN__URLS=turn:turn.example.org:3478", "VOICEBRIDGE_TURN_SECRET=shared")...)
	s := launch(t, environ)
	if !strings.HasPrefix(s.url, "https://127.0.0.1:") {
		t.Fatalf("it printed %q", s.stdout.text.String())
	}
	res, err := client.Get(s.url + "/api/config")
	must(t, err)
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	var answer struct {
		ICE []struct {
			URLs                 []string
			Username, Credential string
		} `json:"ice_servers"`
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.ICE) != 1 || answer.ICE[0].URLs[0] != "turn:turn.example.org:3478" || len(answer.ICE[0].Credential) != 28 {
		t.Errorf("status %d, %s, %v", res.StatusCode, body, err)
	}
	if strings.Contains(string(body), "shared") {
		t.Error("the secret is revealed")
	}
	figures, err := client.Get(s.url + "/metrics")
	must(t, err)
	defer func() { _ = figures.Body.Close() }()
	if text, err := io.ReadAll(figures.Body); err != nil || !strings.Contains(string(text), `voicebridge_certificate_not_after_seconds{domain="127.0.0.1"} `) {
		t.Errorf("the end of the certificate is not among the metrics: %v", err)
	}
	// Doctor finds the running server over https.
	address := strings.TrimPrefix(s.url, "https://")
	if _, report, _ := runCommand(t, append(environ, "VOICEBRIDGE_LISTEN="+address), "doctor"); !strings.Contains(report, "ok: web address: a voicebridge is already running on "+address) {
		t.Errorf("doctor says\n%s", report)
	}
	s.terminate()
	code, _, stderr := runCommand(t, append(environ, "VOICEBRIDGE_TLS__KEY_FILE="+filepath.Join(t.TempDir(), "none.pem")))
	if code != 1 || !strings.Contains(stderr, "none.pem") {
		t.Errorf("without a key: code %d, %s", code, stderr)
	}
}
