package bridge

import (
	"context"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
)

// How often a call looks at a question that it has asked: soon for it to be saved, then
// for an answer that came to another instance.
const (
	firstLook = 20 * time.Millisecond
	lastLook  = time.Second
)

// approvals are the saved questions; *persistence.Store has them.
type approvals interface {
	Approval(ctx context.Context, key persistence.Key, id string) (persistence.Approval, error)
}

// Decided tells the thread's call, if it is here, that the question about one of its
// tool calls was answered in the database. It returns at once; a call of another
// instance finds the answer within a second.
func (c *Calls) Decided(key persistence.Key, toolCallID string) {
	live := c.find(key)
	if live == nil {
		return
	}
	if look, ok := live.asking.Load(toolCallID); ok {
		select {
		case look.(chan struct{}) <- struct{}{}: //nolint:forcetypeassert // nothing else is stored
		default:
		}
	}
}

// awaitApproval follows a saved question beside the loop, until it is closed or nobody
// can answer it any more.
func (w *worker) awaitApproval(e session.AwaitApproval) {
	c, ctx := w.call, w.toolCtx
	if c.approvals == nil {
		return
	}
	look := make(chan struct{}, 1)
	c.asking.Store(e.CallID, look)
	c.tools.Go(func() {
		defer c.asking.Delete(e.CallID)
		pause := firstLook
		for time.Now().Before(e.ExpiresAt) {
			a, err := c.approvals.Approval(ctx, c.key, e.ID)
			if err == nil && a.Outcome != persistence.ApprovalOpen {
				c.post(session.ApprovalSaved{Approval: a})
				return
			}
			timer := time.NewTimer(pause)
			select {
			case <-ctx.Done():
				timer.Stop()
				return
			case <-look:
				timer.Stop()
			case <-timer.C:
			}
			pause = min(2*pause, lastLook)
		}
	})
}
