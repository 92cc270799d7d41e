package bridge_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// asked is the approval request on the data channel.
type asked struct {
	ToolCallID string `json:"tool_call_id"`
	Nonce      string
}

func (c *browser) asked() (q asked) {
	c.t.Helper()
	must(c.t, json.Unmarshal(c.next("bridge.tool.approval_required").Raw, &q))
	return q
}

// TestApprovalsAreSaved asks four times. The answers arrive on the data channel, twice through the
// database, and not at all.
func TestApprovalsAreSaved(t *testing.T) {
	t.Parallel()
	engines(t, testApprovalsAreSaved)
}

func testApprovalsAreSaved(t *testing.T, store *persistence.Store) {
	t.Helper()
	b := newBench(t, store, benchConfig{bridge: bridge.Config{Settings: bridge.Settings{Approve: toolkit.MustNames("create_bar_chart")}}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	key := c.key()
	ask := func() asked {
		c.say("Show me a chart")
		return c.asked()
	}
	answer := func(q asked, approved bool) {
		c.wait("the saved request", func(ev realtime.Event) bool {
			return ev.Type == "bridge.message" && strings.Contains(string(ev.Raw), q.ToolCallID)
		})
		must(t, b.store.AnswerApproval(b.ctx, key, q.ToolCallID, q.Nonce, "anna", approved))
	}

	q := ask()
	c.send(`{"type":"bridge.tool.approve","tool_call_id":%q,"nonce":"guess"}`, q.ToolCallID)
	c.next(realtime.TypeError)
	c.send(`{"type":"bridge.tool.approve","tool_call_id":%q,"nonce":%q}`, q.ToolCallID, q.Nonce)
	c.next("bridge.tool.done")
	c.played(2)

	q = ask()
	answer(q, false)
	c.next("bridge.tool.failed")
	c.played(4)

	q = ask()
	answer(q, true)
	c.next("bridge.tool.done")
	c.played(6)

	q = ask()
	b.hangUp(c)
	err := b.store.AnswerApproval(b.ctx, key, q.ToolCallID, q.Nonce, "anna", true)
	if !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("AnswerApproval() after the call = %v", err)
	}
	var got []thread.Approval
	for _, m := range b.messages(key) {
		for _, p := range m.Parts {
			if p.IsTool() {
				got = append(got, b.approvalOf(key, p.ToolCallID))
			}
		}
	}
	want := []thread.Approval{
		{Outcome: thread.ApprovalApproved, AnsweredBy: owner}, {Outcome: thread.ApprovalDenied, AnsweredBy: "anna"},
		{Outcome: thread.ApprovalApproved, AnsweredBy: "anna"}, {Outcome: thread.ApprovalInterrupted},
	}
	if len(got) != len(want) {
		t.Fatalf("%d questions: %+v", len(got), got)
	}
	for i, a := range got {
		if a.Outcome != want[i].Outcome || a.AnsweredBy != want[i].AnsweredBy || a.AnsweredAt == nil {
			t.Errorf("question %d: %+v, want %s by %q", i, a, want[i].Outcome, want[i].AnsweredBy)
		}
	}
}

// approvalOf reads the approval of a tool call.
func (b *bench) approvalOf(key thread.Key, toolCallID string) (a thread.Approval) {
	b.t.Helper()
	var call thread.ToolCall
	err := b.store.Batch(b.ctx, key, func(w *persistence.Batch) (err error) {
		call, _, err = w.Records.ToolCall(toolCallID)
		return err
	})
	if err == nil {
		a, err = b.store.Approval(b.ctx, key, call.ID)
	}
	if err != nil {
		b.t.Fatalf("question about %s: %v", toolCallID, err)
	}
	return a
}
