package wsserver

import (
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
	// maxHeld is how many events may wait for the sound before them.
	maxHeld = 64
)

// input is the client's sound until it is forwarded.
type input struct {
	mu     sync.Mutex
	format media.Format
	begun  bool   // there was sound: the format stays
	sound  []byte // not forwarded yet
	total  int    // bytes that came, and
	gone   int    // those of them that were forwarded or dropped
	held   []held
	flow   *media.Flow   // nil before Forward
	wake   chan struct{} // holds a token when there is sound
}

// held is an event that follows the sound before it: so many bytes in all.
type held struct {
	data []byte
	at   int
}

func newInput() *input { return &input{format: linear, wake: make(chan struct{}, 1)} }

func (in *input) current() media.Format {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.format
}

// use sets the format, unless there was sound in another one.
func (in *input) use(f media.Format) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.begun && f != in.format {
		return false
	}
	in.format = f
	return true
}

// succeed takes over the format.
func (in *input) succeed(before *input) {
	before.mu.Lock()
	defer before.mu.Unlock()
	in.format, in.begun = before.format, before.begun
}

// append takes the sound of an event.
func (in *input) append(event []byte) *realtime.Error {
	var text string
	if json.Unmarshal(realtime.Member(event, "audio"), &text) != nil {
		return &realtime.Error{Code: "invalid_value", Param: "audio", Message: "audio must be base64 in a string."}
	}
	sound, err := base64.StdEncoding.DecodeString(text)
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case err != nil:
		return &realtime.Error{Code: "invalid_value", Param: "audio", Message: "Invalid 'audio'. Expected base64-encoded audio bytes, but got an invalid value."}
	case len(sound)%in.format.Encoding.Size() != 0:
		return &realtime.Error{Code: "invalid_value", Param: "audio", Message: "audio ends within a sample of 16 bits."}
	}
	limit := maxAhead
	if !in.open() {
		limit = maxEarly
	}
	if in.length(len(in.sound)+len(sound)) > limit {
		return &realtime.Error{Code: "input_audio_too_much", Param: "audio", Message: fmt.Sprintf("More than %d s of audio wait. This audio is dropped.", int(limit.Seconds()))}
	}
	in.begun = in.begun || len(sound) > 0
	in.sound = append(in.sound, sound...)
	in.total += len(sound)
	signal(in.wake)
	return nil
}

func (in *input) open() bool { return in.flow != nil && in.flow.IsOpen() }

// length returns how long bytes of sound last.
func (in *input) length(bytes int) time.Duration {
	return time.Duration(bytes) * media.FrameTime / time.Duration(in.format.Frame())
}

// hold keeps an event until the sound before it was forwarded: a commit, and all that follows one that waits. ok is false
// if there are too many.
func (in *input) hold(event []byte, commits bool) (waits, ok bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.held) == 0 && (!commits || len(in.sound) == 0) {
		return false, true
	}
	if len(in.held) >= maxHeld {
		return false, false
	}
	if commits { // the last frame is filled up
		rest := make([]byte, (in.format.Frame()-len(in.sound)%in.format.Frame())%in.format.Frame())
		in.sound = append(in.sound, in.format.Encoding.Append(rest[:0], make([]int16, len(rest)/in.format.Encoding.Size()))...)
		in.total += len(rest)
	}
	in.held = append(in.held, held{event, in.total})
	return true, true
}

// released removes the events that wait no longer.
func (in *input) released() (events [][]byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.held) > 0 && in.held[0].at <= in.gone {
		events = append(events, in.held[0].data)
		in.held = in.held[1:]
	}
	return events
}

// clear drops the sound that was not forwarded.
func (in *input) clear() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gone += len(in.sound)
	in.sound = nil
}

// frame takes out the next frame, nil if there is none yet or the gate is shut. waiting is how much sound there is then;
// freed means that an event may go.
func (in *input) frame(buf []byte) (frame []byte, waiting time.Duration, freed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	n := in.format.Frame()
	if len(in.sound) < n || !in.open() {
		return nil, in.length(len(in.sound)), false
	}
	frame = append(buf[:0], in.sound[:n]...)
	in.sound = in.sound[n:]
	in.gone += n
	return frame, in.length(len(in.sound)), len(in.held) > 0 && in.held[0].at <= in.gone
}
