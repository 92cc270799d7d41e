package phone

import (
	"slices"
	"time"

	"voicebridge/realtime/media"
)

const (
	// maxGap is how much silence stands for sound that is missing, and maxQuiet how long no sound comes until silence
	// stands for it.
	maxGap, maxQuiet = 10 * time.Second, 500 * time.Millisecond
	// maxEarly is how many pieces wait for one before them.
	maxEarly = 5
)

// input puts the caller's sound in order, and fills gaps: its listeners count time by the sound.
type input struct {
	format media.Format
	next   int64     // the chunk that is next, 0 before the first
	early  []Message // pieces that came before it, in order
	due    time.Duration
	known  bool      // due is the time of the next piece
	came   time.Time // until when there is sound
}

// begin takes the beginning of a stream.
func (in *input) begin(now time.Time) {
	in.next, in.early, in.known, in.came = 0, nil, false, now
}

// take takes a piece, and returns the sound that comes next.
func (in *input) take(m Message, now time.Time) (sound []byte) {
	if m.Chunk < 0 {
		return in.piece(m, now)
	}
	if in.next > 0 && m.Chunk < in.next {
		return nil
	}
	at, twice := slices.BinarySearchFunc(in.early, m.Chunk, func(e Message, n int64) int { return int(e.Chunk - n) })
	if !twice {
		in.early = slices.Insert(in.early, at, m)
	}
	for len(in.early) > 0 && (in.next == 0 || in.early[0].Chunk == in.next || len(in.early) > maxEarly) {
		first := in.early[0]
		in.early = in.early[1:]
		in.next = first.Chunk + 1
		sound = append(sound, in.piece(first, now)...)
	}
	return sound
}

// piece returns the sound of a piece, with silence for missing sound before it.
func (in *input) piece(m Message, now time.Time) (sound []byte) {
	in.came = now
	if m.At < 0 {
		return m.Sound
	}
	if gap := m.At - in.due; in.known && gap >= media.FrameTime {
		sound = in.silence(min(gap, maxGap))
		in.due = m.At
	}
	end := m.At + in.format.Lasts(len(m.Sound))
	if !in.known || end > in.due {
		in.due = end
	}
	in.known = true
	return append(sound, m.Sound...)
}

// quiet returns the silence that stands for sound that does not come, at most maxGap: a machine may have slept.
// Before the stream begins nothing is missing.
func (in *input) quiet(now time.Time) []byte {
	missing := min(now.Sub(in.came), maxGap)
	if in.came.IsZero() || missing < maxQuiet {
		return nil
	}
	in.came = now
	in.due += missing
	return in.silence(missing)
}

func (in *input) silence(d time.Duration) []byte {
	return silence(in.format, int(d/media.FrameTime)*in.format.Frame())
}
