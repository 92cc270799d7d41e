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
	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"
)

// asymmetricMethods are the signatures that a JWKS key can verify. HMAC is not among them: a public
// key must never be taken for a shared secret.
var asymmetricMethods = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

var (
	errKeysUnavailable = errors.New("keys unavailable")
	errUnknownKey      = errors.New("unknown key")
)

const (
	keysRefresh  = time.Hour        // keys are refreshed after this
	keysStale    = 2 * time.Hour    // and tokens wait for a refresh if none was tried for this, so that a removed key does not live on
	keysRetry    = 10 * time.Second // how often to fetch on average at most, whatever keys tokens name,
	keysBurst    = 5                // and how often at once: keys may change right after a fetch
	keysTimeout  = 10 * time.Second
	maxKeysBytes = 1 << 20
	minRSABits   = 2048
)

// keySet is a cached JSON Web Key Set (RFC 7517). Only tokens with an unknown key wait for a fetch,
// or all tokens once the keys are stale. It is safe for concurrent use.
type keySet struct {
	url     string
	http    *http.Client
	now     func() time.Time
	storage jwkset.Storage
	choose  keyfunc.Keyfunc
	fetches singleflight.Group
	limit   *rate.Limiter

	mu      sync.Mutex
	fetched time.Time // the last success
	tried   time.Time // the end of the last try
}

func newKeySet(url string, client *http.Client, now func() time.Time) (*keySet, error) {
	storage := jwkset.NewMemoryStorage()
	choose, err := keyfunc.New(keyfunc.Options{Storage: storage})
	if err != nil {
		return nil, fmt.Errorf("make key set: %w", err)
	}
	return &keySet{
		url: url, http: cmp.Or(client, &http.Client{Timeout: keysTimeout}), now: now, storage: storage, choose: choose,
		limit: rate.NewLimiter(rate.Every(keysRetry), keysBurst),
	}, nil
}

// key returns the public key that verifies the token.
func (k *keySet) key(ctx context.Context, t *jwt.Token) (any, error) {
	key, err := k.find(ctx, t)
	if fetch, wait := k.due(errors.Is(err, jwkset.ErrKeyNotFound)); fetch {
		done := k.fetches.DoChan("", func() (any, error) { return nil, k.fetch() })
		if wait {
			select {
			case <-done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			key, err = k.find(ctx, t)
		}
	}
	if err == nil {
		return key, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetched.IsZero() || k.tried.After(k.fetched) {
		return nil, errKeysUnavailable // it may be a new key
	}
	return nil, errUnknownKey
}

// find returns the key that the token names or, if it names none, the only one; jwkset.ErrKeyNotFound without it.
func (k *keySet) find(ctx context.Context, t *jwt.Token) (any, error) {
	if _, named := t.Header["kid"]; !named {
		all, err := k.storage.KeyReadAll(ctx)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		if len(all) != 1 {
			return nil, jwkset.ErrKeyNotFound
		}
		t.Header["kid"] = all[0].Marshal().KID
	}
	return k.choose.KeyfuncCtx(ctx)(t)
}

// due reports whether to fetch the keys now, or to join those who do, and whether to wait for them.
func (k *keySet) due(missing bool) (fetch, wait bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.now()
	return missing || now.Sub(k.fetched) > keysRefresh, missing || now.Sub(k.tried) > keysStale
}

// fetch fetches the keys, unless it was done too often. It is not cancelled with the request that started it, because
// others wait for it.
func (k *keySet) fetch() (err error) {
	if !k.limit.AllowN(k.now(), 1) {
		return nil
	}
	defer func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.tried = k.now(); err == nil {
			k.fetched = k.tried
		}
	}()
	ctx, cancel := context.WithTimeout(context.Background(), keysTimeout)
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
	if err := k.storage.KeyReplaceAll(ctx, keys); err != nil {
		return fmt.Errorf("keep keys: %w", err)
	}
	return nil
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
		if key, err := jwkset.NewJWKFromMarshal(m, jwkset.JWKMarshalOptions{}, jwkset.JWKValidateOptions{}); err == nil && isStrong(key.Key()) {
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
