package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/realtimetest/livetest"
	"voicebridge/thread"
)

// byLive is the simulator of GPT-Live as an upstream.
const byLive = `{"name":"lively","profile":"live","url":"{upstream}/live/sessions","api_key_env":"OPENAI_API_KEY"}`

// liveSession returns the n-th session of the simulator, from 1.
func (r *rig) liveSession(t *testing.T, n int) *livetest.Session {
	t.Helper()
	testkit.Eventually(t, "a session", func() bool { return len(r.live.Sessions()) >= n })
	return r.live.Sessions()[n-1]
}

// TestLiveClient calls GPT-Live over WebSocket with OpenAI's Agents SDK: spoken and typed questions, a tool of the client's and a chart.
func TestLiveClient(t *testing.T) {
	t.Parallel()
	wav, err := filepath.Abs(voice)
	must(t, err)
	r := newRig(t, rigConfig{upstreams: "[" + byLive + "]", environ: []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator"}})
	out := runNode(t, "socket.mjs", newestSDK, r.url+"/v1", wav, "", "answers")
	t.Logf("%s", out)
	var seen struct {
		HeardMS      float64
		Said, Errors []string
		Ran          []float64
	}
	must(t, json.Unmarshal(out, &seen))
	if len(seen.Errors) > 0 || seen.HeardMS < 500 || !slices.Equal(seen.Ran, []float64{1}) {
		t.Errorf("errors %q, %.0f ms of sound, tools ran with %v", seen.Errors, seen.HeardMS, seen.Ran)
	}
	said := strings.Join(seen.Said, "\n") // its answers as one, or as two; the last word of a question may come after its end
	for _, words := range []string{"user: What time", spokenAnswer, "Here is"} {
		if !strings.Contains(said, words) {
			t.Errorf("no %q in %q", words, said)
		}
	}
}

// TestLive calls GPT-Live with a client of the Realtime API, and kills the program in the middle: the next one ends the session, and
// knows what it has cost and what was said.
func TestLive(t *testing.T) {
	t.Parallel()
	takePlace(t)
	r := newRig(t, rigConfig{upstreams: "[" + byLive + "]", environ: []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator"}})
	r.another = true
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.speak()
	c.saved("the answer", says(thread.RoleAssistant, spokenAnswer))
	c.say(chartPlease)
	c.next("bridge.tool.done")
	c.saved("the chart", says(thread.RoleAssistant, "Here is"))
	c.send([]byte(`{"type":"input_audio_buffer.commit","event_id":"mine"}`))
	if refused := c.next(realtime.TypeError); refused.Error.Code != "not_supported_by_upstream" || refused.Error.EventID != "mine" {
		t.Errorf("a commit is answered with %s", refused.Raw)
	}
	s := r.liveSession(t, 1)
	r.kill()
	killed := time.Now()
	if s.Over() {
		t.Error("the session has ended by itself")
	}
	r.start()
	testkit.Eventually(t, "the end of what was left", s.Over)
	if took := time.Since(killed); took > 20*time.Second {
		t.Errorf("the session went on for %v", took)
	}
	testkit.Eventually(t, "its record", func() bool {
		return len(r.rows(t, "SELECT kind FROM responses WHERE kind = 'session' AND status = 'completed' AND cost_usd > 0 AND finished_at IS NOT NULL AND NOT estimated")) == 1
	})
	r.wantLike(t, c.thread, []string{
		"user voice completed: " + spokenWords, "assistant voice completed: " + spokenAnswer, "user text completed: " + chartPlease,
		"assistant voice completed: [tool-ask_agent output-available]", "assistant text completed: …", "assistant voice completed: Here is…",
	})
	again := r.dial(t, request{thread: c.thread})
	again.next("bridge.ready")
	again.hangUp()
	r.untilSaved(again)
	testkit.Eventually(t, "the end of the session", r.liveSession(t, 2).Over)
}
