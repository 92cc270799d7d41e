package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// The emulated networks: how long it takes there and back. Without a bridge the browser's is as long as some part of both, as
// the bridge is nearer to the browser than the model is.
const (
	toBridge   = 40 * time.Millisecond
	toUpstream = 20 * time.Millisecond
	direct     = 50 * time.Millisecond
)

// thinking are how long the upstream takes to answer a request for a call, beyond its network.
var thinking = []time.Duration{0, 400 * time.Millisecond}

// maxSetUps is the largest SetUps.Count.
const maxSetUps = 1000

// SetUps says how set-ups of calls are measured, one after the other, over emulated networks: through the bridge, which
// answers at once and then after the upstream, through a bare relay, and without anything in between.
type SetUps struct {
	// Count is how many of each; up to 1000.
	Count int
	// Bridge says how to start the bridge.
	Bridge Command
	// Version is the bridge's, for the report.
	Version string
	// Progress gets a line for each round; it may be nil.
	Progress io.Writer
}

// Run measures. It fails when a call cannot be made, and when ctx ends; the report then holds what was measured until then.
func (s SetUps) Run(ctx context.Context) (report SetUpReport, err error) {
	report = SetUpReport{
		Version: s.Version, StartedAt: time.Now().UTC().Truncate(time.Second), Machine: thisMachine(), SetUps: s.Count,
		BrowserRTT: ms(toBridge), UpstreamRTT: ms(toUpstream), DirectRTT: ms(direct), Rounds: []SetUpRound{},
	}
	if s.Count < 1 || s.Count > maxSetUps {
		return report, fmt.Errorf("%d set-ups: it must be 1 to %d", s.Count, maxSetUps)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var m setUps
	defer func() {
		cancel()
		err = errors.Join(err, m.close())
	}()
	if err := m.open(ctx, s.Bridge); err != nil {
		return report, err
	}
	for _, w := range m.ways { // what was reached once is answered at once, and connections are kept
		if _, err := w.setUp(ctx); err != nil {
			return report, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for _, thinks := range thinking {
		if s.Progress != nil {
			_, _ = fmt.Fprintf(s.Progress, "%d set-ups of each kind, with an upstream that takes %s to take a call\n", s.Count, thinks) // its failure is no reason to stop
		}
		round, err := m.measure(ctx, s.Count, thinks)
		if err != nil {
			return report, err
		}
		report.Rounds = append(report.Rounds, round)
	}
	return report, nil
}

// setUps has both ends of calls that are set up in each way.
type setUps struct {
	ways    []*way
	ends    []*modelEnd
	traced  traces         // of the first way
	opened  []func() error // what close closes, the last first
	nothing slog.Handler
}

func (m *setUps) close() error {
	var errs []error
	for _, c := range slices.Backward(m.opened) {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// open opens everything. close must follow, also after an error.
func (m *setUps) open(ctx context.Context, command Command) error {
	m.nothing = slog.DiscardHandler
	behind, err := m.model(ctx, toUpstream)
	if err != nil {
		return err
	}
	atOnce, err := m.start(ctx, command, behind, "at_once")
	if err != nil {
		return err
	}
	m.traced = traces{log: atOnce.stderr.Name()}
	after, err := m.start(ctx, command, behind, "after_upstream")
	if err != nil {
		return err
	}
	relay, err := m.relay(ctx, behind)
	if err != nil {
		return err
	}
	alone, err := m.model(ctx, 0)
	if err != nil {
		return err
	}
	near, err := m.peers(toBridge)
	if err != nil {
		return err
	}
	far, err := m.peers(direct)
	if err != nil {
		return err
	}
	m.ways = []*way{
		{name: "voicebridge", address: atOnce.url, api: near, rtt: toBridge, end: behind},
		{name: "calls.answer: after_upstream", address: after.url, api: near, rtt: toBridge, end: behind},
		{name: relayed, address: relay, api: near, rtt: toBridge, end: behind},
		{name: unbridged, address: alone.address, api: far, rtt: direct, end: alone},
	}
	for _, w := range m.ways {
		pool := &http.Transport{}
		m.opened = append(m.opened, func() error { pool.CloseIdleConnections(); return nil })
		w.client = &realtime.Client{BaseURL: w.address + "/v1", HTTP: &http.Client{Transport: slowRequests{pool, w.rtt}}, Timeout: connectTimeout}
	}
	return nil
}

// The names of what the bridge is compared with.
const (
	relayed = "bare relay"
)

// peers returns an API on a network of that length.
func (m *setUps) peers(rtt time.Duration) (*rtc.API, error) {
	api, err := rtc.New(rtc.Config{Loopback: true, Delay: rtt / 2, Logger: slog.New(m.nothing)})
	if err == nil {
		m.opened = append(m.opened, api.Close)
	}
	return api, err
}

// model starts an upstream on a network of that length.
func (m *setUps) model(ctx context.Context, rtt time.Duration) (*modelEnd, error) {
	api, err := m.peers(rtt)
	if err != nil {
		return nil, err
	}
	e := &modelEnd{rtt: rtt}
	sim, err := simulator.New(simulator.Config{API: api, Models: []string{offeredModel}, Deaf: true, Drive: e.drive, Logger: slog.New(m.nothing)})
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan error, 1)
	go func() { done <- sim.Run(running) }()
	m.opened = append(m.opened, func() error { stop(); return <-done })
	e.address, err = m.serve(ctx, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		e.think(r)
		sim.ServeHTTP(w, r)
	}))
	m.ends = append(m.ends, e)
	return e, err
}

// serve serves on a port of loopback, and returns its address.
func (m *setUps) serve(ctx context.Context, h http.Handler) (address string, err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("listen: %w", err)
	}
	server := &http.Server{Handler: h, ReadHeaderTimeout: closeTimeout, ErrorLog: slog.NewLogLogger(m.nothing, slog.LevelDebug)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // it ends by Close, with an error that says so
	}()
	m.opened = append(m.opened, func() error {
		err := server.Close()
		<-done
		return err
	})
	return "http://" + ln.Addr().String(), nil
}

// start starts the bridge, which logs how its calls are set up.
func (m *setUps) start(ctx context.Context, command Command, end *modelEnd, answer string) (*bridge, error) {
	command.Environ = append(slices.Clone(command.Environ), "VOICEBRIDGE_CALLS__ANSWER="+answer, "VOICEBRIDGE_LOG__LEVEL=info", "VOICEBRIDGE_LOG__FORMAT=json")
	b, err := startBridge(ctx, command, end.address+"/v1", spareCalls)
	if err != nil {
		return nil, err
	}
	m.opened = append(m.opened, b.close)
	return b, nil
}

// relay starts a bare relay, and returns its address.
func (m *setUps) relay(ctx context.Context, end *modelEnd) (address string, err error) {
	api, err := m.peers(0)
	if err != nil {
		return "", err
	}
	pool := &http.Transport{}
	relay := NewRelay(ctx, api, &realtime.Client{BaseURL: end.address + "/v1", HTTP: &http.Client{Transport: pool}})
	m.opened = append(m.opened, func() error { pool.CloseIdleConnections(); return relay.Close() })
	return m.serve(ctx, relay)
}

// slowRequests are sent over a network of that length, on which a connection is kept.
type slowRequests struct {
	http.RoundTripper

	rtt time.Duration
}

func (s slowRequests) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-time.After(s.rtt):
		return s.RoundTripper.RoundTrip(r)
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
}

// modelEnd is the upstream's end: a model that speaks as soon as it is connected.
type modelEnd struct {
	address string
	rtt     time.Duration
	thinks  atomic.Int64 // ns

	mu      sync.Mutex
	heard   chan time.Time // gets when the caller is first heard
	session *simulator.Session
}

// think takes as long as the upstream and the way to it do until it takes a call.
func (e *modelEnd) think(r *http.Request) {
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/calls") {
		return
	}
	select {
	case <-time.After(e.rtt + time.Duration(e.thinks.Load())):
	case <-r.Context().Done():
	}
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
	packets := time.Tick(frame)
	p := media.Packet{Source: 1, Payload: make([]byte, payloadSize)}
	p.Payload[0] = tocByte
	for {
		select {
		case <-packets:
			p.Sequence++
			p.Timestamp += frameTicks
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
}

// reached are the times from the offer on.
type reached struct{ answer, connected, sound, word time.Duration }

// setUp makes a call, ends it, and says when what was reached.
func (w *way) setUp(ctx context.Context) (at reached, err error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
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
	if err != nil {
		return at, err
	}
	defer w.end.drop()
	var talking sync.WaitGroup
	defer talking.Wait()
	defer func() { err = errors.Join(err, peer.Close()) }()
	made, err := w.client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"`+offeredModel+`"}`))
	if err != nil {
		return at, err
	}
	defer func() { err = errors.Join(err, w.client.Hangup(context.WithoutCancel(ctx), made.ID)) }()
	at.answer = time.Since(began)
	if err := peer.Accept(ctx, made.Answer); err != nil {
		return at, err
	}
	flow := new(media.Flow)
	flow.Open()
	talking.Go(func() { _ = peer.Forward(ctx, &firstPacket{at: sound}, flow) }) // it ends with the peer
	talking.Go(func() { speak(peer, peer.Done()) })
	for _, step := range []struct {
		name string
		when <-chan time.Time
		to   *time.Duration
	}{{"connection", connected, &at.connected}, {"sound", sound, &at.sound}, {"word at the model", word, &at.word}} {
		select {
		case t := <-step.when:
			*step.to = t.Sub(began)
		case <-ctx.Done():
			return at, fmt.Errorf("no %s: %w", step.name, context.Cause(ctx))
		}
	}
	return at, nil
}

// measure makes n set-ups of each kind, in turn, so that what disturbs the machine disturbs all.
func (m *setUps) measure(ctx context.Context, n int, thinks time.Duration) (SetUpRound, error) {
	for _, e := range m.ends {
		e.thinks.Store(int64(thinks))
	}
	if _, err := m.traced.next(); err != nil { // of before
		return SetUpRound{}, err
	}
	all := make([][]reached, len(m.ways))
	for range n {
		for i, w := range m.ways {
			at, err := w.setUp(ctx)
			if err != nil {
				return SetUpRound{}, fmt.Errorf("%s: %w", w.name, err)
			}
			all[i] = append(all[i], at)
		}
	}
	steps, err := m.traced.next()
	if err != nil {
		return SetUpRound{}, err
	}
	round := SetUpRound{Thinks: ms(thinks), Steps: steps}
	for i, w := range m.ways {
		median := func(of func(reached) time.Duration) float64 {
			var times []time.Duration
			for _, at := range all[i] {
				times = append(times, of(at))
			}
			slices.Sort(times)
			return ms(times[len(times)/2])
		}
		round.Ways = append(round.Ways, Way{
			Name:       w.name,
			Answer:     median(func(r reached) time.Duration { return r.answer }),
			Connected:  median(func(r reached) time.Duration { return r.connected }),
			FirstSound: median(func(r reached) time.Duration { return r.sound }),
			FirstWord:  median(func(r reached) time.Duration { return r.word }),
		})
	}
	return round, nil
}
