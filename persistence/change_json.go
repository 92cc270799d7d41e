package persistence

import (
	"encoding/json"
	"fmt"

	"voicebridge/thread"
)

// Changes are changes that can be written as JSON and read again.
type Changes []Change

type wireChange struct {
	Kind   string          `json:"kind"`
	Change json.RawMessage `json:"change"`
}

// MarshalJSON writes the changes with their kinds.
func (c Changes) MarshalJSON() ([]byte, error) {
	wire := make([]wireChange, len(c))
	for i, change := range c {
		kind, id := change.Subject()
		data, err := thread.Encode(change)
		if err != nil {
			return nil, fmt.Errorf("write change of %s %s: %w", kind, id, err)
		}
		wire[i] = wireChange{Kind: kind, Change: data}
	}
	return thread.Encode(wire)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Changes) UnmarshalJSON(data []byte) error {
	var wire []wireChange
	if err := json.Unmarshal(data, &wire); err != nil {
		return fmt.Errorf("read changes: %w", err)
	}
	*c = make(Changes, 0, len(wire))
	for _, w := range wire {
		read, ok := changeKinds[w.Kind]
		if !ok {
			return fmt.Errorf("read changes: unknown kind %q", w.Kind)
		}
		change, err := read(w.Change)
		if err != nil {
			return fmt.Errorf("read change of kind %q: %w", w.Kind, err)
		}
		*c = append(*c, change)
	}
	return nil
}

// changeKinds reads each kind of change.
var changeKinds = map[string]func([]byte) (Change, error){
	"message":   readChange[PutMessage],
	"draft":     readChange[PutDraft],
	"tool_call": readChange[PutToolCall],
	"response":  readChange[PutResponse],
	"call":      readChange[PutCall],
	"leg":       readChange[PutLeg],
	"approval":  readChange[PutApproval],
	"turn":      readChange[PutTurn],
	"event":     readChange[PutEvent],
	"hook":      readChange[PutHook],
}

func readChange[C Change](data []byte) (Change, error) {
	var c C
	err := json.Unmarshal(data, &c)
	return c, err
}
