// Package dbtype holds the column types that both engines share, so that their generated structs
// are identical.
package dbtype

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// layout has a fixed width, so that text sorts by time. PostgreSQL also keeps microseconds.
const layout = "2006-01-02T15:04:05.000000Z"

// Time is a point in time, in microseconds and UTC.
type Time struct{ time.Time }

// At truncates t to what the databases keep.
func At(t time.Time) Time { return Time{t.UTC().Truncate(time.Microsecond)} }

// AtPtr is At for columns that may be NULL.
func AtPtr(t *time.Time) *Time {
	if t == nil {
		return nil
	}
	return new(At(*t))
}

// Ptr converts back from a column that may be NULL.
func (t *Time) Ptr() *time.Time {
	if t == nil {
		return nil
	}
	return new(t.Time)
}

// Value writes the time as text, which SQLite stores and PostgreSQL parses.
func (t Time) Value() (driver.Value, error) {
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return nil, fmt.Errorf("write time: year %d does not fit", y)
	}
	return t.UTC().Format(layout), nil
}

// Scan reads the value of either driver.
func (t *Time) Scan(src any) error {
	switch v := src.(type) {
	case time.Time:
		*t = At(v)
		return nil
	case string:
		return t.parse(v)
	case []byte:
		return t.parse(string(v))
	}
	return fmt.Errorf("read time: %T is not a time", src)
}

func (t *Time) parse(s string) error {
	v, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return fmt.Errorf("read time: %w", err)
	}
	*t = At(v)
	return nil
}
