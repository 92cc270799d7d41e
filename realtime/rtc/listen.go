package rtc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of Listen, and what counts as speech.
const (
	maxListen = 5 * time.Second
	// speechLevel is the least level in dBFS that the loudest tenth of speech reaches.
	speechLevel = -50.0
	// speechRange is the least difference in dB between loud and quiet frames. Syllables and pauses differ by 20 and
	// more, a fan or a hum varies by less than 6.
	speechRange = 12.0
)

// Sound is what Listen heard.
type Sound struct {
	// Level is the level in dBFS that a tenth of the 20 ms frames reach; see the function Level.
	Level float64
	// Speech is set if the sound is loud enough and varies as speech does. Music counts as speech; steady noise, clicks
	// and silence do not.
	Speech bool
}

// Listen hears the remote's audio for d (at most 5 s; one second is enough) and says what it is, even while the gate is
// shut. Forward must be running. Listening decodes, so do it now and then and not for metering: Forward copies packets
// only meanwhile. Missing frames, as with DTX, count as silence. Errors: ErrClosed, ctx's cause. Only one call may run
// at a time.
func (p *Peer) Listen(ctx context.Context, d time.Duration) (Sound, error) {
	d = min(max(d, frameTime), maxListen)
	l := &hearing{packets: make(chan []byte, d/frameTime)}
	if !p.in.hearing.CompareAndSwap(nil, l) {
		return Sound{}, errors.New("listen: another Listen is running")
	}
	limit := time.NewTimer(d)
	defer limit.Stop()
	var err error
	select {
	case <-limit.C:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-p.done:
		err = ErrClosed
	}
	p.in.hearing.Store(nil)
	if err != nil {
		return Sound{}, fmt.Errorf("listen: %w", err)
	}
	return l.sound()
}

// hearing collects packets for one Listen.
type hearing struct{ packets chan []byte }

// take copies a packet if there is room.
func (h *hearing) take(payload []byte) {
	if len(h.packets) < cap(h.packets) { // there is only one writer
		h.packets <- append([]byte(nil), payload...)
	}
}

// sound decodes the collected packets.
func (h *hearing) sound() (Sound, error) {
	levels := make([]float64, 0, cap(h.packets))
	if len(h.packets) > 0 {
		d, err := NewDecoder()
		if err != nil {
			return Sound{}, fmt.Errorf("listen: %w", err)
		}
		pcm := make([]int16, MaxFrame)
		for range len(h.packets) {
			n, err := d.Decode(<-h.packets, pcm)
			if err != nil {
				continue // counts as silence
			}
			for frame := range slices.Chunk(pcm[:n], frameStep) {
				levels = append(levels, Level(frame))
			}
		}
	}
	for len(levels) < cap(h.packets) {
		levels = append(levels, Silence)
	}
	return soundOf(levels), nil
}

// soundOf classifies the levels of at least one 20 ms frame.
func soundOf(levels []float64) Sound {
	slices.Sort(levels)
	loud, quiet := levels[(len(levels)-1)*9/10], levels[(len(levels)-1)/10]
	return Sound{Level: loud, Speech: loud >= speechLevel && loud-quiet >= speechRange}
}
