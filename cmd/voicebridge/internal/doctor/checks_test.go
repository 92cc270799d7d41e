package doctor

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/internal/testkit"
)

// inFile writes a file in a folder of its own.
func inFile(t *testing.T, content []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(path, content, 0o600))
	return path
}

// selfSigned writes a certificate that expires at a time, and its key, and returns the settings.
func selfSigned(t *testing.T, until time.Time) (environ string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testkit.Must(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"localhost"}, NotBefore: until.AddDate(-2, 0, 0), NotAfter: until}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testkit.Must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	testkit.Must(t, err)
	return "VOICEBRIDGE_TLS__CERT_FILE=" + inFile(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})) +
		" VOICEBRIDGE_TLS__KEY_FILE=" + inFile(t, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
}

// TestChecks runs single checks on settings that a start accepts.
func TestChecks(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/keys":
			_, _ = w.Write([]byte(`{"keys":[{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}`)) // RFC 8037, A.2
		case r.URL.Path == "/weak":
			_, _ = w.Write([]byte(`{"keys":[{"kty":"RSA","n":"AQAB","e":"AQAB"}]}`))
		case r.Header.Get("Authorization") != "Bearer right":
			w.WriteHeader(http.StatusUnauthorized)
		default:
			_, _ = w.Write([]byte(`{"data":[{"id":"gpt-realtime-2.1"}]}`))
		}
	}))
	t.Cleanup(s.Close)
	const jwks = "VOICEBRIDGE_JWT_ISSUER=i VOICEBRIDGE_JWT_AUDIENCE=a VOICEBRIDGE_JWT_JWKS_URL="
	for name, c := range map[string]struct {
		environ string
		check   func(*doctor, context.Context)
		want    string // the beginning of the last line
	}{
		"no certificate": {"VOICEBRIDGE_TLS__CERT_FILE=/none VOICEBRIDGE_TLS__KEY_FILE=/none", (*doctor).microphone, "problem: microphone: the page cannot be served by https: read certificate: "},
		"a certificate":  {selfSigned(t, time.Now().AddDate(1, 0, 0)), (*doctor).microphone, "ok: microphone: browsers let the page use it, because it is served by https, until the certificate of localhost expires on 2"},
		"it has expired": {selfSigned(t, time.Now().Add(-time.Hour)), (*doctor).microphone, "problem: microphone: browsers let the page use it, because it is served by https, until"},
		"keys of JWTs":   {jwks + s.URL + "/keys", (*doctor).signIn, "ok: sign-in: " + s.URL + "/keys has the keys"},
		"no keys":        {jwks + s.URL, (*doctor).signIn, "problem: sign-in: " + s.URL + " has no keys with which JWTs could be verified: is VOICEBRIDGE_JWT_JWKS_URL right? (fetch keys: status 401)"},
		"weak keys":      {jwks + s.URL + "/weak", (*doctor).signIn, "problem: sign-in: " + s.URL + "/weak has no keys with which JWTs could be verified"},
		"no answer":      {jwks + "http://127.0.0.1:1", (*doctor).signIn, "problem: sign-in: http://127.0.0.1:1 has no keys with which JWTs could be verified"},
		"no JWTs":        {"VOICEBRIDGE_JWT_ISSUER=i", (*doctor).signIn, "warning: sign-in: no JWTs are accepted"},
		"no sign-in":     {"VOICEBRIDGE_ALLOWED_ORIGINS=https://voice.example.org", (*doctor).signIn, "warning: sign-in: without authentication, what comes through a proxy is refused"},
		"proxied media":  {"VOICEBRIDGE_ALLOWED_ORIGINS=https://voice.example.org VOICEBRIDGE_PUBLIC_IPS=203.0.113.7", (*doctor).media, "warning: media (UDP): every call takes a port of its own"},
		"local media":    {"VOICEBRIDGE_ALLOWED_ORIGINS=http://localhost:8000", (*doctor).media, "ok: media (UDP): every call takes a free port"},
		"a proxied page": {"VOICEBRIDGE_ALLOWED_ORIGINS=https://voice.example.org", (*doctor).microphone, "ok: microphone: browsers let the page use it at https://voice.example.org"},
		"a local page":   {"", (*doctor).microphone, "ok: microphone: browsers on this machine let the page use it; others cannot"},
		"a key for voice alone": {
			"VOICEBRIDGE_REALTIME_API_KEY=canary OPENAI_BASE_URL=" + s.URL, (*doctor).calls,
			"problem: voice model: " + s.URL + " refuses the key (401): is VOICEBRIDGE_REALTIME_API_KEY set",
		},
		"a key for voice elsewhere": {
			"VOICEBRIDGE_REALTIME_API_KEY=canary VOICEBRIDGE_REALTIME_URL=http://127.0.0.1:1/calls OPENAI_BASE_URL=" + s.URL, (*doctor).typing,
			"problem: typed messages by openai: " + s.URL + " refuses the key (401): is OPENAI_API_KEY set",
		},
		"another text model": {
			"OPENAI_API_KEY=right OPENAI_BASE_URL=" + s.URL, (*doctor).typing,
			"warning: typed messages by openai: " + s.URL + " answers, but does not list the model gpt-5.4-mini: if no answers come, choose another with VOICEBRIDGE_TEXT_MODEL",
		},
		"the simulator is forced": {
			"OPENAI_API_KEY=right VOICEBRIDGE_UPSTREAM=simulator VOICEBRIDGE_TEXT_MODEL=gpt-realtime-2.1 OPENAI_BASE_URL=" + s.URL, (*doctor).typing,
			"ok: typed messages by openai: " + s.URL + " answers and has the model gpt-realtime-2.1|",
		},
		"a key in an address": {
			"VOICEBRIDGE_REALTIME_API_KEY=canary VOICEBRIDGE_REALTIME_URL=http://127.0.0.1:1/calls?key=canary", (*doctor).calls,
			"problem: upstream openai: http://127.0.0.1:1/calls does not answer",
		},
		"a password in an address": {"OLLAMA_HOST=http://u:canary@127.0.0.1:1", (*doctor).typing, "problem: typed messages by ollama: http://u:xxxxx@127.0.0.1:1 does not answer"},
	} {
		cfg, err := config.Load(config.Sources{File: inFile(t, nil), Environ: strings.Fields(c.environ)})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		c.check(&doctor{cfg: cfg, report: func(f finding) { got = append(got, f.String()+"|") }}, t.Context())
		if n := len(got); n == 0 || !strings.HasPrefix(got[n-1], c.want) || strings.Contains(strings.Join(got, ""), "canary") {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
