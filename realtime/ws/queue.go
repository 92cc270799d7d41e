package ws

import (
	"encoding/base64"
	"slices"
	"sync"
	"time"

	"voicebridge/realtime/media"
)

// Limits of what waits for the upstream.
const (
	// highWater is how many bytes of events wait before Send does.
	highWater = 1 << 20
	// maxWaiting is how much sound waits; then the oldest is dropped. Of what can come later, unhurried waits.
	maxWaiting, unhurried = 10 * time.Second, time.Second
	// shortestAppend and longestAppend bound the sound in one event.
	shortestAppend, longestAppend = 40 * time.Millisecond, 100 * time.Millisecond
)

// queue holds what goes to the upstream, events and sound, in order.
type queue struct {
	format media.Format

	mu     sync.Mutex
	items  []outgoing
	events int // bytes
	sound  int // bytes
	// dropped counts bytes of sound that the upstream was too slow for, and spoken those that were sent.
	dropped, spoken int
	// marks have the times of what was sent.
	marks  marks
	closed bool
	wake   chan struct{} // holds a token when there is something to send
	room   chan struct{} // holds a token when events have been sent
}

// outgoing is an event, or sound, which begins at that time of the caller's stream, and came then.
type outgoing struct {
	event, sound []byte
	at           time.Duration
	came         time.Time
}

func newQueue(format media.Format) *queue {
	return &queue{format: format, wake: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// use sets the format of all sound: none has come when a session says what it takes.
func (q *queue) use(f media.Format) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.format = f
}

// bytesOf returns how many bytes of sound last so long.
func bytesOf(format media.Format, d time.Duration) int {
	return int(d/media.FrameTime) * format.Frame()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// push adds an event, if there is room for it.
func (q *queue) push(event []byte) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.events > 0 && q.events+len(event) > highWater {
		return false
	}
	q.add(event)
	return true
}

// insist adds one of our own events, which are small and few.
func (q *queue) insist(event []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(event)
}

func (q *queue) add(event []byte) {
	q.items = append(q.items, outgoing{event: event})
	q.events += len(event)
	signal(q.wake)
}

// speak adds sound, a copy of which it keeps, of a time of the caller's stream.
func (q *queue) speak(sound []byte, at time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	last := len(q.items) - 1
	if last >= 0 && q.items[last].event == nil && len(q.items[last].sound) < bytesOf(q.format, shortestAppend) {
		q.items[last].sound = append(q.items[last].sound, sound...)
	} else {
		q.items = append(q.items, outgoing{sound: slices.Clone(sound), at: at, came: time.Now()})
	}
	q.sound += len(sound)
	for q.sound > bytesOf(q.format, maxWaiting) {
		at := slices.IndexFunc(q.items, func(o outgoing) bool { return o.event == nil })
		q.sound -= len(q.items[at].sound)
		q.dropped += len(q.items[at].sound)
		q.items = slices.Delete(q.items, at, at+1)
	}
	signal(q.wake)
}

// next removes what is to be sent next, as an event. ok is false if there is nothing yet: sound waits until there is
// enough of it, or an event behind it, or none has come for a while. last means that nothing will come.
func (q *queue) next() (event []byte, ok, last bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil, false, q.closed
	}
	first := q.items[0]
	if first.event != nil {
		q.items = slices.Delete(q.items, 0, 1)
		q.events -= len(first.event)
		signal(q.room)
		return first.event, true, false
	}
	mayGrow := len(q.items) == 1 && !q.closed && time.Since(first.came) < longestAppend
	if mayGrow && len(first.sound) < bytesOf(q.format, shortestAppend) {
		return nil, false, false
	}
	sound, n := first.sound, 1
	for _, more := range q.items[1:] {
		if more.event != nil || len(sound)+len(more.sound) > bytesOf(q.format, longestAppend) {
			break
		}
		sound = append(sound, more.sound...)
		n++
	}
	q.items = slices.Delete(q.items, 0, n)
	q.sound -= len(sound)
	q.marks.add(mark{place: q.format.Lasts(q.spoken), at: first.at, sent: time.Now()})
	q.spoken += len(sound)
	return appended(sound), true, false
}

// waits reports whether there is something to send later.
func (q *queue) waits() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) > 0
}

// markOf returns where and when sound was sent that has a place in all of it.
func (q *queue) markOf(place time.Duration) (mark, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	m, ok := q.marks.before(place)
	if !ok || place > q.format.Lasts(q.spoken) {
		return mark{}, false
	}
	gone := place - m.place
	return mark{place: place, at: m.at + gone, sent: m.sent.Add(gone)}, true
}

// takesFaster reports whether so little sound waits that more than what is due may come.
func (q *queue) takesFaster() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.sound < bytesOf(q.format, unhurried)
}

// close takes nothing more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	signal(q.wake)
}

// appended builds input_audio_buffer.append.
func appended(sound []byte) []byte {
	const before, after = `{"type":"input_audio_buffer.append","audio":"`, `"}`
	event := make([]byte, 0, len(before)+base64.StdEncoding.EncodedLen(len(sound))+len(after))
	event = append(event, before...)
	event = base64.StdEncoding.AppendEncode(event, sound)
	return append(event, after...)
}

// maxInbox and maxInboxBytes are how many events may wait to be handed on before the upstream must wait.
const (
	maxInbox      = 256
	maxInboxBytes = 4 << 20
)

// inbox holds events for the one goroutine that hands them on: whoever plays sound must not wait for that.
type inbox struct {
	mu     *sync.Mutex
	events [][]byte
	bytes  int
	closed bool
	wake   chan struct{} // holds a token when there are events
	taken  chan struct{} // holds a token when there is room
}

func newInbox() inbox {
	return inbox{mu: new(sync.Mutex), wake: make(chan struct{}, 1), taken: make(chan struct{}, 1)}
}

func (b *inbox) push(event []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event)
	b.bytes += len(event)
	signal(b.wake)
}

func (b *inbox) full() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.events) >= maxInbox || b.bytes >= maxInboxBytes
}

// pop returns what waits. last means that nothing will come.
func (b *inbox) pop() (events [][]byte, last bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	events = b.events
	b.events, b.bytes = nil, 0
	signal(b.taken)
	return events, b.closed
}

func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	signal(b.wake)
}
