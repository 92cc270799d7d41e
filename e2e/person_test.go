package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// person has one thread and holds calls on it, one after the other, whatever happens
// to them. What the person is told is the ledger that the thread is compared with.
type person struct {
	t      *testing.T
	soak   *soak
	number int
	rng    *rand.Rand

	thread, call string
	peer         *rtc.Peer
	close        func() // the connection, with the way that it takes

	mu      sync.Mutex
	changed chan struct{}
	ready   bool // bridge.ready came on this connection
	gone    bool // the connection or the call has ended
	texts   int  // typed
	saved   map[string]fact
	items   map[string]fact // finished answers that were shown, by item
	tally   tally
}

// fact is something that the person was told, and when.
type fact struct {
	at      time.Time
	message persistence.Message
}

func newPerson(t *testing.T, s *soak, number int) *person {
	return &person{
		t: t, soak: s, number: number, rng: rand.New(rand.NewPCG(s.seed, uint64(number)+1)),
		changed: make(chan struct{}), saved: map[string]fact{}, items: map[string]fact{}, close: func() {},
	}
}

// live calls and talks until the soak ends.
func (p *person) live() {
	for !p.over() {
		if p.peer == nil && !p.dial() {
			p.await(500*time.Millisecond, func() bool { return false })
			continue
		}
		if !p.await(20*time.Second, func() bool { return p.ready || p.gone }) || p.isGone() {
			p.drop()
			continue
		}
		p.act()
	}
	p.drop()
	p.post("/v1/realtime/calls/"+p.call+"/hangup", "", "")
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
	switch n := p.rng.IntN(100); {
	case n < 60:
		p.say(fmt.Sprintf("Echo: %d-%d", p.number, p.texts+1))
	case n < 75:
		p.say(chartPlease)
	case n < 80:
		p.say(countPlease) // and is interrupted by what comes next
	case n < 90:
		p.await(time.Duration(p.rng.IntN(1500))*time.Millisecond, func() bool { return p.gone })
	case n < 96:
		p.reload()
	default:
		p.drop()
		p.post("/v1/realtime/calls/"+p.call+"/hangup", "", "")
	}
}

// say types a text and waits until it is in the thread and something is answered, but
// not for ever.
func (p *person) say(text string) {
	numbered := strings.HasPrefix(text, "Echo: ")
	if numbered {
		p.texts++
	}
	p.mu.Lock()
	answers := p.tally.Answers
	p.mu.Unlock()
	event := fmt.Sprintf(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, text)
	ctx, cancel := context.WithTimeout(p.soak.ctx, 5*time.Second)
	defer cancel()
	if p.peer.Send(ctx, []byte(event)) != nil || p.peer.Send(ctx, []byte(`{"type":"response.create"}`)) != nil {
		return
	}
	wait := 8 * time.Second
	if text == countPlease {
		wait = time.Second
	}
	p.await(wait, func() bool { return p.gone || p.tally.Answers > answers })
}

// dial begins a call on the thread.
func (p *person) dial() bool {
	path := "/v1/realtime/calls?takeover=true"
	if p.thread != "" {
		path += "&thread_id=" + p.thread
	}
	header, ok := p.connect(path, http.StatusCreated)
	if ok {
		p.call = strings.TrimPrefix(header.Get("Location"), "/v1/realtime/calls/")
		p.thread = header.Get("X-Thread-Id")
		p.tally.Calls++
	}
	return ok
}

// reload leaves the page and comes back to the call.
func (p *person) reload() {
	p.drop()
	if _, ok := p.connect("/v1/realtime/calls/"+p.call+"/reconnect", http.StatusOK); ok {
		p.tally.Reloads++
	}
}

// connect offers a connection of which some packets are lost.
func (p *person) connect(path string, want int) (http.Header, bool) {
	peer, offer, err := p.soak.api.Offer(p.soak.ctx, rtc.Handlers{Message: p.told, State: p.is})
	if err != nil {
		p.t.Errorf("offer: %v", err)
		return nil, false
	}
	status, header, answer := p.post(path, "application/sdp", withoutCandidates(offer))
	if status != want {
		_ = peer.Close()
		return nil, false
	}
	way, answer, err := newWay(answer, rand.New(rand.NewPCG(p.rng.Uint64(), 0)))
	if err == nil {
		p.update(func() { p.ready, p.gone = false, false })
		err = peer.Accept(p.soak.ctx, answer)
	}
	if err != nil {
		p.t.Errorf("accept: %v", err)
		_ = peer.Close()
		return nil, false
	}
	p.peer = peer
	p.close = func() { _ = peer.Close(); way.close() }
	return header, true
}

// drop closes the connection.
func (p *person) drop() {
	p.close()
	p.peer, p.close = nil, func() {}
}

func (p *person) isGone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

func (p *person) is(s rtc.State) {
	if s == rtc.StateClosed || s == rtc.StateFailed {
		p.update(func() { p.gone = true })
	}
}

func (p *person) update(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	close(p.changed)
	p.changed = make(chan struct{})
}

// await waits for ok, which is asked with p.mu held, and says whether it came.
func (p *person) await(limit time.Duration, ok func() bool) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		p.mu.Lock()
		done, changed := ok(), p.changed
		p.mu.Unlock()
		if done {
			return true
		}
		select {
		case <-changed:
		case <-timer.C:
			return false
		case <-p.soak.stop:
			return false
		}
	}
}

// told writes into the ledger what comes to the browser.
func (p *person) told(data []byte) {
	ev, err := realtime.Decode(data)
	if err != nil {
		p.t.Errorf("the browser got %.200q: %v", data, err)
		return
	}
	now := time.Now()
	p.update(func() {
		switch ev.Type {
		case "bridge.ready":
			p.ready = true
		case "bridge.ended":
			p.gone = true
		case "bridge.message":
			var e struct{ Message persistence.Message }
			if err := json.Unmarshal(ev.Raw, &e); err != nil {
				p.t.Errorf("%s: %v", ev.Raw, err)
			}
			p.saved[e.Message.ID] = fact{now, e.Message}
		case realtime.TypeItemDone:
			it, err := realtime.DecodeItem(ev.Item)
			if err == nil && it.Type == realtime.ItemMessage && it.Role == "assistant" && it.Status == "completed" {
				p.items[it.ID] = fact{at: now}
				p.tally.Answers++
			}
		}
	})
}

func (p *person) post(path, kind, body string) (int, http.Header, string) {
	req, err := http.NewRequestWithContext(p.soak.ctx, http.MethodPost, p.soak.base+path, strings.NewReader(body))
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

var echoPattern = regexp.MustCompile(`^Echo: \d+-(\d+)$`)

// row is a message as it is in the database.
type row struct {
	id, role, source, status, text, item string
}

// check compares the thread with the ledger.
func (p *person) check() tally {
	t := p.t
	if p.thread == "" {
		t.Errorf("person %d never had a call", p.number)
		return p.tally
	}
	byID, byItem, typed := map[string]row{}, map[string]int{}, map[string]int{}
	last := 0
	for _, m := range p.rows() {
		byID[m.id] = m
		if m.item != "" {
			byItem[m.item]++
		}
		if m.role == "user" && m.source == "voice" {
			p.tally.Spoken++
		}
		if found := echoPattern.FindStringSubmatch(m.text); found != nil && m.role == "user" {
			typed[m.text]++
			n, _ := strconv.Atoi(found[1])
			if n <= last {
				t.Errorf("thread %s: %q stands behind number %d", p.thread, m.text, last)
			}
			last = n
		}
		p.tally.Messages++
	}
	for text, n := range typed {
		if n > 1 {
			t.Errorf("thread %s: %q is there %d times", p.thread, text, n)
		}
	}
	for item, n := range byItem {
		if n > 1 {
			t.Errorf("thread %s: item %s is %d messages", p.thread, item, n)
		}
	}
	p.tally.Texts, p.tally.Unconfirmed = p.texts, p.texts-len(typed)
	p.checkSaved(byID)
	for item, f := range p.items {
		if byItem[item] == 0 && !p.soak.justBefore(f.at) {
			t.Errorf("thread %s: the answer %s was shown at %s and is not there", p.thread, item, f.at.Format(time.TimeOnly))
		}
	}
	return p.tally
}

// checkSaved looks for each message that was told to be saved.
func (p *person) checkSaved(byID map[string]row) {
	for id, f := range p.saved {
		m, ok := byID[id]
		told := f.message.Text()
		switch {
		case !ok:
			p.t.Errorf("thread %s: message %s %q was told at %s to be saved and is not there", p.thread, id, told, f.at.Format(time.TimeOnly))
		case f.message.Metadata.Status == persistence.StatusCompleted && m.text != told:
			p.t.Errorf("thread %s: message %s is %q, told was %q", p.thread, id, m.text, told)
		case !strings.HasPrefix(m.text, told) && m.role == "assistant":
			p.t.Errorf("thread %s: message %s is %q, told was %q", p.thread, id, m.text, told)
		}
		for _, part := range f.message.Parts {
			if part.IsTool() && part.State == persistence.ToolOutputAvailable {
				p.tally.Charts++
			}
		}
	}
}

func (p *person) rows() []row {
	var rows []row
	for cursor := "0"; ; {
		var page struct {
			Messages []persistence.Message
			Next     json.Number `json:"next_after"`
		}
		p.soak.read(p.t, "/api/threads/"+p.thread+"/messages?limit=200&after="+cursor, &page)
		for _, m := range page.Messages {
			rows = append(rows, row{m.ID, string(m.Role), string(m.Metadata.Source), string(m.Metadata.Status), m.Text(), m.Metadata.ItemID})
		}
		if page.Next == "" || page.Next == "null" || len(page.Messages) == 0 {
			return rows
		}
		cursor = page.Next.String()
	}
}
