package bench

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"

	"voicebridge/realtime/rtc"
)

// measurement records what becomes of packets. Its clock stamps them.
type measurement struct {
	epoch time.Time
	// window is the window opened last; nil before the first.
	window atomic.Pointer[window]
	// wrong counts, for each way and since paths was last called, packets that belong to another
	// call or were changed. Their stamps cannot be trusted.
	wrong [ways]atomic.Uint64
}

func newMeasurement() *measurement { return &measurement{epoch: time.Now()} }

// now returns the time in ns on the measurement's monotonic clock.
func (m *measurement) now() int64 { return int64(time.Since(m.epoch)) }

// way is the direction of a packet.
type way int

const (
	upward   way = iota // to the upstream
	downward            // to the browser
	ways
)

// window is the time in which packets count, by when they were sent, and what became of them. All
// but sent and late is counted on arrival, however late.
type window struct {
	from, to int64
	ends     time.Time
	ways     [ways]direction
	// words are the events with the model's words.
	words direction
	// late is how far the generator was behind its schedule.
	late histogram
}

// at returns the window in which a packet sent at that time counts, or nil.
func (m *measurement) at(sent int64) *window {
	if w := m.window.Load(); w != nil && sent >= w.from && sent < w.to {
		return w
	}
	return nil
}

// lead is how far in the future a window begins, so that no packet stamped before the window was
// known falls into it.
const lead = 20 * time.Millisecond

// open starts a window of length d, shortly after now. An earlier window must have ended a while
// ago: packets of it that arrive from now on are lost.
func (m *measurement) open(d time.Duration) *window {
	for {
		from := m.now() + int64(lead)
		w := &window{from: from, to: from + int64(d), ends: m.epoch.Add(time.Duration(from) + d)}
		m.window.Store(w)
		// On a busy machine it may be too late: packets that belong in the window were sent before it
		// was stored.
		if m.now() < from {
			return w
		}
	}
}

// paths returns what became of the window's packets, and the wrong ones since the last call.
func (m *measurement) paths(w *window) Paths {
	return Paths{
		Up:   w.ways[upward].path(m.wrong[upward].Swap(0)),
		Down: w.ways[downward].path(m.wrong[downward].Swap(0)),
	}
}

// direction is what happened to the packets of one way.
type direction struct {
	latency histogram
	sent    atomic.Uint64
	// disordered counts packets that came after a later one, or twice.
	disordered atomic.Uint64
}

// lost returns how many packets did not arrive.
func (d *direction) lost() int64 {
	return int64(d.sent.Load()) - int64(d.latency.count()) // far below 2^63
}

// sender sends the packets of one stream. It is not safe for concurrent use.
type sender struct {
	m     *measurement
	way   way
	to    rtc.AudioSink
	phase time.Duration // within the 20 ms frame

	stamp   stamp
	packet  rtp.Packet
	payload [payloadSize]byte
}

func newSender(m *measurement, way way, id uint32, to rtc.AudioSink) *sender {
	return &sender{m: m, way: way, to: to, stamp: stamp{stream: id}}
}

// send sends the next packet and returns the window in which the packet counts, or nil. A packet
// that cannot be sent counts as lost; whether the call is still up is checked elsewhere.
func (v *sender) send() *window {
	v.stamp.sequence++
	v.stamp.sent = v.m.now()
	v.stamp.put(v.payload[:])
	w := v.m.at(v.stamp.sent)
	if w != nil {
		w.ways[v.way].sent.Add(1)
	}
	v.packet.Header = rtp.Header{
		Version: 2, SSRC: v.stamp.stream,
		SequenceNumber: uint16(v.stamp.sequence),           // wraps as in RTP
		Timestamp:      uint32(v.stamp.sequence) * samples, // wraps as in RTP
	}
	v.packet.Payload = v.payload[:]
	_ = v.to.WriteRTP(&v.packet)
	return w
}

// receiver is the sink at the end of one stream.
type receiver struct {
	m       *measurement
	way     way
	started moment // the first packet

	// The rest belongs to the stream's one reader.
	stream uint32
	last   uint64
}

// WriteRTP implements [rtc.AudioSink].
func (e *receiver) WriteRTP(packet *rtp.Packet) error {
	now := e.m.now()
	s, ok := readStamp(packet.Payload)
	if ok && e.last == 0 {
		e.stream = s.stream
	}
	if !ok || s.stream != e.stream {
		e.m.wrong[e.way].Add(1)
		return nil
	}
	e.started.mark()
	w := e.m.at(s.sent)
	inOrder := s.sequence > e.last
	if inOrder {
		e.last = s.sequence
	}
	if w == nil {
		return nil
	}
	if !inOrder {
		w.ways[e.way].disordered.Add(1)
	}
	w.ways[e.way].latency.record(time.Duration(now - s.sent))
	return nil
}

// moment is an event that happens once. init must be called first.
type moment struct {
	once sync.Once
	at   time.Time     // valid when done is closed
	done chan struct{} // closed when it has happened
}

func (t *moment) init() { t.done = make(chan struct{}) }

// mark records that it happens now. Only the first call counts.
func (t *moment) mark() {
	t.once.Do(func() {
		t.at = time.Now()
		close(t.done)
	})
}

// receiveWords takes an event with the model's words at the browser.
func (m *measurement) receiveWords(delta string) {
	sent, ok := readTime(delta)
	if !ok {
		return
	}
	if w := m.at(sent); w != nil {
		w.words.latency.record(time.Duration(m.now() - sent))
	}
}

// path reads a direction's counters.
func (d *direction) path(wrong uint64) Path {
	return Path{
		P50: micro(d.latency.quantile(0.5)), P99: micro(d.latency.quantile(0.99)), Max: micro(d.latency.max()),
		Sent: d.sent.Load(), Lost: d.lost(), Disordered: d.disordered.Load(), Wrong: wrong,
	}
}
