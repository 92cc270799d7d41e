package database

import (
	"database/sql"
	"errors"
	"time"

	"github.com/google/uuid"
)

// NewID returns a UUIDv7: ids sort by time. It panics only if the system has no random numbers.
func NewID() string { return uuid.Must(uuid.NewV7()).String() }

// IsMissing reports whether a query returned no row.
func IsMissing(err error) bool { return errors.Is(err, sql.ErrNoRows) } // pgx.ErrNoRows is one too

// Rows converts the result of a query.
func Rows[From, To any](from []From, err error, convert func(From) To) ([]To, error) {
	if err != nil {
		return nil, err
	}
	to := make([]To, len(from))
	for i, r := range from {
		to[i] = convert(r)
	}
	return to, nil
}

// OrNow returns a time, or now if it is not set.
func OrNow(t, now time.Time) time.Time {
	if t.IsZero() {
		return now
	}
	return t
}
