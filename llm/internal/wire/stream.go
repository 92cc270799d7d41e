package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Limits of an answer.
const (
	// maxAnswer limits a whole answer, in bytes.
	maxAnswer = 64 << 20
	// MaxEvent limits one event, or one line of it, in bytes.
	MaxEvent = 4 << 20
	// maxProblem limits how much of an error's body is read, in bytes.
	maxProblem = 256 << 10
)

// Form says how a streamed answer is encoded.
type Form int

// The forms of an answer.
const (
	SSE    Form = iota // server-sent events with JSON data
	NDJSON             // one JSON object per line
)

// Failures in reading an answer, other than those of the connection.
var (
	ErrTooLarge  = errors.New("the answer is larger than the limit")
	errMalformed = errors.New("the answer has an event that is not JSON")
)

// notStreamError holds what came instead of a stream, or in the middle of one: a proxy's page, or an
// error as a plain object.
type notStreamError struct{ body []byte }

func (*notStreamError) Error() string { return "the answer is not a stream of events" }

// object reports whether it is one JSON object.
func (e *notStreamError) object() bool {
	return bytes.HasPrefix(e.body, []byte("{")) && json.Valid(valid(e.body))
}

// Events reads the events of an answer: complete ones only, as valid UTF-8 and valid JSON.
type Events struct {
	in      *bufio.Reader
	form    Form
	left    int64  // bytes that may still come
	data    []byte // of the event that is being read
	partial bool   // a data line of the event has been read
	ended   bool
}

// NewEvents returns the Events of a body.
func NewEvents(body io.Reader, form Form) *Events {
	return &Events{in: bufio.NewReaderSize(body, 32<<10), form: form, left: maxAnswer}
}

// Next returns the next event, which the caller may keep, or nil for a comment, by which a server shows that it is at
// work. It blocks until there is one. It returns io.EOF at the end of the answer, whether or not the answer is
// complete.
func (s *Events) Next() (json.RawMessage, error) {
	for !s.ended {
		line, err := s.line()
		s.ended = errors.Is(err, io.EOF) // line is the rest, which had no line end
		if err != nil && !s.ended {
			return nil, err
		}
		if s.form == SSE && bytes.HasPrefix(line, []byte(":")) && !s.ended {
			return nil, nil
		}
		data := bytes.TrimSpace(line)
		if s.form == SSE {
			data, err = s.field(line)
		} else if s.ended && len(data) > 0 && !json.Valid(data) {
			err = io.ErrUnexpectedEOF
		} else {
			err = s.check(data)
		}
		switch {
		case err != nil:
			return nil, err
		case len(data) == 0:
			continue
		case s.form == SSE && done(data):
			s.ended = true
			continue
		}
		if data = valid(data); !json.Valid(data) {
			return nil, errMalformed
		}
		return data, nil
	}
	return nil, io.EOF
}

// line returns the next line without its end. With io.EOF it is the rest.
func (s *Events) line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.in.ReadSlice('\n')
		s.left -= int64(len(part))
		line = append(line, part...)
		switch {
		case s.left < 0 || len(line)+len(s.data) > MaxEvent:
			return nil, ErrTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return bytes.TrimRight(line, "\r\n"), err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// field takes a line of server-sent events (the HTML standard, section 9.2.6) and returns the data
// of the event that it ends. Some servers omit the last empty line; a truncated event is not
// returned.
func (s *Events) field(line []byte) ([]byte, error) {
	if len(line) > 0 {
		if err := s.check(line); err != nil {
			return nil, err
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		if string(name) == "data" {
			if s.partial && len(s.data) > 0 {
				s.data = append(s.data, ' ') // JSON has no line breaks of its own
			}
			s.data, s.partial = append(s.data, value...), true
		}
		if !s.ended {
			return nil, nil
		}
	}
	data, partial := bytes.TrimSpace(s.data), s.partial
	s.data, s.partial = nil, false
	if s.ended && partial && !done(data) && !json.Valid(data) {
		return nil, io.ErrUnexpectedEOF
	}
	return data, nil
}

// check returns an error, with the line and what follows it, if the line cannot be part of a stream:
// it begins a page or, among server-sent events, a plain JSON value.
func (s *Events) check(line []byte) error {
	if len(line) == 0 || line[0] != '<' && (s.form == NDJSON || line[0] != '{' && line[0] != '[') {
		return nil
	}
	rest, _ := io.ReadAll(io.LimitReader(s.in, MaxEvent))
	return &notStreamError{bytes.Join([][]byte{line, rest}, []byte("\n"))}
}

// done reports whether data marks the end of an OpenAI stream.
func done(data []byte) bool { return bytes.HasPrefix(data, []byte("[DONE]")) }

// valid returns data with invalid UTF-8 replaced.
func valid(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}
