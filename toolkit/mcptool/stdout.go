package mcptool

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"

	"voicebridge/toolkit"
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
			return l.skip(err)
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
		if call := answerIn(message[:min(endRoom, len(message))], message[max(0, len(message)-endRoom):]); call != nil {
			l.rest = append(call.refusal(unreadable), '\n')
		}
	}
	_, _ = l.other.Write(append(l.line, '\n')) // it never fails; empty lines are not logged
	return nil
}

const (
	maxSkipped = 8 * maxMessage
	endRoom    = 128 // bytes of the beginning and the end of a message that are searched for its id
)

// idAtEnd finds the id of an answer in its beginning or its end: the members of an object have no order.
var idAtEnd = regexp.MustCompile(`^\{(?:"jsonrpc": ?"2\.0", ?)?"id": ?(\d+),|"id": ?(\d+)(?:, ?"jsonrpc": ?"2\.0")?\}\s*$`)

// answerIn returns the call that a message answers, of which the beginning and the end are known; nil if they do not say.
func answerIn(begin, end []byte) *pending {
	found := idAtEnd.FindSubmatch(slices.Concat(begin, []byte("\n"), end))
	if found == nil || bytes.Contains(begin, []byte(`"method"`)) {
		return nil
	}
	return &pending{id: json.RawMessage(cmp.Or(string(found[1]), string(found[2])))}
}

// tooManyValues returns an error in place of an answer whose values would take much memory once decoded, nil for other
// messages.
func tooManyValues(message []byte) []byte {
	var answer struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
	}
	if json.Unmarshal(message, &answer) != nil || answer.ID == nil || answer.Method != nil {
		return nil
	}
	return (&pending{id: answer.ID}).refusal(fmt.Sprintf("its answer has more than %d values", toolkit.MaxValues))
}

// skip reads the rest of a line that is too long. If it is the answer to a call, it is replaced by an error.
func (l *lines) skip(err error) error {
	begin := bytes.Clone(bytes.TrimSpace(l.line[:endRoom]))
	skipped := len(l.line)
	for errors.Is(err, bufio.ErrBufferFull) && skipped < maxSkipped {
		var part []byte
		part, err = l.in.ReadSlice('\n')
		l.line = append(l.line[len(l.line)-endRoom:], part...)
		skipped += len(part)
	}
	call := answerIn(begin, l.line[len(l.line)-endRoom:])
	if err != nil || call == nil {
		return fmt.Errorf("it wrote a line of more than %d bytes", maxMessage)
	}
	l.rest = append(call.refusal(tooLong), '\n')
	return nil
}
