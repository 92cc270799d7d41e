package simulator

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// sendTimeout is how long a client may leave its data channel unread.
const sendTimeout = 10 * time.Second

// wire sends events and audio to the client. It belongs to the session's goroutine, except peer, sent and played.
type wire struct {
	ctx       context.Context //nolint:containedctx // the session's, which run sets
	end       func(error)     // ends the session
	log       *slog.Logger
	peer      atomic.Pointer[Connection] // nil once the session has ended
	duplicate bool                       // some events are sent twice
	silent    bool                       // nothing more is sent
	sent      record
	played    atomic.Int64 // RTP packets
}

// emit sends one server event with an id of its own.
func (w *wire) emit(o object) {
	o["event_id"] = newID("event_")
	raw, err := json.Marshal(o)
	if err != nil {
		w.end(fmt.Errorf("encode event: %w", err))
		return
	}
	w.raw(raw)
	if w.duplicate && duplicated[o["type"].(string)] {
		w.raw(raw)
	}
}

// duplicated are the events that the fault DuplicateEvents sends twice.
var duplicated = map[string]bool{
	realtime.TypeItemAdded: true, realtime.TypeItemDone: true, realtime.TypeInputCommitted: true,
	realtime.TypeOutputItemDone: true, realtime.TypeTranscriptionCompleted: true, realtime.TypeResponseDone: true,
}

func (w *wire) raw(raw []byte) {
	if w.silent {
		return
	}
	ctx, cancel := context.WithTimeout(w.ctx, sendTimeout)
	defer cancel()
	// Recorded first: whoever waits for an event that was sent may at once check what the client
	// made of it.
	if e, err := realtime.Decode(raw); err == nil {
		w.sent.add(e)
	} else {
		w.sent.add(realtime.Event{Raw: raw})
	}
	err := (*w.peer.Load()).Send(ctx, raw)
	switch {
	case err == nil || w.ctx.Err() != nil:
	case errors.Is(err, media.ErrTooLarge):
		w.log.Warn("event is too large for the client", "bytes", len(raw))
	default:
		w.end(fmt.Errorf("send event: %w", err))
	}
}

// refuse tells the client what is wrong with one of its events.
func (w *wire) refuse(e *realtime.Error) {
	w.log.Debug("event refused", "code", e.Code, "param", e.Param)
	w.emit(object{"type": realtime.TypeError, "error": *e})
}

// sound sends one packet.
func (w *wire) sound(packet *media.Packet) {
	if w.silent {
		return
	}
	if err := (*w.peer.Load()).WriteAudio(packet); err != nil && !errors.Is(err, media.ErrClosed) {
		w.log.Debug("audio packet not sent", "error", err)
	}
	w.played.Add(1)
}

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

// newID returns a random id such as item_1f3Kd…, with 20 characters after the prefix: ids of items and calls have at
// most 32.
func newID(prefix string) string {
	var b [15]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}
