package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"voicebridge/realtime"
)

func openDirect(t *testing.T, trickle time.Duration) *rig {
	t.Helper()
	r, err := openRig(t.Context(), nil, 1, trickle)
	must(t, err)
	t.Cleanup(func() {
		if err := r.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return r
}

// TestDirectCalls measures the baseline: browsers and upstream without a bridge.
func TestDirectCalls(t *testing.T) {
	t.Parallel()
	r := openDirect(t, 0)
	const calls = 3
	f, err := r.flow(Config{Duration: 1500 * time.Millisecond, WarmUp: 100 * time.Millisecond}, calls)
	must(t, err)
	for name, p := range map[string]Path{"up": f.paths.Up, "down": f.paths.Down} {
		if p.Sent == 0 || p.Lost >= int64(p.Sent) || p.Disordered != 0 || p.Wrong != 0 || p.P50 <= 0 || p.P99 < p.P50 || p.Max < p.P99 {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if f.used != nil || f.setUp <= 0 || (runtime.GOOS == "linux") != (f.generator.CPU != nil) || (runtime.GOOS == "linux") != (f.others != nil) {
		t.Errorf("%+v", f)
	}
}

func TestDirectSetUp(t *testing.T) {
	t.Parallel()
	r := openDirect(t, trickle)
	var s stages
	for _, counts := range []bool{false, true, true} {
		must(t, r.setUp(&s, counts))
	}
	for name, h := range map[string]*histogram{"answer": &s.answer, "channel": &s.channel, "sound": &s.sound, "ready": &s.ready} {
		if h.count() != 2 || h.quantile(0.5) <= 0 {
			t.Errorf("%s: %d times, %s", name, h.count(), h.quantile(0.5))
		}
	}
	if answer, sound := s.answer.max(), s.sound.max(); answer > sound {
		t.Errorf("sound after %s came before the answer after %s", sound, answer)
	}
}

// TestALostCallEndsTheMeasurement says which call and why.
func TestALostCallEndsTheMeasurement(t *testing.T) {
	t.Parallel()
	r := openDirect(t, 0)
	browsers, err := r.dialAll(r.alive, 2)
	must(t, err)
	ctx, end := r.watchCalls(browsers)
	defer end(nil)
	r.up.live()[0].session.Drop()
	err = wait(ctx, time.Now().Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "of 2 ended while it was measured: connection closed") {
		t.Errorf("%v", err)
	}
	must(t, hangUpAll(r.alive, browsers))
}

func TestACancelledMeasurementLeavesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	r, err := openRig(ctx, nil, 1, 0)
	must(t, err)
	browsers, err := r.dialAll(r.alive, 2)
	must(t, err)
	cancel()
	if err := wait(r.alive, time.Now().Add(time.Hour)); !errors.Is(err, context.Canceled) {
		t.Errorf("wait: %v", err)
	}
	must(t, errors.Join(hangUpAll(ctx, browsers), r.close()))
	if _, err := openRig(ctx, &Command{Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}, Dir: t.TempDir()}, 1, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("open: %v", err)
	}
}

func TestBrowserTellsWhyItsCallEnded(t *testing.T) {
	t.Parallel()
	r := openDirect(t, 0)
	b, err := dial(r.alive, r.api, r.client, r.m, "test.done", 1)
	must(t, err)
	call := r.up.live()[0].session
	for _, event := range []string{
		"{", `{"type":"response.done"}`, string(realtime.ErrorEvent("e", realtime.Error{Code: "rate_limit_exceeded", Message: "slow"})),
		`{"type":"bridge.ended","reason":"upstream_lost"}`, `{"type":"test.done"}`,
	} {
		call.Inject([]byte(event))
	}
	must(t, b.await(t.Context(), &b.opened, &b.ready))
	call.Drop()
	<-b.alive.Done()
	if cause := context.Cause(b.alive); !strings.Contains(cause.Error(), "the bridge ended the call: upstream_lost") {
		t.Errorf("%v", cause)
	}
	if err := b.await(t.Context(), &moment{}); err == nil {
		t.Error("a call that has ended is awaited")
	}
	must(t, b.hangUp(t.Context()))
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
			report, err := Run(t.Context(), Config{SetUps: 1, Duration: time.Second, Bridge: command})
			if err == nil || !strings.Contains(err.Error(), c.want) || report.SetUp != nil {
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

func TestABridgeThatDiesEndsTheMeasurement(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		return // the script is for a POSIX shell
	}
	command := Command{Path: "/bin/sh", Args: []string{"-c", "echo open http://127.0.0.1:1; exec sleep 600"}, Dir: t.TempDir(), Environ: []string{"PATH=" + os.Getenv("PATH")}}
	r, err := openRig(t.Context(), &command, 1, 0)
	must(t, err)
	process, err := os.FindProcess(r.bridge.pid)
	must(t, err)
	must(t, process.Kill())
	ctx, end := r.watchCalls(nil)
	defer end(nil)
	if err := wait(ctx, time.Now().Add(time.Hour)); !errors.Is(err, errBridgeEnded) || !strings.Contains(err.Error(), "killed") {
		t.Errorf("%v", err)
	}
	must(t, r.close())
}

func TestSettingsAreChecked(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Config{
		"nothing to measure": {Duration: time.Second},
		"0 calls at once":    {Calls: []int{1, 0}, Duration: time.Second},
		"9999 calls":         {Calls: []int{9999}, Duration: time.Second},
		"a duration of 0s":   {Calls: []int{1}},
		"a duration of 2h":   {Calls: []int{1}, Duration: 2 * time.Hour},
		"-1 tools":           {Calls: []int{1}, Tools: -1, Duration: time.Second},
		"65 tools":           {Tools: 65, Duration: time.Second},
		"-1 set-ups":         {Calls: []int{1}, SetUps: -1, Duration: time.Second},
	} {
		if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	t.Parallel()
	var tl tail
	if tl.String() != "" {
		t.Errorf("%q", tl.String())
	}
	for i := range 3000 {
		if _, err := fmt.Fprintf(&tl, "line %d\n", i); err != nil {
			t.Fatal(err)
		}
	}
	if text := tl.String(); !strings.HasSuffix(text, "\nline 2999") || len(text) > maxTail+20 {
		t.Errorf("%d bytes: …%s", len(text), text[len(text)-40:])
	}
}
