package leg

import (
	"context"
	"errors"
	"log/slog"

	"voicebridge/bridge/internal/session"
	"voicebridge/realtime/media"
	"voicebridge/toolkit"
)

// Peer is one connection as the call sees it, whatever carries it; *rtc.Peer implements it.
type Peer interface {
	media.Sink
	sender
	MaxMessageSize() int
	Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error
	Close() error
}

// Post passes an input to the call. While the call is behind, it waits, which makes the remote wait.
type Post func(session.Input)

// maxEventValues limits the values of a browser's event, each of which takes hundreds of bytes once it is decoded: an
// event is decoded several times.
const maxEventValues = 20_000

// BrowserHandlers passes the events of a browser's connection to the call.
func BrowserHandlers(gen int, post Post) media.Handlers {
	return clientHandlers(gen, 0, post, func(state media.State) {
		if s := connection(state); s != 0 {
			post(session.BrowserState{Gen: gen, State: s})
		}
	})
}

// SidebandHandlers passes the events of a sideband to the call.
func SidebandHandlers(id int, post Post) media.Handlers {
	return clientHandlers(0, id, post, func(state media.State) {
		if s := connection(state); s == session.Failed || s == session.Closed {
			post(session.SidebandGone{ID: id})
		}
	})
}

func clientHandlers(gen, side int, post Post, state func(media.State)) media.Handlers {
	return media.Handlers{
		Message: func(data []byte) {
			if _, values := toolkit.Shape(data); values > maxEventValues {
				post(session.BrowserTooLarge{Gen: gen, Side: side, Size: len(data), Values: values})
				return
			}
			post(session.BrowserEvent{Gen: gen, Side: side, Data: data})
		},
		TooLarge: func(size int) { post(session.BrowserTooLarge{Gen: gen, Side: side, Size: size}) },
		State:    state,
	}
}

// upstreamHandlers passes the events of an upstream session to the call.
func upstreamHandlers(gen int, post Post) media.Handlers {
	return media.Handlers{
		Message: func(data []byte) { post(session.UpstreamEvent{Gen: gen, Data: data}) },
		State: func(state media.State) {
			if s := connection(state); s != 0 {
				post(session.UpstreamState{Gen: gen, State: s})
			}
		},
	}
}

// connection translates a leg's state for the call; 0 means that the call ignores it.
func connection(state media.State) session.Connection {
	switch state {
	case media.StateConnected:
		return session.Connected
	case media.StateDisconnected:
		return session.Disconnected
	case media.StateFailed:
		return session.Failed
	case media.StateClosed:
		return session.Closed
	default:
		return 0
	}
}

// logPumpEnd logs why a leg's audio is no longer forwarded, unless the leg has ended.
func logPumpEnd(log *slog.Logger, from string, err error) {
	if err != nil && !errors.Is(err, media.ErrClosed) && !errors.Is(err, context.Canceled) {
		log.Error("audio no longer forwarded", "leg", from, "error", err)
	}
}

// closePeer closes a connection, and logs a failure.
func closePeer(log *slog.Logger, name string, p Peer) {
	if err := p.Close(); err != nil {
		log.Warn("leg not closed in time", "leg", name, "error", err)
	}
}
