package ws

import (
	"cmp"
	"sync"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/transcode"
)

// The upstream knows only from sound that a caller has stopped speaking. If none comes any more, as from a muted
// microphone, it gets silence.
const (
	missing    = 400 * time.Millisecond // without a packet, before that: a network may stall as long
	silenceFor = 5 * time.Second        // at most
)

// input turns the caller's packets into sound for the upstream.
type input struct {
	out *queue

	mu     sync.Mutex
	format media.Format
	reader *transcode.Reader
	bytes  []byte // reused
	stream stream
	filled time.Duration // of silence since the last packet
	wait   time.Duration // from the last packet until silence takes the place of the next one
	// speaking means that the upstream hears somebody speak.
	speaking bool
}

// use sets the upstream's format; zero leaves it as it is.
func (in *input) use(f media.Format) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if f = cmp.Or(f, in.format); f != in.format {
		in.format, in.reader = f, transcode.NewPatientReader(f.Rate)
		in.out.use(f)
	}
}

// write takes one packet.
func (in *input) write(p *media.Packet) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	at := in.stream.take(p, time.Now())
	in.filled, in.wait = 0, missing
	if p.Pauses() {
		in.wait = media.FrameTime
	}
	if p.Format == in.format && len(p.Payload) == in.format.Frame() {
		in.out.speak(p.Payload, at)
		return nil
	}
	samples, err := in.reader.Read(p)
	in.read(samples)
	return err
}

// flush sends the packets that wait for another one: what follows must not overtake them.
func (in *input) flush() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.read(in.reader.Flush())
}

// read sends what the reader has returned: with a packet what was missing before it, or waited for it.
func (in *input) read(samples []int16) {
	ahead := time.Duration(int32(in.reader.End()-in.stream.stamp)) * time.Second / media.ClockRate
	in.send(samples, in.stream.at+ahead)
}

// came returns when sound of a time of the caller's stream came.
func (in *input) came(at time.Duration) time.Time {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.stream.came(at)
}

// send sends samples that end at a time of the caller's stream.
func (in *input) send(samples []int16, until time.Duration) {
	in.bytes = in.format.Encoding.Append(in.bytes[:0], samples)
	if len(in.bytes) > 0 {
		in.out.speak(in.bytes, until-in.format.Lasts(len(in.bytes)))
	}
}

// speaks takes whether the upstream hears somebody speak.
func (in *input) speaks(speaking bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.speaking = speaking
}

// fill sends silence for the sound that has not come. It reports whether to be called again soon.
func (in *input) fill(now time.Time) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.speaking || in.stream.arrived.IsZero() || in.filled >= silenceFor {
		return false
	}
	if in.filled == 0 && now.Sub(in.stream.arrived) > in.wait {
		in.read(in.reader.Flush())
	}
	due := min(now.Sub(in.stream.arrived)-in.wait, silenceFor)
	for ; in.filled+longestAppend <= due; in.filled += longestAppend {
		samples := in.reader.Fill(in.format.Rate / int(time.Second/longestAppend))
		in.send(samples, in.stream.at+in.wait+in.filled+longestAppend)
	}
	return true
}
