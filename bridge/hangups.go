package bridge

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/bridge/internal/leg"
	"voicebridge/persistence/records"
)

// Limits for hanging up leftover upstream sessions.
const (
	hangUpEvery = 5 * time.Second
	hangUpBatch = 16
)

// legsToHangUp lists the upstream sessions that may still be running although their calls have
// ended; *records.Store implements it.
type legsToHangUp interface {
	LegsToHangUp(ctx context.Context, upstream string, limit int) ([]records.Leg, error)
	LegHungUp(ctx context.Context, callID string, generation int64) error
}

// hangUps hang up upstream sessions that outlived their calls.
type hangUps struct {
	upstream Upstream
	rest     legsToHangUp
	log      *slog.Logger
}

// run hangs up what is left, including sessions of dead processes, until ctx ends. Failed attempts
// are repeated.
func (h hangUps) run(ctx context.Context) {
	next := time.Tick(hangUpEvery)
	for {
		for h.batch(ctx) == hangUpBatch {
		}
		select {
		case <-next:
		case <-ctx.Done():
			return
		}
	}
}

// batch hangs up some sessions and returns how many there were.
func (h hangUps) batch(ctx context.Context) int {
	legs, err := h.rest.LegsToHangUp(ctx, h.upstream.Name(), hangUpBatch)
	if err != nil {
		if ctx.Err() == nil {
			h.log.Warn("upstream sessions to hang up not listed", "error", err)
		}
		return 0
	}
	var g errgroup.Group
	g.SetLimit(8)
	for _, l := range legs {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, leg.HangUpTimeout)
			defer cancel()
			err := h.upstream.HangUp(ctx, l.UpstreamID)
			if err == nil {
				err = h.rest.LegHungUp(ctx, l.CallID, l.Generation)
			}
			if err != nil {
				h.log.Warn("upstream session not hung up yet", "call_id", l.CallID, "generation", l.Generation, "attempts", l.Attempts, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	return len(legs)
}
