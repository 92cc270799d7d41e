package web

import (
	"context"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/web/socket"
)

// ownerWatcher is what the owner's socket needs of the store.
type ownerWatcher interface {
	WatchOwner(owner string) *persistence.OwnerWatch
	LiveCalls(ctx context.Context, owner string) (byThread map[string]string, err error)
}

// ownerSockets serves the socket with events of everything that the client owns: its threads, their
// calls and their turns.
type ownerSockets struct {
	store ownerWatcher
	door  *socketDoor
}

func (h *ownerSockets) routes(r router) { r.Echo.GET("/api/ws", h.watch, r.user) }

func (h *ownerSockets) watch(c echo.Context) error {
	if err := h.door.check(c); err != nil {
		return err
	}
	owner := identity(c).Owner
	watch := h.store.WatchOwner(owner) // first listen, then read
	defer watch.Close()
	calls, err := h.store.LiveCalls(c.Request().Context(), owner)
	if err != nil {
		return err
	}
	first := greeting(map[string]string{"owner": owner})
	for thread, id := range calls { // their beginnings were not heard
		first = append(first, persistence.Event{Type: "call_started", Data: toolkit.Encode(map[string]string{"thread_id": thread, "call_id": id})})
	}
	return h.door.upgrade(c, "connect again and read the threads", func(ctx context.Context, k *socket.Socket) error {
		k.Limit = maxSocketRead
		return k.Run(ctx, func(ctx context.Context) error {
			return sendEvents(k, first, watch.Events(ctx))
		})
	})
}
