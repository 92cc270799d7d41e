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
	"maps"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// Transcriber has speech written down by one server. It is safe for concurrent use.
type Transcriber struct {
	server  Server
	service *service

	mu      sync.Mutex
	refused map[string]bool // fields that the server does not take
}

// NewTranscriber returns a Transcriber. It sends nothing. Its error means that the URL is not an HTTP address.
func NewTranscriber(s Server) (*Transcriber, error) {
	service, err := newService(s, "/audio/transcriptions")
	if err != nil {
		return nil, fmt.Errorf("set up transcription: %w", err)
	}
	return &Transcriber{server: s, service: service, refused: map[string]bool{}}, nil
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
// [llm.Error]. Fields that a server refuses by name are left out from then on.
func (t *Transcriber) Transcribe(ctx context.Context, u Utterance) iter.Seq2[Words, error] {
	return func(yield func(Words, error) bool) {
		a, err := t.ask(ctx, u)
		if err == nil {
			defer a.Close()
			err = transcript{yield: yield}.read(a)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Words{}, err)
		}
	}
}

// ask sends an utterance, once more without each field that the server refuses.
func (t *Transcriber) ask(ctx context.Context, u Utterance) (*answer, error) {
	within := patience + time.Duration(len(u.Samples))*time.Second/Rate
	for {
		fields := t.fields(u)
		kind, body, err := form(fields, u.Samples)
		if err != nil {
			return nil, err
		}
		a, err := t.service.post(ctx, within, maxTranscription, kind, body)
		e, ok := errors.AsType[*llm.Error](err)
		if !ok || e.Status != http.StatusBadRequest && e.Status != http.StatusUnprocessableEntity {
			return a, err
		}
		again := false
		t.mu.Lock()
		for name := range fields {
			words := strings.Fields(strings.NewReplacer("[]", "", "_", " ").Replace(name))
			if name != "model" && strings.Contains(strings.ReplaceAll(e.Said, "_", " "), strings.Join(words, " ")) {
				t.refused[name], again = true, true
			}
		}
		t.mu.Unlock()
		if !again {
			return nil, err
		}
	}
}

// fields returns those of a request. Only whispers invent words and say how likely there were none; others are asked to
// send theirs one by one. Only OpenAI's gpt-transcribe has a field for key words; to others they are a prompt.
func (t *Transcriber) fields(u Utterance) map[string][]string {
	model := strings.ToLower(t.server.Model)
	fields := map[string][]string{"model": {t.server.Model}, "language": {u.Language}, "response_format": {"json"}}
	t.mu.Lock()
	defer t.mu.Unlock()
	if model == "" || strings.Contains(model, "whisper") {
		fields["response_format"] = []string{"verbose_json"}
	} else {
		fields["stream"] = []string{"true"}
	}
	if strings.HasPrefix(model, "gpt-transcribe") && !t.refused["keywords[]"] {
		fields["keywords[]"] = u.Keywords
	} else if words := strings.Join(u.Keywords, ", "); words != "" {
		u.Prompt = strings.TrimSpace(u.Prompt + "\n" + words)
	}
	fields["prompt"] = []string{u.Prompt}
	maps.DeleteFunc(fields, func(name string, values []string) bool {
		return t.refused[name] || strings.Join(values, "") == ""
	})
	return fields
}

// form writes a request.
func form(fields map[string][]string, samples []int16) (kind string, body []byte, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		for _, value := range fields[name] {
			err = errors.Join(err, w.WriteField(name, value))
		}
	}
	file, failed := w.CreatePart(map[string][]string{
		"Content-Disposition": {`form-data; name="file"; filename="speech.wav"`}, "Content-Type": {"audio/wav"},
	})
	if err = errors.Join(err, failed); err != nil {
		return "", nil, fmt.Errorf("write form: %w", err)
	}
	_, err = file.Write(WAV(samples, Rate))
	err = errors.Join(err, w.Close())
	return w.FormDataContentType(), b.Bytes(), err
}

// transcript reads an answer.
type transcript struct {
	yield func(Words, error) bool
	last  rune
	kind  string // of the events whose texts count
}

// read reads an answer in any form: one JSON object, a stream of events, or plain text.
func (t transcript) read(a *answer) error {
	in := bufio.NewReader(a)
	first, err := in.ReadByte()
	for err == nil && unicode.IsSpace(rune(first)) {
		first, err = in.ReadByte()
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err == nil {
		err = in.UnreadByte()
	}
	if err != nil {
		return err
	}
	if start, _ := in.Peek(len("event:")); first != ':' && !bytes.HasPrefix(start, []byte("data:")) &&
		!bytes.HasPrefix(start, []byte("event:")) {
		body, err := io.ReadAll(in)
		switch {
		case err != nil:
			return err
		case first == '{':
			return t.event(a, body, true)
		case first == '<':
			return a.refuse("answered with a page and not with words: check the address in the settings")
		}
		return t.tell(strings.TrimSpace(string(body)), 0, false)
	}
	for events := wire.NewEvents(in, wire.SSE); ; {
		event, err := events.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && event != nil {
			err = t.event(a, event, false)
		}
		if err != nil {
			return a.fail(err)
		}
	}
}

// event takes an event, or the whole answer.
func (t *transcript) event(a *answer, raw []byte, whole bool) error {
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
	if len(e.Error) > 0 && string(e.Error) != "null" || whole && e.Text == nil {
		p := wire.ParseProblem(raw)
		if whole {
			p.Status = http.StatusOK
		}
		return quoting(a.Problem(p))
	}
	for i, s := range e.Segments {
		if i == 0 || s.NoSpeech < e.NoSpeech {
			e.NoSpeech = s.NoSpeech
		}
	}
	text, kind := "", e.Type
	switch {
	case len(e.Choices) > 0: // vLLM
		text, kind = e.Choices[0].Delta.Content, "delta"
	case e.Text != nil: // of a segment, or of all that was said
		text = *e.Text
	default:
		text = e.Delta
	}
	if t.kind == "" && strings.TrimSpace(text) != "" {
		t.kind = kind
	}
	if t.kind != kind {
		text = "" // it was told already
	}
	return t.tell(text, e.NoSpeech, e.Text != nil)
}

// tell yields words. Those of a segment are apart from others, but in scripts that put no spaces between words.
func (t *transcript) tell(text string, noSpeech float64, segment bool) error {
	switch {
	case segment:
		text = strings.TrimSpace(text)
	case t.last == 0:
		text = strings.TrimLeftFunc(text, unicode.IsSpace)
	}
	if text != "" {
		first, _ := utf8.DecodeRuneInString(text)
		if segment && isSpaced(t.last) && isSpaced(first) {
			text = " " + text
		}
		t.last, _ = utf8.DecodeLastRuneInString(text)
	}
	if text == "" && noSpeech == 0 || t.yield(Words{text, noSpeech}, nil) {
		return nil
	}
	return errEnough
}

// isSpaced reports whether a space stands between words that begin or end with such a rune.
func isSpaced(r rune) bool {
	return r != 0 && !unicode.IsSpace(r) && !isUnspaced(r) && !unicode.In(r, unicode.Han, unicode.Hiragana,
		unicode.Katakana) && (r < 0x3000 || r > 0x30ff) && (r < 0xff00 || r > 0xffef)
}
