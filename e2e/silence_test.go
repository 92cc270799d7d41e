package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
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

// TestPageSavesSilence calls from a page with and without silence that is not sent (DTX): packets that speech needs are sent, in
// silence next to none, and turns and words are the same. What recordings make of it is tested in recording.
func TestPageSavesSilence(t *testing.T) {
	t.Parallel()
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
			s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), fmt.Sprintf("VOICEBRIDGE_DTX=%t", tt.dtx))
			p := openBrowser(t)
			p.visit(t, s.url)
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
		})
	}
}
