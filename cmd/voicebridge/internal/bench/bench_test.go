package bench

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/realtime/media"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestALostCallEndsTheMeasurement says which call and why.
func TestALostCallEndsTheMeasurement(t *testing.T) {
	t.Parallel()
	r := &rig{}
	r.alive, r.end = context.WithCancelCause(t.Context())
	first, second := r.newCall(1, 2), r.newCall(2, 2)
	second.read([]byte(`{"type":"bridge.ended","reason":"upstream_lost"}`))
	first.lost(errors.New("connection closed")) // what follows
	err := wait(r.alive, time.Now().Add(time.Hour))
	if err == nil || err.Error() != "call 2 of 2 was lost: the bridge ended it: upstream_lost" {
		t.Errorf("%v", err)
	}
}

func TestBridgeThatFails(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // the scripts are for a POSIX shell
	}
	const open = "echo open http://127.0.0.1:1; "
	for name, c := range map[string]struct {
		path, script string
		want         []string
	}{
		"it dies":              {"/bin/sh", "echo half a word >&2; exit 3", []string{"the bridge has ended", "exit status 3", "half a word"}},
		"it ends":              {"/bin/sh", "exit 0", []string{"the bridge has ended", "exit status 0"}},
		"it says other things": {"/bin/sh", "echo hello; exec sleep 600", []string{`printed "hello\n" and no address`}},
		"it says too much":     {"/bin/sh", "head -c 20000 /dev/zero; exec sleep 600", []string{"and no address"}},
		"it is not there":      {"/does/not/exist", "", []string{"no such file"}},
		"it refuses calls":     {"/bin/sh", "echo lost the key >&2; " + open + "exec sleep 600", []string{"connection refused", "lost the key"}},
		"it dies with a call":  {"/bin/sh", "trap '' TERM; " + open + "exit 4", []string{"exit status 4"}},
		"it has its settings": {
			"/bin/sh", "env >&2; exit 1",
			[]string{"LIMITS__MAX_CALLS=17", "DATABASE_URL=sqlite:load.db", "OPENAI_BASE_URL=http://127", "EXTRA=extra"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			environ := []string{"EXTRA=extra", "PATH=" + os.Getenv("PATH")}
			command := Command{Path: c.path, Args: []string{"-c", c.script}, Environ: environ, Dir: dir}
			report, err := Run(t.Context(), Config{Calls: []int{1}, Duration: time.Millisecond, Bridge: command})
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) || len(report.Rounds) != 0 {
					t.Errorf("%v, want %q", err, want)
				}
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 0 {
				t.Errorf("it left %v", left)
			}
		})
	}
}

func TestACancelledMeasurementLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	command := Command{Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}, Dir: t.TempDir()}
	if _, err := measure(ctx, Config{Bridge: command}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("measure: %v", err)
	}
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"nothing to measure": {Duration: time.Second},
		"0 calls at once":    {Calls: []int{1, 0}, Duration: time.Second},
		"9999 calls":         {Calls: []int{9999}, Duration: time.Second},
		"a duration of 0s":   {Calls: []int{1}},
		"a duration of 2h":   {Calls: []int{1}, Duration: 2 * time.Hour},
		"-1 events":          {Calls: []int{1}, Events: -1, Duration: time.Second},
		"speech in 101 %":    {Calls: []int{1}, Speech: 101, Duration: time.Second},
		"201 events":         {Calls: []int{1}, Events: 201, Duration: time.Second},
	} {
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// carrier loses each tenth packet, changes another, and hands on the others.
type carrier struct {
	to echoed
	n  int
}

func (c *carrier) carry(p *media.Packet) {
	c.n++
	switch {
	case c.n%10 == 0:
		return
	case c.n == 61:
		p.Payload = p.Payload[1:]
	}
	_ = c.to.WriteAudio(p)
}

// TestOnlyTheMeasuredTimeCounts sends on schedule.
func TestOnlyTheMeasuredTimeCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLoad()
		c := &call{load: l}
		way := &carrier{to: echoed{&l.audio}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.pace(ctx, frame, []func(){func() { way.carry(c.next()) }, func() {}})
		}()
		time.Sleep(time.Second)
		must(t, wait(ctx, l.open(2*time.Second).Add(time.Second)))
		cancel()
		<-done
		if p := l.audio.path(); p.Sent != 100 || p.Lost != 11 || len(l.late.times) != 200 || l.late.path().P99 != 0 {
			t.Errorf("of 100 packets: %+v, %d timed", p, len(l.late.times))
		}
	})
}

// TestConversation has callers speak in a share of the time, and send in the rest what Chromium does that saves
// silence: time goes on, and no packet is missing.
func TestConversation(t *testing.T) {
	t.Parallel()
	for share, want := range map[int]int{100: 400, 50: 200 + 20, 10: 40 + 36, 0: 40} {
		for _, speech := range [][][]byte{nil, {{1, 2, 3}}} {
			l := newLoad()
			c := &call{load: l, speech: speech, silent: turnFrames * (100 - share) / 100}
			for turn := range 2 {
				sent, paused := 0, 0
				for i := range turnFrames {
					p := c.next()
					if p == nil {
						continue
					}
					if sent++; int(p.Sequence) != turn*want+sent || p.Timestamp != uint32(turn*turnFrames+i)*frameTicks {
						t.Fatalf("packet %d of turn %d is %d/%d", sent, turn, p.Sequence, p.Timestamp)
					}
					if p.Pauses() {
						paused++
					}
				}
				if pauses := speech != nil; sent != want || paused > 0 != (pauses && share < 100) {
					t.Errorf("speech in %d %%: %d packets of a turn, of which %d pause, want %d", share, sent, paused, want)
				}
			}
		}
	}
}

// recorder is an upstream session that keeps what is emitted.
type recorder struct{ events []map[string]any }

func (r *recorder) Emit(event map[string]any) { r.events = append(r.events, event) }
func (*recorder) Do(f func())                 { f() }

func TestWholeAnswersAreSpoken(t *testing.T) {
	t.Parallel()
	session := &recorder{}
	l := newLoad()
	s := &speaker{session: session, name: "1", events: answerEvents - 3}
	l.to.Store(int64(time.Hour))
	l.from.Store(1)
	for range 3 + answerEvents {
		s.speak(l.words.sentNow())
	}
	heard := func(delta string) {
		if at, ok := spokenAt(delta); ok {
			l.words.arrived(at)
		}
	}
	var deltas, whole string
	kinds := map[string]int{}
	for _, e := range session.events {
		kind, _ := e["type"].(string)
		kinds[kind]++
		if delta, ok := e["delta"].(string); ok {
			deltas += delta
			heard(delta)
		}
		if transcript, ok := e["transcript"].(string); ok {
			whole += transcript
		}
	}
	if deltas != whole || kinds["response.created"] != 2 || kinds["response.done"] != 2 || kinds["conversation.item.added"] != 2 {
		t.Errorf("%v", kinds)
	}
	for _, bad := range []string{"", "words", strings.Repeat("!", timeBytes) + spoken} {
		heard(bad)
	}
	if p := l.words.path(); p.Sent != answerEvents+3 || p.Lost != 0 || len(l.words.times) != p.Sent {
		t.Errorf("%+v", p)
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	b := &bridge{cmd: &exec.Cmd{Process: &os.Process{Pid: os.Getpid()}}}
	got, err := b.usage()
	if (err == nil) != (runtime.GOOS == "linux") || err == nil && got.rss < 1000 {
		t.Errorf("this process: %+v, %v", got, err)
	}
	b.cmd.Process.Pid = -1
	if _, err := b.usage(); err == nil {
		t.Error("a process that is not there uses something")
	}
}
