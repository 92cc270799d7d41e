package doctor

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/llm/speech"
	"voicebridge/realtime"
	"voicebridge/realtime/pcm"
)

const aboutCalls = "voice model"

// calls reports which upstream answers calls, and whether it accepts the key.
func (d *doctor) calls(ctx context.Context) {
	c := &d.cfg
	for _, notice := range c.Notices {
		d.say(warning, aboutCalls, "%s", notice)
	}
	for i := range c.Upstreams {
		switch u := &c.Upstreams[i]; {
		case u.Unlisted && c.Upstream == "" && u.BuiltIn():
			d.say(warning, aboutCalls, "a simulator answers: set OPENAI_API_KEY to talk to a real model")
		case u.Unlisted && u.BuiltIn():
			d.say(warning, aboutCalls, "a simulator answers, because VOICEBRIDGE_UPSTREAM says so")
		case u.Unlisted && c.Realtime.URL == "":
			q := ofOpenAI(c)
			if c.Secrets.RealtimeKey.IsSet() {
				q.variable, q.header = "VOICEBRIDGE_REALTIME_API_KEY", withKey("Authorization", u.Key)
			}
			q.model, q.choice = c.Realtime.Model, "VOICEBRIDGE_REALTIME_MODEL"
			d.provider(ctx, aboutCalls, q)
		case u.IsCascade():
			d.cascade(ctx, u)
		default:
			d.upstream(ctx, u)
		}
	}
}

// upstream tries one of the list, in a way that lets no model answer.
func (d *doctor) upstream(ctx context.Context, u *config.Upstream) {
	about := "upstream " + u.Name
	address, _, _ := strings.Cut(u.Address(), "?") // the rest may hold a key
	if u.BuiltIn() {
		d.say(warning, about, "a simulator answers, because upstreams says so")
		return
	}
	var status int
	var err error
	if u.By() == config.TransportWebSocket {
		status, err = http.StatusSwitchingProtocols, d.session(ctx, u)
		if e, ok := errors.AsType[*realtime.APIError](err); ok {
			status, err = e.Status, nil
		}
	} else {
		status, _, err = get(ctx, u.Address(), withKey(u.Settled().KeyHeader, u.Key))
	}
	switch {
	case err != nil:
		d.say(problem, about, "%s does not answer: is its url right? (%v)", address, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		d.say(problem, about, "%s refuses the key (%d): check the variable that holds it", address, status)
	case u.By() == config.TransportWebSocket && status != http.StatusSwitchingProtocols:
		d.say(problem, about, "%s refuses a session (%d): check its model", address, status)
	default:
		d.say(fine, about, "%s answers (%d)", address, status)
	}
}

// spokenWord is what a cascade's servers are tried with.
const spokenWord = "hello"

// cascade has a word spoken by one server of a cascade, and what was said written down by the other.
func (d *doctor) cascade(ctx context.Context, u *config.Upstream) {
	about, c := "upstream "+u.Name, u.Cascade
	stt, tts, err := u.Speech(nil)
	if err != nil {
		d.say(problem, about, "%v", err)
		return
	}
	pause := make([]int16, speech.Rate/2)
	sound, begun := slices.Clone(pause), time.Now()
	var down *pcm.Resampler
	for s, failed := range tts.Speak(ctx, spokenWord, "", c.TTS.Speed) {
		if err = failed; err == nil && down == nil {
			down, err = pcm.NewResampler(s.Rate, speech.Rate)
		}
		if err != nil {
			break
		}
		sound = append(sound, down.Process(s.Samples)...)
	}
	length, took := float64(len(sound))/speech.Rate-0.5, time.Since(begun).Milliseconds()
	spoken := err == nil
	if spoken {
		d.say(fine, about, "%s says %q, %.1f s of sound, in %d ms", c.TTS.URL, spokenWord, length, took)
	} else {
		d.say(problem, about, "%s does not speak: check cascade.tts (%v)", c.TTS.URL, err)
	}
	heard := ""
	begun, err = time.Now(), nil
	for w, failed := range stt.Transcribe(ctx, speech.Utterance{
		Samples: append(sound, pause...), Language: c.STT.Language, Prompt: c.STT.Prompt,
	}) {
		heard, err = heard+w.Text, failed
	}
	took = time.Since(begun).Milliseconds()
	switch {
	case err != nil:
		d.say(problem, about, "%s does not write down what is said: check cascade.stt (%v)", c.STT.URL, err)
	case !spoken:
		d.say(fine, about, "%s answers in %d ms, but there was nothing to hear", c.STT.URL, took)
	case !strings.Contains(strings.ToLower(heard), spokenWord):
		d.say(warning, about, "%s hears %q instead of %q, in %d ms: do model and language fit?",
			c.STT.URL, heard, spokenWord, took)
	default:
		d.say(fine, about, "%s hears %q, in %d ms", c.STT.URL, strings.TrimSpace(heard), took)
	}
}

// session begins a session by WebSocket and ends it.
func (d *doctor) session(ctx context.Context, u *config.Upstream) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	conn, err := u.Client(d.cfg.Realtime.Model).Dial(ctx, "", "")
	if err != nil {
		return err
	}
	return conn.Close()
}

// sessionTimeout is how long an upstream may take to begin a session.
const sessionTimeout = 10 * time.Second

// typing reports which model answers typed messages, and whether the providers accept their keys.
func (d *doctor) typing(ctx context.Context) {
	const about = "typed messages"
	c := &d.cfg
	name := c.TextProvider()
	if name == config.ProviderSimulator {
		d.say(warning, about, "a simulator answers: set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST")
	} else {
		others := slices.DeleteFunc(c.TextProviders(), func(p string) bool { return p == name })
		d.say(fine, about,
			"they go to %s, to the model %s; also configured: %s", name, c.TextModel(name), strings.Join(others, ", "))
	}
	for _, name := range c.TextProviders() {
		if of, ok := providers[name]; ok {
			q := of(c)
			q.model, q.choice = c.TextModel(name), "VOICEBRIDGE_TEXT_MODEL"
			d.provider(ctx, "typed messages by "+name, q)
		}
	}
}
