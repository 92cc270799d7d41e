package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// caller is a browser: a Pion peer that makes the offer, as a page does.
type caller struct {
	t       *testing.T
	rig     *rig
	id      string // of the call
	thread  string
	session *simulator.Session // the call at the upstream
	// nameless says that the upstream gave its session no id.
	nameless bool
	send     func([]byte) error

	peer *rtc.Peer

	mu      sync.Mutex
	events  []timedEvent
	changed chan struct{}
	seen    int
	closed  bool
	soundAt []time.Time   // when audio packets arrived
	sound   media.Packet  // of the last packet
	keeps   bool          // what follows: of a call that is recorded
	spoken  [][]byte      // the packets that it has sent
	got     [][]byte      // the packets that came
	breaks  []string      // in the audio, which must be one stream
	states  []media.State // of the connection
	turns   int           // spoken turns
}

// timedEvent is an event and the time it arrived.
type timedEvent struct {
	at time.Time
	realtime.Event
}

func newCaller(t *testing.T, r *rig) *caller {
	c := &caller{t: t, rig: r, changed: make(chan struct{})}
	t.Cleanup(func() {
		if t.Failed() {
			_ = os.WriteFile(filepath.Join(t.ArtifactDir(), "events-"+c.id+".jsonl"), []byte(c.log()), 0o600)
		}
	})
	return c
}

// handlers take what the caller receives.
func (c *caller) handlers() media.Handlers {
	return media.Handlers{
		Message: c.message,
		State: func(s media.State) {
			c.update(func() {
				c.states = append(c.states, s)
				c.closed = c.closed || s == media.StateClosed || s == media.StateFailed
			})
		},
	}
}

func (c *caller) message(data []byte) {
	ev, err := realtime.Decode(data)
	if err != nil {
		// Malformed events of the upstream must be held back.
		c.t.Errorf("the browser got %.200q: %v", data, err)
	}
	c.update(func() {
		c.events = append(c.events, timedEvent{time.Now(), ev})
		if ev.Type == realtime.TypeInputCommitted {
			c.turns++
		}
	})
}

func (c *caller) update(change func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	close(c.changed)
	c.changed = make(chan struct{})
}

// WriteAudio records what the caller hears.
func (c *caller) WriteAudio(p *media.Packet) error {
	c.update(func() {
		// A jump too large for a loss means another stream.
		if last := c.sound; len(c.soundAt) > 0 &&
			(p.Source != last.Source || p.Sequence-last.Sequence > 500 || p.Timestamp-last.Timestamp > 30*48000) {
			c.breaks = append(c.breaks, fmt.Sprintf("%d/%d/%d after %d/%d/%d", p.Source, p.Sequence, p.Timestamp, last.Source, last.Sequence, last.Timestamp))
		}
		c.soundAt, c.sound = append(c.soundAt, time.Now()), p.Clone()
		if c.keeps {
			c.got = append(c.got, c.sound.Payload)
		}
	})
	return nil
}

// until waits until ok, called with c.mu held, returns true.
func (c *caller) until(what string, ok func() bool) {
	c.t.Helper()
	out, stop := testkit.Limit()
	defer stop()
	for {
		c.mu.Lock()
		done, changed, closed := ok(), c.changed, c.closed
		c.mu.Unlock()
		if done {
			return
		}
		if closed {
			c.t.Fatalf("the call ended before %s; events:\n%s", what, c.tail())
		}
		select {
		case <-changed:
		case <-out:
			c.t.Fatalf("no %s; events:\n%s", what, c.tail())
		}
	}
}

// wait waits for the next event that match accepts; those before it count as seen.
func (c *caller) wait(what string, match func(timedEvent) bool) timedEvent {
	c.t.Helper()
	var found timedEvent
	c.until(what, func() bool {
		for c.seen < len(c.events) {
			found = c.events[c.seen]
			c.seen++
			if match(found) {
				return true
			}
		}
		return false
	})
	return found
}

func (c *caller) next(kind string) timedEvent {
	c.t.Helper()
	return c.wait(kind, func(ev timedEvent) bool { return ev.Type == kind })
}

// ended waits for the end and its reason.
func (c *caller) ended() string {
	c.t.Helper()
	return reasonOf(c.t, c.next("bridge.ended"))
}

func reasonOf(t *testing.T, ev timedEvent) string {
	t.Helper()
	var e struct{ Reason string }
	if err := json.Unmarshal(ev.Raw, &e); err != nil {
		t.Fatalf("%s: %v", ev.Raw, err)
	}
	return e.Reason
}

// saved waits until a message is saved as wanted, which may have happened already. It is
// announced only once it is in the database. Events before it count as seen.
func (c *caller) saved(what string, match func(thread.Message) bool) {
	c.t.Helper()
	looked := 0
	c.until("saved "+what, func() bool {
		for ; looked < len(c.events); looked++ {
			if m, ok := messageOf(c.t, c.events[looked]); ok && match(m) {
				c.seen = max(c.seen, looked+1)
				return true
			}
		}
		return false
	})
}

// played waits until an answer with these words was played to its end, possibly before it
// was saved.
func (c *caller) played(words string) {
	c.t.Helper()
	c.until("end of "+words, func() bool {
		ids := map[string]bool{}
		for i, ev := range c.events {
			switch {
			case ev.Type == realtime.TypeAudioTranscriptDone && ev.Transcript == words:
				ids[ev.ResponseID] = true
			case ev.Type == realtime.TypeOutputBufferStopped && ids[ev.ResponseID]:
				c.seen = max(c.seen, i+1)
				return true
			}
		}
		return false
	})
}

func messageOf(t *testing.T, ev timedEvent) (thread.Message, bool) {
	if ev.Type != "bridge.message" {
		return thread.Message{}, false
	}
	var e struct{ Message thread.Message }
	if err := json.Unmarshal(ev.Raw, &e); err != nil {
		t.Errorf("%s: %v", ev.Raw, err)
	}
	return e.Message, true
}

// says matches a finished message that begins with the given words.
func says(role thread.Role, words string) func(thread.Message) bool {
	return func(m thread.Message) bool {
		return m.Role == role && m.Metadata.Status == thread.StatusCompleted && strings.HasPrefix(m.Text(), words)
	}
}

// refusal waits for the error about the event with that id.
func (c *caller) refusal(eventID string) realtime.Error {
	c.t.Helper()
	ev := c.wait("error for "+eventID, func(ev timedEvent) bool {
		return ev.Type == realtime.TypeError && ev.Error != nil && ev.Error.EventID == eventID
	})
	return *ev.Error
}

// put sends an event.
func (c *caller) put(format string, args ...any) {
	c.t.Helper()
	c.raw(fmt.Appendf(nil, format, args...))
}

// raw sends arbitrary bytes.
func (c *caller) raw(data []byte) {
	c.t.Helper()
	if err := c.send(data); err != nil {
		c.t.Fatalf("send %.100q: %v", data, err)
	}
}

// say types a text and asks for an answer.
func (c *caller) say(text string) {
	c.t.Helper()
	c.put(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":%q}]}}`, text)
	c.put(`{"type":"response.create"}`)
}

// speak sends the recorded question, as a microphone would, until the upstream has
// recognised a turn.
func (c *caller) speak() {
	c.t.Helper()
	frames := simulator.UserSpeech()
	before := c.spokenTurns()
	tick := time.Tick(20 * time.Millisecond)
	p := media.Packet{Source: uint32(7 + before)} // a new stream each time
	for _, frame := range frames {
		if c.spokenTurns() > before {
			return
		}
		<-tick
		p.Payload = frame
		must(c.t, c.peer.WriteAudio(&p))
		if c.keeps {
			c.update(func() { c.spoken = append(c.spoken, frame) })
		}
		p.Sequence++
		p.Timestamp += 960
	}
	c.until("spoken turn", func() bool { return c.turns > before })
}

// spokenTurns is how many spoken turns the upstream has recognised.
func (c *caller) spokenTurns() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns
}

// hears waits until the caller has heard that many more packets.
func (c *caller) hears(n int) {
	c.t.Helper()
	c.mu.Lock()
	want := len(c.soundAt) + n
	c.mu.Unlock()
	c.until(fmt.Sprintf("%d packets of sound", n), func() bool { return len(c.soundAt) >= want })
}

// all returns what the caller has received so far.
func (c *caller) all() []timedEvent {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]timedEvent(nil), c.events...)
}

func (c *caller) log() string {
	var b strings.Builder
	for _, ev := range c.all() {
		fmt.Fprintf(&b, "%s %.300s\n", ev.at.Format("05.000"), ev.Raw)
	}
	return b.String()
}

func (c *caller) tail() string {
	log := c.log()
	return log[max(0, len(log)-8000):]
}

// hangUp ends the call by HTTP and returns when all of it is over, even if it is ending
// already.
func (c *caller) hangUp() {
	c.t.Helper()
	status, body := insist(c.t, func() (int, string) { return c.rig.post(c.t, "/v1/realtime/calls/"+c.id+"/hangup", "", "") })
	if status != 200 && status != 404 {
		c.t.Errorf("hang up: %d %s", status, body)
	}
}

// answered waits until the voice has finished saying something.
func (c *caller) answered(words string) {
	c.t.Helper()
	c.saved("answer", says(thread.RoleAssistant, words))
}

// heard waits until the given number of the call's answers were heard to their end.
func (c *caller) heard(answers int) {
	c.t.Helper()
	c.until("silence", func() bool {
		n := 0
		for _, ev := range c.events {
			if ev.Type == realtime.TypeOutputBufferStopped {
				n++
			}
		}
		return n >= answers
	})
}
