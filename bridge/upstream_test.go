package bridge_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// newUpstream returns the driver of an upstream that answers as h does, without a network.
func newUpstream(t *testing.T, h http.HandlerFunc) *bridge.Realtime {
	t.Helper()
	n := newNetwork(t, false)
	client, address := n.serve(t, h)
	return bridge.NewRealtimeBy("openai", n.offer, &realtime.Client{BaseURL: address, HTTP: client})
}

// TestLateSession has a client leave before the upstream has answered. A session that the upstream creates all the same
// is hung up, unless the process ends first.
func TestLateSession(t *testing.T) {
	t.Parallel()
	for name, ends := range map[string]bool{"it is created": false, "the process ends first": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testLateSession(t, ends) })
		})
	}
}

func testLateSession(t *testing.T, ends bool) {
	t.Helper()
	asked, answer, hungUp := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "/hangup") {
			hungUp <- r.URL.Path
			return
		}
		close(asked)
		<-answer
		w.Header().Set("Location", "/realtime/calls/rtc_late")
		w.WriteHeader(http.StatusCreated)
	})
	later := make(chan func(<-chan struct{}), 1)
	ctx, leave := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := upstream.Dial(ctx, bridge.Dial{Later: func(work func(<-chan struct{})) { later <- work }})
		failed <- err
	}()
	testkit.Take(t, "a request", asked)
	leave()
	if err := testkit.Take(t, "the failure", failed); !errors.Is(err, context.Canceled) {
		t.Errorf("Dial() = %v", err)
	}
	ending, want := make(chan struct{}), "/realtime/calls/rtc_late/hangup"
	if ends {
		close(ending)
		defer close(answer)
		want = ""
	} else {
		close(answer)
	}
	testkit.Take(t, "what comes later", later)(ending)
	got := ""
	select {
	case got = <-hungUp:
	default:
	}
	testkit.Equal(t, got, want, "hung up")
}

// TestBadAnswerAtOnce has an upstream send no usable answer, and then not answer the hang-up either: nobody waits for
// that.
func TestBadAnswerAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testBadAnswerAtOnce)
}

func testBadAnswerAtOnce(t *testing.T) {
	t.Helper()
	answer, hungUp := make(chan struct{}), make(chan string, 1)
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if strings.HasSuffix(r.URL.Path, "/hangup") {
			<-answer
			hungUp <- r.URL.Path
			return
		}
		w.Header().Set("Location", "/realtime/calls/rtc_bad")
		w.WriteHeader(http.StatusCreated)
	})
	later := make(chan func(<-chan struct{}), 1)
	_, err := upstream.Dial(t.Context(), bridge.Dial{Later: func(work func(<-chan struct{})) { later <- work }})
	close(answer)
	if !errors.Is(err, realtime.ErrBadAnswer) {
		t.Errorf("Dial() = %v", err)
	}
	select {
	case work := <-later:
		work(nil)
	default:
		t.Fatal("the call was hung up before Dial returned, or not at all")
	}
	testkit.Equal(t, testkit.Take(t, "hungUp", hungUp), "/realtime/calls/rtc_bad/hangup", "hung up")
}

// TestSafetyIdentifier checks that the upstream can tell owners apart, and does not learn who they
// are.
func TestSafetyIdentifier(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testSafetyIdentifier)
}

func testSafetyIdentifier(t *testing.T) {
	t.Helper()
	identifiers := make(chan string, 1)
	upstream := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		identifiers <- r.Header.Get("OpenAI-Safety-Identifier")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	ask := func(owner string) string {
		t.Helper()
		if _, err := upstream.Dial(t.Context(), bridge.Dial{Owner: owner}); err == nil {
			t.Fatal("Dial() = nil")
		}
		return <-identifiers
	}
	ada, again, bert := ask("ada@example.org"), ask("ada@example.org"), ask("bert@example.org")
	if ada == "" || len(ada) > 64 || ada != again || ada == bert || strings.Contains(ada, "ada") {
		t.Errorf("the upstream received %q, %q and %q", ada, again, bert)
	}
	testkit.Equal(t, ask(""), "", "for nobody the upstream received")
}

// TestUpstreamAsksToWait passes on how long the upstream asks to wait.
func TestUpstreamAsksToWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testUpstreamAsksToWait)
}

func testUpstreamAsksToWait(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{Faults: simulator.Faults{
		RefuseStatus: http.StatusServiceUnavailable, RefuseHeader: http.Header{"Retry-After": {"7"}},
	}}})
	_, err := b.try(bridge.Start{})
	if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != bridge.CodeUpstreamRefused || e.RetryAfter != 7*time.Second {
		t.Errorf("Start() = %#v", err)
	}
}

// TestNegotiatedUpstream has the driver and the upstream open the data channel by themselves, as OpenAI lets clients
// do.
func TestNegotiatedUpstream(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	api, err := rtc.New(rtc.Config{Loopback: true, DataChannel: 4})
	must(t, err)
	sim, err := simulator.New(simulator.Config{})
	must(t, err)
	ended := make(chan error, 1)
	go func() { ended <- sim.Run(ctx) }()
	var asked atomic.Value
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.CompareAndSwap(nil, r.URL.RequestURI())
		sim.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		must(t, api.Close())
		stop()
		_, _ = testkit.Receive(t, "the simulator's end", ended)
		ts.Close()
	})
	events := make(chan []byte, 8)
	client := &realtime.Client{BaseURL: ts.URL + "/v1", DataChannel: 4, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}}
	_, err = bridge.NewRealtime("openai", api, client).Dial(ctx, bridge.Dial{
		Session:  []byte(`{"type":"realtime","model":"gpt-realtime"}`),
		History:  func(context.Context) ([]thread.Message, error) { return nil, nil },
		Created:  func(string) error { return nil },
		Handlers: media.Handlers{Message: func(data []byte) { events <- data }},
	})
	must(t, err)
	first, _ := testkit.Receive(t, "the first event", events)
	ev, err := realtime.Decode(first)
	if err != nil || ev.Type != realtime.TypeSessionCreated || asked.Load() != "/v1/realtime/calls?dcid=4" {
		t.Errorf("%s (%v) after %v", ev.Raw, err, asked.Load())
	}
}
