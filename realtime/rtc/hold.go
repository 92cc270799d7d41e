package rtc

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/pion/rtp"
)

// Bounds of what a Switch holds.
const (
	// HoldTime is the length of sound that a Switch holds.
	HoldTime = 5 * time.Second
	// holdPackets and holdBytes are for sources that send more than a voice does.
	holdPackets = 1000
	holdBytes   = 256 << 10
	// holdPace is the time between two packets that were held: four times as
	// fast as they were spoken, so that 5 s are caught up with in less than 2 s.
	holdPace = frameTime / 4
)

// Held says what became of the packets that a Switch has held.
type Held struct {
	// Sent were passed on after all.
	Sent int
	// Dropped were too old, or the new sink refused them.
	Dropped int
}

// Hold keeps packets back from now on, the newest 5 s of them: the sink is being
// replaced. What follows is Release, or Set, which drops what was held. The gate
// of the Flow in front must be open. Holding twice is as holding once.
func (s *Switch) Hold() {
	if h := s.holding(); h == nil {
		s.Set(&hold{})
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

// Release passes to sink what Hold has kept, in order and paced, and then all that
// follows. It returns when sink has caught up, or when ctx ends; then its cause
// is the error, the rest of what was held is dropped, and sink gets the packets
// that follow all the same. Without a Hold it is as Set. One Release runs at a time, and no Set beside it.
func (s *Switch) Release(ctx context.Context, sink AudioSink) (Held, error) {
	h := s.holding()
	if h == nil || sink == nil {
		s.Set(sink)
		return Held{}, nil
	}
	pace := time.NewTicker(holdPace)
	defer pace.Stop()
	var err error
	for err == nil && h.sendOldest(sink) {
		select {
		case <-pace.C:
		case <-ctx.Done():
			err = fmt.Errorf("release audio: %w", context.Cause(ctx))
		}
	}
	return h.yield(s, sink, err == nil), err
}

// hold is the AudioSink that keeps packets. One writes to it, another one releases.
type hold struct {
	mu      sync.Mutex
	packets []heldPacket // oldest first
	bytes   int
	held    Held
	next    AudioSink // where packets go that come after the release
}

type heldPacket struct {
	rtp.Packet
	at time.Time
}

// WriteRTP implements AudioSink. It keeps a copy.
func (h *hold) WriteRTP(packet *rtp.Packet) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.next != nil { // Release has come between the Switch and here
		return h.next.WriteRTP(packet)
	}
	now := time.Now()
	kept := heldPacket{Packet: rtp.Packet{Header: packet.Header}, at: now}
	kept.Payload = append([]byte(nil), packet.Payload...)
	h.packets = append(h.packets, kept)
	h.bytes += len(kept.Payload)
	for len(h.packets) > holdPackets || h.bytes > holdBytes || now.Sub(h.packets[0].at) >= HoldTime {
		h.takeOldest()
		h.held.Dropped++
	}
	return nil
}

func (h *hold) takeOldest() *rtp.Packet {
	oldest := &h.packets[0].Packet
	h.packets = h.packets[1:]
	h.bytes -= len(oldest.Payload)
	return oldest
}

// sendOldest sends one packet; false says that there is none left.
func (h *hold) sendOldest(sink AudioSink) bool {
	h.mu.Lock()
	if len(h.packets) == 0 {
		h.mu.Unlock()
		return false
	}
	oldest := h.takeOldest()
	h.mu.Unlock()
	err := sink.WriteRTP(oldest) // not under the lock, so that the caller's packets never wait for it
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

// yield lets all that follows go to sink. What is still held goes before it, or
// is dropped when there was no time for it.
func (h *hold) yield(s *Switch, sink AudioSink, caughtUp bool) Held {
	h.mu.Lock()
	defer h.mu.Unlock()
	for len(h.packets) > 0 {
		oldest := h.takeOldest()
		if !caughtUp {
			h.held.Dropped++
			continue
		}
		h.count(sink.WriteRTP(oldest))
	}
	h.next = sink
	s.Set(sink)
	return h.held
}
