package cascade

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm/llmtest/speechtest"
	"voicebridge/llm/speech"
	"voicebridge/realtime"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/served"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func at(t *testing.T, s *speechtest.Server, mode string) speech.Server {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return speech.Server{URL: s.URL, Model: mode, HTTPClient: &http.Client{Transport: transport}}
}

func mouth(t *testing.T, s *speechtest.Server, mode string) *Mouth {
	t.Helper()
	tts, err := speech.NewSpeaker(speech.SpeakerConfig{Server: at(t, s, mode), Voice: "anna"})
	testkit.Must(t, err)
	return NewMouth(tts)
}

// saying returns a message that comes in pieces of three bytes.
func saying(text string) served.Saying {
	pieces := make(chan string, len(text))
	for ; text != ""; text = text[min(3, len(text)):] {
		pieces <- text[:min(3, len(text))]
	}
	close(pieces)
	return served.Saying{Text: pieces, Voice: "bert", Speed: 1.5}
}

// speech is what a Mouth made of a message.
type spoken struct {
	frames  []served.Frame // with sound
	sent    int
	end     int // how many bytes were spoken at last
	skipped []string
	err     error
}

func say(t *testing.T, m *Mouth, text string) (out spoken) {
	t.Helper()
	for f, err := range m.Speak(t.Context(), saying(text)) {
		if err != nil {
			out.err = err
			break
		}
		if f.Spoken < out.end || f.Spoken > len(text) {
			t.Errorf("spoken up to %d of %d after %d", f.Spoken, len(text), out.end)
		}
		if f.Skipped != nil {
			out.skipped = append(out.skipped, text[out.end:f.Spoken]+": "+f.Skipped.Error())
		}
		if f.Opus != nil {
			out.frames = append(out.frames, f)
		}
		out.sent, out.end = out.sent+f.Sent, f.Spoken
	}
	return out
}

const text = "Hello, dear **friend**, how are you? I read [the book](http://x.org/a/long/address) you know. [1] Bye!\n" +
	"```\ncode\n```\n"

// aloud are the clauses of the text, and where they end.
var aloud = []struct {
	text string
	end  int
}{{"Hello, dear friend,", 24}, {"how are you?", 37}, {"I read the book you know.", 98}, {"Bye!", len(text)}}

// TestMouth has a message spoken: the sound is that of all clauses, without a gap or a click, and its frames say where in
// the text it is.
func TestMouth(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"pcm", "wav+22050", "unknown+44100+odd", "sse-audio+unknown+16000", "stereo+48000", "byte", "pcm+429"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			fake := speechtest.New(t)
			got := say(t, mouth(t, fake, mode), text)
			testkit.Must(t, got.err)
			var inputs []string
			runes, length := 0, time.Duration(0)
			for _, r := range fake.Requests() {
				testkit.Equal(t, r.Fields["voice"], []string{"bert"}, "voice")
				testkit.Equal(t, r.Fields["speed"], []string{"1.5"}, "speed")
				inputs = append(inputs, r.Fields["input"][0])
			}
			for i, c := range aloud {
				n := utf8.RuneCountInString(c.text)
				runes, length = runes+n, length+time.Duration(n)*40*time.Millisecond
				if !strings.Contains(strings.Join(inputs, "|"), c.text) {
					t.Errorf("%q is not in %q", c.text, inputs)
				}
				last := int(length/(20*time.Millisecond)) - 1
				if last > len(got.frames)-1 {
					t.Fatalf("%d frames", len(got.frames))
				}
				if got := got.frames[last].Spoken; got < c.end {
					t.Errorf("clause %d is spoken up to %d", i, got)
				}
			}
			testkit.Equal(t, got.sent, runes, "characters sent")
			testkit.Equal(t, got.end, len(text), "bytes spoken")
			if n := len(got.frames) - int(length/(20*time.Millisecond)); n < 0 || n > 1 {
				t.Errorf("%d frames for %s", len(got.frames), length)
			}
			decoder, err := opus.NewDecoder(48000)
			testkit.Must(t, err)
			previous, loud := 0, 0
			for i, f := range got.frames {
				samples, err := decoder.Decode(f.Opus)
				testkit.Must(t, err)
				for _, s := range samples {
					if step := int(s) - previous; step > 600 || step < -600 { // the tone's are at most 314
						t.Fatalf("a click of %d in frame %d", step, i)
					}
					previous, loud = int(s), max(loud, int(s))
				}
			}
			if loud < 7000 || loud > 9000 {
				t.Errorf("as loud as %d", loud)
			}
		})
	}
	// In the middle of a clause's sound is the middle of its text.
	got := say(t, mouth(t, speechtest.New(t), "pcm"), strings.Repeat("abcdefgh ", 20))
	if middle := got.frames[len(got.frames)/2].Spoken; middle < 80 || middle > 100 {
		t.Errorf("half of the sound is %d bytes", middle)
	}
}

// slowly is a server that speaks at twice the speed of hearing, a clause of 200 characters in 16 seconds.
type slowly struct{}

func (slowly) RoundTrip(r *http.Request) (*http.Response, error) {
	in, out := io.Pipe()
	go func() {
		for piece := range slices.Chunk(speech.WAV(speechtest.Tone(24000, 16*time.Second), 24000), 480) {
			time.Sleep(5 * time.Millisecond)
			if _, err := out.Write(piece); err != nil {
				return
			}
		}
		_ = out.Close()
	}()
	return &http.Response{StatusCode: http.StatusOK, Body: in, Request: r}, nil
}

// TestSlowVoice hands over the sound as it comes, but not far ahead while its length is not known: where in the text it is
// can be said exactly then.
func TestSlowVoice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tts, err := speech.NewSpeaker(speech.SpeakerConfig{Server: speech.Server{
			URL: "http://x", HTTPClient: &http.Client{Transport: slowly{}},
		}})
		testkit.Must(t, err)
		began := time.Now()
		var frames []int
		for f, err := range NewMouth(tts).Speak(t.Context(), saying(strings.Repeat("abcdefghi ", 20))) {
			testkit.Must(t, err)
			if f.Opus == nil {
				continue
			}
			switch at := time.Since(began); {
			case len(frames) == 0 && at > 50*time.Millisecond:
				t.Errorf("the first frame after %s", at)
			case at < 8*time.Second && time.Duration(len(frames))*20*time.Millisecond > at+lead:
				t.Fatalf("%d frames after %s", len(frames)+1, at)
			}
			frames = append(frames, f.Spoken)
		}
		testkit.Equal(t, len(frames), 800, "frames")
		for i, spoken := range frames {
			if want := i * 200 / 800; spoken < want-30 || spoken > want+30 || i > 790 && spoken < 198 {
				t.Fatalf("frame %d is byte %d, not %d", i, spoken, want)
			}
		}
	})
}

// TestSkipped leaves out clauses that are refused or break off before they begin, and goes on.
func TestSkipped(t *testing.T) {
	t.Parallel()
	fake := speechtest.New(t)
	fake.Also = map[string]string{"dear": "400-openai", "book": "cut-first"}
	got := say(t, mouth(t, fake, "pcm"), text)
	testkit.Must(t, got.err)
	testkit.Equal(t, len(got.skipped), 2, "skipped of %q", got.skipped)
	for i, want := range []string{"Hello, dear **friend**, : speech_failed: ", text[37:98] + ": speech_failed: "} {
		if !strings.HasPrefix(got.skipped[i], want) {
			t.Errorf("skipped %q", got.skipped[i])
		}
	}
	testkit.Equal(t, len(got.frames), 32, "frames")
	testkit.Equal(t, got.end, len(text), "spoken or skipped")

	// What breaks off later is over.
	got = say(t, mouth(t, speechtest.New(t), "cut"), "One two three four five.")
	testkit.Must(t, got.err)
	testkit.Equal(t, len(got.frames), 24, "frames of a half")
	testkit.Equal(t, got.end, 24, "spoken")
}

// TestMouthFailures tells of servers that do not work after two clauses, and of refusals for each.
func TestMouthFailures(t *testing.T) {
	t.Parallel()
	for mode, tt := range map[string]struct {
		skipped int
		kind    string
		says    string
	}{
		"401-openai": {1, "server_error", "Incorrect API key"}, "mp3": {1, "server_error", "audio/mpeg"},
		"400-fastapi": {4, "", ""},
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			got := say(t, mouth(t, speechtest.New(t), mode), text)
			testkit.Equal(t, len(got.skipped), tt.skipped, "skipped of %q", got.skipped)
			testkit.Equal(t, len(got.frames), 0, "frames")
			if (got.err != nil) != (tt.kind != "") {
				t.Fatalf("the error is %v", got.err)
			}
			if tt.kind == "" {
				return
			}
			e, ok := errors.AsType[*realtime.Error](got.err)
			if !ok || e.Type != tt.kind || e.Code != "speech_failed" || !strings.Contains(e.Message, tt.says) {
				t.Errorf("the error is %v", got.err)
			}
		})
	}
}

// TestMouthCancel ends a message while two clauses are being fetched, no more: their connections are closed.
func TestMouthCancel(t *testing.T) {
	t.Parallel()
	fake := speechtest.New(t)
	fake.Also = map[string]string{"dear": "stall", "how": "hang"}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		sent := 0
		for f := range mouth(t, fake, "pcm").Speak(ctx, saying(strings.Repeat(text, 5))) {
			sent += f.Sent
		}
		ended <- sent
	}()
	testkit.Eventually(t, "two requests", func() bool { return fake.Open() == 2 })
	cancel()
	testkit.Equal(t, testkit.Take(t, "the end", ended), 19+12, "characters sent")
	testkit.Eventually(t, "connections closed", func() bool { return fake.Open() == 0 })
	testkit.Equal(t, len(fake.Requests()), 2, "requests")

	// Nobody listens any more, once the first half has come.
	for f := range mouth(t, fake, "pcm").Speak(t.Context(), served.Saying{Text: saying(text).Text, Voice: "x"}) {
		if f.Opus != nil {
			testkit.Equal(t, fake.Open() > 0, true, "the rest is awaited")
			break
		}
	}
	testkit.Eventually(t, "connections closed", func() bool { return fake.Open() == 0 })
}

func ear(t *testing.T, s *speechtest.Server, mode string) *Ear {
	t.Helper()
	stt, err := speech.NewTranscriber(at(t, s, mode))
	testkit.Must(t, err)
	return NewEar(stt, "en", "A talk.")
}

func TestEar(t *testing.T) {
	t.Parallel()
	fake := speechtest.New(t)
	e := ear(t, fake, "whisper")
	write := func(e *Ear, u served.Utterance) (words string, none float64, failed error) {
		for w, err := range e.Write(t.Context(), u) {
			words, none, failed = words+w.Text, w.NoSpeech, err
		}
		return words, none, failed
	}
	words, none, err := write(e, served.Utterance{Sound: make([]int16, 16000)})
	testkit.Must(t, err)
	testkit.Equal(t, words, "Thank you.", "words")
	testkit.Equal(t, none, 0.93, "none")
	words, _, err = write(e, served.Utterance{
		Sound: speechtest.Tone(16000, time.Second), Language: "ga", Prompt: "Names.", Keywords: []string{"Aoife"},
	})
	testkit.Must(t, err)
	testkit.Equal(t, words, "Hello there.", "words")
	_, _, err = write(e, served.Utterance{})
	testkit.Must(t, err)
	var prompts []string
	for _, r := range fake.Requests() {
		prompts = append(prompts, r.Fields["language"][0]+" "+r.Fields["prompt"][0])
	}
	testkit.Equal(t, prompts, []string{"en A talk.", "ga Names.\nAoife"}, "prompts")

	for mode, kind := range map[string]string{"400-openai": "invalid_request_error", "500-plain": "server_error", "401-openai": "server_error"} {
		_, _, err := write(ear(t, fake, mode), served.Utterance{Sound: make([]int16, 16000)})
		if e, ok := errors.AsType[*realtime.Error](err); !ok || e.Type != kind || e.Code != "transcription_failed" {
			t.Errorf("%s: %v", mode, err)
		}
	}
}
