package wsserver

import (
	"bytes"
	"encoding/json"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
)

// linear is the format of sound unless the client asks for another one.
var linear = media.Format{Rate: 24_000}

// formats are those of the API, by their names.
var formats = map[string]media.Format{
	"audio/pcm": linear, "audio/pcmu": {Rate: 8000, Encoding: pcm.ULaw}, "audio/pcma": {Rate: 8000, Encoding: pcm.ALaw},
}

// sides are the paths of the formats in a session.
var sides = [][]string{{"audio", "input", "format"}, {"audio", "output", "format"}}

// formatOf returns the format that a session asks for, fallback if it asks for none. ok is false for one that there is
// not.
func formatOf(session json.RawMessage, side []string, fallback media.Format) (format media.Format, ok bool) {
	raw := realtime.Member(session, side...)
	if raw == nil || string(raw) == "null" {
		return fallback, true
	}
	var wanted struct {
		Type string `json:"type"`
		Rate int    `json:"rate"`
	}
	if json.Unmarshal(raw, &wanted) != nil {
		return fallback, false
	}
	format, ok = formats[wanted.Type]
	return format, ok && (wanted.Rate == 0 || wanted.Rate == format.Rate)
}

// nameOf returns a format as sessions name it.
func nameOf(format media.Format) json.RawMessage {
	if format == linear {
		return json.RawMessage(`{"type":"audio/pcm","rate":24000}`)
	}
	for name, f := range formats {
		if f == format {
			return json.RawMessage(`{"type":"` + name + `"}`)
		}
	}
	return nil
}

// withFormats returns an event whose session says the formats of this connection.
func withFormats(event []byte, formats ...media.Format) []byte {
	var tree map[string]any
	d := json.NewDecoder(bytes.NewReader(event))
	d.UseNumber()
	if d.Decode(&tree) != nil {
		return event
	}
	session, ok := tree["session"].(map[string]any)
	if !ok {
		return event
	}
	for i, path := range sides {
		at := session
		for _, name := range path[:len(path)-1] {
			next, ok := at[name].(map[string]any)
			if !ok {
				next = make(map[string]any)
				at[name] = next
			}
			at = next
		}
		at[path[len(path)-1]] = nameOf(formats[i])
	}
	changed, err := json.Marshal(tree)
	if err != nil {
		return event
	}
	return changed
}
