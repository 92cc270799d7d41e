package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// killPoint is a moment at which voicebridge is killed.
type killPoint struct {
	pace simulator.Pace
	// act brings the call to that moment.
	act func(*testing.T, *caller)
	// thread is what must follow the finished turns afterwards, with … for text that
	// depends on the moment; replay is what the next call gets of it.
	thread, replay []string
}

// finishedTurns is what was said and done before.
var (
	finishedTurns = []string{
		"user voice completed: " + spokenWords, "assistant voice completed: " + spokenAnswer,
		"user text completed: " + chartPlease, "assistant voice completed: [tool-create_pie_chart output-available]",
		"assistant voice completed: " + chartAnswer,
	}
	finishedReplay = []string{
		"user: " + spokenWords, "assistant: " + spokenAnswer,
		"user: " + chartPlease, "function_call create_pie_chart", "function_call_output", "assistant: " + chartAnswer,
	}
)

var killPoints = map[string]killPoint{
	"before the first word": {
		pace: simulator.Pace{Think: time.Second, Step: 5 * time.Millisecond, Transcript: 30 * time.Millisecond},
		act: func(t *testing.T, c *caller) {
			said := len(c.session.Sent())
			c.say(countPlease)
			if _, err := c.session.WaitForSent(t.Context(), func(ev realtime.Event) bool {
				said--
				return said < 0 && ev.Type == realtime.TypeResponseCreated
			}); err != nil {
				t.Fatal(err)
			}
			dead := c.rig.ended
			c.session.Do(func() { <-dead }) // so that the first word does not come, however long the rest takes
			c.next(realtime.TypeResponseCreated)
			c.saved("text", says(thread.RoleUser, countPlease))
		},
		thread: []string{"user text completed: " + countPlease},
		replay: []string{"user: " + countPlease},
	},
	"in the middle of an answer": {
		pace: simulator.Pace{Think: 20 * time.Millisecond, Step: 40 * time.Millisecond, Transcript: 30 * time.Millisecond},
		act: func(_ *testing.T, c *caller) {
			c.say(countPlease)
			first := c.next(realtime.TypeAudioTranscriptDelta)
			c.wait("3 s of an answer", func(ev timedEvent) bool {
				return ev.Type == realtime.TypeAudioTranscriptDelta && ev.at.Sub(first.at) > 3*time.Second
			})
		},
		thread: []string{"user text completed: " + countPlease, "assistant voice interrupted: n0 n1 n2 …"},
		replay: []string{"user: " + countPlease, "assistant: n0 n1 n2 …"},
	},
	"while a tool runs": {
		pace: quick,
		act: func(_ *testing.T, c *caller) {
			c.say(waitPlease)
			c.saved("call of the tool", func(m thread.Message) bool {
				return len(m.Parts) > 0 && m.Parts[len(m.Parts)-1].ToolName == "ask_me"
			})
		},
		thread: []string{"user text completed: " + waitPlease, "assistant voice …: Wait.[dynamic-tool output-error]"},
		replay: []string{"user: " + waitPlease, "assistant: Wait.", "function_call ask_me", "function_call_output"},
	},
	"before the words of the user": {
		pace: simulator.Pace{Think: time.Hour, Step: 5 * time.Millisecond, Transcript: time.Hour},
		act: func(_ *testing.T, c *caller) {
			c.session.SimulateSpeech()
			c.saved("spoken turn", func(m thread.Message) bool {
				return m.Role == thread.RoleUser && m.Metadata.Source == thread.SourceVoice && m.Metadata.Status == thread.StatusInProgress
			})
		},
		thread: []string{"user voice failed: "},
	},
}

// TestKill kills the process at several moments of a call, on both engines. After a
// restart everything finished is there, and of the rest what was said more than a moment
// before; the upstream's call is ended, and a new call works.
func TestKill(t *testing.T) {
	t.Parallel()
	for engine, newURL := range persistencetest.URLs {
		for name, point := range killPoints {
			t.Run(engine+"/"+name, func(t *testing.T) {
				t.Parallel()
				killAt(t, newURL(t), point)
			})
		}
	}
}

func killAt(t *testing.T, database string, point killPoint) {
	r := newRig(t, rigConfig{database: database, simulator: simulator.Config{Pace: point.pace}})
	c := r.dial(t, request{session: asksMe})
	c.next("bridge.ready")
	before, replay := finishedTurns, finishedReplay
	if point.pace.Think > time.Minute {
		before, replay = nil, nil // no answer is expected
	} else {
		c.finishTurns(point.pace.Step > quick.Step)
	}
	point.act(t, c)
	streamed := c.streamed()
	testkit.Eventually(t, "what was said so far in the thread, while more is said", func() bool {
		return len(notSaved(streamed, r.messages(t, c.thread))) == 0
	})
	r.kill()

	r.start()
	want := slices.Concat(before, point.thread)
	r.wantLike(t, c.thread, want)
	r.wantKept(t, c, streamed)
	r.over(c, "process_ended")

	again := r.dial(t, request{thread: c.thread})
	var ready struct{ Replayed int }
	withWords := slices.DeleteFunc(slices.Clone(want), func(line string) bool { return strings.HasSuffix(line, ": ") })
	if err := json.Unmarshal(again.next("bridge.ready").Raw, &ready); err != nil || ready.Replayed != len(withWords) {
		t.Errorf("%d messages were replayed, want %d", ready.Replayed, len(withWords))
	}
	testkit.Equal(t, likeness(slices.Concat(replay, point.replay), replayOf(t, again.session)), "", "replay")
	again.hangUp()
	r.wantLike(t, c.thread, want) // the replay is not saved again
	r.over(again, "hangup")
	r.quiet()
}

// TestKillWithoutDatabase kills the process while the database is away. What callers were
// shown meanwhile waits in the spool, and is saved by the next start in the same folder.
func TestKillWithoutDatabase(t *testing.T) {
	t.Parallel()
	server := persistencetest.NewServer(t)
	r := newRig(t, rigConfig{database: server.URL()})
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.say(chartPlease)
	c.saved("answer after the chart", says(thread.RoleAssistant, chartAnswer))
	server.Crash()
	want := []string{
		"user text completed: " + chartPlease, "assistant voice completed: [tool-create_pie_chart output-available]",
		"assistant voice completed: " + chartAnswer,
	}
	for n := range 5 {
		text := fmt.Sprintf("Echo: %d", n)
		c.say(text)
		c.wait("answer to "+text, func(ev timedEvent) bool {
			it, err := realtime.DecodeItem(ev.Item)
			return ev.Type == realtime.TypeItemDone && err == nil && it.Status == "completed" && it.Text() == "Yes."
		})
		want = append(want, "user text completed: "+text, "assistant voice completed: Yes.")
	}
	waitSpooled(t, r.dir, 5)
	r.kill()
	server.Start()
	r.start()
	r.wantScript(t, c.thread, want...)
	r.over(c, "process_ended")
	r.quiet()
}

// waitSpooled waits until the spools of a folder hold that many finished answers.
func waitSpooled(t *testing.T, dir string, answers int) {
	t.Helper()
	testkit.Eventually(t, "all in the spool", func() bool {
		files, err := filepath.Glob(filepath.Join(dir, "data", "spool", "*.spool"))
		finished := map[string]bool{}
		for _, file := range files {
			content, readErr := os.ReadFile(file)
			err = errors.Join(err, readErr)
			for _, found := range spooledAnswer.FindAllSubmatch(content, -1) {
				finished[string(found[1])] = true
			}
		}
		return err == nil && len(finished) == answers
	})
}

// spooledAnswer matches a finished answer in a spool, and its id.
var spooledAnswer = regexp.MustCompile(`"id":"([^"]+)","role":"assistant","parts":\[[^\]]*"text":"Yes\."\}\],"metadata":\{"source":"voice","status":"completed"`)

// finishTurns speaks and types, and is answered. With slowly set the caller really speaks,
// otherwise the upstream pretends to hear speech.
func (c *caller) finishTurns(slowly bool) {
	c.t.Helper()
	if slowly {
		c.speak()
	} else {
		c.session.SimulateSpeech()
	}
	c.saved("answer to speech", says(thread.RoleAssistant, spokenAnswer))
	c.say(chartPlease)
	c.saved("answer after the chart", says(thread.RoleAssistant, chartAnswer))
}

// likeness compares lines; the wanted ones may contain … for any text.
func likeness(want, got []string) string {
	patterns := make(map[string]*regexp.Regexp)
	for _, line := range want {
		if strings.Contains(line, "…") {
			patterns[line] = regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + "$")
		}
	}
	return cmp.Diff(want, got, cmp.Comparer(func(a, b string) bool {
		for _, pair := range [][2]string{{a, b}, {b, a}} {
			if p := patterns[pair[0]]; p != nil && p.MatchString(pair[1]) {
				return true
			}
		}
		return a == b
	}))
}

func (r *rig) wantLike(t *testing.T, thread string, want []string) {
	t.Helper()
	testkit.Equal(t, likeness(want, r.script(t, thread)), "", "thread")
}

// streamed is what the caller was told of each answer, by item.
func (c *caller) streamed() map[string]string {
	words := map[string]string{}
	for _, ev := range c.all() {
		if ev.Type == realtime.TypeAudioTranscriptDelta {
			words[ev.ItemID] += ev.Delta
		}
	}
	return words
}

// notSaved lists the items of the answers that are in no message, or of which some words are
// missing.
func notSaved(streamed map[string]string, messages []thread.Message) (items []string) {
	left := maps.Clone(streamed)
	for _, m := range messages {
		if words, ok := left[m.Metadata.ItemID]; ok && strings.HasPrefix(m.Text(), words) {
			delete(left, m.Metadata.ItemID)
		}
	}
	return slices.Sorted(maps.Keys(left))
}

// wantKept checks that the thread still has what was saved before the kill, and what the
// caller was told is saved.
func (r *rig) wantKept(t *testing.T, c *caller, streamed map[string]string) {
	t.Helper()
	messages := r.messages(t, c.thread)
	if lost := notSaved(streamed, messages); len(lost) > 0 {
		t.Errorf("the kill lost words of the answers %q", lost)
	}
	saved := map[string]string{}
	for _, ev := range c.all() {
		if m, ok := messageOf(t, ev); ok {
			saved[m.ID] = m.Text()
		}
	}
	for _, m := range messages {
		if !strings.HasPrefix(m.Text(), saved[m.ID]) {
			t.Errorf("the message %.40q… has %d bytes, but %d were reported as saved, or it differs", m.Text(), len(m.Text()), len(saved[m.ID]))
		}
		delete(saved, m.ID)
	}
	if len(saved) > 0 {
		t.Errorf("%d saved messages are not there", len(saved))
	}
}
