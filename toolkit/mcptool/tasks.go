package mcptool

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
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

// messages passes on what is read from a server over HTTP, and shows each message to the taskTools
// before the reader has all of it. A message is one line with the "data:" of an event or, if whole is
// set, everything.
type messages struct {
	io.ReadCloser
	tasks *taskTools
	whole bool

	kept []byte
	long bool // the message is longer than any that is read
}

// Read implements [io.Reader].
func (m *messages) Read(p []byte) (int, error) {
	n, err := m.ReadCloser.Read(p)
	for rest := p[:n]; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n')
		if m.whole || end < 0 {
			m.keep(rest)
			break
		}
		m.keep(rest[:end])
		m.show()
		rest = rest[end+1:]
	}
	if err != nil {
		m.show()
	}
	return n, err
}

func (m *messages) keep(data []byte) {
	if m.long = m.long || len(m.kept)+len(data) > maxMessage; !m.long {
		m.kept = append(m.kept, data...)
	}
}

func (m *messages) show() {
	if !m.long {
		m.tasks.read(bytes.TrimSpace(bytes.TrimPrefix(m.kept, []byte("data:"))))
	}
	m.kept, m.long = m.kept[:0], false
}
