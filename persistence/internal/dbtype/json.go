package dbtype

import (
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"strconv"
)

// JSON is a JSON document; nil is NULL.
type JSON json.RawMessage

// Value returns the document as text: drivers store bytes as BLOBs in SQLite, which its JSON
// functions do not read as text.
func (j JSON) Value() (driver.Value, error) {
	if j == nil {
		return nil, nil
	}
	return string(j), nil
}

// Scan reads the value of either driver. SQLite turns a bare number into a number (its JSON columns
// have NUMERIC affinity).
func (j *JSON) Scan(src any) error {
	switch v := src.(type) {
	case nil:
		*j = nil
	case string:
		*j = JSON(v)
	case []byte:
		*j = append(JSON{}, v...)
	case int64:
		*j = strconv.AppendInt(nil, v, 10)
	case float64:
		*j = strconv.AppendFloat(nil, v, 'g', -1, 64)
	default:
		return fmt.Errorf("read JSON: %T is not a document", src)
	}
	return nil
}
