package recording

import (
	"slices"
	"time"

	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
)

const (
	// window is how many packets wait for those that overtook them on their way.
	window = 16
	// maxJump is how far a source's clock may be from ours before it is taken for another clock.
	maxJump = sampleRate / 2
	// pause separates two stretches of sound; each begins when it arrived, by the least late of its first packets.
	pause = sampleRate / 10
	// maxDrift is how late a source's clock may be within a stretch of sound, and driftWindow over how many packets
	// that is looked at: the least delay of many packets is that of the network, the rest is the clock.
	maxDrift    = 60 * sampleRate / 1000
	driftWindow = 500
	// mostAhead is how much more sound there may be than time has gone on: as much as may be sent faster.
	mostAhead = time.Minute
)

// timeline places the packets of one track: within a stretch of sound by the clock of their source, which does not
// jitter, and each stretch by ours.
type timeline struct {
	put func(packet []byte, samples int) error // takes packets without gaps

	end    int // where the last packet ended, in samples from the start of the recording
	before []byte
	queue  []taken
	came   media.Allowance

	source  uint32
	known   bool   // there is a source
	anchor  int    // where the packet with the timestamp clock belongs
	clock   uint32 // a timestamp
	last    uint16 // the sequence number of the last packet
	delay   int    // the least of the last packets
	delayed int    // how many they are
}

func newTimeline(put func(packet []byte, samples int) error) *timeline {
	return &timeline{put: put, came: media.Allowance{Most: mostAhead}}
}

// samples returns a time as a number of samples.
func samples(d time.Duration) int { return int(d * sampleRate / time.Second) }

// add adds a packet.
func (t *timeline) add(p taken) error {
	at := len(t.queue)
	for at > 0 && t.queue[at-1].Source == p.Source && int16(t.queue[at-1].Sequence-p.Sequence) > 0 {
		at--
	}
	if at > 0 && t.queue[at-1].Source == p.Source && t.queue[at-1].Sequence == p.Sequence {
		return nil // twice
	}
	t.queue = slices.Insert(t.queue, at, p)
	if len(t.queue) <= window {
		return nil
	}
	first := t.queue[0]
	t.queue = slices.Delete(t.queue, 0, 1)
	return t.place(first)
}

// finish places what waits, and fills the track up to the end of the recording.
func (t *timeline) finish(length time.Duration) error {
	for _, p := range t.queue {
		if err := t.place(p); err != nil {
			return err
		}
	}
	t.queue = nil
	return t.fill(samples(length), nil)
}

// place passes a packet on, and before it what fills the gap since the last one.
func (t *timeline) place(p taken) error {
	n := opus.Duration(p.Payload)
	length := time.Duration(n) * time.Second / sampleRate
	if n == 0 || t.came.Take(time.Unix(0, 0).Add(p.at), length) < length {
		return nil
	}
	if t.known && p.Source == t.source && int16(p.Sequence-t.last) <= 0 {
		return nil // it comes too late
	}
	arrived := samples(p.at)
	at := t.anchor + int(int32(p.Timestamp-t.clock))
	lost := t.known && p.Source == t.source && p.Sequence-t.last > 1
	switch {
	case !t.known || p.Source != t.source || abs(at-arrived) > maxJump,
		at-t.end >= pause && !lost && !opus.IsEmpty(t.before):
		at = t.begin(p, arrived)
	default:
		at += t.drift(arrived - at)
		t.anchor, t.clock = at, p.Timestamp // so that timestamps may wrap around
	}
	t.last = p.Sequence
	before := t.before
	if !lost && at-t.end >= pause && !opus.IsEmpty(before) {
		before = nil
	}
	if err := t.fill(at, before); err != nil {
		return err
	}
	t.before = p.Payload
	t.end += n
	return t.put(p.Payload, n)
}

// begin takes a packet as the first of a stretch of sound, and returns where that begins: it was late if one behind it
// was less so.
func (t *timeline) begin(p taken, arrived int) int {
	at := arrived
	for _, next := range t.queue {
		since := int(int32(next.Timestamp - p.Timestamp))
		if began := samples(next.at) - since; next.Source == p.Source && since > 0 && arrived-began <= maxJump {
			at = min(at, began)
		}
	}
	t.known, t.source, t.clock, t.anchor = true, p.Source, p.Timestamp, at
	t.delay, t.delayed = maxJump, 0
	return at
}

// drift returns by how much a source's clock has to be corrected, if it is slow.
func (t *timeline) drift(delay int) (correction int) {
	t.delay = min(t.delay, delay)
	if t.delayed++; t.delayed < driftWindow {
		return 0
	}
	if t.delay > maxDrift {
		correction = t.delay
	}
	t.delay, t.delayed = maxJump, 0
	return correction
}

// fill fills the track up to a place, if it is not that long yet.
func (t *timeline) fill(until int, before []byte) error {
	if until-t.end < shortest {
		return nil
	}
	rest, err := fill(until-t.end, before, t.put)
	t.end = until - rest
	return err
}

func abs(n int) int { return max(n, -n) }
