package persistencetest

import (
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
)

// lateWords saves what was said in a call, partly or wholly, after a later call has begun or spoken. The order is that
// of the calls.
func (s suite) lateWords(t *testing.T) {
	said := func(call, words string, at persistence.Place) persistence.Change {
		put := putText(words, words, at)
		put.Message.Metadata.CallID = call
		return put
	}
	call := func(id string, ended bool) persistence.Change {
		rec := records.Call{ID: id, StartedAt: start}
		if ended {
			rec.EndedAt, rec.EndReason = &start, "process_ended"
		}
		return persistence.PutCall{Call: rec}
	}
	typed := func(words string, at persistence.Place) persistence.Change { // when the first call was over
		put := putText(words, words, at)
		put.Message.Metadata.CreatedAt = start.Add(time.Second)
		return put
	}
	early, later := []persistence.Change{call("a", true)}, []persistence.Change{call("b", false)}
	for name, tt := range map[string]struct {
		steps []persistence.Change
		want  string
	}{
		"before the later call speaks": {
			steps: []persistence.Change{said("a", "a1", after("m0")), said("a", "a2", after("a1")), said("b", "b1", after("m0")), said("b", "b2", after("b1"))},
			want:  "m0 a1 a2 b1 b2",
		},
		"after it has spoken": {
			steps: []persistence.Change{said("b", "b1", after("m0")), said("a", "a1", after("m0")), said("b", "b2", after("b1")), said("a", "a2", after("a1"))},
			want:  "m0 a1 a2 b1 b2",
		},
		"at the beginning of the thread": {
			steps: []persistence.Change{said("a", "a1", after("")), said("b", "b1", after("")), said("a", "a2", after("a1"))},
			want:  "a1 a2 b1 m0", // nothing was there when they began
		},
		"without a known place": {
			steps: []persistence.Change{said("b", "b1", after("m0")), said("a", "a1", last), said("b", "b2", last), said("a", "a2", after("gone"))},
			want:  "m0 a1 a2 b1 b2",
		},
		"with words that both said": {
			steps: []persistence.Change{said("a", "a1", last), said("b", "b1", last), said("b", "both", after("b1")), said("a", "a2", after("both")), said("a", "a3", after("a2"))},
			want:  "m0 a1 a2 a3 b1 both",
		},
		"with words that both said, saved late": {
			steps: []persistence.Change{said("b", "b1", after("m0")), said("b", "both", after("b1")), said("a", "both", last), said("b", "b2", after("b1")), said("a", "a1", after("both"))},
			want:  "m0 a1 b1 b2 both",
		},
		"beside typed words": {
			steps: []persistence.Change{said("b", "b1", last), said("", "typed", last), said("a", "a1", last), said("b", "b2", after("b1")), said("", "more", after("m0"))},
			want:  "m0 more a1 b1 b2 typed",
		},
		"after words that were typed when the call was over": {
			steps: []persistence.Change{said("a", "a1", last), typed("t1", last), typed("t2", last), said("a", "a2", last), said("a", "a3", after("gone"))},
			want:  "m0 a1 a2 a3 t1 t2",
		},
		"after typed words and another call": {
			steps: []persistence.Change{typed("t1", last), said("b", "b1", last), said("a", "a1", last), typed("t2", last), said("a", "a2", after("a1"))},
			want:  "m0 a1 a2 t1 b1 t2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.setup(t)
			must(t, errOf(Apply(t.Context(), b.store, b.key, []persistence.Change{putText("m0", "m0", last)})))
			// The second time changes nothing: neither the order of the calls nor that of their words.
			for range 2 {
				for _, changes := range [][]persistence.Change{early, later, tt.steps} {
					for _, c := range changes {
						if applied, err := Apply(t.Context(), b.store, b.key, throughJSON(t, c)); err != nil || len(applied.Lost) != 0 {
							t.Fatalf("Apply() = %+v, %v", applied, err)
						}
					}
				}
				saved := b.all(t)
				testkit.Equal(t, words(saved), tt.want, "the thread")
				for _, m := range saved {
					if call := m.Metadata.CallID; !strings.HasPrefix(m.Text(), call) { // what both said is the later one's
						t.Errorf("%q is of call %q", m.Text(), call)
					}
				}
			}
		})
	}
}
