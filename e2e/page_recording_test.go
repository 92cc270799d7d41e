package e2e

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// soundRate is at how many samples a second sounds are compared.
const soundRate = 8000

// tapSound keeps what the page plays, and which message it marks at what time of a call.
const tapSound = `(() => {
	const marked = probe.marked = [];
	const words = probe.words = new Set(); // beside the player
	window.Audio = ((Real) => function (...address) {
		const audio = new Real(...address);
		const context = new AudioContext({ sampleRate: 8000 });
		const tap = context.createScriptProcessor(1024, 1, 1);
		const sound = probe.sound = { audio, context, played: [], ended: false };
		tap.onaudioprocess = ({ inputBuffer }) => { if (audio.currentTime > 0) sound.played.push(inputBuffer.getChannelData(0).slice()); };
		context.createMediaElementSource(audio).connect(tap).connect(context.destination);
		audio.addEventListener('ended', () => setTimeout(() => { sound.ended = true; }, 500));
		return audio;
	})(window.Audio);
	new MutationObserver((changes) => changes.forEach(({ target }) => {
		if (target instanceof Element && target.matches('article.heard') && marked.at(-1)?.id !== target.dataset.id) marked.push({ id: target.dataset.id, ms: probe.sound.audio.currentTime * 1000 });
		words.add(probe.all('heard-words')[0]?.textContent);
	})).observe(document, { subtree: true, attributeFilter: ['class'], characterData: true, childList: true });
})()`

// speechSamples are those of the person in the microphone's file.
func speechSamples(t *testing.T) []int16 {
	t.Helper()
	wav, err := os.ReadFile(voice)
	must(t, err)
	at := strings.Index(string(wav), "data")
	step := int(binary.LittleEndian.Uint32(wav[24:])) / soundRate
	var samples []int16
	for data := wav[at+8:]; len(data) >= 2*step; data = data[2*step:] {
		sum := 0
		for i := range step {
			sum += int(int16(binary.LittleEndian.Uint16(data[2*i:])))
		}
		samples = append(samples, int16(sum/step))
	}
	return samples
}

// saidSamples are those that the simulator sends when it says a text.
func saidSamples(t *testing.T, text string) (samples []int16) {
	t.Helper()
	decoder, err := opus.NewDecoder(soundRate)
	must(t, err)
	for _, packet := range simulator.Speech(text) {
		pcm, err := decoder.Decode(packet)
		must(t, err)
		samples = append(samples, pcm...)
	}
	return samples
}

// power is the sum of the squares of samples.
//
//go:norace
func power(samples []int16) (sum float64) {
	for _, s := range samples {
		sum += float64(s) * float64(s)
	}
	return sum
}

// soundLikeness compares a sound with another one: for each fifth of a second of it that is not silent, the best correlation with any
// part of the other; of these the median, and how many they are.
//
//go:norace
func soundLikeness(sound, other []int16) (median float64, parts int) {
	const length = soundRate / 5
	var best []float64
	for ; len(sound) >= length; sound = sound[length:] {
		part := sound[:length]
		own := power(part)
		if own < length*300*300 {
			continue
		}
		most := 0.0
		energy := power(other[:min(length, len(other))])
		for lag := 0; lag+length <= len(other); lag++ {
			if lag > 0 {
				out, in := float64(other[lag-1]), float64(other[lag+length-1])
				energy += in*in - out*out
			}
			if energy < own/1e4 {
				continue
			}
			product := 0
			for i, s := range part {
				product += int(s) * int(other[lag+i])
			}
			most = max(most, float64(product)/math.Sqrt(own*energy))
		}
		best = append(best, most)
	}
	if len(best) == 0 {
		return 0, 0
	}
	slices.Sort(best)
	return best[len(best)/2], len(best)
}

// chooseRecording has a page record the calls that it will make.
func (p *tab) chooseRecording(t *testing.T) {
	t.Helper()
	p.do(t, "choose to record", chromedp.Evaluate[chromedp.Void](`(localStorage.setItem('voicebridge-settings', '{"record":true}'), undefined)`))
	p.reload(t)
}

// TestPageRecords has a call recorded because the user has chosen that, pauses the recording, and plays afterwards the call and
// messages of it: what is heard of each is what was said, and the words are marked as they are heard.
func TestPageRecords(t *testing.T) {
	t.Parallel()
	s := serveWith(t, persistencetest.SQLiteURL(t), speaking(greets), "VOICEBRIDGE_RECORDING__ENABLED=true")
	p := openBrowser(t)
	p.visit(t, s.url)
	p.chooseRecording(t)
	p.do(t, "keep what is played", chromedp.Evaluate[chromedp.Void](tapSound))
	p.click(t, "talk")
	p.untilLive(t)
	p.until(t, "the sign of a recording", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	p.talk(t, heardWords)
	p.untilMessage(t, "assistant voice completed", greeting)
	p.wantAccessible(t, "a recorded call")
	p.click(t, "pause-recording")
	p.until(t, "a pause", "probe.all('recording-sign')[0]?.dataset.state === 'paused'")
	p.click(t, "pause-recording")
	p.until(t, "the recording going on", "probe.all('recording-sign')[0]?.dataset.state === 'on'")
	p.click(t, "call-settings")
	p.until(t, "what the user has chosen", "probe.all('choose-record')[0]?.checked === true")
	p.press(t, "Escape", 27)
	p.say(t, "Show me the sales as a chart.")
	p.untilMessage(t, "assistant voice completed", drawn)
	p.untilSilent(t)
	p.until(t, "messages with their places in the recording", "probe.all('hear').length > 2")
	p.click(t, "hangup")
	p.untilOver(t)
	p.click(t, "show-recording")
	p.until(t, "the outline of both sides", "probe.all('waveform')[0]?.querySelectorAll('path').length === 2 && probe.all('waveform')[0].querySelector('rect.assistant') !== null")
	p.wantAccessible(t, "a recording")
	p.look(t, "recording")
	p.do(t, "play", chromedp.Evaluate[chromedp.Void]("(probe.all('play-recording')[0].click(), undefined)"))
	p.until(t, "the call being played", "probe.all('play-recording')[0]?.ariaLabel === 'Pause' && probe.all('waveform')[0].querySelector('line').getAttribute('x1') > 0")
	var sounds []thread.Message // in their order in the recording
	for _, m := range s.messages(t, p.thread(t)) {
		if m.Metadata.Audio != nil {
			sounds = append(sounds, m)
		}
	}
	p.until(t, "the call played to its end", "probe.sound.ended")
	marked := eval[[]struct {
		ID string
		MS float64
	}](t, p, "probe.marked")
	words := eval[[]string](t, p, "[...probe.words].filter(Boolean)")
	for i, m := range sounds {
		if i >= len(words) || words[i] != m.Text() {
			t.Errorf("beside the player were the words %q, number %d is %q", words, i, m.Text())
		}
		if span := m.Metadata.Audio; i >= len(marked) || marked[i].ID != m.ID || marked[i].MS < float64(span.StartMS) || marked[i].MS > float64(span.EndMS)+1000 {
			t.Errorf("while the call is played, messages are marked as heard at %+v; number %d is %q, %+v", marked, i, m.Text(), *span)
		}
	}
	person, model := speechSamples(t), saidSamples(t, sounds[1].Text())
	for i, side := range []struct {
		said, other []int16
		least       float64
	}{{person, model, 0.55 /* browsers take noise and echo away */}, {model, person, 0.9}} {
		hear := fmt.Sprintf("document.querySelector('[data-testid=message][data-id=\"%s\"] [data-testid=hear]')", sounds[i].ID)
		p.do(t, "play a message", chromedp.Evaluate[chromedp.Void]("("+hear+".click(), undefined)"))
		p.until(t, "the message being played", hear+".ariaPressed === 'true' && probe.all('play-recording')[0].ariaLabel === 'Play'")
		p.until(t, "the end of it", "probe.sound.ended && "+hear+".ariaPressed === 'false'")
		heard := eval[[]int16](t, p, "probe.sound.played.flatMap((part) => [...part].map((value) => Math.round(Math.max(-1, Math.min(1, value)) * 32767)))")
		own, parts := soundLikeness(heard, side.said)
		other, _ := soundLikeness(heard, side.other)
		t.Logf("%q: %d parts; likeness to what was said %.2f, to the other side %.2f", sounds[i].Text(), parts, own, other)
		if parts < 5 || own < side.least || own < other+0.2 {
			t.Errorf("what is heard of %q is not what was said: in %d parts it is like it by %.2f, and like the other side by %.2f", sounds[i].Text(), parts, own, other)
		}
	}
	p.until(t, "a way to download it", "probe.all('download-recording')[0]?.href.includes('/recording?track=both')")

	// Who has a link hears the messages one after the other.
	link := eval[string](t, p, "fetch(`/api/threads/${location.hash.split('/')[2]}/share`, { method: 'POST' }).then((r) => r.json()).then(({ url }) => url)")
	reader := p.elsewhere(t)
	reader.visit(t, s.url+link)
	reader.until(t, "the button of each message with a sound", fmt.Sprintf("document.querySelectorAll('article button').length === %d", len(sounds)))
	reader.wantAccessible(t, "a shared recording")
	reader.look(t, "shared-recording")
	reader.do(t, "play", chromedp.Click(chromedp.CSS("article button")))
	for i := range 2 {
		reader.until(t, "a message being played", fmt.Sprintf("document.querySelectorAll('[data-sound]')[%d].matches('.playing')", i))
	}
	reader.do(t, "pause", chromedp.Click(chromedp.CSS(".playing button")))
	reader.until(t, "silence", "document.querySelector('.playing') === null")
}
