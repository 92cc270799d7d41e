package chat

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestTurnGivesWay has readers come and go before and after a turn is to give way.
func TestTurnGivesWay(t *testing.T) {
	t.Parallel()
	for steps, ends := range map[string]bool{
		"":                           false,
		"yield":                      false, // nobody was to read it
		"join yield":                 false,
		"join lost yield":            true,
		"join yield lost":            true,
		"join yield pause lost":      false,
		"join done yield":            false, // it ended at a question
		"join join lost yield":       false,
		"join join lost yield lost":  true,
		"join lost join yield":       false,
		"join lost join yield done":  false,
		"join lost join lost yield":  true,
		"join yield lost join pause": true,
	} {
		t.Run(steps, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				turn := &Turn{}
				turn.ctx, turn.stop = context.WithCancelCause(t.Context())
				defer turn.stop(nil)
				var leave []func(lost bool)
				for _, step := range strings.Fields(steps) {
					switch step {
					case "join":
						leave = append(leave, turn.Join())
					case "yield":
						turn.yield()
					case "pause":
						time.Sleep(yieldWait)
					default:
						leave[0](step == "lost")
						leave = leave[1:]
					}
				}
				if turn.ctx.Err() != nil != ends {
					t.Errorf("the turn ended: %v", context.Cause(turn.ctx))
				}
			})
		})
	}
}
