package bridge

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// Limits for hanging up leftover upstream sessions.
const (
	hangUpEvery = 5 * time.Second
	hangUpBatch = 16
)

// minBilled is the least that a session is billed that has not said itself how long it was. OpenAI bills it at the
// creation of one over WebRTC, and counts it in.
const minBilled = 15 * time.Second

// legsToHangUp lists the upstream sessions that may still be running although their calls have
// ended; *records.Store implements it.
type legsToHangUp interface {
	LegsToHangUp(ctx context.Context, upstream string, limit int) ([]records.Leg, error)
	LegHungUp(ctx context.Context, callID string, generation int64) error
	Call(ctx context.Context, owner, id string) (records.Call, error)
	SaveResponse(ctx context.Context, key thread.Key, r records.Response) error
}

// hangUps hang up upstream sessions that outlived their calls.
type hangUps struct {
	upstream Upstream
	rest     legsToHangUp
	cfg      *Config
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
			err := h.hangUp(ctx, l)
			if err == nil {
				err = h.rest.LegHungUp(ctx, l.CallID, l.Generation)
			}
			if err != nil {
				h.log.Warn("upstream session not hung up yet", "call_id", l.CallID, "generation", l.Generation,
					"attempts", l.Attempts, "error", err)
			}
			return nil
		})
	}
	_ = g.Wait() // none returns an error
	return len(legs)
}

// hangUp ends one session, and records how long it was if that is what it costs.
func (h hangUps) hangUp(ctx context.Context, l records.Leg) error {
	timed, ok := h.upstream.(leg.Timed)
	if !ok {
		return h.upstream.HangUp(ctx, l.UpstreamID)
	}
	length, err := timed.HangUpTimed(ctx, l.UpstreamID)
	if err != nil {
		return err
	}
	call, err := h.rest.Call(ctx, l.Owner, l.CallID)
	if errors.Is(err, persistence.ErrNotFound) { // its thread is deleted, and what it cost with it
		return nil
	}
	if err != nil {
		return err
	}
	reported := length > 0
	if end := cmp.Or(l.EndedAt, call.EndedAt, new(time.Now())); !reported {
		length = end.Sub(l.StartedAt)
	}
	return h.rest.SaveResponse(ctx, thread.Key{Owner: l.Owner, Thread: l.ThreadID},
		endedSession(h.cfg, l, call.Model, length, reported))
}

// endedSession returns the record of what a session has cost that was so long; reported means that the upstream has
// said so.
func endedSession(cfg *Config, l records.Leg, model string, length time.Duration, reported bool) records.Response {
	if !reported {
		length = max(length, minBilled)
	}
	usage, less := realtime.Usage{Type: "duration", Seconds: math.Round(length.Seconds()*1000) / 1000}.
		Within(time.Since(l.StartedAt))
	rec := (&session.Config{TranscriptionCost: cfg.TranscriptionCost}).SessionRecord(l, model, &usage)
	rec.Status, rec.FinishedAt = realtime.ResponseCompleted, new(time.Now())
	rec.Estimated = !reported || less
	return rec
}
