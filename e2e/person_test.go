//go:build nightly

package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
)

// person has one thread and makes calls on it, one after the other, whatever happens to
// them. What the person is told is the ledger that the thread is compared with.
type person struct {
	t      *testing.T
	soak   *soak
	number int
	rng    *rand.Rand

	thread, call string
	life         *life // of the process that has the call
	peer         sender
	close        func() // closes the connection and its path

	mu      sync.Mutex
	changed chan struct{}
	ready   bool // bridge.ready came on this connection
	link    *link
	tally   tally
	did     []event // what the person did and was told
	ledger
}

// sender sends events.
type sender interface {
	Send(ctx context.Context, event []byte) error
}

// openSocket is a sender over WebSocket.
type openSocket struct{ *websocket.Conn }

func (s openSocket) Send(ctx context.Context, event []byte) error {
	return s.Write(ctx, websocket.MessageText, event)
}

// link is a connection to a process.
type link struct {
	life   *life
	closed time.Time // when the connection or the call ended, as far as the person knows
}

func newPerson(t *testing.T, s *soak, number int) *person {
	return &person{
		t: t, soak: s, number: number, rng: rand.New(rand.NewPCG(s.seed, uint64(number)+1)),
		changed: make(chan struct{}), close: func() {}, ledger: newLedger(),
	}
}

// live makes calls and talks until the soak ends.
func (p *person) live() {
	for !p.over() {
		if p.peer == nil && !p.dial() {
			p.await(500*time.Millisecond, func() bool { return false })
			continue
		}
		if !p.await(20*time.Second, func() bool { return p.ready || p.gone() }) || p.isGone() {
			p.drop()
			p.byHTTP(3)
			continue
		}
		p.act()
	}
	p.drop()
	p.hangUp()
}

func (p *person) over() bool {
	select {
	case <-p.soak.stop:
		return true
	default:
		return false
	}
}

// act does one thing that people do in a call.
func (p *person) act() {
	speaker, canSpeak := p.peer.(media.Sink)
	switch n := p.rng.IntN(100); {
	case n < 20 && p.soak.servers != nil && canSpeak:
		p.speak(speaker)
	case n < 45:
		p.say(p.text(typed))
	case n < 57:
		p.say(&text{words: chartPlease})
	case n < 62:
		p.say(&text{words: countPlease}) // interrupted by whatever comes next
	case n < 80:
		p.byHTTP(2)
	case n < 90:
		p.await(time.Duration(p.rng.IntN(1500))*time.Millisecond, p.gone)
	case n < 96:
		p.reload()
	default:
		p.drop()
		p.note("hangs up")
		p.hangUp()
		p.byHTTP(3)
	}
}

// speak asks aloud; what is heard, the servers for speech say.
func (p *person) speak(to media.Sink) {
	p.note("speaks")
	packet, tick := media.Packet{Source: p.rng.Uint32()}, time.Tick(media.FrameTime)
	for _, packet.Payload = range simulator.UserSpeech() {
		<-tick
		_ = to.WriteAudio(&packet) // unless the connection is gone
		packet.Sequence, packet.Timestamp = packet.Sequence+1, packet.Timestamp+media.FrameStep
	}
}

// byHTTP sends up to n texts by HTTP, into the queue or not.
func (p *person) byHTTP(n int) {
	for n = p.rng.IntN(n + 1); n > 0 && p.thread != ""; n-- {
		p.hand([]string{posted, queued}[p.rng.IntN(2)])
	}
}

// hand sends the next text of a series. It stays the next one, with the same key, until an
// answer says that it was taken.
func (p *person) hand(series string) {
	x := p.waiting[series]
	if x == nil {
		x = p.text(series)
		p.waiting[series] = x
	}
	path, name := "/messages", "content"
	if series == queued {
		path, name = "/queue", "message"
	}
	body := fmt.Sprintf(`{%q:%q,"client_id":"person %d","idempotency_key":%q}`, name, x.words, p.number, x.words)
	ctx, cancel := context.WithTimeout(p.soak.ctx, 5*time.Second) // a client that gives up
	defer cancel()
	status, _, answer := p.send(ctx, p.anyMachine(), "/api/threads/"+p.thread+path, "application/json", body)
	p.note("%d for %q by HTTP", status, x.words)
	switch {
	case status/100 == 2:
		p.update(func() { p.isTaken(x) })
		delete(p.waiting, series)
	case status/100 == 4 && status != http.StatusConflict && status != http.StatusTooManyRequests:
		p.t.Errorf("%s: %q by HTTP: %d %s", p.soak.name, x.words, status, answer)
	}
}

// note records what the person did or was told.
func (p *person) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.noteLocked(format, args...)
}

func (p *person) noteLocked(format string, args ...any) {
	p.did = append(p.did, event{time.Now(), fmt.Sprintf(format, args...)})
}

// say types a text and waits until something is answered, but not forever.
func (p *person) say(x *text) {
	p.mu.Lock()
	answers := p.tally.Answers
	p.mu.Unlock()
	item := fmt.Sprintf(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, x.words)
	ctx, cancel := context.WithTimeout(p.soak.ctx, 5*time.Second)
	defer cancel()
	x.begun = time.Now()
	if err := errors.Join(p.peer.Send(ctx, []byte(item)), p.peer.Send(ctx, []byte(`{"type":"response.create"}`))); err != nil {
		p.note("could not type %q: %v", x.words, err)
		return
	}
	x.link = p.link
	p.note("typed %q", x.words)
	wait := 8 * time.Second
	if x.words == countPlease {
		wait = time.Second
	}
	p.await(wait, func() bool { return p.gone() || p.tally.Answers > answers })
}

// dial begins a call on the thread.
func (p *person) dial() bool {
	upstreams := []string{"spoken", "relayed"}
	if p.soak.servers != nil {
		upstreams = []string{"cascade"}
	}
	query := "?takeover=true&upstream=" + upstreams[p.rng.IntN(len(upstreams))]
	if p.thread != "" {
		query += "&thread_id=" + p.thread
	}
	begun := time.Now()
	header, ok := p.either(
		func() (http.Header, bool) { return p.connect("/v1/realtime/calls"+query, http.StatusCreated) },
		func() (http.Header, bool) { return p.open("/v1/realtime"+query, true) },
	)
	if ok {
		p.call = strings.TrimPrefix(header.Get("Location"), "/v1/realtime/calls/")
		p.thread = header.Get("X-Thread-Id")
		p.calls[p.call] = begun
		p.tally.Calls++
		p.note("called: %s", p.call)
	}
	return ok
}

// reload leaves the page and rejoins the call.
func (p *person) reload() {
	p.drop()
	p.note("left the page to come back")
	path := "/v1/realtime/calls/" + p.call + "/reconnect"
	if _, ok := p.either(
		func() (http.Header, bool) { return p.connect(path, http.StatusOK) },
		func() (http.Header, bool) { return p.open(path, false) },
	); ok {
		p.tally.Reloads++
		p.note("came back to the call")
	}
}

// either connects by one of both doors.
func (p *person) either(byPeer, bySocket func() (http.Header, bool)) (http.Header, bool) {
	if p.rng.IntN(2) == 0 {
		return byPeer()
	}
	header, ok := bySocket()
	if ok {
		p.tally.Sockets++
	}
	return header, ok
}

// open opens a socket, for a new call or the one that there is.
func (p *person) open(path string, begins bool) (http.Header, bool) {
	m, polite := p.anyMachine(), p.rng.IntN(2) == 0
	l := &link{life: p.life}
	if begins {
		l.life = m.life.Load()
	}
	conn, res, err := websocket.Dial(p.soak.ctx, "http://"+m.address+path, &websocket.DialOptions{HTTPClient: unpooled}) //nolint:bodyclose // of a socket
	if err != nil {
		return nil, false
	}
	conn.SetReadLimit(-1)
	p.life = l.life
	p.update(func() { p.ready, p.link = false, l })
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, data, err := conn.Read(context.Background())
			if err != nil {
				p.ended(l)
				return
			}
			p.told(l, data)
		}
	}()
	p.peer = openSocket{conn}
	p.close = func() {
		if polite {
			_ = conn.Close(websocket.StatusNormalClosure, "") // it may be lost
		}
		_ = conn.CloseNow()
		<-ended
	}
	return res.Header, true
}

// connect offers a connection that loses some packets.
func (p *person) connect(path string, want int) (http.Header, bool) {
	l := &link{}
	peer, offer, err := p.soak.api.Offer(p.soak.ctx, media.Handlers{
		Message: func(data []byte) { p.told(l, data) },
		State: func(s media.State) {
			if s == media.StateClosed || s == media.StateFailed {
				p.ended(l)
			}
		},
	})
	if err != nil {
		p.t.Errorf("offer: %v", err)
		return nil, false
	}
	m := p.anyMachine()
	alive := m.life.Load()
	status, header, answer := p.send(p.soak.ctx, m, path, "application/sdp", withoutCandidates(offer))
	if status != want {
		_ = peer.Close()
		return nil, false
	}
	if status == http.StatusCreated {
		p.life = alive
	}
	lossy, answer, err := newLossyPath(answer, rand.New(rand.NewPCG(p.rng.Uint64(), 0)))
	if err == nil {
		l.life = p.life
		p.update(func() { p.ready, p.link = false, l })
		err = peer.Accept(p.soak.ctx, answer)
	}
	if err != nil {
		p.t.Errorf("accept: %v", err)
		_ = peer.Close()
		return nil, false
	}
	p.peer = peer
	p.close = func() { _ = peer.Close(); lossy.close() }
	return header, true
}

// drop closes the connection.
func (p *person) drop() {
	if p.link != nil {
		p.ended(p.link)
	}
	p.close()
	p.peer, p.close = nil, func() {}
}

// gone reports whether the connection has ended. p.mu is held.
func (p *person) gone() bool { return !p.link.closed.IsZero() }

func (p *person) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone()
}

// ended records the end of a connection, or of its call.
func (p *person) ended(l *link) {
	p.update(func() {
		if l.closed.IsZero() {
			l.closed = time.Now()
		}
	})
}

func (p *person) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits for ok, called with p.mu held, and reports whether it came true.
func (p *person) await(limit time.Duration, ok func() bool) bool {
	timer := time.After(limit)
	for {
		p.mu.Lock()
		done, changed := ok(), p.changed
		p.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-timer:
			return false
		case <-p.soak.stop:
			return false
		}
	}
}

// told adds what the browser receives to the ledger.
func (p *person) told(l *link, data []byte) {
	ev, err := realtime.Decode(data)
	if err != nil {
		p.t.Errorf("the browser got %.200q: %v", data, err)
		return
	}
	if ev.Type == "bridge.ended" {
		p.ended(l)
	}
	p.update(func() {
		switch ev.Type {
		case "bridge.ready":
			p.ready = true
		case "bridge.ended":
			p.noteLocked("told %.200s", ev.Raw)
		case "bridge.upstream.renewed":
			p.tally.Renewals++
			if strings.Contains(string(ev.Raw), `"upstream":`) {
				p.tally.Takeovers++
			}
			p.noteLocked("told %.200s", ev.Raw)
		case "bridge.message":
			if m, ok := messageOf(p.t, timedEvent{Event: ev}); ok {
				p.isSaved(m)
				p.noteLocked("reported as saved: %s", rowOf(m))
			}
		case realtime.TypeItemAdded, realtime.TypeItemDone:
			it, err := realtime.DecodeItem(ev.Item)
			if err != nil || it.Type != realtime.ItemMessage {
				return
			}
			p.isShown(it, l)
			if ev.Type == realtime.TypeItemDone && it.Role == "assistant" && it.Status == "completed" {
				p.tally.Answers++
			}
			p.noteLocked("%s: %s %s %.60q", ev.Type, it.ID, it.Role, it.Text())
		case realtime.TypeAudioTranscriptDelta:
			p.isSaid(ev.ItemID, ev.Delta, l)
		case realtime.TypeTranscriptionCompleted:
			p.isSaid(ev.ItemID, ev.Transcript, l)
			p.noteLocked("%s: %s %q", ev.Type, ev.ItemID, ev.Transcript)
		}
	})
}

func (p *person) hangUp() {
	p.send(p.soak.ctx, p.anyMachine(), "/v1/realtime/calls/"+p.call+"/hangup", "", "")
}

func (p *person) anyMachine() *machine { return p.soak.machines[p.rng.IntN(len(p.soak.machines))] }

// send sends a request. The status is 0 if there is no answer.
func (p *person) send(ctx context.Context, m *machine, path, kind, body string) (int, http.Header, string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+m.address+path, strings.NewReader(body))
	if err != nil {
		p.t.Errorf("%s: %v", path, err)
		return 0, nil, ""
	}
	req.Header.Set("Content-Type", kind)
	res, err := unpooled.Do(req)
	if err != nil {
		return 0, nil, "" // it was killed
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, ""
	}
	return res.StatusCode, res.Header, string(text)
}
