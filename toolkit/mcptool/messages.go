package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage limits one message of a server, in bytes.
const maxMessage = 8 << 20

// tooLong says why a call has no result.
var tooLong = fmt.Sprintf("its answer is longer than %d bytes", maxMessage)

// messages passes on what is read from a server over HTTP, with each message as read returns it. A message
// is one line with the "data:" of an event or, if whole is set, everything. An event that read returns nil for
// loses the line.
type messages struct {
	io.Closer
	in    *bufio.Reader
	read  func(message []byte) []byte
	whole bool
	call  *pending // that the server answers; nil if none

	line []byte // what has been read of the current line, or of everything
	rest []byte // what the SDK is still to read
	err  error  // why nothing follows rest
}

func messagesOf(body io.ReadCloser, read func([]byte) []byte, whole bool, call *pending) *messages {
	return &messages{Closer: body, in: bufio.NewReader(body), read: read, whole: whole, call: call}
}

// Read implements [io.Reader].
func (m *messages) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.next()
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

// next reads to the end of the message. One that is too long is passed on as it comes, for the SDK to refuse,
// unless a call waits for it.
func (m *messages) next() {
	part, err := m.in.ReadSlice('\n')
	m.line = append(m.line, part...)
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	m.err = err
	ended := err != nil || !m.whole && bytes.HasSuffix(part, []byte("\n"))
	long := len(m.line) >= maxMessage
	if !ended && !long {
		return
	}
	m.rest, m.line = m.line, nil
	if !long {
		m.pass()
	}
	if m.call == nil || m.call.answered || m.call.resumable || m.err == nil && !long {
		return
	}
	m.err = io.EOF
	m.rest = m.call.refusal(m.why(long))
	if !m.whole {
		m.rest = []byte("\n\ndata: " + string(m.rest) + "\n\n")
	}
}

// why says why a call has no answer.
func (m *messages) why(long bool) string {
	switch {
	case long:
		return tooLong
	case m.whole:
		return "its answer is not a message of MCP"
	default:
		return "it ended its answer before the result"
	}
}

// pass has a message read that is in rest, and puts there what the SDK is to read.
func (m *messages) pass() {
	if m.whole {
		if read := m.understand(bytes.TrimSpace(m.rest)); read != nil {
			m.rest = read
		}
		return
	}
	if m.call != nil && bytes.HasPrefix(m.rest, []byte("id:")) {
		m.call.resumable = true // the SDK asks for what follows
	}
	data, ok := bytes.CutPrefix(m.rest, []byte("data:"))
	if !ok {
		return
	}
	message := bytes.TrimSpace(data)
	switch read := m.understand(message); {
	case read != nil && !bytes.Equal(read, message):
		m.rest = append(append([]byte("data: "), read...), '\n')
	case read == nil && json.Valid(message): // else it may be a part of one
		m.rest = nil
	}
}

// understand returns a message as the SDK can read it, nil if it cannot.
func (m *messages) understand(message []byte) []byte {
	message = unbatched(message)
	read := m.read(message)
	if m.call != nil {
		m.call.see(message, read != nil)
	}
	return read
}

// unbatched returns the answer in a batch of messages (MCP specification 2025-03-26, transports), which the SDK
// does not take over HTTP, and anything else as it is.
func unbatched(message []byte) []byte {
	var batch []json.RawMessage
	if len(message) == 0 || message[0] != '[' || json.Unmarshal(message, &batch) != nil {
		return message
	}
	for _, each := range batch {
		one, err := jsonrpc.DecodeMessage(each)
		if _, ok := one.(*jsonrpc.Response); ok && err == nil {
			return each
		}
	}
	return message
}
