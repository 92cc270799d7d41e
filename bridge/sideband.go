package bridge

import (
	"context"
	"errors"
	"fmt"

	"voicebridge/bridge/internal/leg"
	"voicebridge/persistence"
	"voicebridge/realtime/wsserver"
)

// JoinSideband connects an application's server to a live call of this process, beside its browser and without sound.
// The socket is served, or abandoned, afterwards; it ends with the call. It returns the call's thread. server is
// Start.Server. Errors: as those of Reconnect, and an *Error with CodeTooManySidebands.
func (c *Calls) JoinSideband(
	ctx context.Context, owner, callID string, socket *wsserver.Conn, server bool,
) (threadID string, err error) {
	live := c.ofOwner(owner, callID)
	if live == nil || live.ends.Load() {
		return "", fmt.Errorf("join call: %w", persistence.ErrNotFound)
	}
	a := &aside{
		leg: leg.NewSideband(socket, live.log, c.cfg.OnDraftsDropped), conn: socket, server: server,
		err: make(chan error, 1),
	}
	select {
	case live.joinAside <- a:
		err = <-a.err
	case <-live.quit:
		err = fmt.Errorf("join call: %w", persistence.ErrNotFound)
	case <-ctx.Done():
		err = fmt.Errorf("join call: %w", context.Cause(ctx))
	}
	if err != nil {
		return "", errors.Join(err, socket.Close())
	}
	return live.key.Thread, nil
}
