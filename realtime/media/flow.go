package media

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// Switch is a Sink that passes packets on to another one, which can be changed while packets flow. With none set,
// it drops them.
type Switch struct{ sink atomic.Pointer[Sink] }

// Set sends all following packets to sink; nil drops them.
func (s *Switch) Set(sink Sink) {
	if sink == nil {
		s.sink.Store(nil)
		return
	}
	s.sink.Store(&sink)
}

// Ahead implements [Ahead], for the sink of the moment.
func (s *Switch) Ahead() (remote uint32, room bool) {
	if sink := s.sink.Load(); sink != nil {
		return AheadOf(*sink)
	}
	return 0, false
}

// Faster implements [Faster], for the sink of the moment.
func (s *Switch) Faster() bool {
	sink := s.sink.Load()
	return sink != nil && TakesFaster(*sink)
}

// AheadOf returns what a sink says if it is an [Ahead], and that there is no such remote otherwise.
func AheadOf(sink Sink) (remote uint32, room bool) {
	if a, ok := sink.(Ahead); ok {
		return a.Ahead()
	}
	return 0, false
}

// WriteAudio implements Sink. A closed sink is not an error: a Switch outlives its sinks.
func (s *Switch) WriteAudio(packet *Packet) error {
	sink := s.sink.Load()
	if sink == nil {
		return nil
	}
	if err := (*sink).WriteAudio(packet); err != nil && !errors.Is(err, ErrClosed) {
		return err
	}
	return nil
}

// Flow is the gate and the counters of one direction of audio. The zero value is shut. It is safe for concurrent use.
type Flow struct {
	open   atomic.Bool
	opened chan struct{} // nil unless what comes early is kept
	first  sync.Once

	// Packets counts what was let through.
	Packets atomic.Uint64
	// Gated counts packets that were dropped because the gate was shut.
	Gated atomic.Uint64
	// Errors counts packets that could not be read or that the sink rejected.
	Errors atomic.Uint64

	begun   atomic.Int64 // Unix ns of the first packet let through
	resumed atomic.Int64 // Unix ns of the first packet let through after a pause
	next    atomic.Pointer[chan time.Time]
}

// Pause is the shortest gap between packets that separates two stretches of sound.
const Pause = 100 * time.Millisecond

// First sends the time at which the first stretch of sound after since was let through: the time of its first packet,
// or of the next packet if sound has been flowing all along. If First is called again before that, the earlier channel
// is closed without a value.
func (f *Flow) First(since time.Time) <-chan time.Time {
	first := make(chan time.Time, 1)
	if at := f.resumed.Load(); at >= since.UnixNano() {
		first <- time.Unix(0, at)
		return first
	}
	if old := f.next.Swap(&first); old != nil {
		close(*old)
	}
	return first
}

// KeepEarly has packets that come before the first Open wait for it, instead of being dropped. It must be called before
// the Flow is used.
func (f *Flow) KeepEarly() { f.opened = make(chan struct{}) }

// Opened is closed by the first Open. It is nil if nothing waits for that.
func (f *Flow) Opened() <-chan struct{} { return f.opened }

// Open lets packets through from now on.
func (f *Flow) Open() {
	f.open.Store(true)
	if f.opened != nil {
		f.first.Do(func() { close(f.opened) })
	}
}

// Shut drops packets from now on. Numbering continues after the next Open without a gap, so that the pause shows as a
// step in time but not as loss.
func (f *Flow) Shut() { f.open.Store(false) }

// Begun returns when the first packet was let through; it is zero before that.
func (f *Flow) Begun() time.Time {
	at := f.begun.Load()
	if at == 0 {
		return time.Time{}
	}
	return time.Unix(0, at)
}

// IsOpen reports whether packets are let through.
func (f *Flow) IsOpen() bool { return f.open.Load() }

// Count records that a packet was let through at time now; last is when the one before it was.
func (f *Flow) Count(last, now time.Time) {
	if f.Packets.Add(1) == 1 {
		f.begun.Store(now.UnixNano())
	}
	if now.Sub(last) > Pause {
		f.resumed.Store(now.UnixNano())
	}
	if f.next.Load() == nil {
		return
	}
	if first := f.next.Swap(nil); first != nil {
		*first <- now // never blocks: it is buffered
	}
}

// maxLate is how late a frame may be to be sent at once, with those after it until the clock is met: later, the clock
// begins anew. maxStall is how late sound may be that was spoken in time, and held up: later, it follows a pause.
const maxLate, maxStall = 100 * time.Millisecond, 2 * time.Second

// Clock sends frames of sound as the packets of one source, in real time. It belongs to one goroutine.
type Clock struct {
	Packet Packet    // the last packet; each one reuses it
	Next   time.Time // when the next frame is due; zero before the first one
	last   time.Time // when the last packet was let through
}

// Tick takes that a frame is due, and that the next one is due that much later. So much sound waits behind it.
func (c *Clock) Tick(later, waiting time.Duration) {
	now := time.Now()
	c.Packet.Marker = false
	if late := now.Sub(c.Next); c.Next.IsZero() || late > maxLate {
		if !c.Next.IsZero() {
			if late <= maxStall {
				late = max(0, late-waiting)
			}
			c.Packet.Timestamp += uint32(late/FrameTime) * FrameStep // time has gone on, RFC 3550, 5.1
		}
		c.Packet.Marker, c.Next = true, now
	}
	c.Next = c.Next.Add(later)
	c.Packet.Timestamp += FrameStep
}

// Send passes the frame that is due on. It fails, with ErrClosed, only if dst has ended.
func (c *Clock) Send(frame []byte, dst Sink, flow *Flow) error {
	c.Packet.Sequence++
	c.Packet.Payload = frame
	err := dst.WriteAudio(&c.Packet)
	switch {
	case errors.Is(err, ErrClosed):
		flow.Errors.Add(1)
		return fmt.Errorf("write: %w", ErrClosed)
	case err != nil:
		flow.Errors.Add(1)
	default:
		now := time.Now()
		flow.Count(c.last, now)
		c.last = now
	}
	return nil
}
