package media

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// late is how late a packet may be without the silence before it becoming longer, and fillFor how much is filled.
	late, fillFor = 2 * FrameTime, 5 * time.Second
)

// Filler is a Sink that sends silence where the source saves it (Opus DTX), while the remote hears somebody speak: it
// learns from sound alone that they have stopped, and may not know that time goes on without packets. Packets otherwise
// pass without a lock.
type Filler struct {
	to      Sink
	pausing atomic.Bool // the source sends next to nothing

	mu      sync.Mutex // held by all that write meanwhile
	hears   bool
	ticking bool
	came    time.Time // when the last packet of the source came
	until   time.Time // where what was sent ends
	silence Packet
}

// NewFiller returns a Filler in front of a Sink.
func NewFiller(to Sink) *Filler {
	return &Filler{to: to, silence: Packet{Source: NewSource(), Payload: []byte{0xf8, 0xff, 0xfe}}} // 20 ms, CELT
}

// WriteAudio implements Sink.
func (f *Filler) WriteAudio(p *Packet) error {
	pauses := p.Pauses()
	if !pauses && !f.pausing.Load() {
		return f.to.WriteAudio(p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.came = time.Now()
	f.until = f.came.Add(FrameTime)
	f.pausing.Store(pauses)
	f.tick()
	return f.to.WriteAudio(p)
}

// Hears takes whether the remote hears somebody speak.
func (f *Filler) Hears(speech bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hears, f.until = speech, time.Now()
	f.tick()
}

// tick has fill called, if there is something to fill. f.mu is held.
func (f *Filler) tick() {
	if f.hears && f.pausing.Load() && !f.ticking && time.Since(f.came) < fillFor {
		f.ticking = true
		time.AfterFunc(FrameTime, f.fill)
	}
}

// fill sends the silence that is due.
func (f *Filler) fill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ticking = false
	for f.hears && f.pausing.Load() && time.Since(f.until) >= late {
		f.until = f.until.Add(FrameTime)
		f.silence.Sequence++
		f.silence.Timestamp += FrameStep
		if errors.Is(f.to.WriteAudio(&f.silence), ErrClosed) {
			return
		}
	}
	f.tick()
}
