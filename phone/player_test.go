package phone

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
)

var must = testkit.Must

var ulaw = media.Format{Rate: 8000, Encoding: pcm.ULaw}

// timeline runs a player by a clock of its own, with a carrier that plays what it gets.
type timeline struct {
	player

	now     time.Time
	waiting int      // ms at the carrier
	most    int      // of it at any time
	pending []string // marks, each with what must be played before it
	got     []string
}

func newTimeline() *timeline {
	return &timeline{player: player{format: ulaw}, now: time.Unix(1000, 0)}
}

// run lets time pass in steps of 20 ms. late is how much later the carrier plays than it gets.
func (l *timeline) run(ms int) {
	for range ms / 20 {
		for m := l.next(l.now); m.Kind != None; m = l.next(l.now) {
			if m.Kind == Mark {
				l.pending = append(l.pending, fmt.Sprint(l.waiting, " ", m.Name))
				continue
			}
			l.waiting += len(m.Sound) / 8
			l.most = max(l.most, l.waiting)
			l.got = append(l.got, fmt.Sprint(len(m.Sound)/8))
		}
		l.now = l.now.Add(20 * time.Millisecond)
		played := min(20, l.waiting)
		l.waiting -= played
		for i, p := range l.pending {
			var left int
			var name string
			_, err := fmt.Sscan(p, &left, &name)
			if err != nil {
				panic(err)
			}
			if left -= played; left <= 0 {
				l.reached(name, l.now)
				l.pending[i] = ""
				continue
			}
			l.pending[i] = fmt.Sprint(left, " ", name)
		}
		l.pending = slices.DeleteFunc(l.pending, func(p string) bool { return p == "" })
	}
}

func sound(ms int) []byte { return bytes.Repeat([]byte{1}, 8*ms) }

// cut interrupts, and returns how much of each item was heard.
func (l *timeline) cutNow() string {
	var out []string
	for _, e := range l.interrupt(l.now) {
		_, rest, _ := strings.Cut(string(e), `"audio_end_ms":`)
		ms, _, _ := strings.Cut(strings.TrimRight(rest, "}"), ",")
		_, item, _ := strings.Cut(string(e), `"item_id":"`)
		item, _, _ = strings.Cut(item, `"`)
		out = append(out, item+" "+ms)
	}
	l.waiting, l.pending = 0, nil
	return strings.Join(out, ", ")
}

func TestPlayer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(*timeline)
		want string // what was heard of the items that were interrupted
	}{
		"nothing was said": {func(*timeline) {}, ""},
		"in the middle":    {func(l *timeline) { l.add("r", "a", sound(5000)); l.run(2000) }, "a 2000"},
		"before the first": {func(l *timeline) { l.add("r", "a", sound(5000)) }, "a 0"},
		"all was heard":    {func(l *timeline) { l.add("r", "a", sound(1000)); l.mark(true); l.run(1500) }, ""},
		"in the second item": {func(l *timeline) {
			l.add("r", "a", sound(1000))
			l.add("r", "b", sound(1000))
			l.run(1500)
		}, "b 500"},
		"one waits for another": {func(l *timeline) {
			l.add("r", "a", sound(1000))
			l.add("s", "b", sound(1000))
			l.run(400)
		}, "a 400, b 0"},
		"after a pause": {func(l *timeline) {
			l.add("r", "a", sound(500))
			l.mark(true)
			l.run(3000)
			l.add("s", "b", sound(2000))
			l.run(700)
		}, "b 700"},
		"it came slowly": {func(l *timeline) {
			for range 10 {
				l.add("r", "a", sound(60))
				l.run(100) // with gaps of 40 ms
			}
		}, ""},
		"it came slowly, and is interrupted": {func(l *timeline) {
			for range 10 {
				l.add("r", "a", sound(60))
				l.run(100)
			}
			l.add("r", "a", sound(1000))
			l.run(200)
		}, "a 800"},
		"what comes after it": {func(l *timeline) {
			l.add("r", "a", sound(3000))
			l.run(1000)
			_ = l.cutNow()
			l.add("r", "a", sound(1000)) // still of the answer that was cut
			l.run(500)
			l.add("s", "b", sound(1000))
			l.run(300)
		}, "b 300"},
	} {
		l := newTimeline()
		c.play(l)
		testkit.Equal(t, l.cutNow(), c.want, "%s", name)
		if l.most > 1500 {
			t.Errorf("%s: %d ms waited at the carrier", name, l.most)
		}
	}
}

// TestMarksOfTheCarrier has a carrier that plays later than it gets: its marks say what was heard, but not those that come back
// because of an interruption.
func TestMarksOfTheCarrier(t *testing.T) {
	t.Parallel()
	l := newTimeline()
	l.add("r", "a", sound(1000))
	l.mark(false)
	l.add("r", "a", sound(4000))
	var names []string
	for range 60 {
		for m := l.next(l.now); m.Kind != None; m = l.next(l.now) {
			if m.Kind == Mark {
				names = append(names, m.Name)
			}
		}
		l.now = l.now.Add(20 * time.Millisecond)
	}
	testkit.Equal(t, fmt.Sprint(names), "[m1]", "marks")
	l.reached("m1", l.now.Add(300*time.Millisecond)) // half a second late
	l.now = l.now.Add(500 * time.Millisecond)
	testkit.Equal(t, l.cutNow(), "a 1200", "heard")
	l.add("s", "b", sound(1000))
	l.mark(true)
	l.run(200)
	l.reached("m1", l.now)
	testkit.Equal(t, l.cutNow(), "b 200", "heard of the next")
}

func TestWholeFrames(t *testing.T) {
	t.Parallel()
	l := newTimeline()
	l.add("r", "a", sound(130))
	l.add("r", "a", sound(5))
	l.run(200)
	testkit.Equal(t, fmt.Sprint(l.got), "[100 20]", "sent")
	l.mark(true)
	l.run(200)
	testkit.Equal(t, fmt.Sprint(l.got), "[100 20 20]", "sent with the end")
}

func TestEndsSentence(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"Yes.": true, "3.14": false, " Really? ": true, "a word": false, `"No."`: true, "": false, "End. And": true} {
		testkit.Equal(t, endsSentence(text), want, "%q", text)
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	start := time.Unix(1000, 0)
	type piece struct {
		chunk int64
		at    int // ms
		value byte
	}
	quiet, asleep := piece{at: 500, chunk: -2}, piece{at: 3600_000, chunk: -2}
	for name, c := range map[string]struct {
		pieces []piece
		want   string // each 20 ms
	}{
		"in order":            {[]piece{{-1, 0, 1}, {-1, 20, 2}}, "1 2"},
		"without times":       {[]piece{{-1, -1, 1}, {-1, -1, 2}}, "1 2"},
		"begins late":         {[]piece{{-1, 900, 1}, {-1, 920, 2}}, "1 2"},
		"a gap":               {[]piece{{-1, 0, 1}, {-1, 80, 2}}, "1 . . . 2"},
		"a little late":       {[]piece{{-1, 0, 1}, {-1, 25, 2}, {-1, 45, 3}}, "1 2 3"},
		"the same again":      {[]piece{{-1, 0, 1}, {-1, 0, 2}, {-1, 20, 3}}, "1 2 3"},
		"reordered":           {[]piece{{1, 0, 1}, {3, 40, 3}, {2, 20, 2}, {4, 60, 4}}, "1 2 3 4"},
		"doubled":             {[]piece{{1, 0, 1}, {2, 20, 2}, {2, 20, 9}, {3, 40, 3}, {1, 0, 9}}, "1 2 3"},
		"one is lost":         {[]piece{{1, 0, 1}, {3, 40, 3}, {4, 60, 4}, {5, 80, 5}, {6, 100, 6}, {7, 120, 7}, {8, 140, 8}}, "1 . 3 4 5 6 7 8"},
		"nothing comes":       {[]piece{{-1, 0, 1}, quiet}, "1 " + strings.TrimSpace(strings.Repeat(". ", 25))},
		"and goes on after":   {[]piece{{-1, 0, 1}, quiet, {-1, 520, 2}}, "1 " + strings.Repeat(". ", 25) + "2"},
		"and what was late":   {[]piece{{-1, 0, 1}, quiet, {-1, 20, 2}, {-1, 40, 3}}, "1 " + strings.Repeat(". ", 25) + "2 3"},
		"slept for an hour":   {[]piece{{-1, 0, 1}, asleep, {-1, 10020, 2}}, "1 " + strings.Repeat(". ", 500) + "2"},
		"a time from nowhere": {[]piece{{-1, 0, 1}, {-1, 1 << 40, 2}}, "1 " + strings.Repeat(". ", 500) + "2"},
	} {
		in := input{format: ulaw}
		now := start
		testkit.Equal(t, len(in.quiet(now)), 0, "%s: bytes before the stream begins", name)
		in.begin(now)
		var got []string
		for _, p := range c.pieces {
			var heard []byte
			if p.chunk == quiet.chunk {
				now = now.Add(time.Duration(p.at) * time.Millisecond)
				heard = in.quiet(now)
			} else {
				heard = in.take(Message{Chunk: p.chunk, At: time.Duration(p.at) * time.Millisecond, Sound: bytes.Repeat([]byte{p.value}, 160)}, now)
			}
			for part := range slices.Chunk(heard, 160) {
				if part[0] == 0xff {
					got = append(got, ".")
				} else {
					got = append(got, fmt.Sprint(part[0]))
				}
			}
		}
		testkit.Equal(t, strings.Join(got, " "), c.want, "%s", name)
	}
}
