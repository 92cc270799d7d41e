package mcptool

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMessage limits one message of a server, in bytes.
const maxMessage = 8 << 20

// taskTools are a server's tools that run only as tasks (MCP specification 2025-11-25, tasks:
// execution.taskSupport is "required"). A plain call of one fails, and the SDK neither runs tasks
// nor says which tools need one; so this is read from what the server sends.
type taskTools struct {
	mu    sync.Mutex
	names map[string]bool
}

// has reports whether a tool runs only as a task.
func (t *taskTools) has(name string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.names[name]
}

// read examines one message from the server.
func (t *taskTools) read(message []byte) {
	if !bytes.Contains(message, []byte(`"taskSupport"`)) {
		return
	}
	var answer struct {
		Result struct {
			Tools []struct {
				Name      string `json:"name"`
				Execution struct {
					TaskSupport string `json:"taskSupport"`
				} `json:"execution"`
			} `json:"tools"`
		} `json:"result"`
	}
	if json.Unmarshal(message, &answer) != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.names == nil {
		t.names = map[string]bool{}
	}
	for _, tool := range answer.Result.Tools {
		if len(t.names) < maxTools*4 {
			t.names[tool.Name] = tool.Execution.TaskSupport == "required"
		}
	}
}

// messages passes on what is read from a server over HTTP, with each message as read returns it. A message
// is one line with the "data:" of an event or, if whole is set, everything. An event that read returns nil for
// loses the line.
type messages struct {
	io.Closer
	in    *bufio.Reader
	read  func(message []byte) []byte
	whole bool

	line []byte // what has been read of the current line, or of everything
	rest []byte // what the SDK is still to read
	err  error  // why nothing follows rest
}

func messagesOf(body io.ReadCloser, read func([]byte) []byte, whole bool) *messages {
	return &messages{Closer: body, in: bufio.NewReader(body), read: read, whole: whole}
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

// next reads to the end of the message. One that is too long is passed on as it comes, for the SDK to refuse.
func (m *messages) next() {
	part, err := m.in.ReadSlice('\n')
	m.line = append(m.line, part...)
	if errors.Is(err, bufio.ErrBufferFull) {
		err = nil
	}
	m.err = err
	ended := err != nil || !m.whole && bytes.HasSuffix(part, []byte("\n"))
	if !ended && len(m.line) <= maxMessage {
		return
	}
	m.rest, m.line = m.line, nil
	if m.whole {
		if read := m.read(unbatched(bytes.TrimSpace(m.rest))); read != nil {
			m.rest = read
		}
		return
	}
	data, ok := bytes.CutPrefix(m.rest, []byte("data:"))
	if !ok {
		return
	}
	message := bytes.TrimSpace(data)
	switch read := m.read(unbatched(message)); {
	case read != nil && !bytes.Equal(read, message):
		m.rest = append(append([]byte("data: "), read...), '\n')
	case read == nil && json.Valid(message): // else it may be a part of one
		m.rest = nil
	}
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
