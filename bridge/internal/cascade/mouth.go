package cascade

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"voicebridge/llm/speech"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/served"
)

// Mouth has messages spoken by a server, clause by clause: while one plays, the next is fetched.
type Mouth struct{ tts *speech.Speaker }

// NewMouth returns a Mouth.
func NewMouth(tts *speech.Speaker) *Mouth { return &Mouth{tts} }

// Speak speaks a message; see [served.Mouth]. The sound of all clauses is one stream.
func (m *Mouth) Speak(ctx context.Context, s served.Saying) iter.Seq2[served.Frame, error] {
	return func(yield func(served.Frame, error) bool) {
		v := &voice{tts: m.tts, saying: s, yield: yield, sent: make(chan int, 2)}
		defer v.tasks.Wait()
		v.ctx, v.stop = context.WithCancel(ctx)
		defer v.stop()
		clips := make(chan *clip)
		v.tasks.Go(func() {
			defer close(clips)
			v.fetch(clips)
		})
		if err := v.speak(clips); err != nil && v.ctx.Err() == nil {
			yield(served.Frame{}, err)
		}
	}
}

// voice speaks one message.
type voice struct {
	ctx    context.Context
	stop   context.CancelFunc
	tts    *speech.Speaker
	saying served.Saying
	yield  func(served.Frame, error) bool
	tasks  sync.WaitGroup
	sent   chan int // characters of a clause that is being spoken now

	encoder   *opus.Encoder
	resampler *pcm.Resampler
	rate      int       // from which it resamples
	rest      []int16   // less than a frame
	spoken    int       // bytes of the text
	ends      time.Time // when what was told will have been heard, if it is at once
}

// clip is a clause and its sound.
type clip struct {
	speech.Clause

	sound chan speech.Sound // closed at its end
	begun chan struct{}     // closed once there is some, or will be none
	err   error             // why it ended
}

// maxPieces is how many pieces of a clause's sound wait.
const maxPieces = 4096

// fetch has the clauses of the message spoken, one more than is played, each once the one before has a sound: some
// servers make them one after the other.
func (v *voice) fetch(clips chan<- *clip) {
	var cutter speech.Cutter
	var clauses []speech.Clause
	var next *clip
	var to chan<- *clip       // for it
	var begun <-chan struct{} // of the one before; nil if it has
	for text := v.saying.Text; text != nil || next != nil || len(clauses) > 0; {
		if next == nil && begun == nil && len(clauses) > 0 {
			c := &clip{clauses[0], make(chan speech.Sound, maxPieces), make(chan struct{}), nil}
			next, to, begun = c, clips, c.begun
			clauses = clauses[1:]
			v.tasks.Go(func() { v.sound(c) })
		}
		select {
		case piece, ok := <-text:
			if clauses = append(clauses, cutter.Write(piece)...); !ok {
				clauses, text = append(clauses, cutter.Close()...), nil
			}
		case to <- next:
			next, to = nil, nil
		case <-begun:
			begun = nil
		case <-v.ctx.Done():
			return
		}
	}
}

// sound fetches the sound of a clause.
func (v *voice) sound(c *clip) {
	begin := sync.OnceFunc(func() { close(c.begun) })
	defer begin()
	defer close(c.sound)
	if c.Text == "" { // the end of a text may have none
		return
	}
	v.sent <- utf8.RuneCountInString(c.Text) // there is room: no more than two are not told
	for s, err := range v.tts.Speak(v.ctx, c.Text, v.saying.Voice, v.saying.Speed) {
		if c.err = told(err, "speech_failed"); err != nil {
			return
		}
		select {
		case c.sound <- s:
			begin()
		case <-v.ctx.Done():
			return
		}
	}
}

// maxFailures is how many clauses in a row may fail for another reason than their text.
const maxFailures = 2

// speak plays clips, and returns why it gave up.
func (v *voice) speak(clips <-chan *clip) (err error) {
	if v.encoder, err = opus.NewEncoder(media.ClockRate); err != nil {
		return err
	}
	failures := 0
	for c := range clips {
		heard, err := v.play(c)
		if v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		skipped := err
		if e, ok := errors.AsType[*realtime.Error](err); err == nil || heard {
			failures, skipped = 0, nil // what broke off is over
		} else if !ok || e.Type != "invalid_request_error" {
			failures++
		}
		if failures == maxFailures {
			return err
		}
		if err = v.tell(served.Frame{Spoken: c.End, Skipped: skipped}); err != nil {
			return err
		}
	}
	if n := len(v.rest); n > 0 {
		v.rest = append(v.rest, make([]int16, media.FrameStep-n)...)
	}
	return v.frames(v.spoken)
}

// lead is how much sound of a clause is told ahead of time while its length is not known: until then its place in the
// text is an estimate.
const lead = time.Second

// play tells the frames of a clip, and reports whether it has a sound.
func (v *voice) play(c *clip) (heard bool, err error) {
	var samples []int16 // that have come
	rate, over := 0, false
	left := float64(len(c.Text)) / 16 // seconds, as long as nothing better is known
	for share := 0.0; ; {
		n := rate / 50
		var due <-chan time.Time
		if n > 0 && len(samples) >= 2*n && len(c.sound) == 0 { // of the last it must be known that it is
			due = time.After(time.Until(v.ends.Add(-lead)))
		}
		if !over {
			select {
			case s, ok := <-c.sound:
				if over = !ok; ok {
					samples, rate = append(samples, s.Samples...), s.Rate
				}
				continue
			case n := <-v.sent:
				if err := v.tell(served.Frame{Sent: n}); err != nil {
					return heard, err
				}
				continue
			case <-v.ctx.Done():
				return heard, v.ctx.Err()
			case <-due:
			}
		}
		if n = min(n, len(samples)); n == 0 {
			return heard, c.err
		}
		if v.resampler == nil || v.rate != rate {
			if v.resampler, err = pcm.NewResampler(rate, media.ClockRate); err != nil {
				return heard, err
			}
			v.rate = rate
		}
		v.rest = append(v.rest, v.resampler.Process(samples[:n])...)
		all := float64(len(samples))
		if !over {
			all = max(all+float64(rate)/2, left*float64(rate))
		}
		share += (1 - share) * float64(n) / all
		left -= float64(n) / float64(rate)
		heard, samples = true, samples[n:]
		spoken := c.Spoken(share)
		if over && len(samples) < rate/50 {
			spoken = c.End
		}
		if err := v.frames(spoken); err != nil {
			return true, err
		}
	}
}

// frames tells whole frames of the rest.
func (v *voice) frames(spoken int) error {
	for ; len(v.rest) >= media.FrameStep; v.rest = v.rest[media.FrameStep:] {
		packet, err := v.encoder.Encode(v.rest[:media.FrameStep])
		if err != nil {
			return err
		}
		if now := time.Now(); v.ends.Before(now) {
			v.ends = now
		}
		v.ends = v.ends.Add(media.FrameTime)
		if err = v.tell(served.Frame{Opus: slices.Clone(packet), Spoken: spoken}); err != nil {
			return err
		}
	}
	return nil
}

// tell hands over a frame. Its error means that nobody listens any more.
func (v *voice) tell(f served.Frame) error {
	v.spoken = max(v.spoken, f.Spoken)
	f.Spoken = v.spoken
	for len(v.sent) > 0 {
		f.Sent += <-v.sent
	}
	if !v.yield(f, nil) {
		v.stop()
	}
	return v.ctx.Err()
}
