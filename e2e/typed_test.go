package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/thread"
)

// TestTypedAndSpoken types on a thread, calls it, types into the call, and types again:
// each side knows what was said on the other.
func TestTypedAndSpoken(t *testing.T) {
	t.Parallel()
	for name, url := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{database: url(t), environ: []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator"}})
			var made struct{ ID string }
			r.postJSON(t, "/api/threads", `{}`, http.StatusCreated, &made)
			messages := "/api/threads/" + made.ID + "/messages"
			var first struct{ Message thread.Message }
			r.postJSON(t, messages, `{"content":"My cat is called Nils."}`, http.StatusOK, &first)

			c := r.dial(t, request{thread: made.ID})
			c.next("bridge.ready")
			replayed := []string{"user: My cat is called Nils.", "assistant: " + first.Message.Text()}
			if got := replayOf(t, c.session); !slices.Equal(got, replayed) {
				t.Errorf("the call was told %q, want %q", got, replayed)
			}
			hearTurn(c)
			c.saved("spoken turn", says(thread.RoleUser, spokenWords))
			r.postJSON(t, messages, `{"content":"Hello."}`, http.StatusAccepted, nil)
			c.next(realtime.TypeOutputBufferStopped)
			c.saved("answer", says(thread.RoleAssistant, "Well."))
			r.over(c, "hangup")

			var last struct{ Message thread.Message }
			r.postJSON(t, messages, `{"content":"What did I say before?"}`, http.StatusOK, &last)
			if text := last.Message.Text(); !strings.Contains(text, "Hello.") {
				t.Errorf("typed after the call, it answers %q", text)
			}
			r.wantScript(t, made.ID,
				"user text completed: My cat is called Nils.", "assistant text completed: "+first.Message.Text(),
				"user voice completed: "+spokenWords, "assistant voice completed: "+spokenAnswer,
				"user text completed: Hello.", "assistant voice completed: Well.",
				"user text completed: What did I say before?", "assistant text completed: "+last.Message.Text())
			r.quiet()
		})
	}
}
