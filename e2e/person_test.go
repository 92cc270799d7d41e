package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

// person has one thread and makes calls on it, one after the other, whatever happens to
// them. What the person is told is the ledger that the thread is compared with.
type person struct {
	t      *testing.T
	soak   *soak
	number int
	rng    *rand.Rand

	thread, call string
	peer         *rtc.Peer
	close        func() // closes the connection and its path

	mu      sync.Mutex
	changed chan struct{}
	ready   bool // bridge.ready came on this connection
	gone    bool // the connection or the call has ended
	texts   int  // texts typed
	saved   map[string]fact
	items   map[string]fact // finished answers that were shown, by item
	tally   tally
	did     []event // what the person did and was told
	typed   []event // the numbered texts, when they were sent
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

// live makes calls and talks until the soak ends.
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
		p.say(countPlease) // interrupted by whatever comes next
	case n < 90:
		p.await(time.Duration(p.rng.IntN(1500))*time.Millisecond, func() bool { return p.gone })
	case n < 96:
		p.reload()
	default:
		p.drop()
		p.note("hangs up")
		p.post("/v1/realtime/calls/"+p.call+"/hangup", "", "")
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

// say types a text and waits until it is in the thread and something is answered, but not
// forever.
func (p *person) say(text string) {
	numbered := strings.HasPrefix(text, "Echo: ")
	if numbered {
		p.texts++
	}
	p.mu.Lock()
	answers := p.tally.Answers
	p.mu.Unlock()
	item := fmt.Sprintf(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, text)
	ctx, cancel := context.WithTimeout(p.soak.ctx, 5*time.Second)
	defer cancel()
	if err := errors.Join(p.peer.Send(ctx, []byte(item)), p.peer.Send(ctx, []byte(`{"type":"response.create"}`))); err != nil {
		p.note("could not type %q: %v", text, err)
		return
	}
	p.note("typed %q", text)
	if numbered {
		p.typed = append(p.typed, event{time.Now(), text})
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
		p.note("called: %s", p.call)
	}
	return ok
}

// reload leaves the page and rejoins the call.
func (p *person) reload() {
	p.drop()
	p.note("left the page to come back")
	if _, ok := p.connect("/v1/realtime/calls/"+p.call+"/reconnect", http.StatusOK); ok {
		p.tally.Reloads++
		p.note("came back to the call")
	}
}

// connect offers a connection that loses some packets.
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
	lossy, answer, err := newLossyPath(answer, rand.New(rand.NewPCG(p.rng.Uint64(), 0)))
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
	p.close = func() { _ = peer.Close(); lossy.close() }
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
			p.noteLocked("told %.200s", ev.Raw)
		case "bridge.message":
			var e struct{ Message persistence.Message }
			if err := json.Unmarshal(ev.Raw, &e); err != nil {
				p.t.Errorf("%s: %v", ev.Raw, err)
			}
			p.saved[e.Message.ID] = fact{now, e.Message}
			p.noteLocked("reported as saved: %s", rowOf(e.Message))
		case realtime.TypeItemDone:
			it, err := realtime.DecodeItem(ev.Item)
			if err == nil && it.Type == realtime.ItemMessage && it.Role == "assistant" && it.Status == "completed" {
				p.items[it.ID] = fact{at: now}
				p.tally.Answers++
				p.noteLocked("shown: %s %.60q", it.ID, it.Text())
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

func rowOf(m persistence.Message) row {
	return row{m.ID, string(m.Role), string(m.Metadata.Source), string(m.Metadata.Status), m.Text(), m.Metadata.ItemID}
}

func (r row) String() string {
	return fmt.Sprintf("%s %s %s %s %s %.60q", r.id, r.item, r.role, r.source, r.status, r.text)
}

// check compares the thread with the ledger.
func (p *person) check() tally {
	if p.thread == "" {
		p.t.Errorf("-soak.seed %d: want a call of person %d, there was none", p.soak.seed, p.number)
		return p.tally
	}
	c := comparison{person: p, byID: map[string]row{}, typed: map[string]int{}, byItem: map[string]int{}, rows: p.rows()}
	for _, m := range c.rows {
		c.byID[m.id] = m
		c.byItem[m.item]++
		if m.role == "user" && m.source == "voice" {
			p.tally.Spoken++
		}
		p.tally.Messages++
	}
	c.order()
	for item, n := range c.byItem {
		if n > 1 && item != "" {
			c.wrong(p.items[item].at, "item %s: want one message, there are %d", item, n)
		}
	}
	for _, f := range p.saved {
		c.saved(f)
	}
	for item, f := range p.items {
		c.shown(item, f)
	}
	p.tally.Texts, p.tally.Unconfirmed = p.texts, p.texts-len(c.typed)
	c.report()
	return p.tally
}

// comparison compares a person's ledger with the thread.
type comparison struct {
	*person
	rows   []row
	byID   map[string]row
	byItem map[string]int
	typed  map[string]int // by numbered text
	faults []event        // what is wrong, and when it happened
}

func (c *comparison) wrong(at time.Time, format string, args ...any) {
	c.faults = append(c.faults, event{at, fmt.Sprintf(format, args...)})
}

// order checks the numbers of the texts: each is there once, after all that were typed
// before it.
func (c *comparison) order() {
	last := 0
	for _, m := range c.rows {
		found := echoPattern.FindStringSubmatch(m.text)
		if found == nil || m.role != "user" {
			continue
		}
		if c.typed[m.text]++; c.typed[m.text] > 1 {
			c.wrong(c.sent(m.text), "text %q: want it once, there are %d", m.text, c.typed[m.text])
			continue
		}
		n, _ := strconv.Atoi(found[1])
		if n < last {
			c.wrong(c.sent(m.text), "text %q: want it before number %d, it comes after it", m.text, last)
		}
		last = n
	}
}

// sent is when a numbered text was typed.
func (c *comparison) sent(text string) time.Time {
	for _, e := range c.person.typed {
		if e.what == text {
			return e.at
		}
	}
	return time.Time{}
}

// saved looks for a message that was reported as saved.
func (c *comparison) saved(f fact) {
	m, ok := c.byID[f.message.ID]
	told := f.message.Text()
	switch {
	case !ok:
		c.wrong(f.at, "message reported as saved: want %s, it is not there", rowOf(f.message))
	case f.message.Metadata.Status == persistence.StatusCompleted && m.text != told,
		!strings.HasPrefix(m.text, told) && m.role == "assistant":
		c.wrong(f.at, "message reported as saved: want %s, it is %s", rowOf(f.message), m)
	}
	for _, part := range f.message.Parts {
		if part.IsTool() && part.State == persistence.ToolOutputAvailable {
			c.tally.Charts++
		}
	}
}

// shown looks for an answer that was shown. The program may be killed before it saves an
// answer, but it saves nothing typed later before it.
func (c *comparison) shown(item string, f fact) {
	if c.byItem[item] > 0 {
		return
	}
	killed, ok := c.soak.justBefore(f.at)
	if !ok {
		c.wrong(f.at, "answer %s: want what was shown, it is not there, and the program was not killed within %v", item, unsaved)
		return
	}
	for _, e := range c.person.typed {
		if e.at.After(f.at) && e.at.Before(killed) && c.typed[e.what] > 0 {
			c.wrong(f.at, "answer %s: want what was shown, it is not there, but what was typed after it is (%q)", item, e.what)
			return
		}
	}
}

// report says what is wrong, what happened at that time, and what the thread has there.
func (c *comparison) report() {
	if len(c.faults) == 0 {
		return
	}
	slices.SortFunc(c.faults, func(a, b event) int { return a.at.Compare(b.at) })
	var b strings.Builder
	fmt.Fprintf(&b, "-soak.seed %d: thread %s of person %d differs from what its caller was told and typed in %d things:\n",
		c.soak.seed, c.thread, c.number, len(c.faults))
	for i, e := range c.faults {
		if i == 10 {
			fmt.Fprintf(&b, "  and so on\n")
			break
		}
		fmt.Fprintf(&b, "  %s %s\n", clock(e.at), e.what)
	}
	from, to := c.faults[0].at.Add(-10*time.Second), c.faults[0].at.Add(10*time.Second)
	fmt.Fprintf(&b, "in these seconds:\n%s", c.soak.happened(from, to))
	c.t.Error(b.String())
	var all strings.Builder
	fmt.Fprintf(&all, "%sthe thread:\n", b.String())
	for _, m := range c.rows {
		fmt.Fprintf(&all, "  %s\n", m)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(&all, "what the person did and was told:\n%s", listed(c.did, time.Time{}, time.Now()))
	keep(c.t, "ledger.txt", []byte(all.String()))
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
			rows = append(rows, rowOf(m))
		}
		if page.Next == "" || page.Next == "null" || len(page.Messages) == 0 {
			return rows
		}
		cursor = page.Next.String()
	}
}
