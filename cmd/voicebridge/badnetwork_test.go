//go:build nightly

package main

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

var (
	badFor   = flag.Duration("bad.for", 20*time.Second, "how long people speak in each call of TestBadNetwork")
	badCalls = flag.Int("bad.calls", 3, "how many calls of each kind TestBadNetwork makes")
)

// badNetwork is what a network does to packets, each way.
type badNetwork struct {
	name   string
	jitter time.Duration // a packet takes up to this much longer; the order is kept
	loss   float64       // how many packets begin a loss
	burst  float64       // how many are lost together, on average
	outage bool          // nothing arrives for outageFor, outageAfter the start
}

const (
	outageAfter = 4 * time.Second
	outageFor   = 2 * time.Second
)

var badNetworks = []badNetwork{
	{name: "good"},
	{name: "5 % loss, 30 ms jitter", loss: 0.05, burst: 1, jitter: 30 * time.Millisecond},
	{name: "5 % loss in bursts of 4", loss: 0.0132, burst: 4},
	{name: "5 % loss, 30 ms jitter, 2 s outage", loss: 0.05, burst: 1, jitter: 30 * time.Millisecond, outage: true},
}

// disturbed is a network for one call. It is good until it has begun.
type disturbed struct {
	badNetwork

	began atomic.Int64 // ns since 1970; 0 before
	mu    sync.Mutex
	ways  [2]struct {
		random *rand.Rand
		losing bool
	}
}

func newDisturbed(n badNetwork, seed uint64) *disturbed {
	d := &disturbed{badNetwork: n}
	for i := range d.ways {
		d.ways[i].random = rand.New(rand.NewPCG(seed, uint64(i)))
	}
	return d
}

func (d *disturbed) begin() { d.began.Store(time.Now().UnixNano()) }

// disturb is an rtc.Config's.
func (d *disturbed) disturb(outgoing bool) (later time.Duration, lost bool) {
	began := d.began.Load()
	if began == 0 {
		return 0, false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	w := &d.ways[map[bool]int{true: 1}[outgoing]]
	goesOn := w.random.Float64() < 1-1/max(d.burst, 1)
	w.losing = w.losing && goesOn || w.random.Float64() < d.loss
	if d.jitter > 0 {
		later = time.Duration(w.random.Int64N(int64(d.jitter)))
	}
	at := time.Duration(time.Now().UnixNano() - began)
	return later, w.losing || d.outage && at >= outageAfter && at < outageAfter+outageFor
}

// badPeers returns an API on such a network of that length.
func badPeers(t *testing.T, rtt time.Duration, d *disturbed) *rtc.API {
	api, err := rtc.New(rtc.Config{Loopback: true, Bare: true, Delay: rtt / 2, Disturb: d.disturb, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { must(t, api.Close()) })
	return api
}

// utterances are the packets of speech that is said again and again; each has in-band FEC if the encoder found it worth it.
func utterances(t *testing.T) (packets [][]byte) {
	file, err := os.ReadFile("../../realtime/opus/testdata/inband-fec.bin")
	must(t, err)
	for len(file) > 0 {
		n := 2 + int(binary.BigEndian.Uint16(file))
		packets, file = append(packets, file[2:n]), file[n:]
	}
	return packets
}

// hasCopy reports whether a packet of 20 ms has a copy of the one before it (RFC 6716, 4.2.4).
func hasCopy(packet []byte) bool { return packet[0]>>3 < 16 && packet[1]&0x40 != 0 }

// voice is somebody who speaks, and somebody else who hears it at the other end.
type voice struct {
	packets [][]byte
	bare    bool // somebody decodes it: the packets have no numbers
	mu      sync.Mutex
	sent    []time.Time // of each packet
	came    []arrival
	first   chan struct{} // closed when something is heard
}

type arrival struct {
	packet int
	at     time.Time
}

func newVoice(packets [][]byte) *voice { return &voice{packets: packets, first: make(chan struct{})} }

// speak sends a packet every 20 ms until done is closed. Behind the sound of each is its number, which nobody decodes.
func (v *voice) speak(dst media.Sink, done <-chan struct{}) {
	began := time.Now()
	for i := 0; ; i++ {
		select {
		case <-time.After(time.Until(began.Add(time.Duration(i) * media.FrameTime))):
		case <-done:
			return
		}
		v.mu.Lock()
		v.sent = append(v.sent, time.Now())
		v.mu.Unlock()
		payload := v.packets[i%len(v.packets)]
		if !v.bare {
			payload = binary.BigEndian.AppendUint32(slices.Clone(payload), uint32(i))
		}
		_ = dst.WriteAudio(&media.Packet{Source: 1, Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: payload})
	}
}

// WriteAudio implements media.Sink.
func (v *voice) WriteAudio(p *media.Packet) error {
	if len(p.Payload) < 4 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.came) == 0 {
		close(v.first)
	}
	v.came = append(v.came, arrival{int(binary.BigEndian.Uint32(p.Payload[len(p.Payload)-4:])), time.Now()})
	return nil
}

// heard is what became of what was said.
type heard struct {
	frames, asSent, repeated, copied, concealed int

	lost   int // packets that never came
	delays []time.Duration
	again  []time.Duration // after each outage, until something that was said since is heard
}

func (h *heard) add(other heard) {
	h.frames, h.asSent, h.repeated = h.frames+other.frames, h.asSent+other.asSent, h.repeated+other.repeated
	h.copied, h.concealed, h.lost = h.copied+other.copied, h.concealed+other.concealed, h.lost+other.lost
	h.delays, h.again = append(h.delays, other.delays...), append(h.again, other.again...)
}

// buffer says how long a browser keeps packets before it plays them, as libwebrtc's does (NetEq, DelayManager): as long as
// 95 % of the half seconds need, or as long as pays for packets that were overtaken, where 1 % of loss is as bad as 20 ms.
// Both look back over ever older packets with ever less weight.
type buffer struct {
	took      []time.Duration // of the packets of the last two seconds
	jitter    histogram
	overtaken histogram
	latest    time.Duration // of the packets of this half second
	packets   int
}

const (
	fastestOf   = 100 // packets
	perHalf     = 25  // packets
	firstBuffer = 4 * media.FrameTime
	buckets     = 50
)

// histogram is how late packets come, in frames: shares.
type histogram struct {
	share  [buckets]float64
	keeps  float64 // the weight of what is older
	counts float64
}

func (h *histogram) add(late time.Duration) {
	h.counts++
	keeps := max(0, min(h.keeps, 1-2/(h.counts+1)))
	for i := range h.share {
		h.share[i] *= keeps
	}
	h.share[min(int(late/media.FrameTime), buckets-1)] += 1 - keeps
}

func newBuffer() *buffer {
	return &buffer{jitter: histogram{keeps: 0.983}, overtaken: histogram{keeps: 0.9993}}
}

func (b *buffer) add(took time.Duration, overtaken bool) {
	b.took = append(b.took, took)
	b.took = b.took[max(0, len(b.took)-fastestOf):]
	late := took - b.fastest()
	if !overtaken {
		b.latest = max(b.latest, late)
		if b.packets++; b.packets%perHalf == 0 {
			b.jitter.add(b.latest)
			b.latest = 0
		}
		late = 0
	}
	b.overtaken.add(late)
}

func (b *buffer) fastest() time.Duration {
	if len(b.took) == 0 {
		return 0
	}
	return slices.Min(b.took)
}

// delay returns by how much more than the fastest packet each is delayed until it is played.
func (b *buffer) delay() time.Duration {
	if b.jitter.counts == 0 {
		return firstBuffer
	}
	frames, sum := 0, b.jitter.share[0]
	for ; sum < 0.95 && frames < buckets-1; sum += b.jitter.share[frames] {
		frames++
	}
	best, pays, lost := math.Inf(1), 0, 1.0
	for i, share := range b.overtaken.share {
		lost -= share
		if cost := float64(i) + 100*lost; cost < best-1e-9 { // in frames of 20 ms
			best, pays = cost, i
		}
	}
	return time.Duration(max(frames, pays)+1) * media.FrameTime
}

// played plays what came as a browser does, and says what is heard of what was said in a time, but for an outage.
func (v *voice) played(from, to, outage time.Time) (h heard) {
	v.mu.Lock()
	defer v.mu.Unlock()
	first, repeats := make(map[int]time.Time), make(map[int]bool)
	var came []arrival
	newest := -1
	for _, a := range v.came {
		if _, again := first[a.packet]; !again {
			came = append(came, a)
			first[a.packet] = a.at
			repeats[a.packet] = a.packet < newest // the network keeps the order
		}
		newest = max(newest, a.packet)
	}
	inTime := func(packet int, due time.Time) bool {
		at, ok := first[packet]
		return ok && !at.After(due)
	}
	keeps := newBuffer()
	for i, sent := range v.sent {
		if sent.After(to) {
			break
		}
		due := sent.Add(keeps.fastest() + keeps.delay())
		for len(came) > 0 && !came[0].at.After(due) {
			keeps.add(came[0].at.Sub(v.sent[came[0].packet]), repeats[came[0].packet])
			came = came[1:]
		}
		switch {
		case sent.Before(from):
			continue
		case !outage.IsZero() && !sent.Before(outage.Add(-media.FrameTime)) && sent.Before(outage.Add(outageFor)):
			continue
		}
		h.frames++
		if _, ok := first[i]; !ok {
			h.lost++
		}
		switch {
		case inTime(i, due) && !repeats[i]:
			h.asSent++
		case inTime(i, due):
			h.repeated++
		case inTime(i+1, due) && hasCopy(v.packets[(i+1)%len(v.packets)]):
			h.copied++
		default:
			h.concealed++
			continue
		}
		h.delays = append(h.delays, due.Sub(sent))
		if end := outage.Add(outageFor); !outage.IsZero() && len(h.again) == 0 && sent.After(end) {
			h.again = append(h.again, due.Sub(end))
		}
	}
	return h
}

// models serves models that speak in each session. Those that do not repeat packets take no requests for it either, as
// nothing says that OpenAI's does.
type models struct {
	address  string
	sessions chan *modelVoice
}

type modelVoice struct {
	session     *simulator.Session
	said, heard *voice
}

var nackLines = regexp.MustCompile(`a=rtcp-fb:\d+ nack\r\n`)

func newModels(t *testing.T, api *rtc.API, repeats bool, packets [][]byte) *models {
	m := &models{sessions: make(chan *modelVoice, 1)}
	sim, err := simulator.New(simulator.Config{API: api, Models: []string{"load"}, Deaf: true, Drive: func(s *simulator.Session) media.Sink {
		v := &modelVoice{session: s, said: newVoice(packets), heard: newVoice(packets)}
		go v.said.speak(s, s.Done())
		m.sessions <- v
		return v.heard
	}})
	must(t, err)
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- sim.Run(running) }()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if repeats || !strings.HasSuffix(r.URL.Path, "/calls") {
			sim.ServeHTTP(w, r)
			return
		}
		answer := httptest.NewRecorder()
		sim.ServeHTTP(answer, r)
		maps.Copy(w.Header(), answer.Header())
		body := nackLines.ReplaceAll(answer.Body.Bytes(), nil)
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body)
	}))
	t.Cleanup(func() {
		server.Close()
		stop()
		must(t, <-done)
	})
	m.address = server.URL
	return m
}

// badWay is how calls are made over a bad network, and what is heard of them.
type badWay struct {
	name    string
	where   string // which part of the way is bad
	browser *rtc.API
	models  *models
	address string // of the bridge; empty for none
	network *disturbed
	// toModel and toBrowser are what was heard there.
	toModel, toBrowser heard
}

// call makes a call, in which both sides speak for a time on the bad network.
func (w *badWay) call(t *testing.T, packets [][]byte, ready *sync.WaitGroup, start <-chan struct{}) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+*badFor)
	defer cancel()
	pool := &http.Transport{}
	defer pool.CloseIdleConnections()
	address := w.address
	if address == "" {
		address = w.models.address
	}
	client := &realtime.Client{BaseURL: address + "/v1", HTTP: &http.Client{Transport: pool}, Timeout: time.Minute}
	peer, offer, err := w.browser.Offer(ctx, media.Handlers{})
	must(t, err)
	made, err := client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"load"}`))
	must(t, err)
	must(t, peer.Accept(ctx, made.Answer))
	var running sync.WaitGroup
	said, hears, flow := newVoice(packets), newVoice(packets), new(media.Flow)
	flow.Open()
	running.Go(func() { _ = peer.Forward(ctx, hears, flow) })
	running.Go(func() { said.speak(peer, peer.Done()) })
	model := <-w.models.sessions
	ready.Done()
	<-hears.first
	<-model.heard.first
	ready.Done()
	<-start
	w.network.begin()
	began := time.Now()
	<-time.After(*badFor + time.Second)
	w.network.began.Store(0) // so that it ends soon
	var outage time.Time
	if w.network.outage {
		outage = began.Add(outageAfter)
	}
	from, to := began.Add(500*time.Millisecond), began.Add(*badFor)
	// What was said at one end was heard at the other.
	model.heard.sent, hears.sent = said.times(), model.said.times()
	w.toModel, w.toBrowser = model.heard.played(from, to, outage), hears.played(from, to, outage)
	model.session.Drop()
	must(t, peer.Close())
	must(t, client.Hangup(context.WithoutCancel(ctx), made.ID))
	running.Wait()
}

// times returns when each packet was sent.
func (v *voice) times() []time.Time {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.sent)
}

// TestBadNetwork sends speech both ways over networks that lose and delay packets, through the bridge, through a bare relay
// and without anything in between, and prints what a browser's player would make of it. It checks that everything is
// accounted for, and that the bridge conceals no more than a bare relay does.
func TestBadNetwork(t *testing.T) {
	packets := utterances(t)
	var table strings.Builder
	fmt.Fprintln(&table, "| network | bad between | through | to | as sent | repeated | from its copy | concealed | without copies | delay p50, p99, ms | heard again after, ms |")
	fmt.Fprintln(&table, "|---|---|---|---|---|---|---|---|---|---|---|")
	for _, network := range badNetworks {
		kinds := make(map[string]*badWay)
		var names []string
		var all []*badWay
		for call := range *badCalls {
			for _, w := range badWays(t, network, uint64(call), packets) {
				all = append(all, w)
				key := w.where + w.name
				if kinds[key] == nil {
					kinds[key] = &badWay{name: w.name, where: w.where}
					names = append(names, key)
				}
			}
		}
		var ready, ended sync.WaitGroup
		start := make(chan struct{})
		for _, w := range all { // set up one after the other, so that no set-up takes the other's session
			ready.Add(1)
			var up sync.WaitGroup
			up.Add(2)
			ended.Go(func() { w.call(t, packets, &up, start) })
			up.Wait()
			ready.Done()
		}
		ready.Wait()
		close(start)
		ended.Wait()
		for _, w := range all {
			sum := kinds[w.where+w.name]
			sum.toModel.add(w.toModel)
			sum.toBrowser.add(w.toBrowser)
		}
		for _, key := range names {
			w := kinds[key]
			for to, h := range map[string]*heard{"model": &w.toModel, "browser": &w.toBrowser} {
				if h.frames == 0 || h.asSent+h.repeated+h.copied+h.concealed != h.frames || network.outage && len(h.again) != *badCalls {
					t.Errorf("%s, %s, to the %s: %d frames, heard again after %v", network.name, key, to, h.frames, h.again)
				}
			}
			table.WriteString(w.row(network.name, "model", &w.toModel))
			table.WriteString(w.row(network.name, "browser", &w.toBrowser))
		}
		for _, where := range []string{nearBrowser, nearModel} {
			relay := kinds[where+"bare relay"]
			for _, name := range []string{"voicebridge", "voicebridge, model repeats"} {
				if w := kinds[where+name]; w != nil {
					notWorse(t, network.name+", "+where, &w.toModel, &relay.toModel)
					notWorse(t, network.name+", "+where, &w.toBrowser, &relay.toBrowser)
				}
			}
		}
	}
	t.Logf("\n%s", table.String())
}

const (
	nearBrowser = "browser and bridge"
	nearModel   = "bridge and model"
)

// badWays returns one way of each kind, with networks of their own that do the same.
func badWays(t *testing.T, network badNetwork, seed uint64, packets [][]byte) (ways []*badWay) {
	for _, where := range []string{nearBrowser, nearModel} {
		for _, name := range []string{"voicebridge", "voicebridge, model repeats", "bare relay", "no bridge"} {
			if where == nearBrowser && name == "voicebridge, model repeats" || where == nearModel && name == "no bridge" {
				continue
			}
			w := &badWay{name: name, where: where, network: newDisturbed(network, seed)}
			good := newDisturbed(badNetwork{}, 0)
			switch {
			case name == "no bridge":
				w.browser, w.models = badPeers(t, direct, w.network), newModels(t, slowPeers(t, 0), false, packets)
			case where == nearBrowser:
				w.browser, w.models = badPeers(t, toBridge, w.network), newModels(t, badPeers(t, toUpstream, good), false, packets)
			default:
				w.browser = badPeers(t, toBridge, good)
				w.models = newModels(t, badPeers(t, toUpstream, w.network), name == "voicebridge, model repeats", packets)
			}
			end := &modelEnd{address: w.models.address}
			switch name {
			case "bare relay":
				w.address = servingRelay(t, end)
			case "no bridge":
			default:
				w.address, _ = servingSetUps(t, end, "at_once")
			}
			ways = append(ways, w)
		}
	}
	return ways
}

func (w *badWay) row(network, to string, h *heard) string {
	share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(max(h.frames, 1))) }
	slices.Sort(h.delays)
	slices.Sort(h.again)
	again := "–"
	if len(h.again) > 0 {
		again = fmt.Sprint(h.again[len(h.again)/2].Milliseconds())
	}
	p50, p99 := time.Duration(0), time.Duration(0)
	if n := len(h.delays); n > 0 {
		p50, p99 = h.delays[n/2], h.delays[n*99/100]
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s | %s | %s | %s | %d, %d | %s |\n", network, w.where, w.name, to, share(h.asSent), share(h.repeated),
		share(h.copied), share(h.concealed), share(h.concealed+h.copied), p50.Milliseconds(), p99.Milliseconds(), again)
}

// notWorse checks that no more is concealed than through a relay, beyond what chance makes of it.
func notWorse(t *testing.T, what string, got, relay *heard) {
	t.Helper()
	a, b := float64(got.concealed)/float64(got.frames), float64(relay.concealed)/float64(relay.frames)
	chance := 3 * math.Sqrt((a*(1-a)+b*(1-b))/float64(got.frames))
	if a > b+chance+0.005 {
		t.Errorf("%s: %.1f %% are concealed, by a relay %.1f %%", what, 100*a, 100*b)
	}
}
