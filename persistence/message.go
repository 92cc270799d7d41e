package persistence

import "voicebridge/thread"

// The limits of what can be stored; exceeding one is ErrInvalid.
const (
	// MaxTitleBytes is the size of a thread's title, in bytes.
	MaxTitleBytes = 2000

	maxMetadataBytes = 256 << 10
)

// checkKey returns ErrNotFound if the key cannot name a thread: the database's error would be less
// clear.
func checkKey(k thread.Key) error {
	if !thread.ValidID(k.Owner) || !thread.ValidID(k.Thread) {
		return ErrNotFound
	}
	return nil
}
