package e2e

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/opus"
	"voicebridge/thread"
)

// sentPerSecond is an expression that becomes how many packets of sound a page sends in a second, measured for that long.
func sentPerSecond(d time.Duration) string {
	return fmt.Sprintf(`(async () => {
		const sent = async () => [...(await voicebridge.pc.getStats()).values()].find((s) => s.type === 'outbound-rtp' && s.kind === 'audio');
		const before = await sent();
		await new Promise((done) => setTimeout(done, %d));
		const after = await sent();
		return (after.packetsSent - before.packetsSent) * 1000 / (after.timestamp - before.timestamp);
	})()`, d.Milliseconds())
}

// loudness returns how loud each part of a sound is, in parts of 20 ms.
func loudness(samples []int16) (parts []float64) {
	for part := range slices.Chunk(samples, soundRate/50) {
		parts = append(parts, math.Sqrt(power(part)/float64(len(part))))
	}
	return parts
}

// place returns where in a sound the course of the loudness of another one is found best, in parts of 20 ms, and how well.
func place(other, sound []float64) (at int, likeness float64) {
	norm := func(v []float64) (sum float64) {
		for _, x := range v {
			sum += x * x
		}
		return math.Sqrt(sum) + 1
	}
	for i := 0; i+len(other) <= len(sound); i++ {
		product := 0.0
		for j, x := range other {
			product += x * sound[i+j]
		}
		if like := product / norm(other) / norm(sound[i:i+len(other)]); like > likeness {
			at, likeness = i, like
		}
	}
	return at, likeness
}

// click returns the largest step from one sample to the next in what is quiet around it.
func click(samples []int16, levels []float64) (largest int) {
	for i := 1; i < len(samples); i++ {
		part := i / (soundRate / 50)
		if slices.Max(levels[max(0, part-1):min(len(levels), part+2)]) > 100 {
			continue
		}
		largest = max(largest, int(math.Abs(float64(samples[i])-float64(samples[i-1]))))
	}
	return largest
}

// TestPageSavesSilence calls from a page with and without silence that is not sent (DTX): packets that speech needs are sent, in
// silence next to none, and all else is the same: turns, words, and the recording with its length, the places of what is said in
// it, and no clicks.
func TestPageSavesSilence(t *testing.T) {
	t.Parallel()
	said := loudness(speechSamples(t))
	first, last := 0, len(said)-1 // without the silence around it
	for ; said[first] < 300; first++ {
	}
	for ; said[last] < 300; last-- {
	}
	said = said[first : last+1]
	for _, tt := range []struct {
		dtx             bool
		noise           float64 // of the microphone
		silent, talking [2]float64
	}{
		{dtx: true, silent: [2]float64{1, 15}, talking: [2]float64{35, 51}},
		{dtx: true, noise: 0.001, silent: [2]float64{1, 15}, talking: [2]float64{35, 51}}, // -65 dBFS
		{dtx: false, silent: [2]float64{45, 55}, talking: [2]float64{45, 55}},
	} {
		t.Run(fmt.Sprintf("dtx=%t noise=%v", tt.dtx, tt.noise), func(t *testing.T) {
			t.Parallel()
			s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_RECORDING__ENABLED=true", fmt.Sprintf("VOICEBRIDGE_DTX=%t", tt.dtx))
			p := openBrowser(t)
			p.visit(t, s.url)
			p.do(t, "choose to record", chromedp.Evaluate[chromedp.Void](`(localStorage.setItem('voicebridge-settings', '{"record":true}'), undefined)`))
			p.reload(t)
			p.click(t, "talk")
			p.untilLive(t)
			p.do(t, "make noise", chromedp.Evaluate[chromedp.Void](fmt.Sprintf("(microphone.hum(%v), undefined)", tt.noise)))
			before := eval[float64](t, p, sentPerSecond(3*time.Second)) // noise counts as sound until there was some that is louder
			p.speak(t)
			talking := eval[float64](t, p, sentPerSecond(3*time.Second))
			p.untilMessage(t, "user voice completed", heardWords)
			p.untilMessage(t, "assistant voice completed", greeting)
			p.untilSilent(t)
			after := eval[float64](t, p, sentPerSecond(3*time.Second))
			up := s.sim.Sessions()[0].AudioPackets()
			p.click(t, "hangup")
			p.untilOver(t)
			t.Logf("packets a second: %.1f in silence, %.1f in speech, %.1f in silence; upstream %d packets in all", before, talking, after, up)
			for _, m := range []struct {
				rate float64
				want [2]float64
			}{{before, tt.silent}, {talking, tt.talking}, {after, tt.silent}} {
				if m.rate == before && tt.noise > 0 {
					continue
				}
				if m.rate < m.want[0] || m.rate > m.want[1] {
					t.Errorf("%.1f packets a second, want %v", m.rate, m.want)
				}
			}
			messages := s.messages(t, p.thread(t))
			if len(messages) != 2 || messages[0].Text() != heardWords {
				t.Fatalf("%d messages, the first is %q", len(messages), messages[0].Text())
			}

			call := s.rows(t, "SELECT id FROM calls")[0]
			lengths := map[string]int{}
			for _, side := range []string{"user", "assistant"} {
				decoder, err := opus.NewDecoder(soundRate)
				testkit.Must(t, err)
				var samples []int16
				for _, packet := range oggPackets(t, s.trackFile(t, call, side)) {
					pcm, err := decoder.Decode(packet)
					testkit.Must(t, err)
					samples = append(samples, pcm...)
				}
				lengths[side] = len(samples)
				if side == "user" {
					wantPlaces(t, samples, said, messages[0].Metadata.Audio)
				}
			}
			if d := lengths["user"] - lengths["assistant"]; d < -soundRate/20 || d > soundRate/20 {
				t.Errorf("the sides have %d and %d samples", lengths["user"], lengths["assistant"])
			}
		})
	}
}

// wantPlaces checks where the two halves of what was said are in a recording, and what is around them.
func wantPlaces(t *testing.T, samples []int16, said []float64, span *thread.AudioSpan) {
	t.Helper()
	levels, half := loudness(samples), len(said)/2
	begin, likeness := place(said[:half], levels)
	end, other := place(said[half:], levels)
	t.Logf("recorded %.2f s; what was said is at %d ms (%.3f alike) and %d ms later (%.3f), its message at %+v; the largest step in silence is %d",
		float64(len(samples))/soundRate, begin*20, likeness, (end-begin)*20, other, *span, click(samples, levels))
	if likeness < 0.9 || other < 0.9 || end-begin < half-2 || end-begin > half+2 {
		t.Errorf("the halves of what was said are at %d ms and %d ms (alike %.3f, %.3f), want them %d ms apart", begin*20, end*20, likeness, other, half*20)
	}
	if at := int64(begin * 20); at < span.StartMS-100 || at > span.StartMS+1000 {
		t.Errorf("what was said begins at %d ms, its message at %d ms", at, span.StartMS)
	}
}
