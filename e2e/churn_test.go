//go:build nightly

package e2e

import (
	"flag"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

var churnCalls = flag.Int("churn.calls", 600, "TestChurn: how many calls come and go")

const (
	// churnWidth is how many callers there are at once.
	churnWidth = 4
	// longChurn is the number of calls that tells a leak from noise.
	longChurn = 1000
)

// heapPattern finds the heap size right after a garbage collection.
var heapPattern = regexp.MustCompile(`(?m)^# HeapAlloc = (\d+)$`)

// TestChurn has many calls come and go, by hang-ups and by browsers that are closed: at
// the end the process has as many goroutines and as large a heap as after the first ones.
func TestChurn(t *testing.T) {
	t.Parallel()
	operators := keptAddress(t)
	r := newRig(t, rigConfig{environ: []string{
		"VOICEBRIDGE_METRICS_LISTEN=" + operators, "VOICEBRIDGE_LOG__LEVEL=warn",
		// The rig has no model for titles, and the program remembers a limited number of
		// threads that it could not name.
		"VOICEBRIDGE_CONVERSATIONS__AUTO_GENERATE_TITLES=false",
	}})
	heap := func() (bytes float64) {
		r.quiet()
		for range 3 { // objects with a finalizer go with the second collection
			_, body := get(t, "http://"+operators+"/debug/pprof/heap?gc=1&debug=1")
			m := heapPattern.FindStringSubmatch(body)
			if m == nil {
				t.Fatalf("no heap: %.200s", body)
			}
			bytes, _ = strconv.ParseFloat(m[1], 64) // digits
		}
		return bytes
	}
	// Go keeps the descriptors of goroutines for reuse, for as many as ever ran at once:
	// there are more now than later.
	r.churn(t, "first", 2*churnWidth, max(*churnCalls/10, 4*churnWidth))
	before := heap()
	r.rest()
	goroutines := r.resting
	began := time.Now()
	r.churn(t, "all", churnWidth, *churnCalls)
	took := time.Since(began)
	after := heap()
	r.rest()
	t.Logf("%d calls in %v: goroutines %d before, %d after; heap %.2f MB before, %.2f MB after (%+.2f %%, %.0f bytes a call)", *churnCalls,
		took.Round(time.Second), goroutines, r.resting, before/1e6, after/1e6, 100*(after/before-1), (after-before)/float64(*churnCalls))
	allowed := 1.01
	if *churnCalls < longChurn {
		allowed = 1.05
	}
	if after > allowed*before {
		t.Errorf("the heap has grown from %.0f to %.0f bytes", before, after)
	}
	testkit.Eventually(t, "a database without open calls", func() bool {
		return len(r.rows(t, "SELECT id FROM calls WHERE ended_at IS NULL")) == 0
	})
}

// churn makes and ends that many calls, several at once.
func (r *rig) churn(t *testing.T, name string, width, calls int) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		for w := range width {
			t.Run(fmt.Sprint(w), func(t *testing.T) {
				t.Parallel()
				for i := w; i < calls && !t.Failed(); i += width {
					c := r.dial(t, request{})
					c.next("bridge.ready")
					if i%10 == 0 {
						hello(c)
					}
					if i%3 > 0 { // the others just disappear
						c.hangUp()
					}
					c.leave()
				}
			})
		}
	})
}
