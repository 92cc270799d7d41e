package live

import (
	"context"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/vad"
)

// The session's clock runs on the caller's sound alone, and without any the session is over after half a minute: what
// does not come is replaced by silence. Only what is missing for longer than packets are late on the way counts:
// silence in the middle of speech makes the model deaf to it.
const (
	jitter = 160 * time.Millisecond
	// loud is the level of speech in dBFS that is meant for the model; so many packets in a row of it mean that the caller
	// speaks, and not somebody behind them.
	loud, loudPackets = -38, 8
	// speech is the level of the model's, which is rather quiet, in dBFS: its silence is below -60. maxKept is how many
	// packets are held.
	speech, maxKept = -55, 500
	// maxFill is how many packets of silence are sent at once. Of what a caller saves, who will go on, the last heldFrames
	// wait: sound that is a little late does not make the silence before it longer.
	maxFill, heldFrames = 25, 3
)

// silence is 20 ms of silence in Opus (RFC 6716): a CELT frame that is empty.
var silence = []byte{0xf8, 0xff, 0xfe}

// sound is what goes to a session and comes from it.
type sound struct {
	peer media.Sink
	// begins is called when the caller begins to speak over an answer.
	begins func()

	mu     sync.Mutex // held while a packet is sent
	last   time.Time  // when the last one was
	fills  bool       // it was silence, or said that there is nothing but that
	pauses bool       // the caller has said so (DTX), and nothing since
	filler media.Packet
	ear    *opus.Decoder
	voice  *vad.Detector
	streak int // of packets that are loud

	sent    atomic.Int64 // samples at opus.ClockRate
	answers atomic.Bool  // an answer is being spoken

	out    sync.Mutex
	passes passage
	kept   []media.Packet // while they are held, and until the next one passes
	heldAt time.Duration  // where the answer was heard last
	mouth  *opus.Decoder
	spoke  bool // there is speech in what is kept
	quiet  int  // packets of silence at the end of that
}

// passage is what becomes of the model's sound.
type passage int

const (
	heard   passage = iota
	held            // it is heard later, or not at all
	dropped         // nobody hears it
)

// position is the time by the session's clock.
func (s *sound) position() time.Duration {
	return time.Duration(s.sent.Load()) * time.Second / opus.ClockRate
}

// pass sets what becomes of the model's sound. What was held is heard after all, unless it is dropped.
func (s *sound) pass(how passage) {
	s.out.Lock()
	defer s.out.Unlock()
	if s.passes == heard && how != heard {
		s.heldAt = s.position()
		s.spoke, s.quiet = false, 0
	}
	if s.passes = how; how == dropped {
		s.kept = nil
	}
}

// heardTill is where the answer was heard last.
func (s *sound) heardTill() time.Duration {
	s.out.Lock()
	defer s.out.Unlock()
	if s.passes == heard {
		return s.position()
	}
	return s.heldAt
}

// silent returns how long the model has been silent at the end of what is held. known is false if it never spoke there.
func (s *sound) silent() (length time.Duration, known bool) {
	s.out.Lock()
	defer s.out.Unlock()
	return time.Duration(s.quiet) * media.FrameTime, s.spoke
}

// play passes a packet of the model's sound to dst, with what was held before it.
func (s *sound) play(p *media.Packet, dst media.Sink) error {
	s.out.Lock()
	if s.passes == held && len(s.kept) >= maxKept {
		s.passes = heard
	}
	how, kept := s.passes, s.kept
	if how == held {
		s.kept = append(s.kept, p.Clone())
		s.hear(p)
	} else {
		s.kept = nil
	}
	s.out.Unlock()
	if how != heard {
		return nil
	}
	for i := range kept {
		if err := dst.WriteAudio(&kept[i]); err != nil {
			return err
		}
	}
	return dst.WriteAudio(p)
}

// hear notices whether the model speaks. s.out is held.
func (s *sound) hear(p *media.Packet) {
	if s.mouth == nil {
		s.mouth, _ = opus.NewDecoder(16000) // a rate that it knows
	}
	if samples, err := s.mouth.Decode(p.Payload); err == nil && pcm.Level(samples) >= speech {
		s.spoke, s.quiet = true, 0
	} else {
		s.quiet++
	}
}

// write sends a packet of the caller.
func (s *sound) write(p *media.Packet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listen(p)
	now := time.Now()
	if s.pauses {
		s.silence((now.Sub(s.last)+media.FrameTime/2)/media.FrameTime - 1)
	}
	s.pauses = p.Pauses()
	s.last, s.fills = now, s.pauses
	length := opus.Duration(p.Payload)
	if p.Format != (media.Format{}) || length == 0 {
		length = media.FrameStep
	}
	s.sent.Add(int64(length))
	return s.peer.WriteAudio(p)
}

// listen notices that the caller begins to speak over an answer, before the session says so: the model takes seconds
// to stop. s.mu is held.
func (s *sound) listen(p *media.Packet) {
	if !s.answers.Load() || p.Format != (media.Format{}) {
		s.streak = 0
		return
	}
	if s.ear == nil {
		s.ear, _ = opus.NewDecoder(16000) // a rate that it knows
		s.voice = vad.New()
	}
	samples, err := s.ear.Decode(p.Payload)
	spoken, _ := s.voice.Hear(samples, 16000)
	if err != nil || pcm.Level(samples) < loud {
		s.voice.Begin(0.5)
		s.streak = 0
		return
	}
	if s.streak++; s.streak >= loudPackets && spoken > 0 {
		s.streak = math.MinInt // once
		s.begins()
	}
}

// fill sends silence where nothing comes, until ctx ends.
func (s *sound) fill(ctx context.Context) {
	tick := time.NewTicker(media.FrameTime)
	defer tick.Stop()
	for {
		s.fillOne(time.Now())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *sound) fillOne(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	missing := now.Sub(s.last)
	if !s.fills && missing < jitter { // the caller's sound may only be late
		return
	}
	frames := missing / media.FrameTime // more than one on a busy machine: the clock must not stop
	switch {
	case !s.fills || frames > maxFill:
		frames, s.last = 1, now.Add(-media.FrameTime)
	case s.pauses:
		frames -= heldFrames
	}
	s.silence(frames)
}

// silence sends packets of silence. s.mu is held.
func (s *sound) silence(frames time.Duration) {
	for range frames {
		s.filler.Payload = silence
		s.filler.Sequence++
		s.filler.Timestamp += media.FrameStep
		s.last, s.fills = s.last.Add(media.FrameTime), true
		s.sent.Add(media.FrameStep)
		_ = s.peer.WriteAudio(&s.filler) // a peer that is gone says so elsewhere
	}
}
