//go:build nightly

package e2e

import (
	"bytes"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/simulator"
)

// heardTrack notes when the track that the tab receives is first loud after a sound was announced, and that for each answer.
const heardTrack = `(() => {
	const { track } = voicebridge.pc.getReceivers().find(({ track }) => track.kind === 'audio');
	const context = new AudioContext();
	const analyser = context.createAnalyser();
	analyser.fftSize = 512;
	context.createMediaStreamSource(new MediaStream([track])).connect(analyser);
	const samples = new Float32Array(512);
	probe.loud = [];
	setInterval(() => {
		analyser.getFloatTimeDomainData(samples);
		if (samples.some((sample) => Math.abs(sample) > 600 / 32768)) probe.loud.push(performance.now());
	}, 10);
})(), undefined`

// voiced returns when the first and the last sound of a recording are, in seconds.
func voiced(samples []int16) (from, until float64) {
	const audible = 600
	from = -1
	for at, sample := range samples {
		if sample < -audible || sample > audible {
			until = float64(at) / soundRate
			if from < 0 {
				from = until
			}
		}
	}
	return from, until
}

// TestPageWordsInTime prints how far the words that are lit are from the track that the tab receives, where the simulator's
// sentences end.
func TestPageWordsInTime(t *testing.T) {
	t.Parallel()
	cfg := speaking(tellsLong)
	story := cfg.Script.Spoken[0].Say
	sound := simulator.Speech(story)
	s := serveWith(t, persistencetest.SQLiteURL(t), cfg)
	p := openBrowser(t)
	p.visit(t, s.url)
	p.click(t, "talk")
	p.untilLive(t)
	p.do(t, "listen to the track", chromedp.Evaluate[chromedp.Void](heardTrack))
	lit, began, _ := listenTo(t, p, cfg.Script.Spoken[0].Transcript)
	onset := -1.0
	for _, at := range eval[[]float64](t, p, "probe.loud") {
		if at >= began-100 {
			onset = at
			break
		}
	}
	first, _ := voiced(saidSamples(t, story))
	var compared, near int
	for end := range story {
		if story[end] != '.' || end == len(story)-1 {
			continue
		}
		part := simulator.Speech(story[:end+1])
		if len(part) >= len(sound) || !bytes.Equal(part[len(part)-1], sound[len(part)-1]) {
			continue // it ends within a recorded clip
		}
		_, until := voiced(saidSamples(t, story[:end+1]))
		heard := until - first
		for _, l := range lit {
			if l.Letters <= end {
				continue
			}
			compared++
			off := (l.At-onset)/1000 - heard
			if -0.5 <= off && off <= 0.5 {
				near++
			}
			t.Logf("%q was heard after %.2f s and lit %+.2f s from that", story[max(0, end-20):end+1], heard, off)
			break
		}
	}
	t.Logf("%d of %d ends of sentences were lit within 0.5 s", near, compared)
	if compared < 3 {
		t.Errorf("only %d parts of the story could be compared", compared)
	}
}
