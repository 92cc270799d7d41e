package persistence

import (
	"cmp"
	"encoding/json"
	"math"

	"voicebridge/persistence/hooked"
	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// hooking is what a batch tells hooks.
type hooking struct {
	tx     *database.Tx
	events []hooked.Event
	// notified are the hooks that get something.
	notified []string
}

// tell tells hooks of something, once for each about. data is called when all of the batch is written.
func (h *hooking) tell(kind, about string, data func() (map[string]any, error)) {
	h.events = append(h.events, hooked.Event{Type: kind, About: about, Data: data})
}

// write writes what hooks get of the batch.
func (h *hooking) write() error {
	for _, e := range h.events {
		hooks, err := hooked.In(h.tx).Tell(e)
		if err != nil {
			return err
		}
		h.notified = append(h.notified, hooks...)
	}
	return nil
}

// event tells hooks of an event that watchers learn. id names the event.
func (h *hooking) event(e Event, id string) {
	var about struct {
		CallID    string `json:"call_id"`
		MessageID string `json:"message_id"`
		Status    string `json:"status"`
		Recording bool   `json:"recording"`
	}
	if json.Unmarshal(e.Data, &about) != nil {
		return
	}
	switch e.Type {
	case EventCallStarted:
		h.tell(hooked.CallStarted, about.CallID, func() (map[string]any, error) { return h.callStarted(about.CallID) })
	case EventCallEnded:
		h.tell(hooked.CallEnded, about.CallID,
			func() (map[string]any, error) { return h.callEnded(about.CallID, about.Recording) })
	case EventTurnFinished:
		h.tell(hooked.TurnFinished, cmp.Or(about.MessageID, id, NewID()), func() (map[string]any, error) {
			return h.turnFinished(about.CallID, about.MessageID, about.Status)
		})
	case EventApprovalRequired:
		h.tell(hooked.ApprovalRequired, id, func() (data map[string]any, err error) {
			err = json.Unmarshal(e.Data, &data)
			return data, err
		})
	}
}

func (h *hooking) call(id string) (pgdb.Call, error) {
	return h.tx.Q.GetCall(h.tx.Ctx, id, h.tx.Key.Owner)
}

func (h *hooking) callStarted(id string) (map[string]any, error) {
	c, err := h.call(id)
	if err != nil && !database.IsMissing(err) {
		return nil, err
	}
	return map[string]any{"call_id": id, "assistant_id": orNull(c.AssistantID), "upstream": c.Upstream}, nil
}

// callEnded returns what there is to say about a call, which was recorded or not. Its record is saved before its end is
// told.
func (h *hooking) callEnded(id string, recorded bool) (map[string]any, error) {
	c, err := h.call(id)
	if err != nil && !database.IsMissing(err) {
		return nil, err
	}
	used, err := h.tx.Q.CallTotals(h.tx.Ctx, h.tx.Key.Thread, id)
	if err != nil {
		return nil, err
	}
	t, err := h.tx.Q.GetThread(h.tx.Ctx, h.tx.Key.Thread, h.tx.Key.Owner)
	if err != nil {
		return nil, err
	}
	data := map[string]any{
		"call_id": id, "end_reason": c.EndReason, "duration_seconds": 0.0, "turns": c.Turns, "cost_usd": nil,
		"assistant_id": orNull(c.AssistantID), "variables": json.RawMessage(t.Variables), "recording": recorded,
		"usage": usageOf(used.InputTokens, used.OutputTokens, used.CachedTokens),
	}
	if c.EndedAt != nil {
		data["duration_seconds"] = math.Round(c.EndedAt.Sub(c.StartedAt.Time).Seconds()*1000) / 1000
	}
	if used.Priced > 0 {
		data["cost_usd"] = used.CostUSD
	}
	return data, nil
}

// orNull returns a text, or null if it is empty.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func usageOf(input, output, cached int64) map[string]int64 {
	return map[string]int64{
		"input_tokens": input, "output_tokens": output, "cached_tokens": cached, "total_tokens": input + output,
	}
}

// turnFinished returns what there is to say about a turn: that of a call ends with the assistant's last message.
func (h *hooking) turnFinished(callID, messageID, status string) (map[string]any, error) {
	var row pgdb.Message
	var err error
	if messageID != "" {
		row, err = h.tx.Q.GetMessage(h.tx.Ctx, messageID, h.tx.Key.Thread, h.tx.Key.Owner)
	} else {
		row, err = h.tx.Q.LastAnswer(h.tx.Ctx, h.tx.Key.Thread, h.tx.Key.Owner, callID)
	}
	data := map[string]any{"message_id": nil, "status": cmp.Or(status, string(thread.StatusCompleted)), "usage": nil}
	if database.IsMissing(err) {
		return data, nil
	}
	if err != nil {
		return nil, err
	}
	m, err := messageFromRow(row)
	if err != nil {
		return nil, err
	}
	data["message_id"], data["status"] = m.ID, cmp.Or(status, string(m.Metadata.Status))
	if len(m.Metadata.Usage) > 0 {
		data["usage"] = m.Metadata.Usage
	}
	return data, nil
}

// message tells hooks of a message that nothing is added to any more. In the end it is what last returns.
func (h *hooking) message(m thread.Message, last func() thread.Message) {
	if m.Role != thread.RoleSystem && m.Metadata.Status != thread.StatusInProgress {
		h.tell(hooked.MessageCompleted, m.ID+" "+string(m.Metadata.Status), func() (map[string]any, error) {
			return map[string]any{"message": last()}, nil
		})
	}
}

// toolCall tells hooks of a tool call that has ended.
func (h *hooking) toolCall(c thread.ToolCall) {
	if c.Status != thread.ToolCallDone && c.Status != thread.ToolCallFailed && c.Status != thread.ToolCallCancelled {
		return
	}
	h.tell(hooked.ToolCompleted, c.ID, func() (map[string]any, error) {
		data := map[string]any{
			"tool_call_id": c.ToolCallID, "name": c.Name, "executor": c.Executor, "status": c.Status,
			"duration_ms": nil,
		}
		if c.FinishedAt != nil && !c.StartedAt.IsZero() {
			data["duration_ms"] = c.FinishedAt.Sub(c.StartedAt).Milliseconds()
		}
		return data, nil
	})
}
