package web

import (
	"context"
	"math"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/web/input"
	"voicebridge/web/socket"
)

// ownerWatcher is what the owner's socket needs of the store.
type ownerWatcher interface {
	WatchOwner(ctx context.Context, owner string, after int64) (*persistence.OwnerWatch, error)
}

// liveCalls is what it needs of the calls.
type liveCalls interface {
	LiveCalls(ctx context.Context, owner string) (byThread map[string]string, err error)
}

// ownerSockets serves the socket with events of everything that the client owns: its threads, their
// calls and their turns.
type ownerSockets struct {
	store ownerWatcher
	calls liveCalls
	door  *socketDoor
}

func (h *ownerSockets) routes(r router) { r.Echo.GET("/api/ws", h.watch, r.user) }

// ownerConnected is the data of the owner's first event.
type ownerConnected struct {
	Owner string `json:"owner"`
	// ServerMaxSeq is the number of the last event.
	ServerMaxSeq int64 `json:"server_max_seq"`
	// Missed is set if not all that came after the client's number follows.
	Missed bool `json:"missed,omitempty"`
}

// watch upgrades to a socket with the owner's events. Without ?after it starts now.
func (h *ownerSockets) watch(c echo.Context) error {
	after, err := input.Int(c, "after", -1, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	if err := h.door.check(c); err != nil {
		return err
	}
	ctx, owner := c.Request().Context(), identity(c).Owner
	watch, err := h.store.WatchOwner(ctx, owner, after) // first listen, then read
	if err != nil {
		return err
	}
	defer watch.Close()
	first := greeting(ownerConnected{owner, watch.Last, watch.Missed})
	if after < 0 || watch.Missed { // the beginnings of live calls were not heard
		calls, err := h.calls.LiveCalls(ctx, owner)
		if err != nil {
			return err
		}
		for thread, id := range calls {
			first = append(first, persistence.Event{Type: "call_started", Data: toolkit.Encode(map[string]string{"thread_id": thread, "call_id": id})})
		}
	}
	return h.door.upgrade(c, "connect again with after=SEQ", func(ctx context.Context, k *socket.Socket) error {
		k.Limit = maxSocketRead
		return k.Run(ctx, func(ctx context.Context) error {
			return sendEvents(k, first, watch.Events(ctx))
		})
	})
}
