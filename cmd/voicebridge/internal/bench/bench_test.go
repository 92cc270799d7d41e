package bench

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
			report, err := Run(t.Context(), Config{Calls: []int{1}, Duration: time.Millisecond, Bridge: command, Progress: func(int) {}})
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
		"0 calls at once":  {Calls: []int{1, 0}, Duration: time.Second},
		"9999 calls":       {Calls: []int{9999}, Duration: time.Second},
		"a duration of 0s": {Calls: []int{1}},
		"a duration of 2h": {Calls: []int{1}, Duration: 2 * time.Hour},
	} {
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestOnlyTheMeasuredTimeCounts sends on schedule, loses each tenth packet and changes another.
func TestOnlyTheMeasuredTimeCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{epoch: time.Now(), alive: t.Context()}
		c := &call{rig: r}
		n := 0
		carry := func() {
			p := c.next()
			switch n++; {
			case n%10 == 0:
				return
			case n == 61:
				p.Payload = p.Payload[1:]
			}
			_ = c.WriteAudio(p)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.senders.Go(func() { r.pace(ctx, frame, []func(){carry, func() {}}) })
		testkit.Must(t, r.wait(time.Second))
		from := r.now() + int64(frame)
		r.to.Store(from + int64(2*time.Second))
		r.from.Store(from)
		testkit.Must(t, r.wait(3*time.Second))
		cancel()
		r.senders.Wait()
		if p := r.audio.path(); p.Sent != 100 || p.Lost != 11 || len(r.behind.times) != 200 || r.behind.path().P99 != 0 {
			t.Errorf("of 100 packets: %+v, %d timed", p, len(r.behind.times))
		}
	})
}

// recorder is an upstream session that keeps what is emitted.
type recorder struct{ events []map[string]any }

func (r *recorder) Emit(event map[string]any) { r.events = append(r.events, event) }
func (*recorder) Do(f func())                 { f() }

// TestWholeAnswersAreSpoken loses no word at the edges of answers, and then the call.
func TestWholeAnswersAreSpoken(t *testing.T) {
	t.Parallel()
	session, r := &recorder{}, &rig{epoch: time.Now()}
	r.alive, r.end = context.WithCancelCause(t.Context())
	c := &call{rig: r, session: session, words: answerWords - 3, lost: r.end}
	r.to.Store(int64(time.Hour))
	r.from.Store(1)
	for range 3 + answerWords {
		c.speak()
	}
	var deltas, whole string
	for _, e := range session.events {
		raw, err := json.Marshal(e)
		testkit.Must(t, err)
		c.read(raw)
		if delta, ok := e["delta"].(string); ok {
			deltas += delta
		}
		if transcript, ok := e["transcript"].(string); ok {
			whole += transcript
		}
	}
	if p := r.words.path(); p.Sent != answerWords+3 || p.Lost != 0 || deltas != whole || c.answers != 2 {
		t.Errorf("%+v in %d answers", p, c.answers)
	}
	if _, ok := spokenAt(strings.Repeat("!", timeBytes) + word); ok {
		t.Error("a word without its time is timed")
	}
	c.read([]byte(`{"type":"bridge.ended","reason":"upstream_lost"}`))
	if err := r.wait(time.Hour); err == nil || !strings.Contains(err.Error(), "the bridge ended it: upstream_lost") {
		t.Error(err)
	}
}

// TestTable says how many calls the machine carries, and why one may doubt it.
func TestTable(t *testing.T) {
	t.Parallel()
	used := newProcess(50, usage{rss: 36864}, usage{cpu: time.Second}, usage{cpu: 3 * time.Second, rss: 66864}, 10)
	r := Report{Version: "v1.2.3", Machine: Machine{Cores: 2}, Seconds: 10, Rounds: []Round{
		{Calls: 1, Audio: Path{P50: 150, P99: 250, Sent: 500, Lost: 100}, LateP99: 7300}, {Calls: 50, Bridge: used},
	}}
	r.Notes = r.Rounds[0].doubts()
	var got strings.Builder
	testkit.Must(t, r.WriteTable(&got))
	for _, want := range []string{
		"voicebridge v1.2.3 bench", "1  0.15       0.25", "20.0      0.40     36.0  65.3          600", "60 % of 2 cores carry about 300 calls, and a GiB of memory 1747.",
		"Doubtful: 1 calls: the load generator was up to 7.3 ms", "Doubtful: 1 calls: 100 of 500 packets and 0 of 0 events were lost",
	} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no %q in\n%s", want, got.String())
		}
	}
	got.Reset()
	r.Rounds, r.Socket = r.Rounds[:1], true
	if testkit.Must(t, r.WriteTable(&got)); !strings.Contains(got.String(), "only Linux reports them") || !strings.Contains(got.String(), "1    -") {
		t.Error(got.String())
	}
}
