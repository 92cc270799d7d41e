package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
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
	peer      atomic.Pointer[connection] // nil once the session has ended
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
