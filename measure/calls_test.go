package measure

import (
	"bufio"
	"encoding/binary"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// The emulated ways, there and back. Without a bridge the browser's is as long as some part of both, as the bridge is
// nearer to the browser than the model is.
const (
	toBridge = 40 * time.Millisecond
	toModel  = 20 * time.Millisecond
	direct   = 50 * time.Millisecond
)

// keeps is how long a player keeps packets after the fastest one, before it makes up what is missing.
const keeps = 100 * time.Millisecond

// network is what happens to a browser's packets, each way.
type network struct {
	name   string
	loss   float64       // how many packets begin a loss
	more   float64       // how often it goes on with the next one
	jitter time.Duration // a packet takes up to this much longer; the order is kept
}

var networks = []network{
	{name: "good"},
	{"5 % lost, 30 ms jitter", 0.05, 0, 30 * time.Millisecond},
	{"5 % lost in bursts of 4", 0.0132, 0.75, 0},
}

// peers returns an API on such a network of that length.
func (n network) peers(b *testing.B, rtt time.Duration) *rtc.API {
	random, losing := rand.New(rand.NewPCG(1, 2)), map[bool]bool{} //nolint:gosec // the same for every run
	var mu sync.Mutex
	api, err := rtc.New(rtc.Config{
		Loopback: true, Bare: true, Delay: rtt / 2, Logger: slog.New(slog.DiscardHandler),
		Disturb: func(outgoing bool) (later time.Duration, lost bool) {
			mu.Lock()
			defer mu.Unlock()
			losing[outgoing] = losing[outgoing] && random.Float64() < n.more || random.Float64() < n.loss
			return time.Duration(random.Float64() * float64(n.jitter)), losing[outgoing]
		},
	})
	must(b, err)
	b.Cleanup(func() { must(b, api.Close()) })
	return api
}

// slow has what passes take that much longer.
type slow struct {
	http.RoundTripper

	by time.Duration
}

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	<-time.After(s.by)
	return s.RoundTripper.RoundTrip(r)
}

// ear notes how long packets took, by the numbers that are behind their sound.
type ear struct {
	mu    sync.Mutex
	took  map[uint32]time.Duration
	first chan struct{} // closed by the first
}

func newEar() *ear { return &ear{took: map[uint32]time.Duration{}, first: make(chan struct{})} }

// WriteAudio implements media.Sink.
func (e *ear) WriteAudio(p *media.Packet) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.took) == 0 {
		close(e.first)
	}
	n, sent := binary.BigEndian.Uint32(p.Payload[1:]), time.Unix(0, int64(binary.BigEndian.Uint64(p.Payload[5:])))
	if _, again := e.took[n]; !again {
		e.took[n] = time.Since(sent)
	}
	return nil
}

// madeUp returns which share of the packets is not there when it is due, in %.
func (e *ear) madeUp() float64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	missing, first, last, fastest := 0, ^uint32(0), uint32(0), time.Hour
	for n, took := range e.took {
		first, last, fastest = min(first, n), max(last, n), min(fastest, took)
	}
	for n := first; n <= last; n++ {
		if took, came := e.took[n]; !came || took > fastest+keeps {
			missing++
		}
	}
	return 100 * float64(missing) / float64(last-first+1)
}

// speak sends a packet every 20 ms until done is closed; nothing arrives before dst is connected.
func speak(dst media.Sink, done <-chan struct{}) {
	packets := time.Tick(media.FrameTime)
	for n := uint32(0); ; n++ {
		select {
		case now := <-packets:
			// One frame of full-band Opus (RFC 6716, 3.1), which nobody decodes.
			payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte{0xf8}, n), uint64(now.UnixNano()))
			_ = dst.WriteAudio(&media.Packet{Source: 1, Sequence: uint16(n), Timestamp: n * media.FrameStep, Payload: append(payload, make([]byte, 60)...)})
		case <-done:
			return
		}
	}
}

// way is how a browser reaches a model, which speaks as soon as it is connected.
type way struct {
	bridged  bool
	client   *realtime.Client
	browser  *rtc.API
	sessions chan *simulator.Session
	model    chan *ear
	figures  map[string][]float64
}

func newWay(b *testing.B, n network, bridged bool) *way {
	w := &way{bridged: bridged, sessions: make(chan *simulator.Session, 1), model: make(chan *ear, 1), figures: map[string][]float64{}}
	near, far := direct, time.Duration(0)
	if bridged {
		near, far = toBridge, toModel
	}
	w.browser = n.peers(b, near)
	sim, err := simulator.New(simulator.Config{API: network{}.peers(b, far), Models: []string{"load"}, Deaf: true, Drive: func(s *simulator.Session) media.Sink {
		hears := newEar()
		go speak(s, s.Done())
		w.sessions <- s
		w.model <- hears
		return hears
	}})
	must(b, err)
	persistencetest.Start(b, sim.Run)
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		<-time.After(far)
		sim.ServeHTTP(rw, r)
	}))
	b.Cleanup(server.Close)
	address := server.URL
	if bridged {
		address, _ = program(b, "VOICEBRIDGE_UPSTREAM=openai", "OPENAI_API_KEY=load", "OPENAI_BASE_URL="+server.URL+"/v1")
	}
	pool := &http.Transport{}
	b.Cleanup(pool.CloseIdleConnections)
	w.client = &realtime.Client{BaseURL: address + "/v1", HTTP: &http.Client{Transport: slow{pool, near}}, Timeout: time.Minute}
	return w
}

// call makes a call in which both sides speak for that long.
func (w *way) call(b *testing.B, length time.Duration) {
	ctx, began := b.Context(), time.Now()
	add := func(what string, v float64) { w.figures[what] = append(w.figures[what], v) }
	reached := func() float64 { return float64(time.Since(began).Microseconds()) / 1000 }
	peer, offer, err := w.browser.Offer(ctx, media.Handlers{})
	must(b, err)
	made, err := w.client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"load"}`))
	must(b, err)
	add("answer-ms", reached())
	if !w.bridged { // nothing says that a vendor's model repeats packets
		made.Answer = nackLines.ReplaceAllString(made.Answer, "")
	}
	must(b, peer.Accept(ctx, made.Answer))
	hears, flow := newEar(), new(media.Flow)
	flow.Open()
	var running sync.WaitGroup
	running.Go(func() { _ = peer.Forward(ctx, hears, flow) }) // both end with the peer
	running.Go(func() { speak(peer, peer.Done()) })
	session, _ := testkit.Receive(b, "a session", w.sessions)
	model, _ := testkit.Receive(b, "the model's ear", w.model)
	sound := make(chan float64, 1)
	running.Go(func() { <-hears.first; sound <- reached() })
	testkit.Receive(b, "the caller's first word", model.first)
	add("word-ms", reached())
	first, _ := testkit.Receive(b, "the first sound", sound)
	add("sound-ms", first)
	<-time.After(length)
	session.Drop()
	must(b, peer.Close())
	must(b, w.client.Hangup(ctx, made.ID))
	running.Wait()
	add("to-browser-%", hears.madeUp())
	add("to-model-%", model.madeUp())
}

// BenchmarkCall makes calls one after the other, each of some seconds, through the bridge and without one, and reports the
// medians: ms after the offer until the answer, the browser's first sound and the caller's first word at the model; and how much
// of the sound a player would have to make up, at the browser and the model, in %.
func BenchmarkCall(b *testing.B) {
	for _, n := range networks {
		for name, bridged := range map[string]bool{"voicebridge": true, "no bridge": false} {
			b.Run(n.name+"/"+name, func(b *testing.B) {
				w := newWay(b, n, bridged)
				w.call(b, 0) // what was reached once is answered at once, and connections are kept
				clear(w.figures)
				for b.Loop() {
					w.call(b, 10*time.Second)
				}
				for what, all := range w.figures {
					slices.Sort(all)
					b.ReportMetric(all[len(all)/2], what)
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

var nackLines = regexp.MustCompile(`a=rtcp-fb:\d+ nack\r\n`)

var urlPattern = regexp.MustCompile(`https?://\S+`)

// program runs the built program until the benchmark ends, and returns its address and the process.
func program(b *testing.B, environ ...string) (address string, pid int) {
	path, err := filepath.Abs("../bin/voicebridge")
	must(b, err)
	cmd := exec.CommandContext(b.Context(), path, "serve")
	cmd.Dir = b.TempDir() // away from any settings file of the tree
	cmd.Env = append([]string{"VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_LIMITS__SETUPS_PER_MINUTE_PER_IP=100000", "DATABASE_URL=" + persistencetest.EmptySQLiteURL(b)}, environ...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	must(b, err)
	must(b, cmd.Start())
	lines := bufio.NewReader(out)
	line, err := lines.ReadString('\n')
	if address = urlPattern.FindString(line); address == "" {
		b.Fatalf("it printed %q, %v: %s", line, err, &errs)
	}
	var printing sync.WaitGroup
	printing.Go(func() { _, _ = io.Copy(io.Discard, lines) })
	b.Cleanup(func() { printing.Wait(); _ = cmd.Wait() }) // b.Context has ended
	return address, cmd.Process.Pid
}
