package mcptool

import (
	"bytes"
	"encoding/json"
	"sync"
)

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
