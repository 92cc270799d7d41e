package bench

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/rtp"
)

// Audio packets: 20 ms of speech at 32 kbit/s.
const (
	payloadSize = 80
	frame       = 20 * time.Millisecond
	frameTicks  = 960 // of RTP timestamps in a frame (RFC 7587, 4.2)
)

// tocByte begins every payload: one 20 ms frame of full-band Opus audio (RFC 6716, 3.1). The time of sending follows.
const tocByte = 0xf8

// load is the traffic of all calls, and what becomes of it. What is sent between from and to counts, by the time of sending,
// however late it arrives.
type load struct {
	epoch    time.Time
	from, to atomic.Int64 // ns since epoch
	// audio goes there and back, words come, a call gets ready, and a packet is sent behind its schedule.
	audio, words, ready, late meter
}

func newLoad() *load {
	l := &load{epoch: time.Now()}
	l.audio.load, l.words.load = l, l
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

// meter takes the times of one kind, and counts what was sent.
type meter struct {
	load  *load
	mu    sync.Mutex
	sent  int
	times []time.Duration
}

func (m *meter) add(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.times = append(m.times, d)
}

// sentNow counts one that is sent now, and returns the time to put into it.
func (m *meter) sentNow() int64 {
	at := m.load.now()
	if m.load.counts(at) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.sent++
	}
	return at
}

// arrived takes the time of one that was sent at that time.
func (m *meter) arrived(sent int64) {
	if now := m.load.now(); m.load.counts(sent) {
		m.add(time.Duration(now - sent))
	}
}

// send makes all calls send until ctx ends; the channel is closed when nothing more is sent.
func (l *load) send(ctx context.Context, calls []*call, events int) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all sync.WaitGroup
		var audio, words []func()
		for i, c := range calls {
			// A packet that cannot be sent counts as lost; whether the call is still up is checked elsewhere.
			audio = append(audio, func() { _ = c.peer.WriteRTP(c.next(&l.audio)) })
			// Real answers do not end at the same moment, so these do not either.
			c.words.events = i * answerEvents / len(calls)
			words = append(words, func() { c.words.speak(l.words.sentNow()) })
		}
		all.Go(func() { l.pace(ctx, frame, audio) })
		if events > 0 {
			all.Go(func() { l.pace(ctx, time.Second/time.Duration(events), words) })
		}
		all.Wait()
	}()
	return done
}

// pace calls each function once in every interval until ctx ends, spread evenly over it and on schedule even when it is
// behind: a slow receiver must not slow the sender, or the worst latencies would never show. One goroutine serves all,
// because a timer for each would cost more than the packets.
func (l *load) pace(ctx context.Context, every time.Duration, calls []func()) {
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
				l.late.add(time.Duration(now - due))
			}
			call()
		}
	}
}

// next returns the caller's next packet.
func (c *call) next(m *meter) *rtp.Packet {
	c.sequence++
	c.payload[0] = tocByte
	binary.BigEndian.PutUint64(c.payload[1:], uint64(m.sentNow())) // read again by WriteRTP
	c.packet.Header = rtp.Header{
		Version: 2, SSRC: 1,
		SequenceNumber: uint16(c.sequence),              // wraps as in RTP
		Timestamp:      uint32(c.sequence) * frameTicks, // wraps as in RTP
	}
	c.packet.Payload = c.payload[:]
	return &c.packet
}

// echoed takes the audio that came back to the caller.
type echoed struct{ *meter }

// WriteRTP implements [rtc.AudioSink].
func (e echoed) WriteRTP(packet *rtp.Packet) error {
	if p := packet.Payload; len(p) == payloadSize && p[0] == tocByte {
		e.arrived(int64(binary.BigEndian.Uint64(p[1:]))) // written by next
	}
	return nil
}
