package bench

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime/media"
)

// Audio packets: 20 ms of speech at 32 kbit/s.
const (
	payloadSize = 80
	frame       = 20 * time.Millisecond
	frameTicks  = 960 // of RTP timestamps in a frame (RFC 7587, 4.2)
)

// tocByte begins every payload: one 20 ms frame of full-band Opus audio (RFC 6716, 3.1). The time of sending follows.
const tocByte = 0xf8

// load is the traffic of all calls, and what becomes of it. What is sent between from and to counts, by the time of
// sending, however late it arrives.
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

// open begins the measured time shortly after now, so that no packet stamped before it is known falls into it, and
// returns when it ends.
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

// echoed takes the audio that came back to the caller.
type echoed struct{ *meter }

func (e echoed) WriteAudio(packet *media.Packet) error {
	if p := packet.Payload; len(p) == payloadSize && p[0] == tocByte {
		e.arrived(int64(binary.BigEndian.Uint64(p[1:]))) // written by next
	}
	return nil
}
