package media

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits of what a Switch holds.
const (
	// holdTime is how much sound a Switch holds.
	holdTime = 5 * time.Second
	// holdPackets and holdBytes are for sources that send more than a voice does.
	holdPackets = 1000
	holdBytes   = 256 << 10
	// holdPace is the time between two held packets when they are sent: four times as fast as they were spoken, so that
	// 5 s are caught up in less than 2 s.
	holdPace = FrameTime / 4
)

// Held says what became of the packets that a Switch held.
type Held struct {
	// Sent were passed on late.
	Sent int
	// Dropped were too old, or the new sink rejected them.
	Dropped int
}

// Hold keeps back packets from now on, up to the newest 5 s, while the sink is being replaced. Follow it with Release,
// or with Set, which drops them. The gate of the Flow in front must be open. Calling Hold twice has no further effect.
func (s *Switch) Hold() {
	h := s.holding()
	if h == nil {
		s.Set(&hold{limit: holdTime})
		return
	}
	h.stopPassing()
}

// Remember passes packets on as before and also keeps those of the given time, for the Release that follows: the new
// sink then hears what the old one was told last, perhaps the beginning of a word. While a Switch holds packets it does
// nothing.
func (s *Switch) Remember(last time.Duration) {
	sink := s.sink.Load()
	if sink == nil {
		return
	}
	if _, holds := (*sink).(*hold); !holds {
		s.Set(&hold{through: *sink, limit: last})
	}
}

// Forget ends what Remember has begun, if no Release follows. While a Switch holds packets it does nothing.
func (s *Switch) Forget() {
	h := s.holding()
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.through != nil {
		s.Set(h.through)
	}
}

func (s *Switch) holding() *hold {
	sink := s.sink.Load()
	if sink == nil {
		return nil
	}
	h, _ := (*sink).(*hold)
	return h
}

// Release passes the held or remembered packets to sink, in order and paced, and then everything that follows. It
// returns when sink has caught up, or with ctx's cause when ctx ends; then the remaining packets are still held, as is
// what follows, for another Release. Without a Hold or Remember it is equivalent to Set. Only one Release may run at a
// time, and no Set during it.
func (s *Switch) Release(ctx context.Context, sink Sink) (Held, error) {
	h := s.holding()
	if h == nil || sink == nil {
		s.Set(sink)
		return Held{}, nil
	}
	h.stopPassing()
	pace := time.Tick(holdPace)
	for h.sendOldest(sink) {
		select {
		case <-pace:
		case <-ctx.Done():
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.held, fmt.Errorf("release audio: %w", context.Cause(ctx))
		}
	}
	return h.yield(s, sink), nil
}

// hold is the Sink that keeps packets. One goroutine writes to it, another releases.
type hold struct {
	mu      sync.Mutex
	packets []heldPacket // oldest first
	bytes   int
	held    Held
	limit   time.Duration // how much sound is kept
	through Sink          // gets all packets meanwhile, if it is not nil
	next    Sink          // where packets go after the release
}

type heldPacket struct {
	Packet
	at time.Time
}

// WriteAudio implements Sink. It keeps a copy.
func (h *hold) WriteAudio(packet *Packet) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next != nil { // Release took over after the caller had loaded the Switch's sink
		return h.next.WriteAudio(packet)
	}
	now := time.Now()
	kept := heldPacket{Packet: packet.Clone(), at: now}
	h.packets = append(h.packets, kept)
	h.bytes += len(kept.Payload)
	h.trim(now)
	if h.through != nil {
		return h.through.WriteAudio(packet)
	}
	return nil
}

// trim drops what is more than the limits. h.mu is held.
func (h *hold) trim(now time.Time) {
	tooMany := func() bool { return len(h.packets) > holdPackets || h.bytes > holdBytes }
	for len(h.packets) > 0 && (tooMany() || now.Sub(h.packets[0].at) >= h.limit) {
		h.takeOldest()
		if h.through == nil {
			h.held.Dropped++
		}
	}
}

// stopPassing makes packets that were only remembered the beginning of those that are held.
func (h *hold) stopPassing() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.through != nil {
		h.trim(time.Now())
		h.through, h.limit = nil, holdTime
	}
}

func (h *hold) takeOldest() *Packet {
	oldest := &h.packets[0].Packet
	h.packets = h.packets[1:]
	h.bytes -= len(oldest.Payload)
	return oldest
}

// sendOldest sends one packet. It returns false if there is none left.
func (h *hold) sendOldest(sink Sink) bool {
	h.mu.Lock()
	if len(h.packets) == 0 {
		h.mu.Unlock()
		return false
	}
	oldest := h.takeOldest()
	h.mu.Unlock()
	err := sink.WriteAudio(oldest) // not under the lock, so that the caller's packets never wait
	h.mu.Lock()
	defer h.mu.Unlock()
	h.count(err)
	return true
}

func (h *hold) count(err error) {
	if err != nil {
		h.held.Dropped++
		return
	}
	h.held.Sent++
}

// yield lets everything that follows go to sink. What has come since the last one was sent goes first.
func (h *hold) yield(s *Switch, sink Sink) Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.packets) > 0 {
		h.count(sink.WriteAudio(h.takeOldest()))
	}
	h.next = sink
	s.Set(sink)
	return h.held
}
