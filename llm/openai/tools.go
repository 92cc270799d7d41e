package openai

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

// maxCallID is the longest call id that the API accepts back.
const maxCallID = 40

// callID returns a call's id for sending it back: unchanged, because some models read it, unless
// the API would refuse it.
func callID(id string) string {
	if id != "" && len(id) <= maxCallID {
		return id
	}
	return wire.StandIn(id)
}

// call is a call on the wire.
type call struct {
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// piece is a part of a call, as it arrives.
type piece struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string    `json:"name"`
		Arguments wire.Text `json:"arguments"`
	} `json:"function"`
}

// calls writes the calls of an assistant message. The templates of some models parse arguments as
// JSON, and fail on anything else.
func calls(asked []llm.ToolCall) []call {
	var out []call
	for _, c := range asked {
		out = append(out, call{
			ID: callID(c.ID), Type: "function",
			Function: function{Name: c.Name, Arguments: string(wire.Object(c.Arguments))},
		})
	}
	return out
}

// pieces are calls that arrive in pieces.
type pieces struct {
	calls   []llm.ToolCall // in the order in which they began
	indexes map[int]int    // from the API's index to the one in calls
}

// add takes a piece. The API numbers calls by index and sends the id and the name with the first
// piece. Some servers give all calls the index 0, some repeat the id with every piece, some send no
// id: so a piece begins a call if its index is new, or if it has a name and an id that differs from
// the one at its index.
func (s *pieces) add(d piece) {
	if s.indexes == nil {
		s.indexes = map[int]int{}
	}
	index, known := s.indexes[d.Index]
	if known && d.Function.Name != "" && d.ID != "" && s.calls[index].ID != "" && d.ID != s.calls[index].ID {
		known = false
	}
	if !known {
		index = len(s.calls)
		s.indexes[d.Index] = index
		s.calls = append(s.calls, llm.ToolCall{})
	}
	call := &s.calls[index]
	call.ID, call.Name = cmp.Or(call.ID, d.ID), cmp.Or(call.Name, d.Function.Name)
	call.Arguments += string(d.Function.Arguments)
}

// complete returns the complete calls. What has no name is not a call, and in an answer that was cut
// off, by a limit or a filter, neither are partial arguments.
func (s *pieces) complete(cut bool) []llm.ToolCall {
	var out []llm.ToolCall
	for _, c := range s.calls {
		if c.Name == "" || (cut && !json.Valid([]byte(c.Arguments))) {
			continue
		}
		c.Arguments = wire.Arguments(c.Arguments)
		c.ID = cmp.Or(c.ID, wire.NewCallID())
		out = append(out, c)
	}
	return out
}

// isMistral reports whether a model is one of Mistral's, by its name: Mistral, Codestral, Pixtral. Their rules hold on
// every server that has them: https://github.com/mistralai/mistral-common.
func isMistral(model string) bool {
	model = strings.ToLower(model)
	return strings.Contains(model, "stral") || strings.Contains(model, "xtral")
}

// mistralCallID matches the call ids that those models accept.
var mistralCallID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// withMistralIDs gives the calls of a conversation, and their results, ids of nine characters. Calls of other models
// are in it after a change of the model, or from voice calls.
func withMistralIDs(messages []llm.Message) {
	for i := range messages {
		m := &messages[i]
		if m.Role == llm.RoleTool {
			m.ToolCallID = mistralID(m.ToolCallID)
		}
		m.ToolCalls = slices.Clone(m.ToolCalls)
		for i, c := range m.ToolCalls {
			m.ToolCalls[i].ID = mistralID(c.ID)
		}
	}
}

// mistralID returns a call's id for sending it back.
func mistralID(id string) string {
	if mistralCallID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}
