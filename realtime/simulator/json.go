package simulator

import (
	"bytes"
	"encoding/json"
	"net/http"

	"voicebridge/realtime"
)

// object is a JSON object that is being read or written.
type object = map[string]any

// read decodes JSON and keeps numbers as they are written.
func read[T any](raw []byte) (T, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v T
	return v, dec.Decode(&v)
}

// lookup follows a path of objects.
func lookup(o object, path ...string) (any, bool) {
	for _, name := range path[:len(path)-1] {
		next, ok := o[name].(object)
		if !ok {
			return nil, false
		}
		o = next
	}
	v, ok := o[path[len(path)-1]]
	return v, ok
}

// refuse makes the error that answers a client.
var refuse = realtime.Refuse

func writeError(w http.ResponseWriter, status int, e *realtime.Error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	raw, _ := json.Marshal(e) // made of strings
	body, _ := read[object](raw)
	delete(body, "event_id")                             // there is no event
	_ = json.NewEncoder(w).Encode(object{"error": body}) // the client may be gone
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
