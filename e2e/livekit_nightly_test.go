//go:build nightly

package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// TestLiveKit has an agent of LiveKit, a client, take its voice from the server, as an application's server: it greets, runs its tool,
// is interrupted by its user and by itself, and hands its context over when it renews its session.
func TestLiveKit(t *testing.T) {
	t.Parallel()
	folder := installed(t, "testdata/livekit")
	wav, err := filepath.Abs(voice)
	must(t, err)
	const token = "token-of-the-agent-0123456789"
	r := newRig(t, rigConfig{environ: []string{"VOICEBRIDGE_API_TOKENS=agent:" + token}})
	r.token = token
	agent := command(t, "node", nil, "agent.mjs", r.url+"/v1", token, wav)
	agent.Dir = folder
	var seen struct {
		Errors             []string
		Ran                []float64
		HeardMS, AfterStop float64
		Sessions           []struct {
			Lines, Context             []string
			Created, Done, Reconnected int
		}
	}
	out := outputOf(t, agent)
	must(t, json.Unmarshal(out, &seen))
	t.Logf("%s", out)
	if len(seen.Errors) > 0 || !slices.Equal(seen.Ran, []float64{1, 1}) || seen.AfterStop > 1500 || len(seen.Sessions) != 2 {
		t.Fatalf("errors %q, its tool ran with %v, %.0f ms came after it had stopped", seen.Errors, seen.Ran, seen.AfterStop)
	}
	tool := []string{"user: " + waitPlease, "assistant: Wait.", "function_call: …", `function_call_output: "Yes."`, "assistant: It said so."}
	for i, want := range []struct {
		lines                []string
		answers, reconnected int
	}{
		{slices.Concat([]string{"assistant: Well.", "user: " + spokenWords, "assistant: " + spokenAnswer}, tool, []string{
			"user: " + chartAndSay, "assistant: I draw.", "assistant: " + chartAnswer, "user: " + countPlease, "assistant (interrupted): n0 n1 n2 …",
			"user: " + secondWords, "assistant: " + secondAnswer, "user: " + countPlease, "assistant (interrupted): n0 n1 n2 …",
			"user: Echo: after that", "assistant: Yes.",
		}), 10, 0},
		{slices.Concat([]string{"user: Echo: before", "assistant: Yes."}, tool), 3, 1},
	} {
		got := seen.Sessions[i]
		testkit.Equal(t, likeness(want.lines, got.Lines), "", "session %d, its history", i)
		for j := range want.lines { // the model's side does not know who was interrupted
			want.lines[j] = strings.Replace(want.lines[j], " (interrupted)", "", 1)
		}
		testkit.Equal(t, likeness(want.lines, got.Context), "", "session %d, the model's context", i)
		if got.Created != want.answers || got.Done != want.answers || got.Reconnected != want.reconnected {
			t.Errorf("session %d: %d answers began, %d ended, renewed %d times", i, got.Created, got.Done, got.Reconnected)
		}
	}
	greeted := func(q simulator.Record) bool {
		return q.Event.Type == realtime.TypeResponseCreate && strings.Contains(string(q.Event.Raw), "Greet the user.")
	}
	if !slices.ContainsFunc(r.upstream(t, 0).Received(), greeted) {
		t.Error("the model was not told to greet")
	}
	threads := r.rows(t, "SELECT id FROM threads ORDER BY created_at, id")
	if len(threads) != 3 {
		t.Fatalf("threads %q", threads)
	}
	r.wantLike(t, threads[2], []string{
		"user text completed: Echo: before", "assistant api completed: Yes.", "user text completed: " + waitPlease,
		"assistant voice completed: Wait.[dynamic-tool output-available]", "assistant voice completed: It said so.",
	})
	tools := []string{"ask_me | client | done", "create_pie_chart | app | done", "ask_me | client | done"}
	testkit.Equal(t, r.rows(t, "SELECT name, executor, status FROM tool_call_log ORDER BY called_at"), tools, "tool calls")
}
