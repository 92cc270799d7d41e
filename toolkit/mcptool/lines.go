package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

const (
	// maxMessage limits one message of a server, in bytes.
	maxMessage = 8 << 20
	// keptOfLong is how much of each end of a longer line is kept, in bytes: the id of an answer stands at one of them.
	keptOfLong = 1 << 10
)

var errTooLong = fmt.Errorf("its answer is longer than %d bytes", maxMessage)

// lines passes on what a server writes as keep returns it, which gets each line, and both ends of one that is too long
// to be a message. At the end, last may add to it.
type lines struct {
	io.Closer
	in   *bufio.Reader
	keep func(line []byte, long bool) []byte
	last func() []byte

	rest []byte // what is still to be read
	err  error  // why nothing follows
}

func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.next()
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

func (l *lines) next() {
	var line []byte
	limit := maxMessage
	for {
		var part []byte
		part, l.err = l.in.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > limit {
			line = append(line[:keptOfLong:keptOfLong], line[len(line)-keptOfLong:]...)
			limit = 16 * keptOfLong
		}
		if !errors.Is(l.err, bufio.ErrBufferFull) {
			break
		}
	}
	l.rest = l.keep(line, limit < maxMessage)
	if l.err != nil {
		l.rest = append(slices.Clip(l.rest), l.last()...)
	}
}

// reader reads messages: [server.read].
type reader func(data []byte, call json.RawMessage) ([]message, error)

// stdoutOf returns the messages in what a child writes to stdout, one to a line. Other lines go to the writer: many
// servers, or programs that start them, greet and log there, as does dotenv 17, which many load. An answer that cannot
// be read is an error of its call.
func stdoutOf(stdout io.ReadCloser, read reader, other io.Writer) *lines {
	keep := func(line []byte, long bool) (out []byte) {
		err := errTooLong
		var messages []message
		if !long {
			messages, err = read(line, nil)
		}
		for _, m := range messages {
			out = append(append(out, m.data...), '\n')
		}
		if err == nil {
			return out
		}
		if call := answeredBy(line); call != nil && bytes.Contains(line, []byte(`"jsonrpc"`)) {
			return append(noAnswer(call, err), '\n')
		}
		_, _ = other.Write(append(line, '\n')) // it never fails; empty lines are not logged
		return nil
	}
	return &lines{Closer: stdout, in: bufio.NewReader(stdout), keep: keep, last: func() []byte { return nil }}
}

// events reads a stream of events (HTML Living Standard, 9.2.6), and writes the messages in it.
type events struct {
	read  reader
	call  json.RawMessage // to which the stream is the answer; nil if it is not one
	older bool            // the stream of a server of TypeSSE

	name, id, retry string
	data            []byte
	long            bool

	resumable bool  // an event had an id
	answered  bool  // the call has its answer
	broken    error // why an event could not be read
}

func (e *events) over(stream io.ReadCloser) *lines {
	return &lines{Closer: stream, in: bufio.NewReader(stream), keep: e.line, last: e.end}
}

// line takes a line, and returns the event that it ends.
func (e *events) line(line []byte, long bool) []byte {
	line = bytes.TrimRight(bytes.TrimPrefix(line, []byte("\ufeff")), "\r\n")
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimSpace(value)
	switch string(field) {
	case "event":
		e.name = string(value)
	case "id":
		e.id = string(value)
	case "retry":
		e.retry = string(value)
	case "data":
		if e.long = e.long || long || len(e.data)+len(value) > maxMessage; e.long {
			e.data = nil
		}
		if len(e.data) > 0 {
			e.data = append(e.data, '\n')
		}
		e.data = append(e.data, value...)
	}
	if len(line) > 0 {
		return nil
	}
	return e.event()
}

// event returns the event that is complete, and begins the next one.
func (e *events) event() []byte {
	now := *e
	e.name, e.id = "", ""
	e.retry, e.data = "", nil
	e.long = false
	var head []byte
	if now.id != "" && !e.older {
		e.resumable = true
		head = fmt.Appendf(nil, "id: %s:%s\n", e.call, now.id)
	}
	if now.retry != "" && !e.older {
		head = fmt.Appendf(head, "retry: %s\n", now.retry)
	}
	message := now.name == "" || now.name == "message"
	switch {
	case e.older && now.name == "endpoint":
		return fmt.Appendf(nil, "event: endpoint\ndata: %s\n\n", now.data)
	case message && (len(now.data) > 0 || now.long):
		return now.messages(head, e)
	case len(head) > 0:
		return append(head, '\n')
	}
	return nil
}

// messages returns those of an event, or an error in place of the answer that it should have been.
func (e *events) messages(head []byte, all *events) (out []byte) {
	err := errTooLong
	var messages []message
	if !e.long {
		messages, err = e.read(e.data, e.call)
	}
	for _, m := range messages {
		all.answered = all.answered || m.answer
		out = fmt.Appendf(out, "%sdata: %s\n\n", head, m.data)
		head = nil
	}
	call := e.call
	if call == nil {
		call = answeredBy(e.data)
	}
	switch {
	case err == nil:
	case call == nil || bytes.Contains(e.data, []byte(`"method"`)):
		all.broken = err
	default:
		all.answered = true
		return fmt.Appendf(nil, "%sdata: %s\n\n", head, noAnswer(call, err))
	}
	return out
}

// end returns what follows the last whole event. One that is cut comes again where the stream can be resumed.
func (e *events) end() (out []byte) {
	if _, err := e.read(e.data, e.call); err == nil || !e.resumable {
		out = e.event()
	}
	if e.call != nil && !e.answered && e.broken != nil {
		out = fmt.Appendf(out, "data: %s\n\n", noAnswer(e.call, e.broken))
	}
	return out
}
