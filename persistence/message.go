package persistence

import (
	"voicebridge/persistence/internal/database"
	"voicebridge/thread"
)

// The limits of what can be stored; exceeding one is ErrInvalid.
const (
	// MaxTitleBytes is the size of a thread's title, in bytes.
	MaxTitleBytes = 2000

	maxMetadataBytes = 256 << 10
)

func checkKey(k thread.Key) error { return database.CheckKey(k) }
