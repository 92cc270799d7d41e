package simulator

import (
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

const (
	// onsetMS is how much sound makes speech; a click is shorter.
	onsetMS = 60
	// hysteresis is how much quieter than its onset speech may become, in dB.
	hysteresis = 6
	// minCommitMS is the least audio that can be committed.
	minCommitMS = 100
	// maxGapMS is the longest gap in the stream that counts as silence; after a longer one the stream's clock restarts.
	maxGapMS = 10_000
)

// speechEvent is what the detector reports to the session.
type speechEvent struct {
	started bool // otherwise stopped
	atMS    int64
	// cycle counts the detector's resets, which void earlier events.
	cycle int
}

// detector decodes the caller's packets and detects speech by its energy. WriteAudio runs on the
// goroutine that forwards the caller's audio, everything else on the session's.
type detector struct {
	packets atomic.Int64
	report  func(speechEvent)
	decoder *opus.Decoder // nil: does not decode

	mu       sync.Mutex
	set      *turnDetection
	onDB     float64 // the level above which speech begins, in dBFS
	first    bool    // no packet has come yet
	lastTS   uint32
	lastAt   time.Time
	pauses   bool  // the caller sends next to nothing (DTX): what does not come is silence
	filled   int64 // ms of silence in place of packets since the last one
	ms       int64 // length of the stream so far
	run      int64 // ms of recent sound
	speaking bool
	voiceMS  int64 // end of the latest sound
	bufferMS int64 // of audio since the last commit
	cycle    int
}

func newDetector(deaf bool, report func(speechEvent)) (*detector, error) {
	e := &detector{report: report, first: true}
	if deaf {
		return e, nil
	}
	var err error
	if e.decoder, err = opus.NewDecoder(48_000); err != nil {
		return nil, err
	}
	return e, nil
}

// configure sets the turn detection (nil: push to talk) and forgets speech in progress.
func (e *detector) configure(t *turnDetection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set = t
	e.reset()
	if t != nil {
		// 0.5, the default, is -45 dBFS; 0 is -60 and 1 is -30.
		e.onDB = -60 + 30*t.threshold
	}
}

func (e *detector) reset() {
	e.cycle++
	e.run, e.speaking, e.bufferMS = 0, false, 0
}

// commit empties the buffer and returns how much audio was in it, in ms.
func (e *detector) commit() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	ms := e.bufferMS
	e.reset()
	return ms
}

// current reports whether events of that cycle still count.
func (e *detector) current(cycle int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cycle == cycle
}

// position returns how much audio has come, in ms.
func (e *detector) position() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ms
}

// WriteAudio takes one packet.
func (e *detector) WriteAudio(p *media.Packet) error {
	e.packets.Add(1)
	if e.decoder == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	gap := int64(int32(p.Timestamp-e.lastTS)) / 48
	switch {
	case e.first:
		e.first, gap = false, 0
	case gap < 0:
		return nil // late: already counted as silence
	case gap > maxGapMS:
		gap = 0
	}
	// What was filled may be longer than the gap: then the packet was late, but it is not lost.
	e.silence(gap - e.filled)
	e.lastAt, e.pauses, e.filled = time.Now(), p.Pauses(), 0
	level := pcm.Silence
	samples := frameSamples // what cannot be decoded is an ordinary packet, probably
	if decoded, err := e.decoder.Decode(p.Payload); err == nil {
		samples = len(decoded)
		level = pcm.Level(decoded)
	}
	e.lastTS = p.Timestamp + uint32(samples)
	e.feed(level, int64(samples)/48)
	return nil
}

// hear takes sound of an event, in frames of which the last may be shorter.
func (e *detector) hear(data []byte, format media.Format) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for len(data) > 0 {
		n := min(len(data), format.Frame())
		frame := data[:n]
		data = data[n:]
		e.packets.Add(1)
		if e.decoder == nil {
			continue
		}
		samples := format.Encoding.Decode(nil, frame)
		e.feed(pcm.Level(samples), int64(len(samples))*1000/int64(format.Rate))
	}
}

// silence feeds so many ms of silence, if any.
func (e *detector) silence(ms int64) {
	for ; ms > 0; ms -= frameMS {
		e.feed(pcm.Silence, min(ms, frameMS))
	}
}

// starvedAfter is how long the stream must stop, beyond the silence that ends a turn, to end speech: a shorter gap may
// be the delay of a busy machine.
const starvedAfter = 2 * time.Second

// starved takes that no packet has come until now. What a caller does not send who pauses is heard as silence as time
// goes on, and speech whose stream has stopped ends: a muted caller sends nothing at all. It reports whether speech
// goes on.
func (e *detector) starved(now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.speaking {
		return false
	}
	missing := now.Sub(e.lastAt)
	if e.pauses {
		due := (missing - frameLength).Milliseconds() - e.filled
		e.filled += max(0, due)
		e.silence(due)
		return e.speaking
	}
	if e.set != nil && missing > time.Duration(e.set.silenceMS)*time.Millisecond+starvedAfter {
		e.feed(pcm.Silence, e.set.silenceMS)
	}
	return e.speaking
}

// feed advances the stream by ms at one level.
func (e *detector) feed(level float64, ms int64) {
	e.ms += ms
	if e.set == nil {
		e.bufferMS += ms
		return
	}
	on := e.onDB
	if e.speaking {
		on -= hysteresis
		e.bufferMS += ms
	}
	loud := level > on
	if loud {
		e.voiceMS = e.ms
	}
	switch {
	case e.speaking:
		if e.ms-e.voiceMS >= e.set.silenceMS {
			e.speaking, e.run, e.bufferMS = false, 0, 0
			e.report(speechEvent{atMS: e.ms, cycle: e.cycle})
		}
	case loud:
		if e.run += ms; e.run >= onsetMS {
			e.speaking = true
			start := max(0, e.ms-e.run-e.set.prefixMS)
			e.bufferMS = e.ms - start
			e.report(speechEvent{started: true, atMS: start, cycle: e.cycle})
		}
	default:
		e.run = max(0, e.run-ms)
	}
}
