package realtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	if len(d.wrong) > 0 {
		return Event{
			Type: d.ev.Type, EventID: d.ev.EventID, Raw: raw,
			Malformed: fmt.Errorf("decode event %s: field %s has an unexpected type", d.ev.Type, d.wrong[0]),
		}, nil
	}
	return d.ev, nil
}

// decoder fills an Event. wrong names the known fields whose last value had the wrong type.
type decoder struct {
	ev    Event
	wrong []string
}

// field returns where the value of a known field goes, but for its type; nil for others.
func (e *Event) field(key string) any {
	switch key {
	case "event_id":
		return &e.EventID
	case "item_id":
		return &e.ItemID
	case "previous_item_id":
		return &e.PreviousItemID
	case "response_id":
		return &e.ResponseID
	case "call_id":
		return &e.CallID
	case "name":
		return &e.Name
	case "delta":
		return &e.Delta
	case "transcript":
		return &e.Transcript
	case "text":
		return &e.Text
	case "content_index":
		return &e.ContentIndex
	case "audio_start_ms":
		return &e.AudioStartMS
	case "audio_end_ms":
		return &e.AudioEndMS
	case "item":
		return &e.Item
	case "response":
		return &e.Response
	case "session":
		return &e.Session
	case "usage":
		return &e.Usage
	case "part":
		return &e.Part
	case "error":
		return &e.Error
	}
	return nil
}

// keep stores a value, which is JSON text. It returns no error.
func (d *decoder) keep(key string, val []byte) error {
	switch dst := d.ev.field(key); {
	case key == "type":
		// A type that is not a string leaves the event without one, which is reported as ErrNoType, never as a
		// malformed field.
		store(&d.ev.Type, val)
	case dst != nil:
		d.ev.HasPrevious = d.ev.HasPrevious || key == "previous_item_id"
		d.wrong = slices.DeleteFunc(d.wrong, func(name string) bool { return name == key })
		if !store(dst, val) {
			d.wrong = append(d.wrong, key)
		}
	}
	return nil
}

// store stores a value, which is JSON text, and reports whether it was null or of the type of its field.
func store(dst any, val []byte) bool {
	switch dst := dst.(type) {
	case *string:
		*dst = ""
		if val[0] == '"' {
			*dst = unquoted(val)
			return true
		}
	case *int:
		return setInt(dst, val)
	case *int64:
		return setInt(dst, val)
	case *json.RawMessage:
		*dst = nil
		if val[0] == '{' {
			*dst = val
			return true
		}
	case **Error:
		*dst = nil
		if val[0] == '"' || val[0] == '{' {
			*dst = new(Error)
			return json.Unmarshal(val, *dst) == nil
		}
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
