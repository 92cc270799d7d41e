// Package webhook signs what is posted to others, as Standard Webhooks says (standardwebhooks.com, specification
// 1.0.0), so that they can tell that it comes from here and is no old request sent again.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Prefix begins each secret.
const Prefix = "whsec_"

// The specification demands keys of 24 to 64 bytes.
const (
	minKey  = 24
	maxKey  = 64
	madeKey = 32
)

// Secret is the key that the two sides share. It prints as a placeholder, even as an unexported field of a struct. The
// zero value is unset and signs nothing that anybody accepts.
type Secret struct{ key *string }

// NewSecret returns a secret made at random.
func NewSecret() Secret {
	key := make([]byte, madeKey)
	_, _ = rand.Read(key) // never fails (crypto/rand)
	return secretOf(key)
}

func secretOf(key []byte) Secret { return Secret{new(string(key))} }

func (s Secret) bytes() []byte {
	if s.key == nil {
		return nil
	}
	return []byte(*s.key)
}

// ParseSecret reads a secret of the form whsec_BASE64, or the base64 alone. Its error does not contain the secret.
func ParseSecret(text string) (Secret, error) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, Prefix))
	if err != nil {
		return Secret{}, errors.New("a secret of webhooks must be whsec_ and base64")
	}
	if len(key) < minKey || len(key) > maxKey {
		return Secret{}, fmt.Errorf("a secret of webhooks must be of %d to %d bytes, in base64", minKey, maxKey)
	}
	return secretOf(key), nil
}

// Reveal returns the secret in the form that [ParseSecret] reads.
func (s Secret) Reveal() string { return Prefix + base64.StdEncoding.EncodeToString(s.bytes()) }

// IsSet reports whether there is a secret.
func (s Secret) IsSet() bool { return s.key != nil }

// String implements [fmt.Stringer] without the secret.
func (Secret) String() string { return "(secret)" }

// GoString implements [fmt.GoStringer] without the secret.
func (Secret) GoString() string { return "(secret)" }

// Sign sets the headers that sign a body. id names the message and stays the same when it is sent again; it must not
// contain a dot.
func (s Secret) Sign(header http.Header, id string, at time.Time, body []byte) {
	timestamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, s.bytes())
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, timestamp, body) // a hash never fails
	header.Set("webhook-id", id)
	header.Set("webhook-timestamp", timestamp)
	header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
