package access

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"sync"
	"time"
)

// asymmetricMethods are the signatures that a key of a JWKS can verify. HMAC is
// not among them: a public key must never be taken for a shared secret.
var asymmetricMethods = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

var (
	errKeysUnavailable = errors.New("keys unavailable")
	errUnknownKey      = errors.New("unknown key")
)

const (
	keysFresh    = time.Hour        // keys are fetched again after this
	keysRetry    = 30 * time.Second // and, for a key that is not known, not more often than this
	keysTimeout  = 10 * time.Second
	maxKeysBytes = 1 << 20
	minRSABits   = 2048
)

// keySet is a cached JSON Web Key Set (RFC 7517). Safe for concurrent use.
type keySet struct {
	url  string
	http *http.Client
	now  func() time.Time

	mu      sync.Mutex // held while fetching: one fetch serves all who wait
	keys    map[string]webKey
	fetched time.Time
	tried   time.Time
}

type webKey struct {
	public crypto.PublicKey
	alg    string // the only algorithm the key is for, or empty
}

func newKeySet(url string, client *http.Client, now func() time.Time) *keySet {
	if client == nil {
		client = &http.Client{Timeout: keysTimeout}
	}
	return &keySet{url: url, http: client, now: now}
}

// key returns the public key with the given id for the given algorithm. Without
// an id the set must hold exactly one key.
func (k *keySet) key(ctx context.Context, id, alg string) (crypto.PublicKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	key, ok := k.find(id)
	now := k.now()
	if (!ok || now.Sub(k.fetched) > keysFresh) && now.Sub(k.tried) > keysRetry {
		if err := k.fetch(ctx, now); err != nil && !ok {
			return nil, fmt.Errorf("%w: %w", errKeysUnavailable, err)
		}
		key, ok = k.find(id)
	}
	switch {
	case !ok && k.fetched.IsZero():
		return nil, errKeysUnavailable
	case !ok, !key.fits(alg):
		return nil, errUnknownKey
	}
	return key.public, nil
}

func (k *keySet) find(id string) (webKey, bool) {
	if id == "" && len(k.keys) == 1 {
		for _, key := range k.keys {
			return key, true
		}
	}
	key, ok := k.keys[id]
	return key, ok
}

// fits reports whether the key can be used with the algorithm.
func (w webKey) fits(alg string) bool {
	if w.alg != "" && w.alg != alg {
		return false
	}
	switch w.public.(type) {
	case *rsa.PublicKey:
		return strings.HasPrefix(alg, "RS") || strings.HasPrefix(alg, "PS")
	case *ecdsa.PublicKey:
		return strings.HasPrefix(alg, "ES")
	case ed25519.PublicKey:
		return alg == "EdDSA"
	default:
		return false
	}
}

func (k *keySet) fetch(ctx context.Context, now time.Time) error {
	k.tried = now
	// Not cancelled with the request that happens to ask: others wait for it.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keysTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return fmt.Errorf("fetch keys: %w", err)
	}
	res, err := k.http.Do(req)
	if err != nil {
		return fmt.Errorf("fetch keys: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("fetch keys: status %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeysBytes))
	if err != nil {
		return fmt.Errorf("fetch keys: %w", err)
	}
	keys, err := parseKeys(body)
	if err != nil {
		return err
	}
	k.keys, k.fetched = keys, now
	return nil
}

type jsonWebKey struct {
	Kty string `json:"kty"`
	Kid string `json:"kid"`
	Use string `json:"use"`
	Alg string `json:"alg"`
	Crv string `json:"crv"`
	N   string `json:"n"`
	E   string `json:"e"`
	X   string `json:"x"`
	Y   string `json:"y"`
}

// parseKeys reads a key set. Keys of kinds that are not known, for encryption or
// malformed are left out (RFC 7517, section 5).
func parseKeys(body []byte) (map[string]webKey, error) {
	var set struct {
		Keys []jsonWebKey `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("parse keys: %w", err)
	}
	out := make(map[string]webKey, len(set.Keys))
	for _, j := range set.Keys {
		if j.Use != "" && j.Use != "sig" {
			continue
		}
		if public, err := j.public(); err == nil {
			out[j.Kid] = webKey{public, j.Alg}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("parse keys: no usable key")
	}
	return out, nil
}

func (j jsonWebKey) public() (crypto.PublicKey, error) {
	switch j.Kty {
	case "RSA":
		return j.rsa()
	case "EC":
		return j.ec()
	case "OKP":
		x, err := base64.RawURLEncoding.DecodeString(j.X)
		if err != nil || j.Crv != "Ed25519" || len(x) != ed25519.PublicKeySize {
			return nil, errUnknownKey
		}
		return ed25519.PublicKey(x), nil
	default:
		return nil, errUnknownKey
	}
}

func (j jsonWebKey) rsa() (*rsa.PublicKey, error) {
	n, errN := base64.RawURLEncoding.DecodeString(j.N)
	e, errE := base64.RawURLEncoding.DecodeString(j.E)
	if err := errors.Join(errN, errE); err != nil {
		return nil, err
	}
	exponent := new(big.Int).SetBytes(e)
	key := &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}
	if len(e) > 4 || key.E < 3 || key.N.BitLen() < minRSABits {
		return nil, errUnknownKey
	}
	return key, nil
}

func (j jsonWebKey) ec() (*ecdsa.PublicKey, error) {
	var curve elliptic.Curve
	switch j.Crv {
	case "P-256":
		curve = elliptic.P256()
	case "P-384":
		curve = elliptic.P384()
	case "P-521":
		curve = elliptic.P521()
	default:
		return nil, errUnknownKey
	}
	x, errX := base64.RawURLEncoding.DecodeString(j.X)
	y, errY := base64.RawURLEncoding.DecodeString(j.Y)
	if err := errors.Join(errX, errY); err != nil {
		return nil, err
	}
	size := (curve.Params().BitSize + 7) / 8
	if len(x) != size || len(y) != size {
		return nil, errUnknownKey
	}
	// The uncompressed form of SEC 1; parsing checks that the point is on the curve.
	return ecdsa.ParseUncompressedPublicKey(curve, append(append([]byte{4}, x...), y...))
}
