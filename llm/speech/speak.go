package speech

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"voicebridge/llm/internal/wire"
)

// Speaker has texts spoken by one server. It is safe for concurrent use.
type Speaker struct {
	config  SpeakerConfig
	service *service
	voices  voiceList
}

// SpeakerConfig describes a server that speaks.
type SpeakerConfig struct {
	Server

	Voice  string
	Format string // that is asked for: wav, or pcm if empty
	Rate   int    // in Hz, of raw samples whose Content-Type does not say it; 24000 if 0
}

// NewSpeaker returns a Speaker. It sends nothing. Its error means that the URL is not an HTTP address, or the rate none
// of sound.
func NewSpeaker(c SpeakerConfig) (*Speaker, error) {
	c.Format, c.Rate = cmp.Or(c.Format, "pcm"), cmp.Or(c.Rate, 24000)
	service, err := newService(c.Server, "/audio/speech")
	if err == nil && !isRate(c.Rate) {
		err = fmt.Errorf("%d Hz is less than %d or more than %d", c.Rate, minRate, maxRate)
	}
	if err != nil {
		return nil, fmt.Errorf("set up speech: %w", err)
	}
	return &Speaker{config: c, service: service}, nil
}

// Sound is a piece of speech, mono.
type Sound struct {
	Samples []int16
	Rate    int // in Hz, the same for all pieces
}

// Limits of a server's answer, in bytes.
const (
	maxSpeech = 16 << 20
	maxOther  = 64 << 10 // of one that is no sound
)

// Speak yields the sound of a text as it comes. An empty voice is the one of the settings, and a speed of 0 the usual
// one. Without any sound there is an error; the error of a server is an [llm.Error].
func (s *Speaker) Speak(ctx context.Context, text, voice string, speed float64) iter.Seq2[Sound, error] {
	return func(yield func(Sound, error) bool) {
		body, err := json.Marshal(struct {
			Model  string  `json:"model,omitempty"`
			Input  string  `json:"input"`
			Voice  string  `json:"voice,omitempty"`
			Format string  `json:"response_format"`
			Speed  float64 `json:"speed,omitempty"`
		}{s.config.Model, text, cmp.Or(voice, s.config.Voice), s.config.Format, speed})
		var a *answer
		if err == nil {
			a, err = s.service.post(ctx, patience, maxSpeech, "application/json", body)
		}
		if err == nil {
			defer a.Close()
			err = s.read(a, func(sound Sound) bool { return yield(sound, nil) })
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Sound{}, err)
		}
	}
}

// read reads an answer, whose Content-Type says what it is.
func (s *Speaker) read(a *answer, yield func(Sound) bool) error {
	media, params, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	d := decoder{rate: s.config.Rate}
	if rate, _ := strconv.Atoi(params["rate"]); isRate(rate) {
		d.rate = rate
	}
	next := a.piece
	switch strings.TrimPrefix(media, "audio/") {
	case "text/event-stream":
		d.raw = true
		events := wire.NewEvents(a, wire.SSE)
		next = func() ([]byte, error) { return a.event(events) }
	case "application/json", "text/html", "text/plain":
		other, _ := io.ReadAll(io.LimitReader(a, maxOther))
		return a.problem(other, a.StatusCode)
	case "", "pcm", "x-pcm", "l16", "raw", "x-raw", "application/octet-stream":
		d.raw = true
	}
	for spoken := false; ; {
		piece, err := next()
		samples, wrong := d.decode(piece)
		spoken = spoken || len(samples) > 0
		switch {
		case wrong != nil:
			return a.refuse(wrong.Error() + " (" + media + ")")
		case len(samples) > 0 && !yield(Sound{samples, d.rate}):
			return errEnough
		case errors.Is(err, io.EOF) && !spoken:
			return a.refuse("answered without any sound")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return a.fail(err)
		}
	}
}

// piece returns the next bytes.
func (a *answer) piece() ([]byte, error) {
	b := make([]byte, 8<<10)
	n, err := a.Read(b)
	return b[:n], err
}

// event returns the sound in the next event.
func (a *answer) event(events *wire.Events) ([]byte, error) {
	raw, err := events.Next()
	var e struct {
		Audio []byte          `json:"audio"` // OpenAI
		Delta []byte          `json:"delta"` // as in the Realtime API
		Error json.RawMessage `json:"error"`
	}
	if err == nil && len(raw) > 0 && json.Unmarshal(raw, &e) == nil && e.Error != nil {
		err = a.problem(raw, 0)
	}
	return append(e.Audio, e.Delta...), err
}

const (
	voicesWithin = 2 * time.Second // for a server to list its voices
	voicesFor    = time.Minute     // until it is asked again
	maxVoices    = 500
	maxVoiceName = 200 // bytes
	maxVoiceList = 1 << 20
)

// voiceList is what a server has listed last.
type voiceList struct {
	mu    sync.Mutex
	names []string
	until time.Time
}

// Voices returns the voices of the model that the server lists at /audio/voices, as Kokoro-FastAPI, speaches and
// others do; none if it does not. A list is kept for a minute.
func (s *Speaker) Voices(ctx context.Context) []string {
	l := &s.voices
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Now().After(l.until) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), voicesWithin)
		defer cancel()
		l.names, l.until = s.list(ctx), time.Now().Add(voicesFor)
	}
	return l.names
}

func (s *Speaker) list(ctx context.Context) (names []string) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(s.config.URL, "/")+"/audio/voices", nil)
	if err != nil {
		return nil
	}
	if s.config.APIKey != "" {
		r.Header.Set("Authorization", "Bearer "+s.config.APIKey)
	}
	answer, err := s.service.Do(r)
	if err != nil {
		return nil
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxVoiceList))
	if err != nil {
		return nil
	}
	var list []json.RawMessage
	var under struct{ Voices, Data []json.RawMessage }
	if json.Unmarshal(body, &list) != nil && json.Unmarshal(body, &under) == nil {
		list = append(under.Voices, under.Data...)
	}
	for _, raw := range list {
		var name string
		if json.Unmarshal(raw, &name) != nil {
			var v struct {
				ID    string `json:"id"`
				Voice string `json:"voice_id"`
				Name  string `json:"name"`
				Model string `json:"model_id"`
			}
			if json.Unmarshal(raw, &v) != nil || v.Model != "" && v.Model != s.config.Model {
				continue
			}
			name = cmp.Or(v.Voice, v.ID, v.Name)
		}
		if name != "" && len(name) <= maxVoiceName && len(names) < maxVoices {
			names = append(names, name)
		}
	}
	return names
}
