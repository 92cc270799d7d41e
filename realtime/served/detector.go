package served

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

const (
	// minCommitMS is the least audio that can be committed.
	minCommitMS = 100
	// maxGapMS is the longest gap in the stream that counts as silence; after a longer one the stream's clock restarts.
	maxGapMS = 10_000
	// earRate is that of an Ear's sound, in Hz.
	earRate = 16_000
	// maxSound is the longest utterance, in samples: five minutes. It ends a turn.
	maxSound = 300 * earRate
	// firstSilence is the silence after which the caller may be done, in ms. Gaps within words are shorter.
	firstSilence = 200
	// goesOnEach is how often it is told that speech goes on, in ms.
	goesOnEach = 500
)

// Speech is what a Detector reports.
type Speech struct {
	Started bool  // otherwise stopped, unless it is about a pause
	At      int64 // in ms of the stream

	// Only of a Detector that keeps sound: the caller may be done, or goes on after all, or has spoken for another while.
	paused, resumed, goesOn bool

	heard Utterance     // so far
	quiet time.Duration // since the last speech
	// cycle counts the detector's resets, which void earlier events.
	cycle int
}

// Detector hears the caller: it decodes their packets, and reports when speech begins and ends. WriteAudio may run
// beside the other methods.
type Detector struct {
	packets atomic.Int64
	report  func(Speech)
	turns   Turns
	decoder *opus.Decoder // nil: does not decode

	mu       sync.Mutex
	set      *TurnDetection
	first    bool // no packet has come yet
	lastTS   uint32
	lastAt   time.Time
	pauses   bool  // the caller sends next to nothing (DTX): what does not come is silence
	filled   int64 // ms of silence in place of packets since the last one
	ms       int64 // length of the stream so far
	speaking bool
	bufferMS int64 // of audio since the last commit
	cycle    int
	pause    int64 // of silence that ends a turn, in ms
	paused   bool

	keeps     bool           // the sound
	least     int64          // ms of speech that make an utterance
	resampler *pcm.Resampler // to earRate
	rate      int            // from it
	sound     []int16        // since the last commit
	voiced    int64          // ms of speech in it
	quiet     int64          // ms since its latest sound
	heardMS   int64          // of this speech
}

// NewDetector returns a Detector that asks turns and reports speech, or, if it is deaf, only counts packets. Its error
// is the decoder's.
func NewDetector(turns Turns, deaf bool, report func(Speech)) (*Detector, error) {
	e := &Detector{turns: turns, report: report, first: true}
	if deaf {
		return e, nil
	}
	var err error
	if e.decoder, err = opus.NewDecoder(48_000); err != nil {
		return nil, err
	}
	return e, nil
}

// Configure sets the turn detection (nil: push to talk) and forgets speech in progress.
func (e *Detector) Configure(t *TurnDetection) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.set = t
	e.reset()
}

func (e *Detector) reset() {
	e.cycle++
	e.forget()
}

// forget begins another utterance.
func (e *Detector) forget() {
	e.speaking, e.paused, e.sound = false, false, nil
	e.bufferMS, e.voiced, e.heardMS = 0, 0, 0
	switch {
	case e.set != nil:
		e.pause = e.set.Silence
		e.turns.Begin(e.set.Threshold)
	case e.keeps:
		e.turns.Begin(0.5)
	}
}

// endAfter sets the silence that ends the turn, while the caller pauses.
func (e *Detector) endAfter(d time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.paused {
		e.pause = d.Milliseconds()
	}
}

// Packets returns how many have come, in events as well.
func (e *Detector) Packets() int64 { return e.packets.Load() }

// commit empties the buffer and returns how much audio was in it, in ms.
func (e *Detector) commit() (ms int64, u Utterance) {
	e.mu.Lock()
	defer e.mu.Unlock()
	ms, u = e.bufferMS, e.utterance()
	e.reset()
	return ms, u
}

// utterance returns what was said since the last commit. Its sound does not change.
func (e *Detector) utterance() Utterance {
	return Utterance{Sound: slices.Clip(e.sound), Speech: time.Duration(e.voiced) * time.Millisecond}
}

// current reports whether events of that cycle still count.
func (e *Detector) current(cycle int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.cycle == cycle
}

// position returns how much audio has come, in ms.
func (e *Detector) position() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.ms
}

// WriteAudio takes one packet.
func (e *Detector) WriteAudio(p *media.Packet) error {
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
	samples, err := e.decoder.Decode(p.Payload)
	if err != nil {
		samples = silence[:] // it is an ordinary packet, probably
	}
	e.lastTS = p.Timestamp + uint32(len(samples))
	e.feed(samples, media.ClockRate)
	return nil
}

// hear takes the sound of an event, which need not be whole frames.
func (e *Detector) hear(data []byte, format media.Format) {
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
		e.feed(format.Encoding.Decode(nil, frame), format.Rate)
	}
}

// silence is a frame of it.
var silence [frameSamples]int16

// silence feeds so many ms of silence, if any.
func (e *Detector) silence(ms int64) {
	for ; ms > 0; ms -= frameMS {
		e.feed(silence[:48*min(ms, frameMS)], media.ClockRate)
	}
}

// starvedAfter is how long the stream must stop, beyond the silence that ends a turn, to end speech: a shorter gap may
// be the delay of a busy machine.
const starvedAfter = 2 * time.Second

// Starved takes that no packet has come until now. Of a caller who pauses, time without packets is heard as silence;
// otherwise speech whose stream has stopped ends: a muted caller sends nothing at all. It reports whether speech goes
// on.
func (e *Detector) Starved(now time.Time) bool {
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
	if e.set != nil && missing > time.Duration(e.pause)*time.Millisecond+starvedAfter {
		for fed := int64(0); e.speaking && fed <= e.pause+1000; fed += frameMS {
			e.silence(frameMS)
		}
	}
	return e.speaking
}

// feed advances the stream.
func (e *Detector) feed(samples []int16, rate int) {
	ms := int64(len(samples)) * 1000 / int64(rate)
	e.ms += ms
	if e.keeps {
		samples, rate = e.keep(samples, rate), earRate
	}
	if e.set == nil {
		e.bufferMS += ms
		if e.keeps {
			e.voice(e.turns.Hear(samples, rate))
		}
		return
	}
	before := time.Duration(e.quiet) * time.Millisecond
	spoken, quiet := e.turns.Hear(samples, rate)
	e.voice(spoken, quiet)
	switch {
	case e.speaking && (spoken == 0 || quiet >= e.pause || len(e.sound) >= maxSound):
		e.tell(Speech{quiet: time.Duration(quiet) * time.Millisecond})
		e.forget()
	case e.speaking:
		e.bufferMS += ms
		if e.keeps {
			e.pausing(spoken, quiet, ms, before)
		}
	case spoken > 0 && quiet >= e.pause: // it was too short
		e.forget()
	case spoken > 0 && spoken-quiet >= e.least:
		e.speaking = true
		start := max(0, e.ms-spoken-e.set.Prefix)
		e.bufferMS = e.ms - start
		e.report(Speech{Started: true, At: start, cycle: e.cycle})
	}
}

func (e *Detector) tell(s Speech) {
	s.At, s.cycle, s.heard = e.ms, e.cycle, e.utterance()
	e.report(s)
}

// pausing tells of pauses within a turn, which may be its end. before is how long it was quiet until now.
func (e *Detector) pausing(spoken, quiet, ms int64, before time.Duration) {
	switch {
	case e.paused && quiet == 0:
		e.paused, e.pause = false, e.set.Silence
		e.tell(Speech{resumed: true, quiet: before})
	case !e.paused && quiet >= min(firstSilence, e.set.Silence):
		e.paused = true
		e.tell(Speech{paused: true, quiet: time.Duration(quiet) * time.Millisecond})
	case quiet == 0 && spoken/goesOnEach > (spoken-ms)/goesOnEach:
		e.tell(Speech{goesOn: true})
	}
}

// voice counts what is speech.
func (e *Detector) voice(spoken, quiet int64) {
	switch {
	case quiet == 0 && spoken > 0:
		e.voiced += spoken - e.heardMS
	case spoken == 0 && e.set != nil:
		e.voiced = 0
	}
	e.heardMS, e.quiet = spoken, quiet
}

// keep keeps sound for the Ear: while nobody speaks, as much as belongs to speech that begins. It returns it at
// earRate.
func (e *Detector) keep(samples []int16, rate int) []int16 {
	if e.resampler == nil || rate != e.rate {
		resampler, err := pcm.NewResampler(rate, earRate)
		if err != nil {
			return nil // no such rate comes
		}
		e.resampler, e.rate = resampler, rate
	}
	samples = e.resampler.Process(samples)
	e.sound = append(e.sound, samples...)
	kept := maxSound
	if e.set != nil && !e.speaking {
		kept = int(e.set.Prefix+e.least+onset) * earRate / 1000
	}
	e.sound = e.sound[max(0, len(e.sound)-kept):]
	return samples
}

const (
	// onset is how many ms of sound make speech; a click is shorter.
	onset = 60
	// hysteresis is how much quieter than its onset speech may become, in dB.
	hysteresis = 6
)

// Energy is Turns that take what is loud for speech.
type Energy struct {
	on    float64 // the level above which speech begins, in dBFS
	run   int64   // ms of recent sound, or, from onset on, of speech
	quiet int64   // ms since the latest sound
}

// Begin is described at [Turns].
func (e *Energy) Begin(threshold float64) {
	// 0.5, the default, is -45 dBFS; 0 is -60 and 1 is -30.
	*e = Energy{on: -60 + 30*threshold}
}

// Hear is described at [Turns].
func (e *Energy) Hear(samples []int16, rate int) (spoken, quiet int64) {
	ms := int64(len(samples)) * 1000 / int64(rate)
	speaking, on := e.run >= onset, e.on
	if speaking {
		on -= hysteresis
	}
	loud := pcm.Level(samples) > on
	e.quiet += ms
	if loud {
		e.quiet = 0
	}
	if speaking || loud {
		e.run += ms
	} else {
		e.run = max(0, e.run-ms)
	}
	if e.run < onset {
		return 0, 0
	}
	return e.run, e.quiet
}
