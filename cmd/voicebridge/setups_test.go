//go:build nightly

package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

var setUps = flag.Int("setups", 1, "how many set-ups of each kind TestSetUps makes")

// The emulated networks: how long it takes there and back. Without a bridge the browser's is as long as some part of
// both, as the bridge is nearer to the browser than the model is.
const (
	toBridge   = 40 * time.Millisecond
	toUpstream = 20 * time.Millisecond
	direct     = 50 * time.Millisecond
)

// TestSetUps measures how soon calls are set up, one after the other, over emulated networks: through the bridge, which
// answers at once and then after the upstream, through a bare relay, and without anything in between. It prints the medians,
// and checks what was reached and no more of the times than the emulation guarantees.
func TestSetUps(t *testing.T) {
	behind := newModelEnd(t, toUpstream)
	atOnce, log := servingSetUps(t, behind, "at_once")
	after, _ := servingSetUps(t, behind, "after_upstream")
	alone := newModelEnd(t, 0)
	near, far := slowPeers(t, toBridge), slowPeers(t, direct)
	ways := []*way{
		{name: "voicebridge", address: atOnce, api: near, rtt: toBridge, end: behind},
		{name: "calls.answer: after_upstream", address: after, api: near, rtt: toBridge, end: behind},
		{name: "bare relay", address: servingRelay(t, behind), api: near, rtt: toBridge, end: behind},
		{name: "no bridge", address: alone.address, api: far, rtt: direct, end: alone},
	}
	for _, w := range ways {
		pool := &http.Transport{}
		t.Cleanup(pool.CloseIdleConnections)
		w.client = &realtime.Client{BaseURL: w.address + "/v1", HTTP: &http.Client{Transport: slowRequests{pool, w.rtt}}, Timeout: time.Minute}
		w.setUp(t) // what was reached once is answered at once, and connections are kept
	}
	for _, thinks := range []time.Duration{0, 400 * time.Millisecond} {
		behind.thinks.Store(int64(thinks))
		alone.thinks.Store(int64(thinks))
		logged := len(log.String())
		for range *setUps { // in turn, so that what disturbs the machine disturbs all
			for _, w := range ways {
				at := w.setUp(t)
				least := map[string]time.Duration{"no bridge": direct + thinks, "calls.answer: after_upstream": toBridge + toUpstream + thinks}[w.name]
				if at[0] < max(least, toBridge) || at[1] < at[0] || at[2] < at[1] || at[3] < at[0] {
					t.Errorf("%s, %s: %v", w.name, thinks, at)
				}
				w.times = append(w.times, at)
			}
		}
		steps := medianSteps([]byte(log.String()[logged:]), 4)
		if len(steps) == 0 {
			t.Error("no steps in the log")
		}
		t.Logf("The model takes %s to take a call; ms after the offer:\n%s\n%s", thinks, wayTable(ways), steps)
	}
}

func wayTable(ways []*way) string {
	var out strings.Builder
	table := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tanswer\tbrowser connected\tfirst sound\tcaller's first word\t")
	for _, w := range ways {
		fmt.Fprint(table, w.name)
		for i := range 4 {
			times := []time.Duration{}
			for _, at := range w.times {
				times = append(times, at[i])
			}
			slices.Sort(times)
			fmt.Fprintf(table, "\t%d", times[len(times)/2].Milliseconds())
		}
		fmt.Fprintln(table, "\t")
		w.times = nil
	}
	_ = table.Flush()
	return out.String()
}

// slowPeers returns an API on a network of that length.
func slowPeers(t *testing.T, rtt time.Duration) *rtc.API {
	api, err := rtc.New(rtc.Config{Loopback: true, Bare: true, Delay: rtt / 2, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, api.Close()) })
	return api
}

// servingSetUps serves with a model, and logs how calls are set up.
func servingSetUps(t *testing.T, end *modelEnd, answer string) (string, *output) {
	return serving(t, "VOICEBRIDGE_UPSTREAM=openai", "OPENAI_API_KEY=load", "OPENAI_BASE_URL="+end.address+"/v1",
		"VOICEBRIDGE_CALLS__ANSWER="+answer, "VOICEBRIDGE_LOG__FORMAT=json", "VOICEBRIDGE_LIMITS__SETUPS_PER_MINUTE_PER_IP=100000")
}

// servingRelay serves a bare relay to a model.
func servingRelay(t *testing.T, end *modelEnd) string {
	pool := &http.Transport{}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	relay := newRelay(ctx, slowPeers(t, 0), &realtime.Client{BaseURL: end.address + "/v1", HTTP: &http.Client{Transport: pool}})
	server := httptest.NewServer(relay)
	t.Cleanup(func() {
		server.Close()
		stop()
		must(t, relay.Close())
		pool.CloseIdleConnections()
	})
	return server.URL
}

// slowRequests are sent over a network of that length, on which a connection is kept.
type slowRequests struct {
	http.RoundTripper

	rtt time.Duration
}

func (s slowRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.After(s.rtt)
	return s.RoundTripper.RoundTrip(r)
}

// modelEnd is the upstream's end: a model that speaks as soon as it is connected.
type modelEnd struct {
	address string
	thinks  atomic.Int64 // ns

	mu      sync.Mutex
	heard   chan time.Time // gets when the caller is first heard
	session *simulator.Session
}

// newModelEnd serves a model on a network of that length.
func newModelEnd(t *testing.T, rtt time.Duration) *modelEnd {
	e := new(modelEnd)
	sim, err := simulator.New(simulator.Config{API: slowPeers(t, rtt), Models: []string{"load"}, Deaf: true, Drive: e.drive})
	must(t, err)
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- sim.Run(running) }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/calls") {
			<-time.After(rtt + time.Duration(e.thinks.Load()))
		}
		sim.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		server.Close()
		stop()
		must(t, <-done)
	})
	e.address = server.URL
	return e
}

// expect returns a channel for when the caller of the next call is first heard.
func (e *modelEnd) expect() <-chan time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.heard, e.session = make(chan time.Time, 1), nil
	return e.heard
}

// drive speaks in a session, and listens.
func (e *modelEnd) drive(s *simulator.Session) media.Sink {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.session = s
	go speak(s, s.Done())
	return &firstPacket{at: e.heard}
}

// drop ends the session of the last call.
func (e *modelEnd) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session != nil {
		e.session.Drop()
	}
}

// firstPacket says when its first packet came. One goroutine writes to it.
type firstPacket struct {
	at    chan<- time.Time
	heard bool
}

func (f *firstPacket) WriteAudio(*media.Packet) error {
	if !f.heard {
		f.heard = true
		f.at <- time.Now()
	}
	return nil
}

// speak sends sound, of which nothing arrives before dst is connected, until done is closed.
func speak(dst media.Sink, done <-chan struct{}) {
	packets := time.Tick(20 * time.Millisecond)
	p := media.Packet{Source: 1, Payload: make([]byte, 80)}
	p.Payload[0] = 0xf8 // one frame of full-band Opus audio (RFC 6716, 3.1)
	for {
		select {
		case <-packets:
			p.Sequence++
			p.Timestamp += 960
			_ = dst.WriteAudio(&p)
		case <-done:
			return
		}
	}
}

// way is how a browser reaches the model.
type way struct {
	name    string
	address string
	api     *rtc.API // of the browser
	rtt     time.Duration
	client  *realtime.Client
	end     *modelEnd
	times   []reached
}

// reached are the times from the offer to the answer, the browser's connection, its first sound, and the caller's first
// word at the model.
type reached [4]time.Duration

// setUp makes a call, ends it, and says when what was reached.
func (w *way) setUp(t *testing.T) (at reached) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	word, sound, connected := w.end.expect(), make(chan time.Time, 1), make(chan time.Time, 1)
	began := time.Now()
	peer, offer, err := w.api.Offer(ctx, media.Handlers{State: func(s media.State) {
		if s == media.StateConnected {
			select {
			case connected <- time.Now():
			default:
			}
		}
	}})
	must(t, err)
	defer w.end.drop()
	var talking sync.WaitGroup
	defer talking.Wait()
	defer func() { must(t, peer.Close()) }()
	made, err := w.client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"load"}`))
	must(t, err)
	defer func() { must(t, w.client.Hangup(context.WithoutCancel(ctx), made.ID)) }()
	at[0] = time.Since(began)
	must(t, peer.Accept(ctx, made.Answer))
	flow := new(media.Flow)
	flow.Open()
	talking.Go(func() { _ = peer.Forward(ctx, &firstPacket{at: sound}, flow) }) // it ends with the peer
	talking.Go(func() { speak(peer, peer.Done()) })
	for i, when := range []<-chan time.Time{connected, sound, word} {
		select {
		case then := <-when:
			at[i+1] = then.Sub(began)
		case <-ctx.Done():
			t.Fatalf("%s: step %d was not reached", w.name, i+1)
		}
	}
	return at
}
