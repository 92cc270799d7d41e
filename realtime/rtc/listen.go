package rtc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bounds of Listen and of what passes for speech.
const (
	maxListen = 5 * time.Second
	// speechLevel is what the loudest tenth of speech reaches at least, in dBFS.
	speechLevel = -50.0
	// speechRange is the distance in dB between loud and quiet frames at least.
	// Syllables and pauses make 20 and more, a fan or a hum less than 6.
	speechRange = 12.0
)

// Sound is what Listen has heard.
type Sound struct {
	// Level is what a tenth of the 20 ms frames reach, in dBFS; see Level.
	Level float64
	// Speech says that the sound is loud enough and changes as speech does. Music
	// passes for speech; a steady noise, clicks and silence do not.
	Speech bool
}

// Listen hears the remote's audio for d (at most 5 s; a second tells enough) and
// says what it is, also while the gate is shut. Forward must run. It decodes, so
// use it now and then and not for metering: Forward only copies packets
// meanwhile, and nothing at other times. Frames that do not come, as with DTX,
// are silence. Errors: ErrClosed, the cause of ctx's end; one call at a time.
func (p *Peer) Listen(ctx context.Context, d time.Duration) (Sound, error) {
	d = min(max(d, frameTime), maxListen)
	l := &hearing{packets: make(chan []byte, d/frameTime)}
	if !p.in.hearing.CompareAndSwap(nil, l) {
		return Sound{}, errors.New("listen: the peer is listened to already")
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

// hearing takes packets for one Listen.
type hearing struct{ packets chan []byte }

// take keeps a copy, as far as there is room.
func (h *hearing) take(payload []byte) {
	if len(h.packets) < cap(h.packets) { // the one writer
		h.packets <- append([]byte(nil), payload...)
	}
}

// sound decodes what came.
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

// soundOf judges the levels of 20 ms frames, at least one.
func soundOf(levels []float64) Sound {
	slices.Sort(levels)
	loud, quiet := levels[(len(levels)-1)*9/10], levels[(len(levels)-1)/10]
	return Sound{Level: loud, Speech: loud >= speechLevel && loud-quiet >= speechRange}
}
