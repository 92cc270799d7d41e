package wsserver

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

const (
	// maxEarly is how much sound may wait while the gate is shut, and maxAhead how far it may be ahead of real time.
	maxEarly, maxAhead = 30 * time.Second, 60 * time.Second
	// jitter is how much sound waits without being a delay; of a client that sends larger pieces, as much as the newest
	// one has, up to largest.
	jitter, largest = 60 * time.Millisecond, time.Second
	// maxPending is how many events may wait for the sound before them, and maxPendingBytes their size.
	maxPending, maxPendingBytes = 64, MaxEvent
)

// input is the client's sound until it is forwarded.
type input struct {
	mu           sync.Mutex
	format       media.Format
	before       []stretch     // in earlier formats
	sound        []byte        // not forwarded yet
	newest       time.Duration // how long the sound was that came last
	since        time.Time     // when the first of what waits came
	total        int           // bytes that came, and
	gone         int           // those of them that were forwarded or dropped
	pending      []pendingEvent
	pendingBytes int           // of pending
	flow         *media.Flow   // nil before Forward
	wake         chan struct{} // holds a token when there is sound
}

// stretch is whole frames that were not forwarded yet.
type stretch struct {
	format media.Format
	sound  []byte
}

// pendingEvent is an event that follows the sound before it: so many bytes in all.
type pendingEvent struct {
	data []byte
	at   int
}

func newInput() *input { return &input{format: linear, wake: make(chan struct{}, 1)} }

func (in *input) current() media.Format {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.format
}

// use sets the format of what comes from now on; zero asks for nothing.
func (in *input) use(f media.Format) {
	in.mu.Lock()
	defer in.mu.Unlock()
	f = cmp.Or(f, in.format)
	if f != in.format && len(in.sound) > 0 {
		in.fill()
		in.before = append(in.before, stretch{in.format, in.sound})
		in.sound = nil
	}
	in.format = f
}

// fill fills up the last frame with silence.
func (in *input) fill() {
	frame, size := in.format.Frame(), in.format.Encoding.Size()
	n := (frame - len(in.sound)%frame) % frame
	in.sound = in.format.Encoding.Append(in.sound, make([]int16, n/size))
	in.total += n
}

// succeed takes over the format.
func (in *input) succeed(before *input) {
	before.mu.Lock()
	defer before.mu.Unlock()
	in.format = before.format
}

// append takes the sound of an event.
func (in *input) append(event []byte) *realtime.Error {
	refuse := func(code, message string) *realtime.Error {
		return &realtime.Error{Code: code, Param: "audio", Message: message}
	}
	var text string
	if json.Unmarshal(realtime.Member(event, "audio"), &text) != nil {
		return refuse("invalid_value", "audio must be base64 in a string.")
	}
	sound, err := base64.StdEncoding.DecodeString(text)
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case err != nil:
		const message = "Invalid 'audio'. Expected base64-encoded audio bytes, but got an invalid value."
		return refuse("invalid_value", message)
	case len(sound)%in.format.Encoding.Size() != 0:
		return refuse("invalid_value", "audio ends within a sample of 16 bits.")
	}
	limit := maxAhead
	if !in.open() {
		limit = maxEarly
	}
	if in.waiting()+in.length(len(sound)) > limit {
		message := fmt.Sprintf("More than %d s of audio wait. This audio is dropped.", int(limit.Seconds()))
		return refuse("input_audio_too_much", message)
	}
	if in.waiting() < media.FrameTime {
		in.since = time.Now()
	}
	in.sound = append(in.sound, sound...)
	in.newest = in.length(len(sound))
	in.total += len(sound)
	signal(in.wake)
	return nil
}

func (in *input) open() bool { return in.flow != nil && in.flow.IsOpen() }

// length returns how long bytes of sound last.
func (in *input) length(bytes int) time.Duration { return in.format.Lasts(bytes) }

// waiting returns how much sound was not forwarded yet.
func (in *input) waiting() time.Duration {
	d := in.length(len(in.sound))
	for _, s := range in.before {
		d += time.Duration(len(s.sound)/s.format.Frame()) * media.FrameTime
	}
	return d
}

// hold keeps an event until the sound before it was forwarded: a commit, and all that follows one that waits. ok is
// false if there are too many.
func (in *input) hold(event []byte, commits bool) (waits, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.pending) == 0 && (!commits || len(in.sound)+len(in.before) == 0) {
		return false, true
	}
	if len(in.pending) >= maxPending || in.pendingBytes+len(event) > maxPendingBytes {
		return false, false
	}
	if commits {
		in.fill()
	}
	in.pendingBytes += len(event)
	in.pending = append(in.pending, pendingEvent{event, in.total})
	return true, true
}

// released removes the events that wait no longer.
func (in *input) released() (events [][]byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.pending) > 0 && in.pending[0].at <= in.gone {
		events = append(events, in.pending[0].data)
		in.pendingBytes -= len(in.pending[0].data)
		in.pending = in.pending[1:]
	}
	return events
}

// clear drops the sound that was not forwarded.
func (in *input) clear() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.before, in.sound = nil, nil
	in.gone = in.total
}

// frame takes out the next frame, none if there is none yet or the gate is shut. waiting is how much sound there is
// then. One that is delayed, as an event waits for it or more has come since, says when it came, and others do not.
func (in *input) frame(buf []byte) (frame stretch, waiting time.Duration, came time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	frame.format = in.format
	from := &in.sound
	if len(in.before) > 0 {
		frame.format, from = in.before[0].format, &in.before[0].sound
	}
	n := frame.format.Frame()
	if len(*from) < n || !in.open() {
		return stretch{}, in.waiting(), time.Time{}
	}
	frame.sound = append(buf[:0], (*from)[:n]...)
	*from = (*from)[n:]
	in.gone += n
	if len(in.before) > 0 && len(in.before[0].sound) == 0 {
		in.before = in.before[1:]
	}
	waiting = in.waiting()
	if len(in.pending) == 0 && waiting <= max(jitter, min(in.newest, largest)) {
		return frame, waiting, time.Time{}
	}
	if came = time.Now().Add(-waiting); came.Before(in.since) {
		came = in.since
	}
	return frame, waiting, came
}
