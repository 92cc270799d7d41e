package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage limits one message of a server, in bytes.
const maxMessage = 8 << 20

// maxRetry limits how long a server may ask to wait before a stream is opened again, in milliseconds.
const maxRetry = 60_000

// Why a call has no result.
var (
	tooLong    = fmt.Sprintf("its answer is longer than %d bytes", maxMessage)
	unreadable = "its answer is not a message of MCP"
)

// messages passes on what is read from a server over HTTP, with each message as read returns it. A message
// is in the data of an event or, if whole is set, everything. Events that are no messages are left out: servers
// and proxies send some to keep a stream open, and the SDK takes them for its end.
type messages struct {
	io.Closer
	in    *bufio.Reader
	read  func(message []byte) []byte
	whole bool
	call  *pending // that the server answers; nil if none

	id          string        // of the last event that has one
	retry       time.Duration // the pause that the server asks for
	line, event []byte        // what has been read of the current line, and of the event or of everything
	rest        []byte        // what the SDK is still to read
	err         error         // why nothing follows rest
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

// next reads a line, and at the end of the message puts into rest what the SDK is to read. A message that is too
// long is passed on as it comes, for the SDK to refuse, unless a call waits for it.
func (m *messages) next() {
	part, err := m.in.ReadSlice('\n')
	m.line = append(m.line, part...)
	long := len(m.event)+len(m.line) >= maxMessage
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
		if !long {
			return
		}
	}
	m.err = err
	blank := !m.whole && len(bytes.TrimSpace(m.line)) == 0
	m.event, m.line = append(m.event, m.line...), m.line[:0]
	if err == nil && !blank && !long {
		return
	}
	m.rest, m.event = m.event, nil
	switch {
	case long:
	case m.whole:
		if read := m.understand(bytes.TrimSpace(m.rest)); read != nil {
			m.rest = read
		}
	default:
		m.rest = m.understandEvent(m.rest)
	}
	if m.call == nil || m.call.answered || m.err == nil && !long {
		return
	}
	m.err = io.EOF
	m.rest = m.call.refusal(m.why(long))
	if !m.whole {
		m.rest = []byte("data: " + string(m.rest) + "\n\n")
	}
}

// why says why a call has no answer.
func (m *messages) why(long bool) string {
	switch {
	case long:
		return tooLong
	case m.whole:
		return unreadable
	default:
		return "it ended its answer before the result"
	}
}

// understandEvent returns an event as the SDK can read it, nil if it is none that concerns it.
func (m *messages) understandEvent(event []byte) []byte {
	var name string
	var id []byte
	var data [][]byte
	for line := range bytes.Lines(event) {
		key, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		switch value = bytes.TrimSpace(value); string(key) {
		case "event":
			name = string(value)
		case "id":
			id, m.id = line, string(value)
		case "retry":
			pause, _ := strconv.Atoi(string(value))
			m.retry = time.Duration(min(pause, maxRetry)) * time.Millisecond
		case "data":
			data = append(data, value)
		}
	}
	message := bytes.Join(data, []byte("\n"))
	switch {
	case len(message) == 0 && (name == "" || id != nil), name == "endpoint":
		return event
	case len(message) == 0, name != "" && name != "message":
		return nil
	}
	switch read := m.understand(message); {
	case (read == nil || !json.Valid(read)) && id == nil:
		return nil
	case read == nil || !json.Valid(read):
		return slices.Concat(id, []byte("\n"))
	case bytes.Equal(read, message):
		return event
	default:
		return slices.Concat(id, []byte("data: "), bytes.ReplaceAll(read, []byte("\n"), []byte("\ndata: ")), []byte("\n\n"))
	}
}

// understand returns a message as the SDK can read it, nil if it cannot.
func (m *messages) understand(message []byte) []byte {
	message = unbatched(message)
	read := m.read(message)
	switch {
	case m.call == nil:
	case read == nil:
		m.call.see(message, false)
	default:
		m.call.see(read, true)
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
