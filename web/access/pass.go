package access

import (
	"bytes"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"
)

// passLife is how long a pass is good: it is used at once.
const passLife = 15 * time.Second

// Pass says, in place of what the client has shown, who sends a request that one process passes on to another.
type Pass struct {
	Owner string `json:"owner"`
	Name  string `json:"name,omitempty"`
	// Thread is the only one that a client secret opens; nil for those who showed none.
	Thread  *string `json:"thread,omitempty"`
	Program bool    `json:"program,omitempty"`
	Static  bool    `json:"static,omitempty"`
	// IP is the client's address.
	IP string `json:"ip,omitempty"`
	// Why is for requests that a process makes by itself; empty for those of clients.
	Why string `json:"why,omitempty"`

	// What it is good for: one request to one instance, once and until then.
	To      string    `json:"to"`
	Until   time.Time `json:"until"`
	Request string    `json:"request"` // method, path and query
	Body    []byte    `json:"body"`    // SHA-256
}

// Pass returns what another process is told of a client.
func (i Identity) Pass(ip string) Pass {
	p := Pass{Owner: i.Owner, Name: i.Name, Program: i.program, Static: i.static, IP: ip}
	if i.Secret != nil {
		p.Thread = &i.Secret.Thread
	}
	return p
}

// Identity returns who has sent the request. A client secret is known by its thread only.
func (p Pass) Identity() Identity {
	who := Identity{Owner: p.Owner, Name: p.Name, program: p.Program, static: p.Static}
	if p.Thread != nil {
		who.Secret = &ClientSecret{Owner: p.Owner, Thread: *p.Thread}
	}
	return who
}

// Passes signs and reads passes. It is safe for concurrent use.
type Passes struct {
	key []byte
	now func() time.Time // the database's, which all processes share

	mu   sync.Mutex
	used map[string]time.Time // signatures, and until when the passes would be good
}

// NewPasses derives the key from the secret that the processes of a database share.
func NewPasses(secret Secret, now func() time.Time) (*Passes, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret.Reveal()), nil, "voicebridge pass", sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive key: %w", err)
	}
	return &Passes{key: key, now: now, used: map[string]time.Time{}}, nil
}

// Sign returns the pass as a header's value. request is the method with the path and the query that the instance gets.
func (p *Passes) Sign(pass Pass, instance, request string, body []byte) string {
	sum := sha256.Sum256(body)
	pass.To, pass.Request, pass.Body, pass.Until = instance, request, sum[:], p.now().Add(passLife)
	claims, _ := json.Marshal(pass) // texts, bytes and a time
	text := base64.RawURLEncoding.EncodeToString(claims)
	return text + "." + base64.RawURLEncoding.EncodeToString(p.mac(text))
}

func (p *Passes) mac(text string) []byte {
	h := hmac.New(sha256.New, p.key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

var errPass = errors.New("the pass is not signed here, or for something else, or was used")

// Read returns the pass of a request to an instance. Reading the body fails at its end if it is not that of the pass.
func (p *Passes) Read(header string, r *http.Request, instance string) (pass Pass, err error) {
	text, signature, _ := strings.Cut(header, ".")
	mac, err := base64.RawURLEncoding.DecodeString(signature)
	if err != nil || !hmac.Equal(mac, p.mac(text)) {
		return pass, errPass
	}
	claims, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(claims, &pass)
	}
	if err != nil || pass.To != instance || pass.Request != r.Method+" "+r.URL.RequestURI() || !p.use(mac, pass.Until) {
		return pass, errPass
	}
	r.Body = &passedBody{r.Body, sha256.New(), pass.Body}
	return pass, nil
}

// use reports whether a pass is still good, and was not used before.
func (p *Passes) use(mac []byte, until time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	maps.DeleteFunc(p.used, func(_ string, until time.Time) bool { return until.Before(now) })
	_, used := p.used[string(mac)]
	p.used[string(mac)] = until
	return !used && !until.Before(now)
}

// passedBody is a body that must have a hash.
type passedBody struct {
	io.ReadCloser

	read hash.Hash
	want []byte
}

func (b *passedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	_, _ = b.read.Write(p[:n])
	if errors.Is(err, io.EOF) && !bytes.Equal(b.read.Sum(nil), b.want) {
		err = errPass
	}
	return n, err
}
