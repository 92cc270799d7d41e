package bridge

import (
	crand "crypto/rand"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"
)

// callIDs returns a function that makes the ids of a call's messages and records. Like those of persistence.NewID they
// are UUIDs of version 7, but a function of the time and of a number that differs for each of them.
func callIDs() func(now time.Time, n int) string {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // it never fails
	return func(now time.Time, n int) string {
		own := seed
		binary.BigEndian.PutUint64(own[24:], uint64(n)) //nolint:gosec // any number will do
		var id [16]byte
		_, _ = rand.NewChaCha8(own).Read(id[8:])                                               // it never fails
		binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16|0x7000|uint64(n&0xfff)) //nolint:gosec // after 1970
		id[8] = id[8]&0x3f | 0x80
		return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
	}
}
