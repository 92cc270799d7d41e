package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Failures of reading an answer, other than those of the connection.
var (
	errTooLarge  = errors.New("the answer is larger than the limit")
	errMalformed = errors.New("the answer has an event that is no JSON")
	errNoStream  = errors.New("the answer is no stream of events")
)

// stream is the body of an answer that the vendor's client reads. It hands on
// whole events only, in the plainest form, with valid UTF-8 and valid JSON, and
// ends like a whole body whatever happens: the reason is the exchange's, for
// one vendor's client writes read errors to the standard log and another takes
// the half of an event for one.
type stream struct {
	body    io.ReadCloser
	in      *bufio.Reader
	x       *Exchange
	options Options
	left    int64        // bytes that may still come
	out     bytes.Buffer // ready to be read
	event   []byte       // the name of the event that is being read
	data    []byte       // its data
	partial bool         // data is not nil
	ended   bool
}

func newStream(body io.ReadCloser, x *Exchange, o Options) *stream {
	return &stream{body: body, in: bufio.NewReaderSize(body, 32<<10), x: x, options: o, left: o.MaxAnswer}
}

// Read hands on the next events. It blocks until there is one.
func (s *stream) Read(p []byte) (int, error) {
	for s.out.Len() == 0 {
		if s.ended {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			s.ended = true
			if !errors.Is(err, io.EOF) {
				s.x.fail(err)
			}
		}
	}
	return s.out.Read(p)
}

// Close ends the request.
func (s *stream) Close() error {
	s.ended = true
	return s.body.Close()
}

// next reads a line.
func (s *stream) next() error {
	line, err := s.line()
	if errors.Is(err, io.EOF) {
		return s.finish(line)
	}
	if err != nil {
		return err
	}
	if s.options.Form == NDJSON {
		return s.object(line)
	}
	return s.field(line)
}

// line returns the next line without its end. With io.EOF it is the rest, which
// had no end.
func (s *stream) line() ([]byte, error) {
	var line []byte
	for {
		part, err := s.in.ReadSlice('\n')
		s.left -= int64(len(part))
		line = append(line, part...)
		switch {
		case s.left < 0 || len(line)+len(s.data) > MaxEvent:
			return nil, errTooLarge
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil:
			return line, err
		}
		return bytes.TrimRight(line, "\r\n"), nil
	}
}

// finish takes the rest of an answer that has ended without a line end. Some
// servers forget the last one; what is cut off is not an event.
func (s *stream) finish(rest []byte) error {
	if s.options.Form == NDJSON {
		if rest = bytes.TrimSpace(rest); len(rest) == 0 {
			return io.EOF
		} else if !json.Valid(rest) {
			return io.ErrUnexpectedEOF
		}
		return errors.Join(s.object(rest), io.EOF)
	}
	if len(rest) > 0 {
		if err := s.field(bytes.TrimRight(rest, "\r\n")); err != nil {
			return err
		}
	}
	if s.partial && !done(s.data) && !json.Valid(s.data) {
		return io.ErrUnexpectedEOF
	}
	return errors.Join(s.dispatch(), io.EOF)
}

// field takes a line of server-sent events (the HTML standard, section 9.2.6).
func (s *stream) field(line []byte) error {
	if len(line) == 0 {
		return s.dispatch()
	}
	if line[0] == '{' || line[0] == '[' || line[0] == '<' {
		return s.refuse(line)
	}
	name, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(name) {
	case "event":
		s.event = append(s.event[:0], value...)
	case "data":
		if s.partial && len(s.data) > 0 {
			s.data = append(s.data, ' ') // JSON has no line ends of its own
		}
		s.data, s.partial = append(s.data, value...), true
	}
	return nil
}

// dispatch hands on the event that an empty line has ended.
func (s *stream) dispatch() error {
	event, data := s.event, bytes.TrimSpace(s.data)
	s.event, s.data, s.partial = s.event[:0], s.data[:0], false
	if len(data) == 0 {
		return nil
	}
	if !done(data) {
		clean, err := s.clean(data)
		if err != nil || len(clean) == 0 {
			return err
		}
		data = clean
	}
	if s.options.Lines {
		if !done(data) {
			s.out.Write(data)
			s.out.WriteByte('\n')
		}
		return nil
	}
	if len(event) > 0 && !s.options.Nameless {
		s.out.WriteString("event: ")
		s.out.Write(valid(event))
		s.out.WriteByte('\n')
	}
	s.out.WriteString("data: ")
	s.out.Write(data)
	s.out.WriteString("\n\n")
	return nil
}

// object hands on a line of JSON.
func (s *stream) object(line []byte) error {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return nil
	}
	if line[0] == '<' {
		return s.refuse(line)
	}
	clean, err := s.clean(line)
	if err != nil || len(clean) == 0 {
		return err
	}
	s.out.Write(clean)
	s.out.WriteByte('\n')
	return nil
}

// clean returns an event's data as the vendor's client gets it.
func (s *stream) clean(data []byte) ([]byte, error) {
	data = valid(data)
	if !json.Valid(data) {
		return nil, errMalformed
	}
	if s.x.filter != nil {
		data = s.x.filter(data)
	}
	return data, nil
}

// refuse keeps the rest of an answer that is no stream, or no longer one: a
// page of a proxy, or an error as a plain object.
func (s *stream) refuse(line []byte) error {
	rest, _ := io.ReadAll(io.LimitReader(s.in, maxProblem))
	s.x.refused(bytes.Join([][]byte{line, rest}, []byte("\n")))
	return errNoStream
}

// done reports whether data is the end mark of OpenAI's streams.
func done(data []byte) bool { return bytes.HasPrefix(bytes.TrimSpace(data), []byte("[DONE]")) }

// valid returns data with what is not UTF-8 replaced.
func valid(data []byte) []byte {
	if utf8.Valid(data) {
		return data
	}
	return bytes.ToValidUTF8(data, []byte("\uFFFD"))
}
