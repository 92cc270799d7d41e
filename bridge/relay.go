package bridge

import (
	"context"
	"fmt"
	"time"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// Way is how a socket for a call gets to the process that has the call.
type Way struct {
	Address

	// Ticket lets one socket in there, soon and once: see [Calls.Redeem].
	Ticket string
	// Gone reports whether that process is known to be dead.
	Gone func() bool
}

// Elsewhere returns the way to a call of the owner that another process has. elsewhere is false if none has it; an
// *Error with CodeUnreachable says that it cannot be reached.
func (c *Calls) Elsewhere(ctx context.Context, owner, callID string) (way Way, elsewhere bool, err error) {
	r, elsewhere, err := c.command(ctx, thread.Key{Owner: owner}, commandAdmit, question{CallID: callID})
	if !elsewhere || err != nil {
		return Way{}, elsewhere, err
	}
	return Way{
		r.Address, r.Ticket, func() bool { _, dead := c.cfg.Store.Cluster.Dead(r.Instance); return dead },
	}, true, nil
}

// admitHere lets another process bring a socket for a call of this one.
func (c *Calls) admitHere(owner, callID string, r *reply) error {
	if live := c.ofOwner(owner, callID); live == nil || live.ends.Load() {
		return fmt.Errorf("admit socket: %w", persistence.ErrNotFound)
	}
	if c.cfg.Address != nil {
		r.Address = c.cfg.Address()
	}
	if r.URL == "" {
		return errUnreachable
	}
	r.Instance, r.Ticket = c.cfg.Store.Instance(), c.tickets.issue(owner, callID, time.Now())
	return nil
}

// Redeem returns for which call of which owner a ticket is, which is then used up.
func (c *Calls) Redeem(ticket string) (owner, callID string, ok bool) {
	return c.tickets.redeem(ticket, time.Now())
}
