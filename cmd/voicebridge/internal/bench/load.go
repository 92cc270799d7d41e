package bench

import (
	"context"
	"encoding/binary"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"

	"voicebridge/realtime/rtc"
)

// Audio packets: 20 ms of speech at 32 kbit/s.
const (
	payloadSize = 80
	frame       = 20 * time.Millisecond
	frameTicks  = 960 // of RTP timestamps in a frame (RFC 7587, 4.2)
)

// tocByte begins every payload: one 20 ms frame of full-band Opus audio (RFC 6716, 3.1). The id of the stream, the packet's
// sequence number and the time of sending follow.
const tocByte = 0xf8

// load is the traffic of a number of calls, and what becomes of it. What is sent between from and to counts, by the time
// of sending, however late it arrives.
type load struct {
	epoch    time.Time
	from, to atomic.Int64 // ns since epoch
	calls    []*call
	late     samples
}

// call is one call: its two ends and its streams.
type call struct {
	browser  *browser
	speaker  *speaker // the upstream's end
	up, down stream
	words    meter
}

func newLoad(calls int) *load {
	l := &load{epoch: time.Now(), calls: make([]*call, calls)}
	for i := range l.calls {
		c := &call{}
		c.up.load, c.down.load, c.words.load = l, l, l
		c.up.id, c.down.id = uint32(2*i+1), uint32(2*i+2) // below 2^14
		l.calls[i] = c
	}
	return l
}

// now returns the time in ns on the load's monotonic clock.
func (l *load) now() int64 { return int64(time.Since(l.epoch)) }

// open begins the measured time shortly after now, so that no packet stamped before it is known falls into it, and returns
// when it ends.
func (l *load) open(d time.Duration) time.Time {
	from := l.now() + int64(frame)
	l.to.Store(from + int64(d))
	l.from.Store(from)
	return l.epoch.Add(time.Duration(from) + d)
}

func (l *load) counts(sent int64) bool {
	from := l.from.Load()
	return from > 0 && sent >= from && sent < l.to.Load()
}

// send makes both ends of all calls send until ctx ends; the channel is closed when nothing more is sent.
func (l *load) send(ctx context.Context, events int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		streams := make([]func(), 0, 2*len(l.calls))
		for _, c := range l.calls {
			streams = append(streams, func() { c.up.send(c.browser.peer) }, func() { c.down.send(c.speaker.session) })
		}
		all.Go(func() { l.pace(ctx, frame, streams, &l.late) })
		if events > 0 {
			words := make([]func(), 0, len(l.calls))
			for i, c := range l.calls {
				// Real answers do not end at the same moment, so these do not either.
				c.speaker.first = 1 + i*answerEvents/len(l.calls)
				words = append(words, func() { c.speaker.speak(c.words.sentNow()) })
			}
			all.Go(func() { l.pace(ctx, time.Second/time.Duration(events), words, &samples{}) })
		}
		all.Wait()
	}()
	return done
}

// pace calls each function once in every interval until ctx ends, spread evenly over it and on schedule even when it is
// behind: a slow receiver must not slow the sender, or the worst latencies would never show. One goroutine serves all,
// because a timer for each would cost more than the packets.
func (l *load) pace(ctx context.Context, every time.Duration, calls []func(), late *samples) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for start := l.now(); ctx.Err() == nil; start += int64(every) {
		for i, call := range calls {
			due := start + int64(every)*int64(i)/int64(len(calls))
			if wait := due - l.now(); wait > 0 {
				timer.Reset(time.Duration(wait))
				select {
				case <-timer.C:
				case <-ctx.Done():
					return
				}
			}
			if now := l.now(); l.counts(now) {
				late.times = append(late.times, time.Duration(now-due))
			}
			call()
		}
	}
}

// heard takes the text of an event at the browser.
func (c *call) heard(delta string) {
	if at, ok := spokenAt(delta); ok {
		c.words.arrived(at)
	}
}

// samples are the times that packets or events took, and how many were sent.
type samples struct {
	sent  int
	times []time.Duration
	// wrong ones were changed, belong to another call, or came after a later one or twice.
	wrong int
}

// meter takes samples of a load.
type meter struct {
	load *load
	mu   sync.Mutex
	samples
}

// sentNow counts one that is sent now, and returns the time to put into it.
func (m *meter) sentNow() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	at := m.load.now()
	if m.load.counts(at) {
		m.sent++
	}
	return at
}

// arrived counts one that was sent at that time.
func (m *meter) arrived(sent int64) {
	now := m.load.now()
	if !m.load.counts(sent) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times = append(m.times, time.Duration(now-sent))
}

func (m *meter) addTo(sum *samples) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum.sent += m.sent
	sum.wrong += m.wrong
	sum.times = append(sum.times, m.times...)
}

// stream is the audio of one direction of a call. One goroutine sends, another receives.
type stream struct {
	meter

	id       uint32
	sequence uint64 // of the last packet sent
	last     uint64 // the last received

	packet  rtp.Packet
	payload [payloadSize]byte
}

// send sends the next packet. One that cannot be sent counts as lost; whether the call is still up is checked elsewhere.
func (s *stream) send(to rtc.AudioSink) {
	s.sequence++
	s.payload[0] = tocByte
	binary.BigEndian.PutUint32(s.payload[1:], s.id)
	binary.BigEndian.PutUint64(s.payload[5:], s.sequence)
	binary.BigEndian.PutUint64(s.payload[13:], uint64(s.sentNow())) // read again by WriteRTP
	s.packet.Header = rtp.Header{
		Version: 2, SSRC: s.id,
		SequenceNumber: uint16(s.sequence),              // wraps as in RTP
		Timestamp:      uint32(s.sequence) * frameTicks, // wraps as in RTP
	}
	s.packet.Payload = s.payload[:]
	_ = to.WriteRTP(&s.packet)
}

// WriteRTP implements [rtc.AudioSink] at the receiving end.
func (s *stream) WriteRTP(packet *rtp.Packet) error {
	p := packet.Payload
	sequence := uint64(math.MaxUint64)
	if len(p) == payloadSize && p[0] == tocByte && binary.BigEndian.Uint32(p[1:]) == s.id {
		sequence = binary.BigEndian.Uint64(p[5:])
	}
	if sequence == math.MaxUint64 || sequence <= s.last {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wrong++
		return nil
	}
	s.last = sequence
	s.arrived(int64(binary.BigEndian.Uint64(p[13:]))) // written by send
	return nil
}

// half is what was measured of calls with or without the bridge.
type half struct {
	up, down, words, ready samples
	// late is how far behind its schedule a packet was sent.
	late samples
	// seconds between the readings of what the bridge has used, and others, in that time.
	seconds             float64
	idle, before, after usage
	known               bool // the system reports it
}

// collect adds up what was measured. Nothing may be sent any more.
func (h *half) collect(l *load) {
	h.late = l.late
	for _, c := range l.calls {
		c.up.addTo(&h.up)
		c.down.addTo(&h.down)
		c.words.addTo(&h.words)
		h.ready.times = append(h.ready.times, c.browser.ready.Sub(c.browser.began))
	}
}
