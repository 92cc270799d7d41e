package chat

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/thread"
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
				for step := range strings.FieldsSeq(steps) {
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

func TestKeywords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"What do you know about my dog?":           "dog",
		"Running, runs; the RUN":                   "run",
		"call called calling":                      "cal",
		"cities of the city":                       "cit",
		"glasses glass":                            "glas",
		"likes liking liked cheeses":               "chees lik",
		"2000 and 2022":                            "2000 2022",
		"dog's bus":                                "dog bus",
		"Was weißt du über meinen Hund und Äpfel?": "äpfel hund",
		"私の 犬":                                     "私の 犬",
		strings.Repeat("x", 41):                    "",
		"one alpha bravo charlie delta echo foxtrot golf hotel india juliett": "foxtrot charli juliet alpha bravo delta hotel india",
	} {
		testkit.Equal(t, strings.Join(keywords(text), " "), want, "keywords(%q)", text)
	}
}

// TestForget drops only the turns that ended before a time.
func TestForget(t *testing.T) {
	t.Parallel()
	ended := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	c := &Coordinator{finished: map[thread.Key]*Turn{{Owner: "anna", Thread: "t"}: {endedAt: ended}}}
	for _, tt := range []struct {
		before time.Time
		left   int
	}{{ended, 1}, {ended.Add(time.Nanosecond), 0}} {
		if c.forget(tt.before); len(c.finished) != tt.left {
			t.Errorf("before %v: %d turns are left, want %d", tt.before, len(c.finished), tt.left)
		}
	}
}
