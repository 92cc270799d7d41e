package simulator

import (
	"crypto/rand"
	"encoding/base64"
)

// newID is a random id such as item_1f3Kd…, 24 characters after the prefix at
// most: ids of items and calls must fit into 32.
func newID(prefix string) string {
	var b [15]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}
