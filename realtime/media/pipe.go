package media

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"
)

// Limits of a Pipe: events that wait, packets that wait, 5 s, of which the oldest make room, and the bytes of an event.
const (
	pipeEvents  = 256
	pipePackets = 250
	pipeMessage = 256 << 10
)

// Pipe is one end of a connection within the process: a queue of events and one of packets lead to the other end. It
// behaves as a connection over a network does, without loss. Its methods are safe for concurrent use.
type Pipe struct {
	other   *Pipe
	events  chan []byte // for this end
	packets chan Packet
	ended   chan struct{} // closed when either end was closed
	end     func()

	mu       sync.Mutex
	closed   bool
	handed   chan struct{} // closed when everything was handed on; nil before Start
	out      Packet        // the last one that was sent, without its payload
	sent     time.Time
	source   uint32 // of the packets that come in
	sequence uint16 // added to theirs
	shift    uint32 // added to their times
}

// NewPipe returns both ends.
func NewPipe() (a, b *Pipe) {
	ended := make(chan struct{})
	end := sync.OnceFunc(func() { close(ended) })
	ends := [2]*Pipe{}
	for i := range ends {
		ends[i] = &Pipe{
			events: make(chan []byte, pipeEvents), packets: make(chan Packet, pipePackets), ended: ended, end: end,
			out: Packet{Source: NewSource()},
		}
	}
	ends[0].other, ends[1].other = ends[1], ends[0]
	return ends[0], ends[1]
}

// Start begins to hand on what has come and comes, and says that the end is connected.
func (p *Pipe) Start(h Handlers) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed && p.handed == nil {
		p.handed = make(chan struct{})
		go p.handOn(h)
	}
}

func (p *Pipe) handOn(h Handlers) {
	defer close(p.handed)
	h.Reach(StepChannel)
	tell := func(s State) {
		if h.State != nil {
			h.State(s)
		}
	}
	tell(StateConnected)
	if h.Open != nil {
		h.Open()
	}
	for open := true; open; {
		select {
		case data := <-p.events:
			h.Message(data)
		case <-p.ended:
			open = false
		}
	}
	for p.isOpen() && len(p.events) > 0 { // sent before the other end was closed
		h.Message(<-p.events)
	}
	tell(StateClosed)
}

// isOpen reports whether this end was not closed.
func (p *Pipe) isOpen() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed
}

// MaxMessageSize returns the largest event in bytes that can be sent.
func (*Pipe) MaxMessageSize() int { return pipeMessage }

// Send sends an event after those sent before. It waits while many wait for the other end. Errors: ErrTooLarge,
// ErrClosed, or ctx's cause.
func (p *Pipe) Send(ctx context.Context, data []byte) error {
	if len(data) > pipeMessage {
		return fmt.Errorf("send event: %w: %d bytes, limit %d", ErrTooLarge, len(data), pipeMessage)
	}
	select {
	case <-p.ended:
		return fmt.Errorf("send event: %w", ErrClosed)
	default:
	}
	select {
	case p.other.events <- bytes.Clone(data):
		return nil
	case <-p.ended:
		return fmt.Errorf("send event: %w", ErrClosed)
	case <-ctx.Done():
		return fmt.Errorf("send event: %w", context.Cause(ctx))
	}
}

// TrySend sends an event if that takes no waiting.
func (p *Pipe) TrySend(data []byte) bool {
	select {
	case <-p.ended:
		return false
	default:
	}
	if len(data) > pipeMessage {
		return false
	}
	select {
	case p.other.events <- bytes.Clone(data):
		return true
	default:
		return false
	}
}

// WriteAudio sends a packet. A Source other than before goes on with the stream, as one on a network would: its numbers
// follow, and its times by what has elapsed.
func (p *Pipe) WriteAudio(packet *Packet) error {
	select {
	case <-p.ended:
		return ErrClosed
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if packet.Source != p.source || p.sent.IsZero() {
		frames := max(1, min(now.Sub(p.sent), time.Hour)/FrameTime)
		p.source, p.sequence = packet.Source, p.out.Sequence+1-packet.Sequence
		p.shift = p.out.Timestamp + uint32(frames)*FrameStep - packet.Timestamp // wraps as times do
	}
	sent := packet.Clone()
	sent.Source, sent.Sequence, sent.Timestamp = p.out.Source, packet.Sequence+p.sequence, packet.Timestamp+p.shift
	p.out.Sequence, p.out.Timestamp, p.sent = sent.Sequence, sent.Timestamp, now
	for {
		select {
		case p.other.packets <- sent:
			return nil
		default:
		}
		select {
		case <-p.other.packets:
		default:
		}
	}
}

// Forward passes the packets of the other end to dst while flow's gate is open. Those that came before it first opened
// follow four times as fast as they were spoken, if flow keeps them. It runs until the connection ends (ErrClosed), dst
// has closed (also ErrClosed) or ctx ends (its cause). Only one Forward at a time can run.
func (p *Pipe) Forward(ctx context.Context, dst Sink, flow *Flow) error {
	if err := p.forward(ctx, dst, flow); err != nil {
		return fmt.Errorf("forward audio: %w", err)
	}
	return nil
}

func (p *Pipe) forward(ctx context.Context, dst Sink, flow *Flow) error {
	early := flow.Opened() != nil
	if early {
		select {
		case <-flow.Opened():
		case <-p.ended:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	clock, gated := Clock{}, uint16(0)
	for {
		select {
		case clock.Packet = <-p.packets:
			if !flow.IsOpen() {
				gated++
				flow.Gated.Add(1)
				continue
			}
			clock.Packet.Sequence -= gated + 1 // a pause is no loss; Send adds one
			if err := clock.Send(clock.Packet.Payload, dst, flow); err != nil {
				return err
			}
		case <-p.ended:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if early = early && len(p.packets) > 0; early {
			select {
			case <-time.After(holdPace):
			case <-ctx.Done():
			}
		}
	}
}

// Done is closed when either end was closed. Close must still be called.
func (p *Pipe) Done() <-chan struct{} { return p.ended }

// Close ends the connection and waits for its handlers. What was sent before still comes out at the other end. It is
// idempotent, and must not be called from a handler.
func (p *Pipe) Close() error {
	p.mu.Lock()
	p.closed = true
	handed := p.handed
	p.mu.Unlock()
	p.end()
	if handed != nil {
		<-handed
	}
	return nil
}
