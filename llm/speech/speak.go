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

	"voicebridge/llm/internal/wire"
)

// Speaker has texts spoken by one server. It is safe for concurrent use.
type Speaker struct {
	config  SpeakerConfig
	service *service
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

// maxSpeech limits a server's answer, in bytes.
const maxSpeech = 32 << 20

// maxOther limits what is read of an answer that is no sound, in bytes.
const maxOther = 64 << 10

// Speak yields the sound of a text as it comes. An empty voice is the one of the settings, and a speed of 0 the usual
// one. Without any sound there is an error; the error of a server is an [llm.Error].
func (s *Speaker) Speak(ctx context.Context, text, voice string, speed float64) iter.Seq2[Sound, error] {
	return func(yield func(Sound, error) bool) {
		spoken := false
		err := s.speak(ctx, text, voice, speed, func(sound Sound) bool {
			spoken = true
			return yield(sound, nil)
		})
		if err == nil && !spoken {
			err = (&answer{service: s.service}).refuse("answered without any sound")
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Sound{}, err)
		}
	}
}

func (s *Speaker) speak(ctx context.Context, text, voice string, speed float64, yield func(Sound) bool) error {
	request := map[string]any{
		"model": s.config.Model, "input": text, "voice": cmp.Or(voice, s.config.Voice), "response_format": s.config.Format,
	}
	if speed != 0 && speed != 1 {
		request["speed"] = speed
	}
	for name, value := range request {
		if value == "" {
			delete(request, name)
		}
	}
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("write request: %w", err)
	}
	a, err := s.service.post(ctx, patience, maxSpeech, "application/json", body)
	if err != nil {
		return err
	}
	defer a.Close()
	media, params, _ := mime.ParseMediaType(a.Header.Get("Content-Type"))
	d := decoder{rate: s.config.Rate}
	if rate, _ := strconv.Atoi(params["rate"]); isRate(rate) {
		d.rate = rate
	}
	hear := func(piece []byte) error {
		samples, err := d.decode(piece)
		switch {
		case err != nil:
			return a.refuse("%v (%s)", err, cmp.Or(media, "of no type"))
		case len(samples) > 0 && !yield(Sound{samples, d.rate}):
			return errEnough
		}
		return nil
	}
	switch {
	case media == "text/event-stream":
		d.raw = true
		return a.fail(events(a, hear))
	case strings.HasPrefix(media, "text/"), strings.HasSuffix(media, "json"):
		other, _ := io.ReadAll(io.LimitReader(a, maxOther))
		p := wire.ParseProblem(other)
		p.Status = http.StatusOK
		return quoting(a.Problem(p))
	}
	switch strings.TrimPrefix(strings.TrimPrefix(media, "audio/"), "x-") {
	case "", "pcm", "l16", "raw", "application/octet-stream":
		d.raw = true
	}
	piece := make([]byte, 8<<10)
	for {
		n, err := a.Read(piece)
		if err := cmp.Or(hear(piece[:n]), err); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

// events reads the sound in a stream of events.
func events(a *answer, hear func([]byte) error) error {
	for in := wire.NewEvents(a, wire.SSE); ; {
		raw, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var e struct {
			Audio []byte          `json:"audio"` // OpenAI
			Delta []byte          `json:"delta"` // as in the Realtime API
			Error json.RawMessage `json:"error"`
		}
		if len(raw) == 0 {
			continue
		}
		if err = json.Unmarshal(raw, &e); len(e.Error) > 0 && string(e.Error) != "null" {
			return quoting(a.Problem(wire.ParseProblem(raw)))
		}
		if sound := append(e.Audio, e.Delta...); err == nil && len(sound) > 0 {
			if err = hear(sound); err != nil {
				return err
			}
		}
	}
}
