package ws_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
	"voicebridge/realtime/ws"
)

const patience = 2 * time.Minute

// upstream runs a simulator and returns a client of it.
func upstream(t *testing.T, cfg simulator.Config) (*simulator.Server, *ws.Client) {
	t.Helper()
	cfg.APIKey = "sk-simulator"
	sim, err := simulator.New(cfg)
	testkit.Must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	server := httptest.NewServer(sim)
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		server.Close()
	})
	transport := &http.Transport{DisableKeepAlives: true}
	return sim, &ws.Client{
		URL: server.URL + "/v1/realtime", APIKey: cfg.APIKey, Model: "gpt-realtime-2.1", HTTP: &http.Client{Transport: transport},
	}
}

// listener is the client's side of a call.
type listener struct {
	mu      sync.Mutex
	events  []realtime.Event
	changed chan struct{}
	frames  int
}

func (l *listener) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *listener) WriteAudio(p *media.Packet) error {
	l.change(func() {
		if len(p.Payload) == p.Format.Frame() {
			l.frames++
		}
	})
	return nil
}

func (l *listener) message(data []byte) {
	ev, err := realtime.Decode(data)
	if err == nil {
		l.change(func() { l.events = append(l.events, ev) })
	}
}

// until waits for the n-th event of a type and returns it.
func (l *listener) until(t *testing.T, n int, kind string) realtime.Event {
	t.Helper()
	var found realtime.Event
	l.await(t, kind, func() bool {
		left := n
		for _, ev := range l.events {
			if ev.Type == kind {
				if left--; left == 0 {
					found = ev
					return true
				}
			}
		}
		return false
	})
	return found
}

func (l *listener) await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.After(patience)
	for {
		l.mu.Lock()
		done, changed := ok(), l.changed
		l.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit:
			l.mu.Lock()
			defer l.mu.Unlock()
			var types []string
			for _, ev := range l.events {
				types = append(types, ev.Type)
			}
			t.Fatalf("no %s; events: %s", what, strings.Join(types, " "))
		}
	}
}

// speech sends the recorded question at once: over WebSocket, only sound tells the time.
func speech(c *ws.Conn, source uint32) {
	for i, frame := range simulator.UserSpeech() {
		_ = c.WriteAudio(&media.Packet{Source: source, Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: frame})
	}
}

// TestSimulator speaks with the simulator: it hears the question, answers, and is interrupted.
func TestSimulator(t *testing.T) {
	t.Parallel()
	script := simulator.DefaultScript()
	script.Spoken = script.Spoken[2:3] // a long answer, which is still being played when the caller interrupts it
	sim, client := upstream(t, simulator.Config{Script: script})
	c, err := client.Dial(t.Context(), "", "")
	testkit.Must(t, err)
	l := &listener{changed: make(chan struct{})}
	c.Start(media.Handlers{Message: l.message})
	var flow media.Flow
	flow.Open()
	played := make(chan error, 1)
	go func() { played <- c.Forward(context.Background(), l, &flow) }()
	l.until(t, 1, realtime.TypeSessionCreated)
	testkit.Must(t, c.Send(t.Context(), []byte(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"transcription":{"model":"gpt-transcribe"}}}}}`)))
	l.until(t, 1, realtime.TypeSessionUpdated)
	speech(c, 1)
	l.until(t, 1, realtime.TypeTranscriptionCompleted)
	started := l.until(t, 1, realtime.TypeOutputBufferStarted)
	l.await(t, "sound", func() bool { return l.frames > 30 })
	speech(c, 2)
	cleared := l.until(t, 1, realtime.TypeOutputBufferCleared)
	truncated := l.until(t, 1, realtime.TypeItemTruncated)
	l.mu.Lock()
	heard := l.frames
	l.mu.Unlock()
	if cleared.ResponseID != started.ResponseID || truncated.AudioEndMS < 600 || truncated.AudioEndMS > int64(20*heard) {
		t.Errorf("cleared %s of %s; %d ms of %d frames", cleared.ResponseID, started.ResponseID, truncated.AudioEndMS, heard)
	}
	l.until(t, 2, realtime.TypeOutputBufferStarted)
	l.until(t, 2, realtime.TypeResponseDone)
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := testkit.Take(t, "what is played", played); !errors.Is(err, media.ErrClosed) {
		t.Error(err)
	}
	ses := sim.Sessions()[0]
	testkit.Take(t, "the end of ses", ses.Done())
	for _, r := range ses.Received() {
		testkit.Equal(t, r.Refused, "", "refused with: %.200s", r.Event.Raw)
	}
	if at := slices.IndexFunc(l.events, func(ev realtime.Event) bool { return ev.Type == realtime.TypeOutputAudioDelta }); at >= 0 {
		t.Error("the client gets sound in events")
	}
}

// TestRefused dials with a wrong key, and a model that is not there.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(c *ws.Client)
		code   string
	}{
		"key":   {func(c *ws.Client) { c.APIKey = "sk-wrong-key" }, "invalid_api_key"},
		"model": {func(c *ws.Client) { c.Model = "other" }, "model_not_found"},
		"none":  {func(c *ws.Client) { c.Model = "" }, "missing_required_parameter"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, client := upstream(t, simulator.Config{})
			tt.change(client)
			_, err := client.Dial(t.Context(), "", "")
			if e, ok := errors.AsType[*realtime.APIError](err); !ok || e.Code != tt.code || strings.Contains(err.Error(), "sk-") {
				t.Errorf("Dial: %v", err)
			}
		})
	}
}

// TestUnreachable does not tell what the address says after its path.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"ws://127.0.0.1:1/x?key=secret", "wss://127.0.0.1:1/x?key=secret"} {
		if _, err := (&ws.Client{URL: address}).Dial(t.Context(), "", ""); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// TestExpires has a session end at its limit: the event comes, and then the end.
func TestExpires(t *testing.T) {
	t.Parallel()
	_, client := upstream(t, simulator.Config{MaxDuration: 100 * time.Millisecond})
	c, err := client.Dial(t.Context(), "", "")
	testkit.Must(t, err)
	l := &listener{changed: make(chan struct{})}
	states := make(chan media.State, 4)
	c.Start(media.Handlers{Message: l.message, State: func(s media.State) { states <- s }})
	if ev := l.until(t, 1, realtime.TypeError); ev.Error.Code != "session_expired" {
		t.Errorf("%s", ev.Raw)
	}
	testkit.Take(t, "the end of c", c.Done())
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if first, second := testkit.Take(t, "a state", states), testkit.Take(t, "a state", states); first != media.StateConnected || second != media.StateClosed {
		t.Errorf("%v, %v", first, second)
	}
}
