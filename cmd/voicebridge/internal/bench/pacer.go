package bench

import (
	"cmp"
	"context"
	"math"
	"slices"
	"sync"
	"time"
)

// sendersPerPacer is how many senders one goroutine serves, at about a fifth of a core.
const sendersPerPacer = 500

// spread gives the senders phases that cover the frame evenly, however many there are: the
// fractional parts of multiples of the golden ratio.
func spread(senders []*sender) {
	for i, v := range senders {
		_, part := math.Modf(float64(i) * math.Phi)
		v.phase = time.Duration(part * float64(frame))
	}
}

// sendAll makes every sender send a packet each 20 ms until ctx ends. A few goroutines serve all
// of them, because a timer for each would cost more than the packets.
func sendAll(ctx context.Context, m *measurement, senders []*sender) {
	spread(senders)
	var wg sync.WaitGroup
	for group := range slices.Chunk(slices.Clone(senders), sendersPerPacer) {
		slices.SortFunc(group, func(a, b *sender) int { return cmp.Compare(a.phase, b.phase) })
		wg.Go(func() { pace(ctx, m, group) })
	}
	wg.Wait()
}

// pace sends on schedule, even when it is behind: a slow receiver must not slow the sender, or the
// worst latencies would never show.
func pace(ctx context.Context, m *measurement, senders []*sender) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for start := m.now(); ctx.Err() == nil; start += int64(frame) {
		for _, v := range senders {
			due := start + int64(v.phase)
			if wait := due - m.now(); wait > 0 {
				timer.Reset(time.Duration(wait))
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
			}
			if w := v.send(); w != nil {
				w.late.record(time.Duration(v.stamp.sent - due))
			}
		}
	}
}
