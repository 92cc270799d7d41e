package mcptool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxMessage limits one message of a server, in bytes.
const maxMessage = 8 << 20

// lines passes on what a server writes, line by line: each as keep returns it, and nothing while that is empty. A line
// that is too long to be a message comes to keep as soon as that is known, with its rest as another line. At the end keep gets
// an empty line.
type lines struct {
	io.Closer
	in   *bufio.Reader
	keep func(line []byte) ([]byte, error)

	line []byte // the current line
	rest []byte // what is still to be read of it
	err  error  // why nothing follows
}

func linesOf(body io.ReadCloser, keep func([]byte) ([]byte, error)) *lines {
	return &lines{Closer: body, in: bufio.NewReader(body), keep: keep}
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
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.line = append(l.line, part...)
		if errors.Is(err, bufio.ErrBufferFull) {
			if len(l.line) <= maxMessage {
				continue
			}
			err = nil
		}
		l.err = err
		break
	}
	kept, err := l.keep(l.line)
	if l.err != nil && err == nil && len(l.line) > 0 {
		var last []byte
		last, err = l.keep(nil)
		kept = append(bytes.Clone(kept), last...)
	}
	if err != nil {
		l.err = err
	}
	l.rest = kept
}

// stdoutOf returns the messages in what a child writes to stdout, one to a line, each as read returns it. Other lines go to
// the writer: many servers, or programs that start them, greet and log there, as does dotenv 17, which many load.
func stdoutOf(stdout io.ReadCloser, read func([]byte) []byte, other io.Writer) *lines {
	return linesOf(stdout, func(line []byte) ([]byte, error) {
		message := bytes.TrimSpace(line)
		switch {
		case len(line) > maxMessage:
			return nil, fmt.Errorf("it wrote a line of more than %d bytes", maxMessage)
		case len(message) > 0 && (message[0] == '{' || message[0] == '[') && bytes.Contains(message, []byte(`"jsonrpc"`)):
			return append(bytes.Clone(read(message)), '\n'), nil
		default:
			_, _ = other.Write(append(line, '\n')) // it never fails; empty lines are not logged
			return nil, nil
		}
	})
}

// eventsOf returns a stream of events, the message in each as read returns it. One that is too long is left for the SDK to
// refuse.
func eventsOf(stream io.ReadCloser, read func([]byte) []byte) *lines {
	var event []byte
	return linesOf(stream, func(line []byte) ([]byte, error) {
		event = append(event, line...)
		if len(bytes.TrimSpace(line)) > 0 && len(event) <= maxMessage {
			return nil, nil // the event goes on
		}
		whole := event
		event = nil
		var others []byte
		var data [][]byte
		for line := range bytes.Lines(whole) {
			if part, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				data = append(data, bytes.TrimSpace(part))
			} else {
				others = append(others, line...)
			}
		}
		message := bytes.Join(data, []byte("\n"))
		if instead := read(message); len(whole) <= maxMessage && !bytes.Equal(instead, message) {
			return append(append([]byte("data: "), instead...), append([]byte("\n"), others...)...), nil
		}
		return whole, nil
	})
}
