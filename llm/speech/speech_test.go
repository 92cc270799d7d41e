package speech_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest/speechtest"
	"voicebridge/llm/speech"
)

// server returns a fake as a Server whose answers are as the mode says.
func server(t *testing.T, s *speechtest.Server, mode string) speech.Server {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return speech.Server{URL: s.URL, Model: mode, APIKey: "secret-key", HTTPClient: &http.Client{Transport: transport}}
}

func speaker(t *testing.T, s *speechtest.Server, mode string) *speech.Speaker {
	t.Helper()
	speaker, err := speech.NewSpeaker(speech.SpeakerConfig{Server: server(t, s, mode), Voice: "anna"})
	testkit.Must(t, err)
	return speaker
}

// say returns the sound of a text.
func say(ctx context.Context, s *speech.Speaker, text string) (samples []int16, rate int, err error) {
	for sound, failed := range s.Speak(ctx, text, "", 0) {
		samples, rate, err = append(samples, sound.Samples...), max(rate, sound.Rate), failed
	}
	return samples, rate, err
}

// TestSpeech has a text spoken in each form in which servers send sound.
func TestSpeech(t *testing.T) {
	t.Parallel()
	for mode, rate := range map[string]int{
		"pcm": 24000, "wav": 24000, "unknown": 24000, "wav+16000": 16000, "wav+22050": 22050, "unknown+48000": 48000,
		"wav+44100": 44100, "rated+16000": 16000, "rated+48000+odd": 48000, "sse-audio": 24000, "sse-delta": 24000,
		"sse-audio+unknown+22050": 22050, "sse-delta+odd": 24000, "pcm+odd": 24000, "pcm+byte": 24000, "wav+byte": 24000,
		"stereo": 24000, "stereo+odd": 24000, "unknown+byte+stereo": 24000, "wav+429": 24000, "pcm+503": 24000,
		// Nobody named these.
		"chunks+byte": 24000, "guid+stereo+chunks+44100": 44100, "sse-delta+chunks+guid+byte+8000": 8000,
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			got, gotRate, err := say(t.Context(), speaker(t, speechtest.New(t), mode), "Hello there")
			testkit.Must(t, err)
			testkit.Equal(t, gotRate, rate, "rate")
			want := speechtest.Tone(rate, 440*time.Millisecond)
			if strings.Contains(mode, "stereo") && len(got) == len(want) {
				for i := range got { // what was halved for each side
					if d := got[i] - want[i]; d < -1 || d > 1 {
						t.Fatalf("sample %d is %d, not %d", i, got[i], want[i])
					}
				}
				return
			}
			if !slices.Equal(got, want) {
				t.Errorf("%d samples of %d, or others", len(got), len(want))
			}
		})
	}
}

// TestSpeechRequest compares requests with the settings.
func TestSpeechRequest(t *testing.T) {
	t.Parallel()
	fake := speechtest.New(t)
	s, err := speech.NewSpeaker(speech.SpeakerConfig{Server: server(t, fake, "pcm"), Voice: "anna", Format: "wav"})
	testkit.Must(t, err)
	for range s.Speak(t.Context(), "<Hi>", "", 1) {
	}
	for range s.Speak(t.Context(), "Ho", "bert", 1.25) {
	}
	r := fake.Requests()
	testkit.Equal(t, r[0].Header.Get("Authorization"), "Bearer secret-key", "key")
	testkit.Equal(t, []map[string][]string{r[0].Fields, r[1].Fields}, []map[string][]string{
		{"model": {"pcm"}, "input": {"<Hi>"}, "voice": {"anna"}, "response_format": {"wav"}, "speed": {"1"}},
		{"model": {"pcm"}, "input": {"Ho"}, "voice": {"bert"}, "response_format": {"wav"}, "speed": {"1.25"}},
	}, "fields")
	for _, c := range []speech.SpeakerConfig{{}, {Server: speech.Server{URL: "file:///x"}}, {
		Server: speech.Server{URL: "http://127.0.0.1"}, Rate: 100,
	}} {
		if _, err := speech.NewSpeaker(c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
}

// refused are modes whose error both paths have, and what it says.
var refused = map[string]struct {
	kind   llm.ErrorKind
	status int
	says   string
}{
	"400-openai":  {llm.KindBadRequest, 400, "Your input was refused."},
	"400-fastapi": {llm.KindBadRequest, 400, "Your input was refused."},
	"404-fastapi": {llm.KindBadRequest, 404, "Model 'x' is not installed locally."},
	"422-fastapi": {llm.KindBadRequest, 422, "Your input was refused."},
	"400-plain":   {llm.KindBadRequest, 400, "Your input was refused. xxx"},
	"500-plain":   {llm.KindOverloaded, 500, "The engine failed."},
	"401-openai":  {llm.KindAuth, 401, "Incorrect API key provided: ***."},
	"429-quota":   {llm.KindQuota, 429, "You exceeded your current quota."},
	"no-such":     {llm.KindBadRequest, 404, "does not exist"},
	"page":        {llm.KindBadRequest, 0, "address in the settings"},
}

func check(t *testing.T, err error, kind llm.ErrorKind, status int, says string) {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("the error is %v", err)
	}
	if e.Kind != kind || status != 0 && e.Status != status || !strings.Contains(e.Message, says) || len(e.Message) > 500 {
		t.Errorf("%s %d: %s", e.Kind, e.Status, e.Message)
	}
}

func TestSpeechFailures(t *testing.T) {
	t.Parallel()
	for mode, tt := range refused {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			samples, _, err := say(t.Context(), speaker(t, speechtest.New(t), mode), "Hello there")
			testkit.Equal(t, len(samples), 0, "samples")
			check(t, err, tt.kind, tt.status, tt.says)
		})
	}
	for mode, says := range map[string]string{
		"mp3": "neither WAV nor raw PCM (audio/mpeg)", "float": "WAV of format 3 with 32 bits", "empty": "without any sound",
		"wav+4000": "4000 Hz", "guid+float": "format 3",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			_, _, err := say(t.Context(), speaker(t, speechtest.New(t), mode), "Hello there")
			check(t, err, llm.KindBadRequest, 0, says)
		})
	}
	for mode, some := range map[string]bool{"cut": true, "cut+wav": true, "cut+sse-audio": true, "cut-first": false, "cut-first+wav": false} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			samples, _, err := say(t.Context(), speaker(t, speechtest.New(t), mode), "Hello there")
			check(t, err, llm.KindUnavailable, 0, "broke off")
			testkit.Equal(t, len(samples) > 0, some, "some sound came")
		})
	}
}

func transcriber(t *testing.T, s speech.Server) *speech.Transcriber {
	t.Helper()
	tr, err := speech.NewTranscriber(s)
	testkit.Must(t, err)
	return tr
}

// hear returns the words of an utterance, its pieces apart, and the last probability that there were none.
func hear(ctx context.Context, tr *speech.Transcriber, u speech.Utterance) (pieces []string, none float64, err error) {
	if u.Samples == nil {
		u.Samples = speechtest.Tone(speech.Rate, 500*time.Millisecond)
	}
	for w, failed := range tr.Transcribe(ctx, u) {
		if err = failed; err == nil {
			pieces, none = append(pieces, w.Text), max(none, w.NoSpeech)
		}
	}
	return pieces, none, err
}

// TestTranscription reads each form in which servers send words.
func TestTranscription(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"": "Hello there.", "text": "Hello there.", "html": "Hello there.", "verbose": "Hello there.", "whisper": "Hello there.",
		"deltas": "Hello |there.", "deltas+byte": "Hello |there.", "segments": "Hello| there.", "chat": "Hello |there.",
		"chat+odd": "Hello |there.", "no-stream+deltas": "Hello there.", "empty": "", "429": "Hello there.", "503": "Hello there.",
		"gpt-transcribe+deltas": "Hello |there.", "no-prompt+no-stream": "Hello there.", "text+byte": "Hello there.",
	} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			u := speech.Utterance{Language: "en", Prompt: "A talk.", Keywords: []string{"Aoife", "Xarelto"}}
			pieces, _, err := hear(t.Context(), transcriber(t, server(t, speechtest.New(t), mode)), u)
			testkit.Must(t, err)
			testkit.Equal(t, strings.Join(pieces, "|"), want, "pieces")
		})
	}
	fake := speechtest.New(t)
	fake.Words <- "我们 走吧。 好"
	pieces, _, err := hear(t.Context(), transcriber(t, server(t, fake, "segments")), speech.Utterance{})
	testkit.Must(t, err)
	testkit.Equal(t, strings.Join(pieces, ""), "我们走吧。好", "segments of a script without spaces")
}

// TestNoSpeech shows the word of a recogniser that invents some out of silence.
func TestNoSpeech(t *testing.T) {
	t.Parallel()
	tr := transcriber(t, server(t, speechtest.New(t), "whisper"))
	pieces, none, err := hear(t.Context(), tr, speech.Utterance{Samples: make([]int16, 8000)})
	testkit.Must(t, err)
	testkit.Equal(t, strings.Join(pieces, ""), "Thank you.", "words")
	testkit.Equal(t, none, 0.93, "probability that there are none")
	_, none, err = hear(t.Context(), tr, speech.Utterance{})
	testkit.Must(t, err)
	testkit.Equal(t, none, 0.01, "probability that there are none, with a tone")
}

// TestTranscriptionRequest compares requests with what servers take: one that refuses a field gets what is needed alone.
func TestTranscriptionRequest(t *testing.T) {
	t.Parallel()
	u := speech.Utterance{Language: "de", Prompt: "A talk.", Keywords: []string{"Aoife", "Xarelto"}}
	for model, want := range map[string][]map[string][]string{
		"": {{"language": {"de"}, "prompt": {"A talk.\nAoife, Xarelto"}, "response_format": {"verbose_json"}}},
		"whisper": {{
			"model": {"whisper"}, "language": {"de"}, "prompt": {"A talk.\nAoife, Xarelto"}, "response_format": {"verbose_json"},
		}},
		"gpt-transcribe": {{
			"model": {"gpt-transcribe"}, "language": {"de"}, "prompt": {"A talk."}, "stream": {"true"},
			"keywords[]": {"Aoife", "Xarelto"},
		}},
		"no-prompt": {
			{"model": {"no-prompt"}, "language": {"de"}, "prompt": {"A talk.\nAoife, Xarelto"}, "stream": {"true"}},
			{"model": {"no-prompt"}, "language": {"de"}},
			{"model": {"no-prompt"}, "language": {"de"}},
		},
	} {
		fake := speechtest.New(t)
		s := server(t, fake, model)
		s.URL, s.Path = strings.TrimSuffix(s.URL, "/v1"), "/inference"
		tr := transcriber(t, s)
		for range max(1, len(want)-1) {
			_, _, err := hear(t.Context(), tr, u)
			testkit.Must(t, err)
		}
		var got []map[string][]string
		for _, r := range fake.Requests() {
			got = append(got, r.Fields)
		}
		testkit.Equal(t, got, want, "fields for model %q", model)
	}
}

func TestTranscriptionFailures(t *testing.T) {
	t.Parallel()
	for mode, tt := range refused {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			pieces, _, err := hear(t.Context(), transcriber(t, server(t, speechtest.New(t), mode)), speech.Utterance{})
			testkit.Equal(t, len(pieces), 0, "pieces")
			check(t, err, tt.kind, tt.status, tt.says)
		})
	}
	for mode, says := range map[string]string{"error-event": "The engine failed.", "cut": "broke off", "cut-first": "broke off", "cut+deltas": "broke off"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			_, _, err := hear(t.Context(), transcriber(t, server(t, speechtest.New(t), mode)), speech.Utterance{})
			check(t, err, llm.KindUnavailable, 0, says)
		})
	}
}

// TestCancel ends requests at each moment: the server's connections are gone at once.
func TestCancel(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"hang", "slow", "429"} {
		fake := speechtest.New(t)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		go func() {
			_, _, err := say(ctx, speaker(t, fake, mode), "Hello there")
			ended <- err
		}()
		go func() {
			_, _, err := hear(ctx, transcriber(t, server(t, fake, mode)), speech.Utterance{})
			ended <- err
		}()
		testkit.Eventually(t, "requests under way", func() bool { return len(fake.Requests()) >= 2 })
		cancel()
		for range 2 {
			if err := testkit.Take(t, "the end of "+mode, ended); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", mode, err)
			}
		}
		testkit.Eventually(t, "connections closed", func() bool { return fake.Open() == 0 })
	}
	fake := speechtest.New(t)
	for range speaker(t, fake, "pcm+odd").Speak(t.Context(), strings.Repeat("Hello there. ", 300), "", 0) {
		break // nobody listens
	}
	testkit.Eventually(t, "connection closed", func() bool { return fake.Open() == 0 })
}

// TestVoices reads the lists that servers have of their voices, asks for each once in a while, and does without.
func TestVoices(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		status int
		body   string
		want   []string
	}{
		"names, as Kokoro has them":       {200, `{"voices":["af_heart","af_bella",""]}`, []string{"af_heart", "af_bella"}},
		"a list of objects, as speaches":  {200, `[{"voice_id":"one","model_id":"m","name":"x"},{"voice_id":"two","model_id":"other"}]`, []string{"one"}},
		"objects below a name":            {200, `{"object":"list","data":[{"id":"a"},{"name":"b"},7,null,{"id":3}]}`, []string{"a", "b"}},
		"none":                            {404, `{"detail":"Not Found"}`, nil},
		"not a list":                      {200, `"<html>"`, nil},
		"a name longer than any":          {200, `{"voices":["` + strings.Repeat("x", 201) + `","v"]}`, []string{"v"}},
		"an answer longer than is read":   {200, `{"voices":["` + strings.Repeat("x", 2<<20) + `"]}`, nil},
		"more than anybody would look at": {200, `{"voices":["v"` + strings.Repeat(`,"v"`, 999) + `]}`, slices.Repeat([]string{"v"}, 500)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked.Add(1)
				if r.Method+" "+r.URL.Path != "GET /v1/audio/voices" || r.Header.Get("Authorization") != "Bearer k" {
					t.Errorf("the request is %s %s with %q", r.Method, r.URL, r.Header)
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			speaker, err := speech.NewSpeaker(speech.SpeakerConfig{
				Server: speech.Server{URL: server.URL + "/v1/", APIKey: "k", Model: "m", HTTPClient: server.Client()},
			})
			testkit.Must(t, err)
			for range 2 {
				testkit.Equal(t, speaker.Voices(t.Context()), c.want, "the voices")
			}
			testkit.Equal(t, asked.Load(), int32(1), "the requests")
		})
	}
}
