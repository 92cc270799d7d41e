package served

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// ErrFailed means that a session ended because its Ear or Mouth does not work.
var ErrFailed = errors.New("speech servers fail")

// mostFailures of Ear and Mouth in a row end a session that needs them.
const mostFailures = 3

// sendTimeout is how long a client may leave its data channel unread.
const sendTimeout = 10 * time.Second

// Connection carries a session.
type Connection interface {
	media.Sink
	// Send sends an event. Errors: [media.ErrTooLarge], after which the connection goes on, others, and ctx's cause.
	Send(ctx context.Context, data []byte) error
	// Forward passes the caller's sound to dst until the connection or ctx ends.
	Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error
	// Done is closed when the connection has ended.
	Done() <-chan struct{}
}

// wire sends events and audio to the client. It belongs to the session's goroutine, but for send: what is said is
// written on the goroutine of out, as the session's clock waits for no client.
type wire struct {
	ctx  context.Context //nolint:containedctx // the session's, which Run sets
	end  func(error)     // ends the session
	log  *slog.Logger
	conn Connection // nil once the session has ended
	out  *Loop

	failures int // of Ear and Mouth, in a row

	open context.Context //nolint:containedctx // ends when nothing more is sent
}

// emit sends one server event with an id of its own. What it has must not change any more.
func (w *wire) emit(o object) {
	o["event_id"] = NewID("event_")
	w.out.Do(func() { w.send(o) })
}

func (w *wire) send(o object) {
	raw, err := json.Marshal(o)
	if err != nil {
		w.end(fmt.Errorf("encode event: %w", err))
		return
	}
	ctx, cancel := context.WithTimeout(w.open, sendTimeout)
	defer cancel()
	err = w.conn.Send(ctx, raw)
	switch {
	case err == nil || w.ctx.Err() != nil:
	case errors.Is(err, media.ErrTooLarge):
		w.log.Warn("event is too large for the client", "bytes", len(raw))
	default:
		w.end(fmt.Errorf("send event: %w", err))
	}
}

// outcome takes how an Ear or Mouth has done its work. Too many failures in a row end the session; what is wrong with
// one text or utterance is none.
func (w *wire) outcome(failed error) {
	if failed == nil {
		w.failures = 0
		return
	}
	if e, ok := errors.AsType[*realtime.Error](failed); ok && e.Type == "invalid_request_error" {
		return
	}
	w.failures++
	if w.failures >= mostFailures {
		w.end(fmt.Errorf("%w: %w", ErrFailed, failed))
	}
}

// refuse tells the client what is wrong with one of its events.
func (w *wire) refuse(e *realtime.Error) {
	w.log.Debug("event refused", "code", e.Code, "param", e.Param)
	w.emit(object{"type": realtime.TypeError, "error": *e})
}

// sound sends one packet.
func (w *wire) sound(packet *media.Packet) {
	if err := w.conn.WriteAudio(packet); err != nil && !errors.Is(err, media.ErrClosed) {
		w.log.Debug("audio packet not sent", "error", err)
	}
}

// asError returns an error as events say it, of a kind unless it is one already.
func asError(err error, kind string) *realtime.Error {
	if e, ok := errors.AsType[*realtime.Error](err); ok {
		return e
	}
	return &realtime.Error{Type: kind, Message: err.Error()}
}

// object is a JSON object that is being read or written.
type object = map[string]any

// message is an event of the client, with its object or what is wrong with it.
type message struct {
	realtime.Event

	object object
	err    error
}

func decode(raw []byte) (m message) {
	var err error
	if m.Event, m.err = realtime.Decode(raw); m.err != nil {
		m.Event = realtime.Event{Raw: raw}
	}
	m.object, err = Read[object](raw)
	m.err = cmp.Or(m.err, err)
	return m
}

// Read decodes JSON and keeps numbers as they are written.
func Read[T any](raw []byte) (T, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v T
	return v, dec.Decode(&v)
}

// Lookup follows a path of objects.
func Lookup(o object, path ...string) (any, bool) {
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

// NewID returns a random id such as item_1f3Kd…, with 20 characters after the prefix: ids of items and calls have at
// most 32.
func NewID(prefix string) string {
	var b [15]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}
