package web

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/labstack/echo/v4"

	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// Limits on a useChat request, in bytes. Its body contains the whole conversation with its images, of
// which only the last message is kept.
const (
	maxChatBody    = 128 << 20
	maxChatMessage = 16 << 20 // of the last message
	maxKept        = maxChatMessage + input.MaxBody
)

// readChatBody reads a body with a user's text, or one of useChat with the last of its messages only.
func readChatBody(c echo.Context, dst any) error {
	if t, _ := input.MediaType(c.Request().Header.Get(echo.HeaderContentType)); t != echo.MIMEApplicationJSON {
		return problem.UnsupportedMedia("Send the body as application/json.")
	}
	// It is known by now whose conversation it is.
	input.Arrives(c, bodyTimeout+timeToArrive(maxChatBody))
	if err := input.Hold(c, maxKept); err != nil {
		return err
	}
	body, err := shortened(c.Request().Body, maxChatMessage)
	answerSoon(c) // the body may have taken longer than an answer may
	if err != nil {
		return err
	}
	input.BodyComplete(c)
	return input.Object(body, dst)
}

// shortened reads the JSON object of a useChat request, and returns it with only the last of its
// messages. Those before it take no memory, however large they are: a client goes on sending a message
// that was refused. Only what is returned has to be checked. The last message may have limit bytes.
func shortened(body io.Reader, limit int) ([]byte, error) {
	s, buf := shortener{limit: limit}, make([]byte, 32<<10)
	for {
		n, err := body.Read(buf)
		s.write(buf[:n])
		switch {
		case err == nil:
		case !errors.Is(err, io.EOF):
			return nil, input.BodyError(err)
		case s.large:
			return nil, problem.TooLarge("messages", fmt.Sprintf("The last message is larger than %d bytes.", limit))
		default:
			return s.out, nil
		}
	}
}

// shortener copies a JSON object, with the last element only of its list messages.
type shortener struct {
	out     []byte
	limit   int  // of the last element, in bytes
	large   bool // what is to be kept has become too large: nothing of it is
	depth   int  // of objects and lists
	text    bool // within a string, escaped: before an escaped byte of it
	escaped bool
	name    int  // where the last string of the outer object begins in out
	named   bool // that is the name messages, and its value follows
	element int  // where the current element of the list begins in out; 0 outside of the list
}

// write shortens the next bytes.
func (s *shortener) write(p []byte) {
	for len(p) > 0 {
		n := 1
		if s.text {
			n = s.within(p)
			s.keep(p[:n])
		} else {
			s.outside(p[0])
		}
		p = p[n:]
	}
}

// within returns how many of the next bytes, the first of which is within a string, end at a quote that may
// end it. Strings are nearly all of a conversation with images.
func (s *shortener) within(p []byte) int {
	i := bytes.IndexByte(p, '"')
	before := p
	if i >= 0 {
		before = p[:i]
	}
	slashes := len(before) - len(bytes.TrimRight(before, `\`))
	escaped := slashes%2 == 1
	if slashes == len(before) { // the first byte may be escaped
		escaped = escaped != s.escaped
	}
	if i < 0 {
		s.escaped = escaped
		return len(p)
	}
	s.text, s.escaped = escaped, false
	return i + 1
}

// outside takes the next byte outside of a string.
func (s *shortener) outside(b byte) {
	switch b {
	case '"':
		s.text = true
		if s.depth == 1 {
			s.name = len(s.out)
		}
	case ':':
		if s.depth == 1 {
			s.named = string(bytes.TrimSpace(s.out[s.name:])) == `"messages"`
		}
	case '{', '[':
		s.depth++
	case '}', ']':
		if s.depth--; s.depth == 1 {
			s.element = 0
		}
	case ',':
		switch {
		case s.depth == 1:
			s.named = false
		case s.depth == 2 && s.element > 0: // another element
			s.out, s.large = s.out[:s.element], false
			return
		}
	}
	s.keep([]byte{b})
	if b == '[' && s.depth == 2 && s.named {
		s.element = len(s.out)
	}
}

// keep copies bytes.
func (s *shortener) keep(p []byte) {
	message := s.element > 0 && len(s.out)-s.element+len(p) > s.limit
	if s.large = s.large || message || len(s.out)+len(p) > s.limit+input.MaxBody; !s.large {
		s.out = append(s.out, p...)
	}
}
