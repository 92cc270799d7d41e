package wsserver

import (
	"encoding/json"
	"strings"

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
var sides = []string{"audio.input.format", "audio.output.format"}

// formatOf returns the format that a session asks for, fallback if it asks for none. ok is false for one that there is
// not.
func formatOf(session json.RawMessage, side string, fallback media.Format) (format media.Format, ok bool) {
	raw := realtime.Member(session, strings.Split(side, ".")...)
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

// reformat returns sound in another format.
func reformat(sound []byte, from, to media.Format) []byte {
	samples := from.Encoding.Decode(nil, sound)
	if r, err := pcm.NewResampler(from.Rate, to.Rate); err == nil {
		samples = r.Process(samples)
	}
	return to.Encoding.Append(nil, samples)
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

// withFormats returns an event whose session or response says the formats of this connection. The event is the same
// if it does so already.
func withFormats(ev realtime.Event, in, out media.Format) []byte {
	object, name := ev.Session, "session"
	paths, wanted := sides, []media.Format{in, out}
	if object == nil {
		object, name = ev.Response, "response"
		paths, wanted = sides[1:], wanted[1:]
	}

	same := true
	for i, path := range paths {
		says, ok := formatOf(object, path, linear)
		same = same && ok && says == wanted[i]
	}
	if same {
		return ev.Raw
	}
	tree := realtime.Tree(ev.Raw)
	for i, path := range paths {
		realtime.Put(tree, name+"."+path, nameOf(wanted[i]))
	}
	return realtime.Encode(tree)
}
