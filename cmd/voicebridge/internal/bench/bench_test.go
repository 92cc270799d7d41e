package bench

import (
	"context"
	"errors"
	"os"
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
	r := &rig{calls: []*call{{}, {}}}
	r.alive, r.end = context.WithCancelCause(t.Context())
	r.lose(1, errors.New("the bridge ended it: upstream_lost"))
	r.lose(0, errors.New("connection closed")) // what follows
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
	for name, c := range map[string]struct {
		path, script, want string
	}{
		"it dies":              {"/bin/sh", "echo half a word >&2; exit 3", "the bridge has ended (exit status 3); it said:\nhalf a word"},
		"it ends":              {"/bin/sh", "exit 0", "the bridge has ended (exit status 0)"},
		"it says other things": {"/bin/sh", "echo hello; exec sleep 600", `it printed "hello" and no address`},
		"it says too much":     {"/bin/sh", "head -c 20000 /dev/zero; exec sleep 600", "and no address"},
		"it is not there":      {"/does/not/exist", "", "no such file"},
		"it refuses calls":     {"/bin/sh", "echo lost the key >&2; echo open http://127.0.0.1:1; exec sleep 600", "connection refused; it said:\nlost the key"},
		"it dies with a call":  {"/bin/sh", "echo open http://127.0.0.1:1; exit 4", "the bridge has ended (exit status 4)"},
		"it has its settings":  {"/bin/sh", `cat "$VOICEBRIDGE_CONFIG" >&2; echo "$DATABASE_URL $OPENAI_BASE_URL $EXTRA" >&2; exit 1`, "max_calls: 17"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := Command{Path: c.path, Args: []string{"-c", c.script}, Environ: []string{"EXTRA=extra", "PATH=" + os.Getenv("PATH")}, Dir: dir}
			report, err := Run(t.Context(), Config{Calls: []int{1}, Duration: time.Millisecond, Bridge: command})
			if err == nil || !strings.Contains(err.Error(), c.want) || len(report.Rounds) != 0 {
				t.Errorf("%v, want %q", err, c.want)
			}
			if name == "it has its settings" && (!strings.Contains(err.Error(), "sqlite:"+dir) || !strings.Contains(err.Error(), "/v1 extra")) {
				t.Errorf("%v", err)
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
	if _, err := openRig(ctx, Config{Bridge: command}, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
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
		l, c := newLoad(), &call{}
		way := &carrier{to: echoed{&l.audio}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.pace(ctx, frame, []func(){func() { way.carry(c.next(&l.audio)) }, func() {}})
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

func TestReadUsage(t *testing.T) {
	t.Parallel()
	got, err := readUsage(os.Getpid())
	if runtime.GOOS != "linux" {
		if !errors.Is(err, errNoUsage) {
			t.Errorf("%+v, %v", got, err)
		}
		return
	}
	if err != nil || got.rss < 1000 {
		t.Errorf("this process: %+v, %v", got, err)
	}
	if _, err := readUsage(-1); err == nil {
		t.Error("a process that is not there uses something")
	}
}
