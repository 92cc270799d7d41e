package opus

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/pion/opus/pkg/oggreader"
	"github.com/thesyncim/gopus"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/pcm"
)

var must = testkit.Must

// packetsOf reads the packets of an Ogg file.
func packetsOf(t testing.TB, name string) (packets [][]byte) {
	t.Helper()
	f, err := os.Open(name)
	must(t, err)
	defer f.Close()
	r, _, err := oggreader.NewWith(f)
	must(t, err)
	for {
		packet, _, err := r.ParseNextPacket()
		if err != nil {
			return packets
		}
		if len(packet) < 8 || string(packet[:8]) != "OpusTags" {
			packets = append(packets, packet)
		}
	}
}

// speech returns some of the simulator's clips as samples.
func speech(t testing.TB, rate int) map[string][]int16 {
	t.Helper()
	clips := make(map[string][]int16)
	for _, name := range []string{"greet-1", "long-1", "tool-wait"} {
		clips[name] = decode(t, rate, packetsOf(t, "../simulator/clips/"+name+".ogg"))
	}
	return clips
}

func decode(t testing.TB, rate int, packets [][]byte) (pcm []int16) {
	t.Helper()
	d, err := NewDecoder(rate)
	must(t, err)
	for i, packet := range packets {
		samples, err := d.Decode(packet)
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		pcm = append(pcm, samples...)
	}
	return pcm
}

// snr returns in dB by how much want is louder than what got differs from it: of all, and the mean of its frames that
// are louder than -50 dBFS, each counted from -10 to 35 (segmental). got is late by what the encoder looks ahead: 2.5
// ms, to which decoders that resample add less than a sample of 8 kHz.
func snr(want, got []int16, rate int) (db, segmental float64) {
	db = math.Inf(-1)
	for delay := rate * 24 / 10_000; delay <= rate*26/10_000; delay++ {
		n := min(len(want), len(got)-delay)
		if all := ratio(want[:n], got[delay:]); all > db {
			db, segmental = all, 0
			frames := 0.0
			for i := 0; i+rate/50 <= n; i += rate / 50 {
				if frame := want[i:][:rate/50]; pcm.Level(frame) > -50 {
					segmental += min(35, max(-10, ratio(frame, got[delay+i:])))
					frames++
				}
			}
			segmental /= frames
		}
	}
	return db, segmental
}

func ratio(want, got []int16) float64 {
	var signal, noise float64
	for i := range want {
		w, g := float64(want[i]), float64(got[i])
		signal += w * w
		noise += (w - g) * (w - g)
	}
	return 10 * math.Log10(signal/cmp.Or(noise, 1))
}

// encode returns the packets of samples.
func encode(t testing.TB, e *Encoder, rate int, pcm []int16) (packets [][]byte) {
	t.Helper()
	for frame := range slices.Chunk(pcm[:len(pcm)/(rate/50)*(rate/50)], rate/50) {
		packet, err := e.Encode(frame)
		must(t, err)
		packets = append(packets, bytes.Clone(packet))
	}
	return packets
}

// TestQuality compares speech that went through the encoder and the decoder with what it was.
func TestQuality(t *testing.T) {
	t.Parallel()
	for rate, want := range map[int]float64{8000: 29, 16000: 23, 24000: 20, 48000: 20} {
		for name, clip := range speech(t, rate) {
			e, err := NewEncoder(rate)
			must(t, err)
			if q := qualityOf(t, e, rate, clip); q.snr < want || q.rate > 1.25*bitRate {
				t.Errorf("%s at %d Hz: %.1f dB, want %.0f, with %.0f b/s", name, rate, q.snr, want, q.rate)
			}
		}
	}
}

// quality is how speech comes back, in dB, and for how many bits a second.
type quality struct{ snr, segmental, rate float64 }

func qualityOf(t testing.TB, e *Encoder, rate int, clip []int16) (q quality) {
	t.Helper()
	packets := encode(t, e, rate, clip)
	for _, packet := range packets {
		q.rate += float64(len(packet)) * 8 * 1000 / frameMS / float64(len(packets))
	}
	q.snr, q.segmental = snr(clip, decode(t, rate, packets), rate)
	return q
}

func TestRates(t *testing.T) {
	t.Parallel()
	for _, rate := range []int{0, -1, 44100, 96000} {
		if _, err := NewDecoder(rate); err == nil {
			t.Errorf("a decoder for %d Hz is no error", rate)
		}
		if _, err := NewEncoder(rate); err == nil {
			t.Errorf("an encoder for %d Hz is no error", rate)
		}
	}
	e, err := NewEncoder(24000)
	must(t, err)
	for _, n := range []int{0, 1, 240, 479, 481, 960} {
		if _, err := e.Encode(make([]int16, n)); err == nil {
			t.Errorf("%d samples are no error", n)
		}
	}
	if packets := encode(t, e, 24000, make([]int16, 480)); len(packets) != 1 {
		t.Error("the encoder is not usable after errors")
	}
}

// TestStereo shows that both channels are heard.
func TestStereo(t *testing.T) {
	t.Parallel()
	const rate = 48000
	for _, tt := range []struct {
		name        string
		left, right float64
		want        float64 // dBFS
	}{{"both", 0.5, 0.5, -9}, {"left", 0.5, 0, -15}, {"right", 0, 0.5, -15}} {
		for _, mode := range []gopus.EncoderMode{gopus.EncoderModeSILK, gopus.EncoderModeHybrid, gopus.EncoderModeCELT} {
			e, err := gopus.NewEncoder(gopus.EncoderConfig{SampleRate: rate, Channels: 2, Application: gopus.ApplicationAudio})
			must(t, err)
			must(t, errors.Join(e.SetMode(mode), e.SetBitrate(96_000), e.SetForceChannels(2)))
			var packets [][]byte
			for f := range 50 {
				frame := make([]int16, 2*rate/50)
				for i := range rate / 50 {
					sine := 32768 * math.Sin(2*math.Pi*440*float64(f*rate/50+i)/rate)
					frame[2*i], frame[2*i+1] = int16(tt.left*sine), int16(tt.right*sine)
				}
				packet := make([]byte, 1500)
				n, err := e.EncodeInt16(frame, packet)
				must(t, err)
				packets = append(packets, packet[:n])
			}
			if got := decode(t, 24000, packets); len(got) != 24000 || math.Abs(pcm.Level(got[4800:])-tt.want) > 1.5 {
				t.Errorf("%s, mode %v: %d samples at %.1f dBFS, want 24000 at %.0f", tt.name, mode, len(got), pcm.Level(got[4800:]), tt.want)
			}
		}
	}
}

// TestConceal loses packets: what takes their place is nearer to what was said than silence, joins on without a click,
// and ends.
func TestConceal(t *testing.T) {
	t.Parallel()
	const rate, size = 24000, 480
	var packets [][]byte
	clips := speech(t, rate)
	for _, name := range slices.Sorted(maps.Keys(clips)) { // always the same ones are lost
		e, err := NewEncoder(rate)
		must(t, err)
		packets = append(packets, encode(t, e, rate, clips[name])...)
	}
	whole := decode(t, rate, packets)
	d, err := NewDecoder(rate)
	must(t, err)
	var lost, made, silent float64
	for i, packet := range packets {
		want := whole[i*size:][:size]
		if i%8 != 7 {
			_, err := d.Decode(packet)
			must(t, err)
			continue
		}
		for j, s := range d.Conceal(size) {
			w := float64(want[j])
			silent += w * w
			made += (w - float64(s)) * (w - float64(s))
		}
		lost++
	}
	better := 10 * math.Log10(silent/made)
	t.Logf("%.0f of %d packets lost: %.1f dB better than silence", lost, len(packets), better)
	if better < 0.5 {
		t.Errorf("concealed packets are only %.1f dB better than silence", better)
	}
}

func TestConcealEnds(t *testing.T) {
	t.Parallel()
	const rate, size = 24000, 480
	tone := make([]int16, rate)
	for i := range tone {
		tone[i] = int16(math.Round(8000 * math.Sin(2*math.Pi*200*float64(i)/rate)))
	}
	e, err := NewEncoder(rate)
	must(t, err)
	d, err := NewDecoder(rate)
	must(t, err)
	if slices.ContainsFunc(d.Conceal(size), func(s int16) bool { return s != 0 }) {
		t.Error("something is made of nothing")
	}
	var got []int16
	for i, packet := range encode(t, e, rate, tone) {
		if i >= 20 && i < 26 { // a gap of 120 ms
			got = append(got, d.Conceal(size)...)
			continue
		}
		samples, err := d.Decode(packet)
		must(t, err)
		got = append(got, samples...)
	}
	level := func(frame int) float64 { return pcm.Level(got[frame*size:][:size]) }
	if level(20) < level(19)-3 {
		t.Errorf("the first lost frame has %.1f dBFS after %.1f", level(20), level(19))
	}
	for frame := 23; frame < 26; frame++ {
		testkit.Equal(t, level(frame), pcm.Silence, "frame %d of the gap has dBFS", frame-20)
	}
	// The steepest slope of the tone is 420 from sample to sample.
	for i := 10 * size; i < len(got); i++ {
		if step := int(got[i]) - int(got[i-1]); max(step, -step) > 900 {
			t.Errorf("a click of %d at %.1f ms of frame %d", step, float64(i%size)/24, i/size)
		}
	}
}

// hostile are packets as nobody should send them.
func hostile() map[string][]byte {
	random := rand.New(rand.NewPCG(3, 4))
	noise := make([]byte, 1500)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	return map[string][]byte{
		"nothing": nil, "empty": {}, "noise": noise, "no frames": {0xfb, 0},
		"two frames, one byte":  {0xf9, 1},
		"63 frames":             {0xfb, 63, 1, 2, 3},
		"padding for ever":      append([]byte{0xfb, 0x41}, bytes.Repeat([]byte{255}, 300)...),
		"a length past its end": {0xfa, 250, 1, 2},
		"half a length":         {0xfa, 253},
	}
}

func TestHostile(t *testing.T) {
	t.Parallel()
	good := packetsOf(t, "../simulator/clips/greet-1.ogg")
	d, err := NewDecoder(24000)
	must(t, err)
	for name, packet := range hostile() {
		if samples, err := d.Decode(packet); err == nil && name != "noise" {
			t.Errorf("%s: %d samples and no error", name, len(samples))
		}
	}
	random := rand.New(rand.NewPCG(5, 6))
	for i := range 3000 {
		packet := bytes.Clone(good[i%len(good)])
		switch i % 3 {
		case 0:
			packet = packet[:random.IntN(len(packet))]
		case 1:
			packet[random.IntN(len(packet))] ^= byte(1 + random.IntN(255))
		default:
			packet[0] = byte(random.Uint32())
		}
		if samples, err := d.Decode(packet); err == nil && len(samples) > 24*longest {
			t.Fatalf("%x: %d samples", packet, len(samples))
		}
	}
	if samples, err := d.Decode(good[5]); err != nil || len(samples) != 480 {
		t.Errorf("afterwards: %d samples, %v", len(samples), err)
	}
}

// FuzzDecoder sends a stream of packets, each with its length in front.
func FuzzDecoder(f *testing.F) {
	for _, packet := range hostile() {
		f.Add(1, stream(packet, packet))
	}
	f.Add(2, stream(packetsOf(f, "../simulator/clips/greet-1.ogg")[:20]...))
	f.Fuzz(func(t *testing.T, rate int, data []byte) {
		rate = []int{8000, 16000, 24000, 48000}[uint(rate)%4]
		d, err := NewDecoder(rate)
		must(t, err)
		for len(data) >= 2 {
			n := min(int(binary.LittleEndian.Uint16(data)), len(data)-2)
			packet := data[2:][:n]
			data = data[2+n:]
			if HasCopy(packet) {
				if n := len(d.Recover(packet, rate/50)); n != rate/50 {
					t.Fatalf("%d samples are recovered", n)
				}
			}
			samples, err := d.Decode(packet)
			if err != nil {
				samples = d.Conceal(rate / 50)
			}
			if len(samples) > rate*longest/1000 {
				t.Fatalf("%d samples at %d Hz", len(samples), rate)
			}
		}
	})
}

func stream(packets ...[]byte) (data []byte) {
	for _, packet := range packets {
		data = binary.LittleEndian.AppendUint16(data, uint16(len(packet)))
		data = append(data, packet...)
	}
	return data
}

// BenchmarkEncode shows what each complexity costs, for a packet of 20 ms, and what it is good for.
func BenchmarkEncode(b *testing.B) {
	const rate = 24000
	clips := speech(b, rate)
	for complexity := range 11 {
		b.Run(fmt.Sprintf("complexity %d", complexity), func(b *testing.B) {
			encoder := func() *Encoder {
				e, err := NewEncoder(rate)
				must(b, err)
				must(b, e.opus.SetComplexity(complexity))
				return e
			}
			var mean quality
			n := float64(len(clips))
			for _, clip := range clips {
				q := qualityOf(b, encoder(), rate, clip)
				mean.snr, mean.segmental, mean.rate = mean.snr+q.snr/n, mean.segmental+q.segmental/n, mean.rate+q.rate/n
			}
			e, clip := encoder(), clips["long-1"]
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				at := i * rate / 50 % (len(clip) - rate/50)
				_, err := e.Encode(clip[at : at+rate/50])
				must(b, err)
			}
			b.ReportMetric(mean.snr, "dB")
			b.ReportMetric(mean.segmental, "dB-segmental")
			b.ReportMetric(mean.rate/1000, "kb/s")
		})
	}
}
