package e2e

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"
)

// voice is a recording of real speech, half a second of silence before and three after it.
const voice = "../realtime/simulator/testdata/user.wav"

// speechless is a script that gives a page a microphone without a sound, until microphone.say plays a recording into it.
// Cameras remain the browser's.
const speechless = `(() => {
  const open = globalThis.MediaDevices?.prototype.getUserMedia; // insecure pages have none
  if (!open) return;
  let context, voice;
  MediaDevices.prototype.getUserMedia = async function (wanted) {
    if (!wanted?.audio) return open.call(this, wanted);
    context ??= new AudioContext();
    if (!voice) {
      voice = new GainNode(context);
      const silence = new ConstantSourceNode(context, { offset: 0 }); // a graph without a source makes no packets
      silence.connect(voice);
      silence.start();
    }
    const heard = new MediaStreamAudioDestinationNode(context, { channelCount: 1 });
    voice.connect(heard);
    return heard.stream;
  };
  window.microphone = {
    hum(level) { // noise from now on
      const buffer = new AudioBuffer({ length: 2 * context.sampleRate, sampleRate: context.sampleRate });
      buffer.getChannelData(0).forEach((_, i, samples) => { samples[i] = level * (2 * Math.random() - 1); });
      const noise = new AudioBufferSourceNode(context, { buffer, loop: true });
      noise.connect(voice);
      noise.start();
    },
    async say(wav) {
      const buffer = await context.decodeAudioData(Uint8Array.from(atob(wav), (c) => c.charCodeAt(0)).buffer);
      const words = new AudioBufferSourceNode(context, { buffer });
      words.connect(voice);
      words.start();
    },
  };
})()`

// speak begins to say the recorded words into a microphone that is open.
func (p *tab) speak(t *testing.T) {
	t.Helper()
	wav, err := os.ReadFile(voice)
	must(t, err)
	p.utter(t, wav)
}

// utter begins to say what is in a WAV file.
func (p *tab) utter(t *testing.T, wav []byte) {
	t.Helper()
	run(t, p, "speak", chromedp.Evaluate[any]("microphone.say('"+base64.StdEncoding.EncodeToString(wav)+"')", chromedp.EvalAwaitPromise))
}

// talk speaks once a call is up, and waits until the words are saved.
func (p *tab) talk(t *testing.T, words string) {
	t.Helper()
	p.untilLive(t)
	p.speak(t)
	p.untilMessage(t, "user voice completed", words)
}

// fakeDevice is a microphone of the browser's own that says the words when the call can be expected to be up, and again every
// minute, for a machine on which it was not. Whoever wants them once mutes it after the first time.
func fakeDevice(t *testing.T) []chromedp.ExecAllocatorOption {
	t.Helper()
	wav, err := os.ReadFile(voice)
	must(t, err)
	at := bytes.Index(wav, []byte("data"))
	if at < 0 || string(wav[8:12]) != "WAVE" {
		t.Fatalf("%s is not a WAV file", voice)
	}
	silence := make([]byte, 8*int(binary.LittleEndian.Uint32(wav[28:])))
	out := slices.Concat(wav[:at+8], silence, wav[at+8:], bytes.Repeat(silence, 6))
	binary.LittleEndian.PutUint32(out[4:], uint32(len(out)-8))
	binary.LittleEndian.PutUint32(out[at+4:], uint32(len(out)-at-8))
	path := filepath.Join(t.TempDir(), "microphone.wav")
	must(t, os.WriteFile(path, out, 0o600))
	return []chromedp.ExecAllocatorOption{
		chromedp.Flag("use-fake-ui-for-media-stream", true), // it agrees
		chromedp.Flag("use-file-for-fake-audio-capture", path),
	}
}
