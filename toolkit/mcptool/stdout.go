package mcptool

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// linesOf returns the messages in what a child writes to stdout; other lines go to the writer.
func linesOf(stdout io.ReadCloser, read func([]byte) []byte, other io.Writer) *lines {
	return &lines{Closer: stdout, in: bufio.NewReader(stdout), read: read, other: other}
}

// lines passes on the messages of a child, one to a line, each as read returns it. Other lines are logged:
// many servers, or programs that start them, greet and log on stdout.
type lines struct {
	io.Closer
	in    *bufio.Reader
	read  func(message []byte) []byte
	other io.Writer

	line []byte // the current line
	rest []byte // what is still to be read of it
}

// Read implements [io.Reader].
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next reads one line; a last one may have no line break.
func (l *lines) next() error {
	l.line = l.line[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.line = append(l.line, part...)
		if len(l.line) > maxMessage {
			return fmt.Errorf("it wrote a line of more than %d bytes", maxMessage)
		}
		if err == nil || !errors.Is(err, bufio.ErrBufferFull) && len(l.line) > 0 {
			break
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
	message := bytes.TrimSpace(l.line)
	if len(message) > 0 && (message[0] == '{' || message[0] == '[') && bytes.Contains(message, []byte(`"jsonrpc"`)) {
		if read := l.read(message); read != nil {
			l.rest = append(read, '\n')
			return nil
		}
	}
	_, _ = l.other.Write(append(l.line, '\n')) // it never fails; empty lines are not logged
	return nil
}
