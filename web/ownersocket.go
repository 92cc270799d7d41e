package web

import (
	"context"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/web/socket"
)

// ownerWatcher is what the owner's socket needs of the store.
type ownerWatcher interface {
	WatchOwner(owner string) *persistence.OwnerWatch
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
	watch := h.store.WatchOwner(owner) // first listen, then greet
	defer watch.Close()
	return h.door.upgrade(c, "connect again and read the threads", func(ctx context.Context, k *socket.Socket) error {
		k.Limit = maxSocketRead
		return k.Run(ctx, func(ctx context.Context) error {
			return sendEvents(k, map[string]string{"owner": owner}, watch.Events(ctx))
		})
	})
}
