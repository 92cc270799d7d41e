package signin

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// What is sealed.
const (
	aboutGrant  = "grant"
	aboutSignIn = "sign-in"
	aboutClient = "client"
)

var errSeal = errors.New("what is sealed cannot be opened")

// seal encrypts what the database keeps (AES-256-GCM), and binds it to what it is about, so that no row can take
// another's place.
type seal struct{ aead cipher.AEAD }

func newSeal(secret string) (seal, error) {
	key, err := hkdf.Key(sha256.New, []byte(secret), nil, "voicebridge mcp grants", 32)
	if err != nil {
		return seal{}, fmt.Errorf("derive key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return seal{}, fmt.Errorf("make cipher: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return seal{}, fmt.Errorf("make cipher: %w", err)
	}
	return seal{aead}, nil
}

func (s seal) close(v any, about ...string) string {
	return base64.RawStdEncoding.EncodeToString(s.aead.Seal(nil, nil, encode(v), label(about)))
}

func (s seal) open(sealed string, v any, about ...string) error {
	data, err := base64.RawStdEncoding.DecodeString(sealed)
	if err != nil {
		return errSeal
	}
	plain, err := s.aead.Open(nil, nil, data, label(about))
	if err != nil || json.Unmarshal(plain, v) != nil {
		return errSeal
	}
	return nil
}

// label joins what something is about; no part contains a NUL.
func label(about []string) []byte { return []byte(strings.Join(about, "\x00")) }

// hashed returns the hash of a text that is itself random.
func hashed(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic("encode: " + err.Error()) // only texts and times
	}
	return data
}
