package persistencetest

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// leaveOpen leaves a call in the middle of an answer, as a killed process would.
func leaveOpen(t *testing.T, b bundle) {
	t.Helper()
	running := thread.ToolPart("slow")
	running.ToolCallID, running.State = "fc", thread.ToolInputAvailable
	done := thread.ToolPart("fast")
	done.ToolCallID, done.State = "fd", thread.ToolOutputAvailable
	late := thread.DynamicToolPart("late")
	late.ToolCallID, late.State = "fl", thread.ToolInputAvailable
	last := ""
	err := b.store.Batch(t.Context(), b.key, func(w *persistence.Batch) error {
		for _, m := range []struct {
			role   thread.Role
			status thread.Status
			call   string
			parts  []thread.Part
		}{
			{thread.RoleUser, thread.StatusCompleted, "c", []thread.Part{thread.TextPart("finished")}},
			{thread.RoleUser, thread.StatusInProgress, "c", nil},
			{thread.RoleUser, thread.StatusInProgress, "c", []thread.Part{thread.TextPart("half a question")}},
			{thread.RoleAssistant, thread.StatusInProgress, "c", []thread.Part{thread.TextPart("half an"), running, done}},
			{thread.RoleAssistant, thread.StatusInProgress, "", []thread.Part{thread.TextPart("typed")}},
			{thread.RoleAssistant, thread.StatusCompleted, "c", []thread.Part{thread.TextPart("asked a tool"), late}},
		} {
			msg := thread.Message{Role: m.role, Parts: m.parts}
			msg.Metadata.Status, msg.Metadata.CallID = m.status, m.call
			saved, err := w.AppendMessage(msg)
			if err != nil {
				return err
			}
			last = saved.ID
		}
		if err := w.Records.SaveCall(records.Call{ID: "c", UpstreamCallID: "rtc_1", StartedAt: start}); err != nil {
			return err
		}
		if err := w.Records.SaveToolCall(thread.ToolCall{ID: "t", MessageID: last, CallID: "c", Name: "slow", Status: thread.ToolCallRunning, StartedAt: start}); err != nil {
			return err
		}
		return w.Records.SaveResponse(records.Response{ID: "r", CallID: "c", Status: "in_progress"})
	})
	must(t, err)
}

func (s suite) recover(t *testing.T) {
	b := s.serving(t)
	leaveOpen(t, b)
	b = b.restart(t)
	// What this process has open stays unchanged.
	mine := bundle{url: b.url, store: b.store, key: newThread(t, b.store, "bert")}
	open := text(thread.RoleAssistant, "mine")
	open.Metadata.Status = thread.StatusInProgress
	open = mine.append(t, open)

	last, err := b.store.LastSeq(t.Context(), b.key)
	must(t, err)
	w := startWatch(Within(t), t, b.store, b.key, last-1)
	w.message()
	owner := WatchOwner(t, b.store, b.key.Owner)
	calls, err := b.store.Recover(t.Context())
	if err != nil || len(calls) != 1 {
		t.Fatalf("Recover() = %v, %v, want one call", calls, err)
	}
	if c := calls[0]; c.ID != "c" || c.Owner != "anna" || c.ThreadID != b.key.Thread || c.UpstreamCallID != "rtc_1" ||
		c.EndedAt == nil || c.EndReason != "process_ended" {
		t.Errorf("Recover() = %+v", c)
	}
	var states []string
	for _, m := range b.all(t) {
		states = append(states, string(m.Metadata.Status)+":"+m.Text())
		for _, p := range m.Parts {
			if p.IsTool() {
				states = append(states, p.ToolCallID+"="+string(p.State)+p.ErrorText)
			}
		}
	}
	want := "completed:finished, failed:, failed:half a question, interrupted:half an, fc=output-errorprocess ended, fd=output-available, interrupted:typed, " +
		"completed:asked a tool, fl=output-errorprocess ended"
	testkit.Equal(t, strings.Join(states, ", "), want, "the thread")
	for range 5 { // the five that changed
		if m := w.message(); m.Metadata.Status == thread.StatusInProgress {
			t.Errorf("Watch() gives %+v", m)
		}
	}
	typed := b.all(t)[4].ID
	var ends []string
	for range 3 {
		e := w.event()
		ends = append(ends, fmt.Sprintf("%s %s", e.Type, e.Data))
	}
	testkit.Equal(t, ends, []string{
		`turn_finished {"call_id":"c"}`, `call_ended {"call_id":"c","reason":"process_ended"}`,
		`turn_finished {"message_id":"` + typed + `","status":"interrupted"}`,
	}, "Watch() gives")
	for e, err := range owner.Events(Within(t)) {
		if err != nil || e.Type == persistence.EventCallEnded {
			testkit.Equal(t, string(e.Data), `{"call_id":"c","reason":"process_ended","thread_id":"`+b.key.Thread+`"}`, "WatchOwner() gives %s, %v", e.Data, err)
			break
		}
	}
	wantRows(t, b.url, "SELECT status, error FROM tool_call_log", "failed process ended")
	wantRows(t, b.url, "SELECT status, status_reason FROM responses", "failed process_ended")
	wantRows(t, b.url, "SELECT end_reason FROM calls WHERE ended_at IS NOT NULL", "process_ended")
	if got, err := b.store.Message(t.Context(), mine.key, open.ID); err != nil || got.Metadata.Status != thread.StatusInProgress {
		t.Errorf("Message() of this process = %+v, %v", got, err)
	}
	if calls, err := b.store.Recover(t.Context()); err != nil || len(calls) != 0 {
		t.Errorf("Recover() again = %v, %v", calls, err)
	}
}

// recoverLeavesAlive: with SQLite a second process may not serve at all; with PostgreSQL
// it leaves alone what a living one has open.
func (s suite) recoverLeavesAlive(t *testing.T) {
	b := s.serving(t)
	leaveOpen(t, b)
	url := b.url
	path, isFile := strings.CutPrefix(url, "sqlite:")
	if isFile { // also by another name
		must(t, os.Symlink(path, path+".link"))
		url += ".link"
	}
	other := Open(t, url, persistence.Options{})
	err := other.Serve(t.Context())
	if isFile {
		if err == nil || !strings.Contains(err.Error(), "another voicebridge serves this database") {
			t.Errorf("Serve() of a second process = %v", err)
		}
		return
	}
	must(t, err)
	if calls, err := other.Recover(t.Context()); err != nil || len(calls) != 0 {
		t.Errorf("Recover() = %v, %v, want nothing", calls, err)
	}
	if call, err := other.Records.LiveCall(t.Context(), b.key); err != nil || call.ID != "c" {
		t.Errorf("LiveCall() = %+v, %v", call, err)
	}
}
