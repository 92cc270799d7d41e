package realtime

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync/atomic"
)

// toolList is a list of tools with its JSON. It never changes.
type toolList struct {
	tools []Tool
	data  json.RawMessage
}

// lastTools is the list that was encoded last. Most sessions of a server have the same tools, with tens of KB of
// schemas.
var lastTools atomic.Pointer[toolList]

// EncodeTools returns the JSON of a list of tools for a Session. Neither may be changed afterwards: for an equal list
// the same JSON is returned again. It panics if the parameters of a tool are no JSON.
func EncodeTools(tools []Tool) json.RawMessage {
	if last := lastTools.Load(); last != nil && slices.EqualFunc(last.tools, tools, Tool.equal) {
		return last.data
	}
	data, err := marshal(tools)
	if err != nil {
		panic("realtime: encode tools: " + err.Error())
	}
	lastTools.Store(&toolList{tools, data})
	return data
}

func (t Tool) equal(o Tool) bool {
	return t.Type == o.Type && t.Name == o.Name && t.Description == o.Description && bytes.Equal(t.Parameters, o.Parameters)
}
