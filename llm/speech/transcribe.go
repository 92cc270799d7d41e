package speech

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime/multipart"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// Transcriber has speech written down by one server. It is safe for concurrent use.
type Transcriber struct {
	model   string
	service *service
	plain   atomic.Bool // the server refuses what is not needed
}

// NewTranscriber returns a Transcriber. It sends nothing. Its error means that the URL is not an HTTP address.
func NewTranscriber(s Server) (*Transcriber, error) {
	service, err := newService(s, "/audio/transcriptions")
	if err != nil {
		return nil, fmt.Errorf("set up transcription: %w", err)
	}
	return &Transcriber{model: s.Model, service: service}, nil
}

// Utterance is what somebody says, and what may help to understand it.
type Utterance struct {
	Samples          []int16 // mono, at [Rate]
	Language, Prompt string
	Keywords         []string // names, for example
}

// Rate is that of the sound that is written down, in Hz: the one that recognisers work with.
const Rate = 16000

// Words are a piece of a transcription.
type Words struct {
	Text     string  // follows that of the pieces before
	NoSpeech float64 // the recogniser's probability that nothing was said
}

// maxTranscription limits a server's answer, in bytes.
const maxTranscription = 4 << 20

// Transcribe yields the words of an utterance as they come, none if there are none. The error of a server is an
// [llm.Error]. A server that refuses a request is asked again with what is needed alone.
func (t *Transcriber) Transcribe(ctx context.Context, u Utterance) iter.Seq2[Words, error] {
	return func(yield func(Words, error) bool) {
		plain := t.plain.Load()
		a, err := t.ask(ctx, u, plain)
		if e, ok := errors.AsType[*llm.Error](err); ok && !plain &&
			(e.Status == http.StatusBadRequest || e.Status == http.StatusUnprocessableEntity) {
			a, err = t.ask(ctx, u, true)
			t.plain.Store(err == nil)
		}
		if err == nil {
			defer a.Close()
			err = (&transcript{answer: a, yield: yield}).read()
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Words{}, err)
		}
	}
}

// ask sends an utterance. Only whispers invent words and say how likely there were none; others are asked to send
// theirs one by one. Only OpenAI's gpt-transcribe has a field for key words; to others they are a prompt.
func (t *Transcriber) ask(ctx context.Context, u Utterance, plain bool) (*answer, error) {
	var b bytes.Buffer // which takes all
	w := multipart.NewWriter(&b)
	field := func(name string, values ...string) {
		for _, value := range values {
			if value != "" {
				_ = w.WriteField(name, value)
			}
		}
	}
	field("model", t.model)
	field("language", u.Language)
	if !plain {
		if t.model == "" || strings.Contains(strings.ToLower(t.model), "whisper") {
			field("response_format", "verbose_json")
		} else {
			field("stream", "true")
		}
		if strings.HasPrefix(t.model, "gpt-transcribe") {
			field("keywords[]", u.Keywords...)
		} else {
			u.Prompt = strings.TrimSpace(u.Prompt + "\n" + strings.Join(u.Keywords, ", "))
		}
		field("prompt", u.Prompt)
	}
	file, _ := w.CreateFormFile("file", "speech.wav")
	_, _ = file.Write(WAV(u.Samples, Rate))
	_ = w.Close()
	within := patience + time.Duration(len(u.Samples))*time.Second/Rate
	return t.service.post(ctx, within, maxTranscription, w.FormDataContentType(), b.Bytes())
}

// transcript reads an answer.
type transcript struct {
	*answer

	yield func(Words, error) bool
	last  rune
	kind  string // of the events whose texts count
}

// read reads an answer in any form: a stream of events, one JSON object, or plain text.
func (t *transcript) read() error {
	in := bufio.NewReader(t)
	start, _ := in.Peek(len("event:"))
	switch name, _, isField := bytes.Cut(start, []byte(":")); {
	case isField && (len(name) == 0 || string(name) == "data" || string(name) == "event"):
		for events := wire.NewEvents(in, wire.SSE); ; {
			event, err := events.Next()
			if err == nil && event != nil {
				err = t.event(event, 0)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			if err != nil {
				return t.fail(err)
			}
		}
	}
	body, err := io.ReadAll(in)
	switch body = bytes.TrimSpace(body); {
	case err != nil:
		return err
	case bytes.HasPrefix(body, []byte("{")):
		return t.event(body, t.StatusCode)
	case bytes.HasPrefix(body, []byte("<")):
		return t.problem(body, t.StatusCode)
	}
	return t.tell(string(body), 0)
}

// event takes an event, or the whole answer with its status.
func (t *transcript) event(raw []byte, status int) error {
	var e struct {
		Type     string          `json:"type"`
		Delta    string          `json:"delta"`
		Text     *string         `json:"text"`
		NoSpeech float64         `json:"no_speech_prob"`
		Error    json.RawMessage `json:"error"`
		Segments []struct {
			NoSpeech float64 `json:"no_speech_prob"`
		} `json:"segments"`
		Choices []struct {
			Delta struct {
				Content string `json:"content"`
			} `json:"delta"`
		} `json:"choices"`
	}
	_ = json.Unmarshal(raw, &e) // a field of an unexpected form must not hide the others
	if e.Error != nil || status > 0 && e.Text == nil {
		return t.problem(raw, status)
	}
	for i, s := range e.Segments {
		if i == 0 || s.NoSpeech < e.NoSpeech {
			e.NoSpeech = s.NoSpeech
		}
	}
	text := e.Delta
	if len(e.Choices) > 0 { // vLLM
		text = e.Choices[0].Delta.Content
	}
	if e.Text != nil { // of a segment, or all that was said
		if text = strings.TrimSpace(*e.Text); text != "" && t.last > ' ' && t.last < 0x2e80 {
			text = " " + text // but for scripts that have no spaces
		}
	}
	if t.kind == "" && text != "" {
		t.kind = e.Type + "."
	}
	if t.kind != e.Type+"." {
		text = "" // it was told already
	}
	return t.tell(text, e.NoSpeech)
}

func (t *transcript) tell(text string, noSpeech float64) error {
	if t.last == 0 {
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if text != "" {
		t.last, _ = utf8.DecodeLastRuneInString(text)
	}
	if (text != "" || noSpeech > 0) && !t.yield(Words{text, noSpeech}, nil) {
		return errEnough
	}
	return nil
}
