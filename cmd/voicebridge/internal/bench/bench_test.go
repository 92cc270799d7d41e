package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDirectCalls measures the baseline: browsers and upstream without a bridge.
func TestDirectCalls(t *testing.T) {
	t.Parallel()
	h, err := measureHalf(t.Context(), Config{Duration: 1500 * time.Millisecond, WarmUp: 100 * time.Millisecond, Events: 20}, nil, 3)
	must(t, err)
	if h.known || len(h.ready.times) != 3 || len(h.late.times) == 0 {
		t.Errorf("%+v", h)
	}
	p := h.paths()
	for name, p := range map[string]Path{"up": p.Up, "down": p.Down, "words": p.Words} {
		if p.Sent == 0 || p.Lost >= p.Sent || p.Wrong != 0 || p.P50 <= 0 || p.P99 < p.P50 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

// TestALostCallEndsTheMeasurement says which call and why.
func TestALostCallEndsTheMeasurement(t *testing.T) {
	t.Parallel()
	r, err := openRig(t.Context(), nil, 2)
	must(t, err)
	l := newLoad(2)
	must(t, r.dial(l))
	for _, event := range []string{"{", `{"type":"bridge.ended","reason":"upstream_lost"}`} {
		l.calls[1].speaker.session.(interface{ Inject(raw []byte) }).Inject([]byte(event))
	}
	l.calls[1].speaker.session.(interface{ Drop() }).Drop()
	err = wait(r.alive, time.Now().Add(time.Hour))
	if err == nil || !strings.Contains(err.Error(), "call 2 of 2 ended while it was measured: connection closed (the bridge ended the call: upstream_lost)") {
		t.Errorf("%v", err)
	}
	must(t, errors.Join(r.hangUp(l), r.close()))
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
			report, err := Run(t.Context(), Config{Calls: []int{1}, WarmUp: time.Millisecond, Duration: time.Millisecond, Bridge: command})
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
	command := &Command{Path: "/bin/sh", Args: []string{"-c", "exec sleep 600"}, Dir: t.TempDir()}
	if _, err := openRig(ctx, command, 1); !errors.Is(err, context.Canceled) {
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

// carried hands packets to a stream's receiving end, in the order that deliver gives them.
type carried struct {
	to      *stream
	deliver func(n int, p *rtp.Packet) []*rtp.Packet
	n       int
}

func (c *carried) WriteRTP(p *rtp.Packet) error {
	kept := *p
	kept.Payload = append([]byte(nil), p.Payload...)
	c.n++
	for _, p := range c.deliver(c.n, &kept) {
		_ = c.to.WriteRTP(p)
	}
	return nil
}

// TestOnlyTheMeasuredTimeCounts sends on schedule, loses each tenth packet, changes one, and delivers another twice.
func TestOnlyTheMeasuredTimeCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLoad(1)
		s := &l.calls[0].up
		way := &carried{to: s, deliver: func(n int, p *rtp.Packet) []*rtp.Packet {
			switch {
			case n%10 == 0:
				return nil
			case n == 61:
				binary.BigEndian.PutUint32(p.Payload[1:], 77)
			case n == 62:
				return []*rtp.Packet{p, p}
			case n == 63:
				p.Payload = p.Payload[1:]
			}
			return []*rtp.Packet{p}
		}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.pace(ctx, frame, []func(){func() { s.send(way) }, func() {}}, &l.late)
		}()
		time.Sleep(time.Second)
		must(t, wait(ctx, l.open(2*time.Second).Add(time.Second)))
		cancel()
		<-done
		if p := s.path(); p.Sent != 100 || p.Lost != 12 || p.Wrong != 3 || len(l.late.times) != 200 || l.late.path().P99 != 0 {
			t.Errorf("of 100 packets: %+v, %d timed", p, len(l.late.times))
		}
	})
}

// recorder is an upstream session that keeps what is emitted.
type recorder struct{ events []map[string]any }

func (r *recorder) Emit(event map[string]any)  { r.events = append(r.events, event) }
func (*recorder) Do(f func())                  { f() }
func (*recorder) WriteRTP(_ *rtp.Packet) error { return nil }

func TestWholeAnswersAreSpoken(t *testing.T) {
	t.Parallel()
	session := &recorder{}
	l := newLoad(1)
	c := l.calls[0]
	c.speaker = &speaker{session: session, name: "1", first: 3}
	l.to.Store(int64(time.Hour))
	l.from.Store(1)
	for range 3 + answerEvents {
		c.speaker.speak(c.words.sentNow())
	}
	var deltas, whole string
	kinds := map[string]int{}
	for _, e := range session.events {
		kind, _ := e["type"].(string)
		kinds[kind]++
		if delta, ok := e["delta"].(string); ok {
			deltas += delta
			c.heard(delta)
		}
		if transcript, ok := e["transcript"].(string); ok {
			whole += transcript
		}
	}
	if deltas != whole || kinds["response.created"] != 2 || kinds["response.done"] != 2 || kinds["conversation.item.added"] != 2 {
		t.Errorf("%v", kinds)
	}
	for _, bad := range []string{"", "words", strings.Repeat("!", timeBytes) + spoken} {
		c.heard(bad)
	}
	if p := c.words.path(); p.Sent != answerEvents+3 || p.Lost != 0 || len(c.words.times) != p.Sent {
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
