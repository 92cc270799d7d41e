package transcode

import (
	"encoding/binary"
	"math"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

// tone returns packets of a tone of 440 Hz at -12 dBFS.
func tone(format media.Format, packets int) []media.Packet {
	out := make([]media.Packet, packets)
	n := format.Rate / 50
	for i := range out {
		samples := make([]int16, n)
		for at := range samples {
			samples[at] = int16(8192 * math.Sin(2*math.Pi*440*float64(i*n+at)/float64(format.Rate)))
		}
		out[i] = media.Packet{
			Source: 1, Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Format: format,
			Payload: format.Encoding.Append(nil, samples),
		}
	}
	return out
}

// tape keeps what is written to it.
type tape struct{ packets []media.Packet }

func (t *tape) WriteAudio(p *media.Packet) error {
	t.packets = append(t.packets, p.Clone())
	return nil
}

// readAll returns the samples of packets.
func readAll(t *testing.T, r *Reader, packets []media.Packet) (samples []int16) {
	t.Helper()
	for i := range packets {
		got, err := r.Read(&packets[i])
		testkit.Must(t, err)
		samples = append(samples, got...)
	}
	return samples
}

// TestFormats encodes a tone of each format and reads it at each rate: it keeps its length and its level.
func TestFormats(t *testing.T) {
	t.Parallel()
	for _, format := range []media.Format{{Rate: 24000}, {Rate: 16000}, {Rate: 48000}, {Rate: 8000, Encoding: pcm.ULaw}, {Rate: 8000, Encoding: pcm.ALaw}} {
		var opus tape
		sink := ToOpus(&opus)
		packets := tone(format, 50)
		for i := range packets {
			testkit.Must(t, sink.WriteAudio(&packets[i]))
		}
		for _, p := range opus.packets {
			if (p.Format != media.Format{}) || len(p.Payload) == 0 || len(p.Payload) > 400 {
				t.Fatalf("%+v became a packet of format %v with %d bytes", format, p.Format, len(p.Payload))
			}
		}
		for _, rate := range []int{16000, 24000} {
			for name, packets := range map[string][]media.Packet{"directly": packets, "by Opus": opus.packets} {
				samples := readAll(t, NewReader(rate), packets)
				middle := samples[len(samples)/4 : len(samples)*3/4]
				if level := pcm.Level(middle); len(samples) != rate || math.Abs(level+15) > 0.5 {
					t.Errorf("%+v read %s at %d Hz: %d samples at %.1f dBFS", format, name, rate, len(samples), level)
				}
			}
		}
	}
}

// TestOpusPasses has packets of Opus pass untouched, without an allocation.
func TestOpusPasses(t *testing.T) {
	var got *media.Packet
	sink := ToOpus(sinkFunc(func(p *media.Packet) error { got = p; return nil }))
	packet := &media.Packet{Payload: []byte{0xf8, 0xff, 0xfe}}
	if n := testing.AllocsPerRun(100, func() { _ = sink.WriteAudio(packet) }); n != 0 || got != packet {
		t.Errorf("%v allocations, the same packet: %t", n, got == packet)
	}
}

type sinkFunc func(*media.Packet) error

func (f sinkFunc) WriteAudio(p *media.Packet) error { return f(p) }

// TestGaps reads streams in which packets are missing: they are as long as without the gap, unless the stream had
// stopped.
func TestGaps(t *testing.T) {
	t.Parallel()
	var opus tape
	sink := ToOpus(&opus)
	for _, p := range tone(media.Format{Rate: 24000}, 100) {
		testkit.Must(t, sink.WriteAudio(&p))
	}
	const frame = 480
	for name, tt := range map[string]struct {
		change func(i int, p *media.Packet) (keep bool)
		frames int
	}{
		"none":        {func(int, *media.Packet) bool { return true }, 100},
		"one lost":    {func(i int, _ *media.Packet) bool { return i != 50 }, 100},
		"200 ms lost": {func(i int, _ *media.Packet) bool { return i < 50 || i >= 60 }, 100},
		"silence (DTX)": {func(i int, p *media.Packet) bool {
			p.Timestamp += map[bool]uint32{true: 19 * media.FrameStep}[i >= 50]
			return true
		}, 119},
		"silence of which a refresh is lost": {func(i int, p *media.Packet) bool {
			p.Timestamp += map[bool]uint32{true: 39 * media.FrameStep}[i >= 50]
			p.Sequence += map[bool]uint16{true: 1}[i >= 50]
			return true
		}, 139},
		"stopped": {func(i int, p *media.Packet) bool {
			p.Timestamp += map[bool]uint32{true: 5 * media.ClockRate}[i >= 50]
			return true
		}, 100},
		"one late": {func(i int, p *media.Packet) bool {
			if i == 51 {
				p.Sequence, p.Timestamp = 40, 40*media.FrameStep
			}
			return true
		}, 100},
		"one broken": {func(i int, p *media.Packet) bool {
			if i == 50 {
				p.Payload = nil
			}
			return true
		}, 100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r, n, began := NewReader(24000), 0, time.Now()
				for i, p := range opus.packets {
					if p = p.Clone(); tt.change(i, &p) {
						time.Sleep(time.Until(began.Add(time.Duration(p.Timestamp) * time.Second / media.ClockRate)))
						samples, _ := r.Read(&p) // "one broken" has an error
						n += len(samples)
					}
				}
				testkit.Equal(t, n, tt.frames*frame, "samples are %.1f frames, want %d", float64(n)/frame, tt.frames)
			})
		})
	}
}

// TestPausesDoNotClick ends a tone in its middle and begins it again, with silence between that is not sent (DTX): no
// step from one sample to the next is larger than in the tone.
func TestPausesDoNotClick(t *testing.T) {
	t.Parallel()
	var opus tape
	sink := ToOpus(&opus)
	for _, p := range tone(media.Format{Rate: 24000}, 100) {
		testkit.Must(t, sink.WriteAudio(&p))
	}
	step := func(samples []int16) (largest int) {
		for i := 1; i < len(samples); i++ {
			largest = max(largest, int(math.Abs(float64(samples[i])-float64(samples[i-1]))))
		}
		return largest
	}
	whole := step(readAll(t, NewReader(24000), opus.packets)[2400:])
	for _, frames := range []uint32{1, 3, 19, 200} {
		for name, pause := range map[string]bool{"said so": true, "only stopped": false} {
			packets := append([]media.Packet(nil), opus.packets...)
			if pause {
				packets[50].Payload = packets[50].Payload[:1]
			}
			for i := 51; i < len(packets); i++ {
				packets[i].Timestamp += frames * media.FrameStep
			}
			if n := step(readAll(t, NewReader(24000), packets)[2400:]); n > whole*3/2 {
				t.Errorf("%d frames of silence, %s: a step of %d, in the tone of %d", frames, name, n, whole)
			}
		}
	}
}

// TestFill fills a gap from outside: it is not filled twice, and what was heard last fades and does not sound again.
func TestFill(t *testing.T) {
	t.Parallel()
	for name, packets := range map[string][]media.Packet{
		"linear": tone(media.Format{Rate: 24000}, 40), "µ-law": tone(media.Format{Rate: 8000, Encoding: pcm.ULaw}, 40), "Opus": spoken(t, 40),
	} {
		r := NewReader(24000)
		n := len(readAll(t, r, packets[:10]))
		filled := slices.Clone(r.Fill(2400)) // 100 ms in place of 5 packets
		filled = append(filled, r.Fill(2400)...)
		n += len(filled) + len(readAll(t, r, packets[20:]))
		testkit.Equal(t, n, 40*480, "%s: samples", name)
		if level := pcm.Level(filled[60*24:]); level > -90 {
			t.Errorf("%s: after 60 ms the silence has %.1f dBFS", name, level)
		}
		r = NewReader(24000)
		readAll(t, r, packets[:10])
		r.Fill(2400)
		if gap := readAll(t, r, packets[17:18])[:960]; pcm.Level(gap) > -90 { // 40 ms more than was filled
			t.Errorf("%s: what goes on after the silence begins with %.1f dBFS", name, pcm.Level(gap))
		}
	}
}

// TestJumps has timestamps jump: what they become is bounded by time, whatever the packets say.
func TestJumps(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		jump  uint32 // from packet to packet, beside its length
		every time.Duration
		most  time.Duration // beside the packets' own sound
	}{
		"one second each":  {media.ClockRate, 2 * time.Millisecond, 600*time.Millisecond + mostAtOnce},
		"half a second":    {media.ClockRate / 2, 2 * time.Millisecond, 600*time.Millisecond + mostAtOnce},
		"at once":          {media.ClockRate / 10, 0, mostAtOnce},
		"silence as it is": {19 * media.FrameStep, 400 * time.Millisecond, 300 * 380 * time.Millisecond},
	} {
		for _, format := range []media.Format{{}, {Rate: 24000}} {
			synctest.Test(t, func(t *testing.T) {
				packets := tone(media.Format{Rate: 24000}, 300)
				if format == (media.Format{}) {
					packets = spoken(t, 300)
				}
				r, n := NewPatientReader(24000), 0
				for i := range packets {
					packets[i].Timestamp += uint32(i) * tt.jump
					n += len(readAll(t, r, packets[i:i+1]))
					time.Sleep(tt.every)
				}
				filled := time.Duration(n-300*480) * time.Second / 24000
				if filled > tt.most || filled < tt.most-max(mostAtOnce, tt.every) {
					t.Errorf("%s, %+v: %s were filled, at most %s may be", name, format, filled, tt.most)
				}
			})
		}
	}
}

// TestSourcesChange goes on with another stream, in another format, and refuses what it cannot read.
func TestSourcesChange(t *testing.T) {
	t.Parallel()
	r := NewReader(24000)
	first, second := tone(media.Format{Rate: 24000}, 5), tone(media.Format{Rate: 8000, Encoding: pcm.ULaw}, 5)
	for i := range second {
		second[i].Source = 2
	}
	testkit.Equal(t, len(readAll(t, r, first))+len(readAll(t, r, second)), 10*480, "samples")
	if _, err := r.Read(&media.Packet{Source: 3, Format: media.Format{Rate: 11025}}); err == nil {
		t.Error("11025 Hz can be read")
	}
	short := media.Packet{Source: 4, Format: media.Format{Rate: 24000}, Payload: make([]byte, 7)}
	if samples, err := r.Read(&short); err == nil || len(samples) != 480 {
		t.Errorf("a short packet: %d samples, %v", len(samples), err)
	}
	if err := ToOpus(new(tape)).WriteAudio(&short); err == nil {
		t.Error("a short packet was encoded")
	}
	if err := ToOpus(new(tape)).WriteAudio(&media.Packet{Format: media.Format{Rate: 11025}}); err == nil {
		t.Error("11025 Hz was encoded")
	}
}

// spoken are packets of Opus of a tone.
func spoken(t *testing.T, packets int) []media.Packet {
	var opus tape
	sink := ToOpus(&opus)
	for _, p := range tone(media.Format{Rate: 24000}, packets) {
		testkit.Must(t, sink.WriteAudio(&p))
	}
	for i := range opus.packets {
		opus.packets[i].Sequence += 65530 // they wrap
	}
	return opus.packets
}

// TestRepeated has packets come late: those that are repeated soon sound as if none had been lost, and for others
// nobody waits for long.
func TestRepeated(t *testing.T) {
	t.Parallel()
	packets := spoken(t, 40)
	whole := readAll(t, NewReader(24000), packets)
	for name, tt := range map[string]struct {
		order func(at int) []int // which packets come in place of one
		same  bool
	}{
		"in order":              {func(at int) []int { return []int{at} }, true},
		"overtaken":             {swap(10, 11), true},
		"repeated after 180 ms": {late(10, 19), true},
		"too late":              {late(10, 21), false},
		"two, the wrong way":    {late2(10, 11, 13), true},
		"two of three":          {func(at int) []int { return map[int][]int{10: {}, 11: {}, 14: {14, 11, 10}}[at] }, true},
		"twice":                 {func(at int) []int { return []int{at, at, max(0, at-1)} }, true},
		"the last but one":      {func(at int) []int { return map[int][]int{38: {}}[at] }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewPatientReader(24000)
			var got []int16
			for i := range packets {
				order := tt.order(i)
				if order == nil {
					order = []int{i}
				}
				for _, at := range order {
					samples, err := r.Read(&packets[at])
					testkit.Must(t, err)
					got = append(got, samples...)
					if n := uint32(len(got)) * 2; n != r.End()-packets[0].Timestamp {
						t.Fatalf("after packet %d: %d samples until %d", at, len(got), r.End())
					}
				}
				if behind := i + 1 - len(got)/480; behind > patience {
					t.Fatalf("after packet %d, %d are held", i, behind)
				}
			}
			got = append(got, r.Flush()...)
			if len(r.Flush()) > 0 || len(got) != len(whole) || slices.Equal(got, whole) != tt.same {
				t.Errorf("%d samples, want %d, as if nothing had been lost: %t", len(got), len(whole), !tt.same)
			}
		})
	}
}

func swap(a, b int) func(int) []int {
	return func(at int) []int { return map[int][]int{a: {b}, b: {a}}[at] }
}

// late has a packet come behind another one.
func late(lost, behind int) func(int) []int {
	return func(at int) []int { return map[int][]int{lost: {}, behind: {behind, lost}}[at] }
}

func late2(a, b, behind int) func(int) []int {
	return func(at int) []int { return map[int][]int{a: {}, b: {}, behind: {behind, b, a}}[at] }
}

// TestHeldSource has another source begin while packets of the first one wait: they are heard before it.
func TestHeldSource(t *testing.T) {
	t.Parallel()
	packets := spoken(t, 6)
	r := NewPatientReader(24000)
	n := len(readAll(t, r, append(packets[:2:2], packets[3:5]...)))
	next := packets[5].Clone()
	next.Source = 2
	if n += len(readAll(t, r, []media.Packet{next})); n != 6*480 {
		t.Errorf("%d samples", n)
	}
}

// TestCopied loses a packet of which the next one has a copy: nobody waits for it.
func TestCopied(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../opus/testdata/inband-fec.bin")
	testkit.Must(t, err)
	r, n, lost := NewPatientReader(24000), 0, 0
	for i := uint16(0); len(file) > 0; i++ {
		end := 2 + int(binary.BigEndian.Uint16(file))
		p := media.Packet{Source: 1, Sequence: i, Timestamp: uint32(i) * media.FrameStep, Payload: file[2:end]}
		if file = file[end:]; i%7 == 3 && len(file) > 2 && opus.HasCopy(file[2:]) {
			lost++
			continue
		}
		n += len(readAll(t, r, []media.Packet{p}))
		if n != int(i+1)*480 {
			t.Fatalf("%d samples after packet %d", n, i)
		}
	}
	if lost < 15 {
		t.Errorf("only %d packets were lost", lost)
	}
}
