package bench

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"

	"voicebridge/realtime/rtc"
)

// measurement is what packets are sent and heard for. Its clock is the one that
// stamps them.
type measurement struct {
	epoch time.Time
	// window is the last one that was opened; nil before the first.
	window atomic.Pointer[window]
	// wrong packets, by way, are those of another call and those that were changed,
	// since path was asked for them. Such a packet does not say when it was sent.
	wrong [ways]atomic.Uint64
}

func newMeasurement() *measurement { return &measurement{epoch: time.Now()} }

// now is ns on the measurement's clock, which is monotonic.
func (m *measurement) now() int64 { return int64(time.Since(m.epoch)) }

// way is where a packet goes.
type way int

const (
	upward   way = iota // to the upstream
	downward            // to the browser
	ways
)

// window is when packets count, by the time when they were sent, and what became
// of them. All but sent and late is counted where they arrive, however late.
type window struct {
	from, to int64
	ends     time.Time
	ways     [ways]direction
	// words are the events of the model's words, at the browser.
	words direction
	// late is how far behind its schedule the generator was.
	late histogram
}

// at returns the window that a packet counts in which was sent then, or nil.
func (m *measurement) at(sent int64) *window {
	if w := m.window.Load(); w != nil && sent >= w.from && sent < w.to {
		return w
	}
	return nil
}

// lead is how far in the future a window begins, so that no packet that was
// stamped before the window was known falls into it.
const lead = 20 * time.Millisecond

// open lets packets count for d from shortly after now. The window before it,
// if there was one, must have ended a while ago: what arrives for it from now on
// is lost.
func (m *measurement) open(d time.Duration) *window {
	from := m.now() + int64(lead)
	w := &window{from: from, to: from + int64(d), ends: m.epoch.Add(time.Duration(from) + d)}
	m.window.Store(w)
	return w
}

// paths returns what became of the window's packets, and the wrong ones that came
// since it was asked last.
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
	// disordered packets came after a later one, or twice.
	disordered atomic.Uint64
}

// lost is how many packets did not arrive.
func (d *direction) lost() int64 {
	return int64(d.sent.Load()) - int64(d.latency.count()) // far below 2^63
}

// voice sends the packets of one stream. It has one user at a time.
type voice struct {
	m     *measurement
	way   way
	to    rtc.AudioSink
	phase time.Duration // in the frame of 20 ms

	stamp   stamp
	packet  rtp.Packet
	payload [payloadSize]byte
}

// frame is the time that one packet stands for, and samples its length in RTP
// timestamps (RFC 7587, 4.2).
const (
	frame   = 20 * time.Millisecond
	samples = 960
)

func newVoice(m *measurement, way way, id uint32, to rtc.AudioSink) *voice {
	return &voice{m: m, way: way, to: to, stamp: stamp{voice: id}}
}

// send sends the next packet and returns the window that it counts in, or nil. A
// packet that cannot be sent is a lost one: whether the call still stands is for
// others to see.
func (v *voice) send() *window {
	v.stamp.sequence++
	v.stamp.sent = v.m.now()
	v.stamp.put(v.payload[:])
	w := v.m.at(v.stamp.sent)
	if w != nil {
		w.ways[v.way].sent.Add(1)
	}
	v.packet.Header = rtp.Header{
		Version: 2, SSRC: v.stamp.voice,
		SequenceNumber: uint16(v.stamp.sequence),           // wraps as RTP's do
		Timestamp:      uint32(v.stamp.sequence) * samples, // wraps as RTP's do
	}
	v.packet.Payload = v.payload[:]
	_ = v.to.WriteRTP(&v.packet)
	return w
}

// ear is the sink at the end of one stream.
type ear struct {
	m     *measurement
	way   way
	heard moment // the first packet

	// What follows belongs to the stream's one reader.
	voice uint32
	last  uint64
}

// WriteRTP implements [rtc.AudioSink].
func (e *ear) WriteRTP(packet *rtp.Packet) error {
	now := e.m.now()
	s, ok := readStamp(packet.Payload)
	if ok && e.last == 0 {
		e.voice = s.voice
	}
	if !ok || s.voice != e.voice {
		e.m.wrong[e.way].Add(1)
		return nil
	}
	e.heard.mark()
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

// moment is something that happens once. init comes before all else.
type moment struct {
	once sync.Once
	at   time.Time     // valid when done is closed
	done chan struct{} // closed when it has happened
}

func (t *moment) init() { t.done = make(chan struct{}) }

// mark notes that it happens now. Only the first time counts.
func (t *moment) mark() {
	t.once.Do(func() {
		t.at = time.Now()
		close(t.done)
	})
}

// heardWords takes an event of the model's words at the browser.
func (m *measurement) heardWords(delta string) {
	sent, ok := readMoment(delta)
	if !ok {
		return
	}
	if w := m.at(sent); w != nil {
		w.words.latency.record(time.Duration(m.now() - sent))
	}
}
