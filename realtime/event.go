package realtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// ErrNoType means that the object has no string "type".
var ErrNoType = errors.New("event has no type")

// Event is one event of either direction: the union of the fields in use, each zero where the event has none. Raw holds
// the original bytes, which a relay forwards instead of re-encoding the Event.
type Event struct {
	Type    string
	EventID string

	ItemID string
	// PreviousItemID is the item before this one. HasPrevious tells an explicit null (no item comes before,
	// PreviousItemID is empty) from a missing field.
	PreviousItemID string
	HasPrevious    bool
	ResponseID     string
	CallID         string
	Name           string
	Delta          string
	Transcript     string
	Text           string

	ContentIndex int
	AudioStartMS int64 // milliseconds of input audio since the session began
	AudioEndMS   int64 // milliseconds of input audio, or of the item's own audio

	Item     json.RawMessage // an object or nil
	Response json.RawMessage // an object or nil
	Session  json.RawMessage // an object or nil
	Usage    json.RawMessage // an object or nil
	Part     json.RawMessage // an object or nil

	// Error is the "error" object of an error event or of a failed
	// transcription.
	Error *Error

	// Raw is what was passed to Decode. The RawMessage fields alias it.
	Raw []byte

	// Malformed is set when a known field had an unexpected JSON type. Then only Type, EventID and Raw are set as well.
	Malformed error
}

// Decode reads one event in one pass. It keeps raw (it does not copy it), so the caller must not change the slice
// afterwards.
//
// It is tolerant: unknown types and fields are accepted, null is the same as a missing field, and a known field of the
// wrong JSON type is reported in Event.Malformed. Keys are compared exactly; of duplicate keys the last wins. Errors:
// ErrNotJSON, ErrNoType, ErrTooDeep. It never panics.
func Decode(raw []byte) (Event, error) {
	d := decoder{ev: Event{Raw: raw}}
	if err := entries(raw, '{', d.keep); err != nil {
		return Event{}, err
	}
	if d.ev.Type == "" {
		return Event{}, ErrNoType
	}
	if d.wrong != 0 {
		return Event{
			Type: d.ev.Type, EventID: d.ev.EventID, Raw: raw,
			Malformed: fmt.Errorf("decode event %s: field %s has an unexpected type", d.ev.Type, d.firstWrong()),
		}, nil
	}
	return d.ev, nil
}

// decoder fills an Event. wrong has one bit for each known field, set if its last value had the wrong
// type.
type decoder struct {
	ev    Event
	wrong uint32
}

// fieldNames lists the known fields; the index is the bit in decoder.wrong.
var fieldNames = [...]string{
	"type", "event_id", "item_id", "previous_item_id", "response_id", "call_id", "name",
	"delta", "transcript", "text", "content_index", "audio_start_ms", "audio_end_ms",
	"item", "response", "session", "usage", "part", "error",
}

func (d *decoder) firstWrong() string {
	for i, name := range fieldNames {
		if d.wrong&(1<<i) != 0 {
			return name
		}
	}
	return ""
}

// keep stores a value, which is JSON text. It returns no error.
func (d *decoder) keep(key string, val []byte) error {
	var field int
	ok := true
	switch key {
	case "type":
		// A type that is not a string leaves the event without one, which is reported as ErrNoType, never as a
		// malformed field.
		d.ev.Type = ""
		if val[0] == '"' {
			d.ev.Type = unquoted(val)
		}
	case "event_id":
		field, ok = 1, setString(&d.ev.EventID, val)
	case "item_id":
		field, ok = 2, setString(&d.ev.ItemID, val)
	case "previous_item_id":
		d.ev.HasPrevious = true
		field, ok = 3, setString(&d.ev.PreviousItemID, val)
	case "response_id":
		field, ok = 4, setString(&d.ev.ResponseID, val)
	case "call_id":
		field, ok = 5, setString(&d.ev.CallID, val)
	case "name":
		field, ok = 6, setString(&d.ev.Name, val)
	case "delta":
		field, ok = 7, setString(&d.ev.Delta, val)
	case "transcript":
		field, ok = 8, setString(&d.ev.Transcript, val)
	case "text":
		field, ok = 9, setString(&d.ev.Text, val)
	case "content_index":
		field, ok = 10, setInt(&d.ev.ContentIndex, val)
	case "audio_start_ms":
		field, ok = 11, setInt(&d.ev.AudioStartMS, val)
	case "audio_end_ms":
		field, ok = 12, setInt(&d.ev.AudioEndMS, val)
	case "item":
		field, ok = 13, setObject(&d.ev.Item, val)
	case "response":
		field, ok = 14, setObject(&d.ev.Response, val)
	case "session":
		field, ok = 15, setObject(&d.ev.Session, val)
	case "usage":
		field, ok = 16, setObject(&d.ev.Usage, val)
	case "part":
		field, ok = 17, setObject(&d.ev.Part, val)
	case "error":
		field, ok = 18, setError(&d.ev.Error, val)
	default:
		return nil
	}
	if ok {
		d.wrong &^= 1 << field
	} else {
		d.wrong |= 1 << field
	}
	return nil
}

func setString(dst *string, val []byte) bool {
	*dst = ""
	if val[0] == '"' {
		*dst = unquoted(val)
		return true
	}
	return isNull(val)
}

// setInt accepts whole numbers. It truncates fractions, because some servers compute milliseconds as floating point.
func setInt[T int | int64](dst *T, val []byte) bool {
	*dst = 0
	if isNull(val) {
		return true
	}
	if n, err := strconv.ParseInt(string(val), 10, 64); err == nil {
		*dst = T(n)
		return true
	}
	f, err := strconv.ParseFloat(string(val), 64)
	if err != nil || f > 1<<53 || f < -(1<<53) {
		return false
	}
	*dst = T(f)
	return true
}

func setObject(dst *json.RawMessage, val []byte) bool {
	*dst = nil
	if val[0] == '{' {
		*dst = json.RawMessage(val)
		return true
	}
	return isNull(val)
}

func setError(dst **Error, val []byte) bool {
	*dst = nil
	switch {
	case isNull(val):
		return true
	case val[0] == '"' || val[0] == '{':
		e := new(Error)
		if err := json.Unmarshal(val, e); err != nil {
			return false
		}
		*dst = e
		return true
	}
	return false
}
