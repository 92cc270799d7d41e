//go:build nightly

package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/simulator"
)

// socketRate and socketFrame are of what a model over WebSocket hears and says.
const socketRate, socketFrame = 24000, 480

// earOf keeps the samples that a model over WebSocket hears, and when each event of them came.
type earOf struct {
	samples []int16
	came    []arrival // packet is how many samples there were before
}

// earsOf returns what a session has heard.
func earsOf(t *testing.T, s *simulator.Session) (e earOf) {
	for _, r := range s.Received() {
		if r.Event.Type == realtime.TypeInputAppend {
			var event struct{ Audio []byte }
			must(t, json.Unmarshal(r.Event.Raw, &event))
			e.came = append(e.came, arrival{len(e.samples), r.At})
			e.samples = pcm.Linear.Decode(e.samples, event.Audio)
		}
	}
	return e
}

// hears waits until a session hears something.
func hears(ctx context.Context, t *testing.T, s *simulator.Session) {
	_, err := s.WaitFor(ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeInputAppend })
	must(t, err)
}

// understood is what became of the frames in which somebody speaks: the same samples as without a bad network, somewhat
// others (a copy, and the decoder's way back), or something else.
type understood struct {
	frames, same, near int

	segmental float64
	delays    []time.Duration
}

// compared compares what was heard with what was said, from a time on.
func (e *earOf) compared(t *testing.T, packets [][]byte, sent []time.Time, from, to time.Time) (u understood) {
	decoder, err := opus.NewDecoder(socketRate)
	must(t, err)
	var said []int16
	for i := range sent {
		samples, err := decoder.Decode(packets[i%len(packets)])
		must(t, err)
		said = append(said, samples...)
	}
	const skip, sample = 100, 20 * socketFrame // of the beginning, which nothing disturbs
	start := -1
	for i := len(packets); i < 2*len(packets) && start < 0; i++ {
		if snrOf(said[i*socketFrame:][:sample], e.samples[skip*socketFrame:][:sample]) > 20 {
			start = i - skip
		}
	}
	if start < 0 {
		t.Fatal("what was heard is nothing that was said")
	}
	// The same is said again and again: it was said just before it was heard.
	last := e.came[len(e.came)-1]
	for start+len(packets)+last.packet/socketFrame < len(sent) && sent[start+len(packets)+last.packet/socketFrame].Before(last.at) {
		start += len(packets)
	}
	for start+last.packet/socketFrame >= len(sent) || sent[start+last.packet/socketFrame].After(last.at) {
		start -= len(packets)
	}
	for _, a := range e.came {
		frame := start + a.packet/socketFrame
		if frame < 0 || sent[frame].Before(from) || sent[frame].After(to) {
			continue
		}
		u.delays = append(u.delays, a.at.Sub(sent[frame]))
	}
	for i := 0; (i+1)*socketFrame <= len(e.samples); i++ {
		frame := start + i
		if frame < 0 || frame >= len(sent) || sent[frame].Before(from) || sent[frame].After(to) || pcm.Level(said[frame*socketFrame:][:socketFrame]) < -50 {
			continue
		}
		db := snrOf(said[frame*socketFrame:][:socketFrame], e.samples[i*socketFrame:])
		u.frames++
		u.segmental += max(-10, min(35, db))
		switch {
		case db > 30:
			u.same++
		case db > 3:
			u.near++
		}
	}
	return u
}

// snrOf returns by how much, in dB, sound is louder than what it differs by from what came.
func snrOf(want, got []int16) float64 {
	var signal, noise float64
	for i := range want {
		d := float64(want[i]) - float64(got[i])
		signal, noise = signal+float64(want[i])*float64(want[i]), noise+d*d
	}
	return 10 * math.Log10((signal+1)/(noise+1))
}

// clumps are how a model over WebSocket sends its answer: so much sound at once, up to so much too late.
type clumps struct {
	name        string
	ahead       time.Duration // how much earlier than it is heard
	every, late time.Duration
}

var allClumps = []clumps{
	{"ahead of time, in pieces of 200 ms", 2 * time.Second, 200 * time.Millisecond, 0},
	{"ahead of time, up to 500 ms late", 2 * time.Second, 200 * time.Millisecond, 500 * time.Millisecond},
	{"just in time, in pieces of 200 ms", 0, 200 * time.Millisecond, 0},
	{"just in time, up to 100 ms late", 0, 200 * time.Millisecond, 100 * time.Millisecond},
	{"just in time, up to 300 ms late", 0, 200 * time.Millisecond, 300 * time.Millisecond},
}

// gapEar says how evenly packets come to a browser.
type gapEar struct {
	mu      sync.Mutex
	from    time.Time
	last    time.Time
	packets int
	gaps    int // longer than what players keep against them
	longest time.Duration
}

// WriteAudio implements media.Sink.
func (g *gapEar) WriteAudio(*media.Packet) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if g.from.IsZero() || now.Before(g.from) {
		return nil
	}
	if gap := now.Sub(g.last); !g.last.IsZero() {
		g.longest = max(g.longest, gap)
		if gap > 80*time.Millisecond {
			g.gaps++
		}
	}
	g.last = now
	g.packets++
	return nil
}

// answers sends an answer over a WebSocket in clumps.
func (c clumps) answers(s *simulator.Session, seed uint64, length time.Duration) {
	network := newDisturbed(badNetwork{jitter: max(c.late, 1)}, seed)
	network.begin()
	quiet := base64.StdEncoding.EncodeToString(make([]byte, 2*int(c.every.Seconds()*socketRate)))
	emit := func(kind string, event map[string]any) {
		event["type"], event["response_id"], event["output_index"], event["content_index"] = kind, "resp_1", 0, 0
		s.Do(func() { s.Emit(event) })
	}
	item := map[string]any{"id": "item_1", "object": "realtime.item", "type": "message", "role": "assistant", "status": "in_progress", "content": []any{}}
	emit(realtime.TypeResponseCreated, map[string]any{"response": map[string]any{"object": "realtime.response", "id": "resp_1", "status": "in_progress", "output": []any{}}})
	emit(realtime.TypeOutputItemAdded, map[string]any{"item": item})
	emit(realtime.TypeItemAdded, map[string]any{"previous_item_id": nil, "item": item})
	began, sent := time.Now(), time.Time{}
	for at := time.Duration(0); at < length; at += c.every {
		late, _ := network.disturb(true)
		due := began.Add(max(0, at-c.ahead) + late)
		if due.Before(sent) {
			due = sent // it keeps the order
		}
		sent = due
		select {
		case <-time.After(time.Until(due)):
		case <-s.Done():
			return
		}
		emit(realtime.TypeOutputAudioDelta, map[string]any{"item_id": "item_1", "delta": quiet})
	}
}

// TestBadSocket has a model over WebSocket hear a caller behind a bad network, and speak in clumps.
func TestBadSocket(t *testing.T) {
	packets := utterances(t)
	sessions := make(chan *simulator.Session, 1)
	sim, err := simulator.New(simulator.Config{API: slowPeers(t, 0), Models: []string{"load"}, Deaf: true, Drive: func(s *simulator.Session) media.Sink {
		sessions <- s
		return s // what comes in events does not go there
	}})
	must(t, err)
	running, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- sim.Run(running) }()
	server := httptest.NewServer(sim)
	t.Cleanup(func() {
		server.Close()
		stop()
		must(t, <-done)
	})
	address, _ := serving(t, fmt.Sprintf(`VOICEBRIDGE_UPSTREAMS=[{"name":"load","profile":"openai","transport":"websocket","url":%q}]`,
		"ws"+strings.TrimPrefix(server.URL, "http")+"/v1/realtime"), "OPENAI_API_KEY=load", "VOICEBRIDGE_LIMITS__SETUPS_PER_MINUTE_PER_IP=100000")

	var table strings.Builder
	fmt.Fprintln(&table, "| network | same samples | near | other | segmental dB | delay p50, p99, ms |\n|---|---|---|---|---|---|")
	for _, network := range badNetworks[:3] { // after an outage the caller's clock is another
		var sum understood
		for call := range *badCalls {
			w := &badWay{browser: nil, network: newDisturbed(network, uint64(call))}
			w.browser = badPeers(t, toBridge, w.network)
			w.socketCall(t, address, func(ctx context.Context, said *voice, _ *gapEar) {
				s := <-sessions
				hears(ctx, t, s)
				<-time.After(5 * time.Second) // what came before the settings is sent faster than it was spoken
				w.network.begin()
				began := time.Now()
				<-time.After(*badFor)
				w.network.began.Store(0)
				<-time.After(time.Second)
				ear := earsOf(t, s)
				u := ear.compared(t, packets, said.times(), began, began.Add(*badFor))
				sum.frames, sum.same, sum.near = sum.frames+u.frames, sum.same+u.same, sum.near+u.near
				sum.segmental, sum.delays = sum.segmental+u.segmental, append(sum.delays, u.delays...)
			}, packets)
		}
		if sum.frames == 0 || sum.same+sum.near > sum.frames {
			t.Fatalf("%s: %+v", network.name, sum)
		}
		slices.Sort(sum.delays)
		share := func(n int) string { return fmt.Sprintf("%.1f %%", 100*float64(n)/float64(sum.frames)) }
		fmt.Fprintf(&table, "| %s | %s | %s | %s | %.1f | %d, %d |\n", network.name, share(sum.same), share(sum.near), share(sum.frames-sum.same-sum.near),
			sum.segmental/float64(sum.frames), sum.delays[len(sum.delays)/2].Milliseconds(), sum.delays[len(sum.delays)*99/100].Milliseconds())
	}
	fmt.Fprintln(&table, "\n| the model's sound comes | gaps of more than 80 ms | longest, ms |\n|---|---|---|")
	for _, c := range allClumps {
		w := &badWay{network: newDisturbed(badNetwork{}, 0)}
		w.browser = badPeers(t, toBridge, w.network)
		w.socketCall(t, address, func(ctx context.Context, _ *voice, ear *gapEar) {
			s := <-sessions
			hears(ctx, t, s)
			ear.mu.Lock()
			ear.from = time.Now()
			ear.mu.Unlock()
			c.answers(s, 1, *badFor)
			<-time.After(time.Second)
			ear.mu.Lock()
			defer ear.mu.Unlock()
			if ear.packets < int(*badFor/media.FrameTime)*8/10 {
				t.Errorf("%s: %d packets", c.name, ear.packets)
			}
			fmt.Fprintf(&table, "| %s | %d | %d |\n", c.name, ear.gaps, ear.longest.Milliseconds())
		}, packets)
	}
	t.Logf("\n%s", table.String())
}

// socketCall makes a call, in which the caller speaks until during has ended.
func (w *badWay) socketCall(t *testing.T, address string, during func(ctx context.Context, said *voice, ear *gapEar), packets [][]byte) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute+2**badFor)
	defer cancel()
	pool := &http.Transport{}
	defer pool.CloseIdleConnections()
	client := &realtime.Client{BaseURL: address + "/v1", HTTP: &http.Client{Transport: pool}, Timeout: time.Minute}
	peer, offer, err := w.browser.Offer(ctx, media.Handlers{})
	must(t, err)
	made, err := client.CreateCall(ctx, offer, []byte(`{"type":"realtime","model":"load"}`))
	must(t, err)
	must(t, peer.Accept(ctx, made.Answer))
	var running sync.WaitGroup
	said, ear, flow := newVoice(packets), new(gapEar), new(media.Flow)
	said.bare = true
	flow.Open()
	running.Go(func() { _ = peer.Forward(ctx, ear, flow) })
	running.Go(func() { said.speak(peer, peer.Done()) })
	during(ctx, said, ear)
	must(t, peer.Close())
	must(t, client.Hangup(context.WithoutCancel(ctx), made.ID))
	running.Wait()
}
