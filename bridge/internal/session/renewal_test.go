package session

import (
	"fmt"
	"testing"
	"time"
)

// TestSchedule checks when a session's renewal is planned and when it is forced, for the
// time that the session has left when it announces its end.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		left, before time.Duration
		plan, force  time.Duration // 0: never
	}{
		"an hour":            {left: time.Hour, before: 10 * time.Minute, plan: 50 * time.Minute, force: 58 * time.Minute},
		"just longer":        {left: 605 * time.Second, before: 10 * time.Minute, plan: 5 * time.Second, force: 485 * time.Second},
		"no longer":          {left: 10 * time.Minute, before: 10 * time.Minute, plan: 5 * time.Minute, force: 8 * time.Minute},
		"short":              {left: time.Minute, before: 10 * time.Minute, plan: 30 * time.Second, force: 45 * time.Second},
		"hardly longer":      {left: 601 * time.Second, before: 10 * time.Minute, plan: 2 * time.Second, force: 481 * time.Second},
		"switched off":       {left: time.Hour},
		"over":               {left: -time.Second, before: 10 * time.Minute},
		"it does not say so": {before: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestState(t, Config{RenewBefore: tt.before})
			expires := int64(0)
			if tt.left != 0 {
				expires = epoch.Add(tt.left).Unix()
			}
			s.Reduce(epoch, UpstreamEvent{1, fmt.Appendf(nil, `{"type":"session.created","session":{"expires_at":%d}}`, expires)})
			since := func(at time.Time) time.Duration {
				if at.IsZero() {
					return 0
				}
				return at.Sub(epoch)
			}
			if plan, force := since(s.renewal.planAt), since(s.renewal.forceAt); plan != tt.plan || force != tt.force {
				t.Errorf("planned after %v, forced after %v; want %v, %v", plan, force, tt.plan, tt.force)
			}
		})
	}
}
