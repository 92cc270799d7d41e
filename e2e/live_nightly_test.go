//go:build nightly

package e2e

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/realtimetest/livetest"
	"voicebridge/thread"
)

// TestLiveSoak makes call after call to GPT-Live on one thread, spoken and typed, and ends them by hanging up or by killing
// the program, at any time. Each text that was told to be saved is there afterwards, once and in order; no other one is
// there twice; every session at the upstream is over, and its cost is known.
func TestLiveSoak(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*soakSeed, rand.Uint64())
	t.Logf("-soak.for %v -soak.seed %d", *soakFor, seed)
	random := rand.New(rand.NewPCG(seed, 0))
	r := newRig(t, rigConfig{upstreams: "[" + byLive + "]", environ: []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator"}})
	r.another = true
	var where string
	var typed, saved []string
	calls, kills := 0, 0
	for end := time.Now().Add(*soakFor); time.Now().Before(end); calls++ {
		c := r.dial(t, request{thread: where})
		c.next("bridge.ready")
		where = c.thread
		for range 1 + random.IntN(3) {
			text := fmt.Sprintf("Note number %d.", len(typed))
			typed = append(typed, text)
			c.say(text)
			if random.IntN(4) > 0 {
				c.saved(text, says(thread.RoleUser, text))
				saved = append(saved, text)
			}
			switch random.IntN(3) {
			case 0:
				c.speak()
				<-time.After(3 * time.Second) // what is said sooner is of the same utterance
			case 1:
				c.say(chartPlease)
				c.next("bridge.tool.done")
			default:
				<-time.After(time.Duration(random.IntN(3000)) * time.Millisecond) // the model is in the middle of something
			}
		}
		if random.IntN(2) == 0 {
			c.hangUp()
			r.untilSaved(c)
			continue
		}
		kills++
		r.kill()
		r.start()
	}
	testkit.Eventually(t, "the end of all sessions", func() bool {
		return !slices.ContainsFunc(r.live.Sessions(), func(s *livetest.Session) bool { return !s.Over() })
	})
	testkit.Eventually(t, "their records", func() bool {
		return len(r.rows(t, "SELECT id FROM responses WHERE kind = 'session' AND finished_at IS NOT NULL")) == len(r.live.Sessions())
	})
	var found []string
	for _, line := range r.script(t, where) {
		if text, ok := strings.CutPrefix(line, "user text completed: Note"); ok {
			found = append(found, "Note"+text)
		}
	}
	t.Logf("%d calls, %d kills, %d texts, %d of them told to be saved, %d found, %d sessions", calls, kills, len(typed), len(saved), len(found), len(r.live.Sessions()))
	at := 0
	for _, text := range typed { // found must be typed without some that were not told to be saved
		if at < len(found) && found[at] == text {
			at++
		} else if slices.Contains(saved, text) {
			t.Errorf("%q is lost, or in another place", text)
		}
	}
	if at != len(found) {
		t.Errorf("twice, or out of order: %q", found[at:])
	}
}
