package simulator

import (
	"crypto/rand"
	"encoding/base64"
)

// newID returns a random id such as item_1f3Kd…, with 20 characters after the prefix: ids of items and calls have at
// most 32.
func newID(prefix string) string {
	var b [15]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}
