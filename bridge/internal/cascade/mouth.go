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

var _ served.Mouth = (*Mouth)(nil)

// NewMouth returns a Mouth.
func NewMouth(tts *speech.Speaker) *Mouth { return &Mouth{tts} }

func (m *Mouth) Speak(ctx context.Context, s served.Saying) iter.Seq2[served.Frame, error] {
	return func(yield func(served.Frame, error) bool) {
		var tasks sync.WaitGroup
		defer tasks.Wait()
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		encoder, err := opus.NewEncoder(media.ClockRate)
		if err != nil {
			yield(served.Frame{}, err)
			return
		}
		v := &voice{ctx: ctx, encoder: encoder, sent: make(chan int, 2), perByte: time.Second / 16}
		v.tell = func(f served.Frame) bool {
			v.spoken = max(v.spoken, f.Spoken)
			f.Spoken = v.spoken
			for len(v.sent) > 0 {
				f.Sent += <-v.sent
			}
			return yield(f, nil)
		}
		clips := make(chan *clip)
		tasks.Go(func() {
			defer close(clips)
			v.fetch(m.tts, s, clips, &tasks)
		})
		if err := v.speak(clips); err != nil && ctx.Err() == nil && !errors.Is(err, errEnough) {
			yield(served.Frame{}, err)
		}
	}
}

// errEnough means that nobody listens any more.
var errEnough = errors.New("enough")

// voice is what speaks one message.
type voice struct {
	ctx       context.Context
	tell      func(served.Frame) bool
	sent      chan int // characters of a clause that is being spoken now
	encoder   *opus.Encoder
	resampler *pcm.Resampler
	rate      int     // from which it resamples
	rest      []int16 // less than a frame
	spoken    int     // bytes of the text
	perByte   time.Duration
	ends      time.Time // when what was told will have been heard, if it is at once
}

// clip is a clause and its sound, as far as it has come.
type clip struct {
	speech.Clause

	mu    sync.Mutex
	sound speech.Sound // that was not taken
	over  bool         // there will be no more
	err   error
	more  chan struct{} // has a value when something has come
	begun chan struct{} // closed once something has come
}

func (c *clip) add(s speech.Sound, over bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sound.Samples, c.over = append(c.sound.Samples, s.Samples...), over
	if s.Rate > 0 {
		c.sound.Rate = s.Rate
	}
	if err != nil {
		c.err = err
	}
	select {
	case <-c.begun:
	default:
		close(c.begun)
	}
	select {
	case c.more <- struct{}{}:
	default:
	}
}

// fetch has the clauses of a text spoken, one more than is played, each once the one before has a sound: some servers
// make them one after the other.
func (v *voice) fetch(tts *speech.Speaker, s served.Saying, clips chan<- *clip, tasks *sync.WaitGroup) {
	var cutter speech.Cutter
	var clauses []speech.Clause
	var next *clip
	var begun <-chan struct{} // of the one before; nil if it has
	for text := s.Text; text != nil || next != nil || len(clauses) > 0; {
		if next == nil && begun == nil && len(clauses) > 0 {
			next = &clip{Clause: clauses[0], more: make(chan struct{}, 1), begun: make(chan struct{})}
			clauses, begun = clauses[1:], next.begun
			v.sent <- utf8.RuneCountInString(next.Text) // there is room: no more than two are not told
			tasks.Go(next.fetcher(v.ctx, tts, s))
		}
		var to chan<- *clip
		if next != nil {
			to = clips
		}
		select {
		case piece, ok := <-text:
			if ok {
				clauses = append(clauses, cutter.Write(piece)...)
			} else {
				clauses, text = append(clauses, cutter.Close()...), nil
			}
		case to <- next:
			next = nil
		case <-begun:
			begun = nil
		case <-v.ctx.Done():
			return
		}
	}
}

// fetcher returns a function that fetches the sound.
func (c *clip) fetcher(ctx context.Context, tts *speech.Speaker, s served.Saying) func() {
	return func() {
		if c.Text != "" { // the end of a text may have none
			for sound, err := range tts.Speak(ctx, c.Text, s.Voice, s.Speed) {
				c.add(sound, false, told(err, "speech_failed"))
			}
		}
		c.add(speech.Sound{}, true, nil)
	}
}

// maxFailures is how many clauses in a row may fail for another reason than their text.
const maxFailures = 2

// speak plays clips, and returns why it gave up.
func (v *voice) speak(clips <-chan *clip) error {
	failures := 0
	for c := range clips {
		heard, err := v.play(c)
		switch e, ok := errors.AsType[*realtime.Error](err); {
		case err == nil:
			failures = 0
			continue
		case errors.Is(err, errEnough) || v.ctx.Err() != nil:
			return err
		case heard: // what broke off is over
			continue
		case !ok || e.Type != "invalid_request_error":
			failures++
		}
		if failures == maxFailures {
			return err
		}
		if !v.tell(served.Frame{Spoken: c.End, Skipped: err}) {
			return errEnough
		}
	}
	if n := len(v.rest); n > 0 {
		v.rest = append(v.rest, make([]int16, media.FrameStep-n)...)
		if err := v.frames(v.spoken); err != nil {
			return err
		}
	}
	return nil
}

// play tells the frames of a clip, and reports whether it has a sound.
func (v *voice) play(c *clip) (heard bool, err error) {
	share := 0.0
	var length time.Duration
	for {
		sound, left, over, err := v.take(c)
		n := len(sound.Samples)
		if n == 0 {
			if err == nil && heard && over {
				v.perByte = length / time.Duration(max(1, len(c.Text)))
			}
			if err == nil && !v.tell(served.Frame{Spoken: c.End}) {
				return heard, errEnough
			}
			return heard, err
		}
		heard = true
		if err := v.resample(sound); err != nil {
			return false, err
		}
		length += time.Duration(n) * time.Second / time.Duration(sound.Rate)
		rest := n + left
		if !over {
			expected := time.Duration(len(c.Text))*v.perByte - length
			rest = max(rest+sound.Rate/2, int(expected*time.Duration(sound.Rate)/time.Second))
		}
		share += (1 - share) * float64(n) / float64(rest)
		spoken := c.Spoken(share)
		if over && left < sound.Rate/50 {
			spoken = c.End
		}
		if err := v.frames(spoken); err != nil {
			return true, err
		}
	}
}

// lead is how much sound of a clause is told ahead of time while its length is not known: where in the text the sound
// is is only estimated until then.
const lead = time.Second

// take waits for the next 20 ms of a clip and returns them, or less at its end, and how many samples have come after
// them.
func (v *voice) take(c *clip) (s speech.Sound, left int, over bool, err error) {
	for {
		ahead := time.Until(v.ends.Add(-lead))
		c.mu.Lock()
		n, have := c.sound.Rate/50, len(c.sound.Samples)
		if c.over || n > 0 && have >= 2*n && ahead <= 0 { // what is last is known to be
			n = min(n, have)
			s = speech.Sound{Samples: c.sound.Samples[:n:n], Rate: c.sound.Rate}
			c.sound.Samples = c.sound.Samples[n:]
			defer c.mu.Unlock()
			return s, have - n, c.over, c.err
		}
		c.mu.Unlock()
		var due <-chan time.Time
		if n > 0 && have >= 2*n {
			due = time.After(ahead)
		}
		select {
		case <-c.more:
		case <-due:
		case n := <-v.sent:
			if !v.tell(served.Frame{Sent: n}) {
				return s, 0, true, errEnough
			}
		case <-v.ctx.Done():
			return s, 0, true, v.ctx.Err()
		}
	}
}

// resample adds samples to the rest at the rate of frames.
func (v *voice) resample(s speech.Sound) (err error) {
	if v.resampler == nil || s.Rate != v.rate {
		if v.resampler, err = pcm.NewResampler(s.Rate, media.ClockRate); err != nil {
			return err
		}
		v.rate = s.Rate
	}
	v.rest = append(v.rest, v.resampler.Process(s.Samples)...)
	return nil
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
		if !v.tell(served.Frame{Opus: slices.Clone(packet), Spoken: spoken}) {
			return errEnough
		}
	}
	return nil
}
