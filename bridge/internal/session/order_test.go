package session

import (
	"strings"
	"testing"

	"voicebridge/thread"
)

// TestEndThatAModelDoesNotGet has a thread whose last message, an answer that was interrupted before its first word, is
// not among those for a model. What is said comes after it, also what is announced in disorder, and so does the next call.
func TestEndThatAModelDoesNotGet(t *testing.T) {
	t.Parallel()
	s := newTestState(t, Config{History: []thread.Message{{ID: "said", Role: thread.RoleUser}}, LastMessage: "empty"})
	if history, last := s.EndOfThread(); len(history) != 1 || last != "empty" {
		t.Errorf("the end of the thread is %v, %q", history, last)
	}
	c := &scripted{t: t, now: epoch, s: s}
	c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	c.play(`up {"type":"input_audio_buffer.committed","item_id":"i2","previous_item_id":"i1"}`)
	c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":"i0"}`)
	if want := `save message id-2 user voice in_progress after "empty"`; !strings.Contains(c.out.String(), want) {
		t.Errorf("no %s in\n%s", want, &c.out)
	}
	if _, last := s.EndOfThread(); last != "id-1" {
		t.Errorf("the last message is %q", last)
	}
}
