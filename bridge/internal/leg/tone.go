package leg

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/transcode"
)

const (
	toneRate = media.ClockRate / 2 // samples in a second
	// The tone swells for 0.4 s of every 2, and not in the first 0.2 s, which clients over a socket get late, as no event
	// announces them.
	toneEvery, toneFrom, toneLength = 2 * toneRate, toneRate / 2, toneRate * 2 / 5
	toneHz, tonePeak                = 440, 1000
	// inaudible is the level, in dBFS, below which the model says nothing.
	inaudible = -50
)

// Tone passes the model's sound on to the caller. While it sounds, a soft tone takes the place of the model's silence;
// any other sound of the model ends it. What keeps or counts the model's sound stands before it.
type Tone struct {
	media.Switch

	clock atomic.Pointer[media.Clock] // nil while the tone does not sound
	mu    sync.Mutex                  // held by all that write while it does
	ear   *transcode.Reader
	flow  media.Flow // nobody asks for its counts
}

// Sound begins the tone anew, or ends it.
func (t *Tone) Sound(on bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !on {
		t.clock.Store(nil)
		return
	}
	source := media.NewSource()
	item := fmt.Sprint(session.TonePrefix, source)
	c := &media.Clock{Packet: media.Packet{
		Source: source, Format: media.Format{Rate: toneRate}, Part: &media.Part{Response: item, Item: item},
	}}
	t.ear = transcode.NewReader(toneRate)
	t.clock.Store(c)
	time.AfterFunc(0, func() { t.beep(c) })
}

// beep sends 20 ms of the tone, and has what follows sent in time.
func (t *Tone) beep(c *media.Clock) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.clock.Load() != c {
		return
	}
	samples := make([]int16, toneRate/50)
	for i := range samples {
		at := float64((int(c.Packet.Timestamp/2)+i)%toneEvery - toneFrom)
		if at > 0 && at < toneLength {
			swell := tonePeak * math.Sin(math.Pi*at/toneLength)
			samples[i] = int16(swell * math.Sin(2*math.Pi*toneHz*at/toneRate))
		}
	}
	c.Tick(media.FrameTime, 0)
	_ = c.Send(pcm.Linear.Append(nil, samples), &t.Switch, &t.flow) // a Switch outlives its sinks
	time.AfterFunc(time.Until(c.Next), func() { t.beep(c) })
}

// WriteAudio implements media.Sink.
func (t *Tone) WriteAudio(p *media.Packet) error {
	if t.clock.Load() != nil && !t.yields(p) {
		return nil
	}
	return t.Switch.WriteAudio(p)
}

// yields ends the tone if a packet of the model can be heard.
func (t *Tone) yields(p *media.Packet) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p.Part == nil {
		if samples, _ := t.ear.Read(p); pcm.Level(samples) < inaudible { // as is what cannot be read
			return false
		}
	}
	t.clock.Store(nil)
	return true
}
