package load

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"

	"voicebridge/realtime/rtc"
)

// measurement is one round of packets. Its clock is the one that stamps them.
type measurement struct {
	epoch    time.Time
	window   atomic.Pointer[window]
	up, down direction
	// late is how far behind its schedule the generator was.
	late histogram
}

func newMeasurement() *measurement { return &measurement{epoch: time.Now()} }

// now is ns on the measurement's clock, which is monotonic.
func (m *measurement) now() int64 { return int64(time.Since(m.epoch)) }

// window is when packets count, by the time when they were sent.
type window struct{ from, to int64 }

// counts reports whether a packet that was sent then counts.
func (m *measurement) counts(sent int64) bool {
	w := m.window.Load()
	return w != nil && sent >= w.from && sent < w.to
}

// lead is how far in the future a window begins, so that no packet that was
// stamped before the window was known falls into it.
const lead = 20 * time.Millisecond

// open lets packets count for d from shortly after now and returns when that ends.
func (m *measurement) open(d time.Duration) (end time.Time) {
	from := m.now() + int64(lead)
	m.window.Store(&window{from: from, to: from + int64(d)})
	return m.epoch.Add(time.Duration(from) + d)
}

// direction is what happened to the packets of one way. All but sent is counted
// where they arrive.
type direction struct {
	latency histogram
	sent    atomic.Uint64
	// disordered packets came after a later one, or twice.
	disordered atomic.Uint64
	// wrong packets are those of another call and those that were changed.
	wrong atomic.Uint64
}

// lost is how many packets did not arrive.
func (d *direction) lost() int64 {
	return int64(d.sent.Load()) - int64(d.latency.count()) // far below 2^63
}

// voice sends the packets of one stream. It has one user at a time.
type voice struct {
	m     *measurement
	way   *direction
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

func newVoice(m *measurement, way *direction, id uint32, to rtc.AudioSink) *voice {
	return &voice{m: m, way: way, to: to, stamp: stamp{voice: id}}
}

// send sends the next packet. A packet that cannot be sent is a lost one: whether
// the call still stands is for others to see.
func (v *voice) send() {
	v.stamp.sequence++
	v.stamp.sent = v.m.now()
	v.stamp.put(v.payload[:])
	if v.m.counts(v.stamp.sent) {
		v.way.sent.Add(1)
	}
	v.packet.Header = rtp.Header{
		Version: 2, SSRC: v.stamp.voice,
		SequenceNumber: uint16(v.stamp.sequence),           // wraps as RTP's do
		Timestamp:      uint32(v.stamp.sequence) * samples, // wraps as RTP's do
	}
	v.packet.Payload = v.payload[:]
	_ = v.to.WriteRTP(&v.packet)
}

// ear is the sink at the end of one stream.
type ear struct {
	m     *measurement
	way   *direction
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
		e.way.wrong.Add(1)
		return nil
	}
	e.heard.mark()
	counts := e.m.counts(s.sent)
	if s.sequence <= e.last {
		if counts {
			e.way.disordered.Add(1)
		}
	} else {
		e.last = s.sequence
	}
	if counts {
		e.way.latency.record(time.Duration(now - s.sent))
	}
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
