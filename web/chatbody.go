package web

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// Limits on a useChat request, in bytes. Its body contains the whole conversation with its images, of
// which only the last message is kept.
const (
	maxChatBody    = 128 << 20
	maxChatMessage = 16 << 20 // of the last message
)

// readChatBody reads a body with a user's text, or one of useChat with the last of its messages only.
func readChatBody(c echo.Context, dst any) error {
	if t, _ := input.MediaType(c.Request().Header.Get(echo.HeaderContentType)); t != echo.MIMEApplicationJSON {
		return problem.UnsupportedMedia("Send the body as application/json.")
	}
	// It is known by now whose conversation it is. In tests, not every ResponseWriter has deadlines.
	_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Now().Add(bodyTimeout + timeToArrive(maxChatBody)))
	body, err := shortened(c.Request().Body)
	answerSoon(c) // the body may have taken longer than an answer may
	if err != nil {
		return err
	}
	input.BodyComplete(c)
	return input.Object(body, dst)
}

// shortened reads the JSON object of a useChat request, and returns it with only the last of its
// messages. Those before it take no memory, however large they are: a client goes on sending a message
// that was refused. Only what is returned has to be checked.
func shortened(body io.Reader) ([]byte, error) {
	s, r := shortener{}, bufio.NewReaderSize(body, 32<<10)
	for {
		b, err := r.ReadByte()
		switch {
		case err == nil:
			s.take(b)
		case !errors.Is(err, io.EOF):
			return nil, input.BodyError(err)
		case s.large:
			return nil, problem.TooLarge("messages", fmt.Sprintf("The last message is larger than %d bytes.", maxChatMessage))
		default:
			return s.out, nil
		}
	}
}

// shortener copies a JSON object, with the last element only of its list messages.
type shortener struct {
	out     []byte
	large   bool // what is to be kept has become too large: nothing of it is
	depth   int  // of objects and lists
	text    bool // within a string, escaped: before an escaped byte of it
	escaped bool
	name    int  // where the last string of the outer object begins in out
	named   bool // that is the name messages, and its value follows
	element int  // where the current element of the list begins in out; 0 outside of the list
}

// take takes the next byte.
func (s *shortener) take(b byte) {
	if s.text {
		s.text = s.escaped || b != '"'
		s.escaped = b == '\\' && !s.escaped
		s.keep(b)
		return
	}
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
	s.keep(b)
	if b == '[' && s.depth == 2 && s.named {
		s.element = len(s.out)
	}
}

// keep copies a byte.
func (s *shortener) keep(b byte) {
	room := maxChatMessage
	if s.element == 0 {
		room += input.MaxBody // for the rest of the object
	}
	if s.large = s.large || len(s.out)-s.element >= room; !s.large {
		s.out = append(s.out, b)
	}
}
