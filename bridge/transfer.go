package bridge

import (
	"context"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/session"
	"voicebridge/toolkit"
)

// transferTime limits a transfer: the sentence before it, and how long the carrier may take.
const transferTime = 4 * time.Minute

// transferTool connects the caller of a telephone call with somebody.
type transferTool struct {
	to       map[string]assistant.Transfer
	transfer func(ctx context.Context, number string) error
	post     func(session.Input)
}

func (t transferTool) Definition() toolkit.Definition {
	return toolkit.Definition{
		Name: session.TransferName,
		Description: "Connect the caller with somebody else, when the user asks for that or you cannot help. Say in the same " +
			"answer that you do. You hear of it again only if nobody was reached: then the user is still there.",
		Parameters: toolkit.Encode(map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"to"},
			"properties": map[string]any{"to": map[string]any{"type": "string", "enum": slices.Sorted(maps.Keys(t.to))}},
		}),
	}
}

func (transferTool) Timeout() time.Duration { return transferTime }

func (t transferTool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		result := t.run(ctx, call)
		yield(toolkit.Chunk{Result: &result}, nil)
	}
}

func (t transferTool) run(ctx context.Context, call toolkit.Call) toolkit.Result {
	var in struct {
		To string `json:"to"`
	}
	_ = json.Unmarshal([]byte(call.Arguments), &in) // checked against the schema
	to, may := t.to[in.To], make(chan bool, 1)
	t.post(session.Transfer{CallID: call.ID, Says: to.Says, May: may})
	select {
	case yes := <-may:
		if !yes {
			return toolkit.Result{Error: "The call is about to end, or is being transferred."}
		}
	case <-ctx.Done():
		return toolkit.Result{Error: context.Cause(ctx).Error()}
	}
	if err := t.transfer(ctx, to.Number); err != nil {
		return toolkit.Result{Error: "Nobody was reached (" + err.Error() + "), and the user is still there."}
	}
	return toolkit.Result{Output: toolkit.Encode(map[string]string{"status": "transferred", "to": in.To})}
}
