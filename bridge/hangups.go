package bridge

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/persistence"
)

// Of the upstream sessions that are still to be hung up.
const (
	hangUpEvery = 5 * time.Second
	hangUpBatch = 16
)

// hangUps is where the upstream sessions stand that may still run although their calls
// have ended; *persistence.Store is one.
type hangUps interface {
	LegsToHangUp(ctx context.Context, upstream string, limit int) ([]persistence.UpstreamLeg, error)
	LegHungUp(ctx context.Context, callID string, generation int64) error
}

// hangUpRest hangs up what is left, of dead processes too, until ctx ends. What fails
// comes again.
func (c *Calls) hangUpRest(ctx context.Context, rest hangUps) {
	next := time.NewTicker(hangUpEvery)
	defer next.Stop()
	for {
		for c.hangUpSome(ctx, rest) == hangUpBatch {
		}
		select {
		case <-next.C:
		case <-ctx.Done():
			return
		}
	}
}

// hangUpSome hangs up some sessions and returns how many there were.
func (c *Calls) hangUpSome(ctx context.Context, rest hangUps) int {
	legs, err := rest.LegsToHangUp(ctx, c.cfg.Upstream.Name(), hangUpBatch)
	if err != nil {
		if ctx.Err() == nil {
			c.log.Warn("upstream sessions to hang up not listed", "error", err)
		}
		return 0
	}
	var g errgroup.Group
	g.SetLimit(8)
	for _, l := range legs {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, hangUpTimeout)
			defer cancel()
			err := c.cfg.Upstream.HangUp(ctx, l.UpstreamID)
			if err == nil {
				err = rest.LegHungUp(ctx, l.CallID, l.Generation)
			}
			if err != nil {
				c.log.Warn("upstream session not hung up yet", "call_id", l.CallID, "generation", l.Generation, "attempts", l.Attempts, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	return len(legs)
}
