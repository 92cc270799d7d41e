package access

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// asymmetricMethods are the signatures that a JWKS key can verify. HMAC is not among them: a public
// key must never be taken for a shared secret.
var asymmetricMethods = []string{
	"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
}

// errUnknownKey means that no key of a set can have signed a token.
var errUnknownKey = errors.New("unknown key")

const (
	keysRefresh = time.Hour // keys are refreshed after this
	// keysStale is after how long without a try to refresh them tokens wait for one, so that a removed key does not
	// live on. While the server of the keys fails, those that are known stay good.
	keysStale    = 2 * time.Hour
	keysRetry    = 10 * time.Second // how often to fetch on average at most, whatever keys tokens name,
	keysBurst    = 5                // and how often at once: keys may change right after a fetch
	keysTimeout  = 10 * time.Second
	maxKeysBytes = 1 << 20
	minRSABits   = 2048
)

// keySet is a cached JSON Web Key Set (RFC 7517). Only tokens that none of its keys verifies wait for a fetch,
// or all tokens once the keys are stale. It is safe for concurrent use.
type keySet struct {
	url     string
	http    *http.Client
	now     func() time.Time
	fetches singleflight.Group
	limit   *rate.Limiter

	mu      sync.Mutex
	keys    []jwkset.JWK
	fetched time.Time // the last success
	tried   time.Time // the end of the last try
	failure error     // of the last try
}

func newKeySet(url string, client *http.Client, now func() time.Time) *keySet {
	return &keySet{
		url: url, http: cmp.Or(client, keysClient), now: now, failure: errors.New("fetch keys: not tried yet"),
		limit: rate.NewLimiter(rate.Every(keysRetry), keysBurst),
	}
}

// of returns the keys that may have signed the token: those with the id that it names or, if it names none, the only
// one. Several keys may have one id (RFC 7517, section 4.5).
func (k *keySet) of(t *jwt.Token) (jwt.VerificationKeySet, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var set jwt.VerificationKeySet
	id, named := t.Header["kid"]
	for _, key := range k.keys {
		m := key.Marshal()
		if (m.KID == id || !named && len(k.keys) == 1) && (m.ALG == "" || m.ALG.String() == t.Method.Alg()) {
			set.Keys = append(set.Keys, key.Key())
		}
	}
	if len(set.Keys) == 0 {
		return set, errUnknownKey
	}
	return set, nil
}

// renew fetches the keys if that is due. It waits, and returns true, if no key has verified a token, or if the keys are
// stale.
func (k *keySet) renew(ctx context.Context, unverified bool) (waited bool) {
	now := k.now()
	k.mu.Lock()
	due, stale := now.Sub(k.fetched) > keysRefresh, now.Sub(k.tried) > keysStale
	k.mu.Unlock()
	if !due && !unverified {
		return false
	}
	done := k.fetches.DoChan("", func() (any, error) { k.fetch(); return nil, nil })
	if !stale && !unverified {
		return false
	}
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}

// unavailable returns why the keys may have changed since they were fetched, nil if they have not.
func (k *keySet) unavailable() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failure
}

// fetch fetches the keys, unless it was done too often. It is not cancelled with the request that started it, because
// others wait for it.
func (k *keySet) fetch() {
	if !k.limit.AllowN(k.now(), 1) {
		return
	}
	keys, err := fetchKeys(context.Background(), k.http, k.url)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.tried, k.failure = k.now(), err; err == nil {
		k.keys, k.fetched = keys, k.tried
	}
}

// keysClient fetches keys.
var keysClient = &http.Client{CheckRedirect: func(r *http.Request, before []*http.Request) error {
	switch {
	case before[0].URL.Scheme == "https" && r.URL.Scheme != "https":
		return errors.New("it redirects to an address that is not https")
	case len(before) > 5:
		return errors.New("it redirects too often")
	}
	return nil
}}

// CheckKeys returns why the keys at an address could verify no JWT; nil if they can be used.
func CheckKeys(ctx context.Context, url string) error {
	_, err := fetchKeys(ctx, keysClient, url)
	return err
}

func fetchKeys(ctx context.Context, client *http.Client, url string) ([]jwkset.JWK, error) {
	ctx, cancel := context.WithTimeout(ctx, keysTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch keys: status %d", res.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxKeysBytes+1))
	if err != nil {
		return nil, fmt.Errorf("fetch keys: %w", err)
	}
	if len(body) > maxKeysBytes {
		return nil, fmt.Errorf("fetch keys: more than %d bytes", maxKeysBytes)
	}
	return parseKeys(body)
}

// parseKeys reads a key set. It ignores keys that are of unknown kinds, for encryption, weak or
// malformed (RFC 7517, section 5).
func parseKeys(body []byte) ([]jwkset.JWK, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &set); err != nil {
		return nil, fmt.Errorf("parse keys: %w", err)
	}
	var out []jwkset.JWK
	for _, raw := range set.Keys {
		var m jwkset.JWKMarshal
		if json.Unmarshal(raw, &m) != nil || m.USE != "" && m.USE != jwkset.UseSig {
			continue
		}
		if key, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{},
			jwkset.JWKValidateOptions{}); err == nil && isStrong(key.Key()) {
			out = append(out, key)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("parse keys: no usable key")
	}
	return out, nil
}

// isStrong reports whether a public key may verify tokens.
func isStrong(key any) bool {
	switch k := key.(type) {
	case *rsa.PublicKey:
		return k.N.BitLen() >= minRSABits && k.E >= 3
	case *ecdsa.PublicKey:
		_, err := k.Bytes() // which checks that the point is on the curve
		return err == nil
	case ed25519.PublicKey:
		return len(k) == ed25519.PublicKeySize
	default:
		return false
	}
}
