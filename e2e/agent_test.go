package e2e

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// What the callers in these tests type, and what the voice answers.
const (
	askChart, askChartAnswer = "Ask for a chart.", "Here you are."
	askFail, askFailAnswer   = "Ask it to fail.", "It could not."
	askTwice                 = "Ask twice."
	askLong                  = "Ask for a story."
	askMoment                = "One moment."
)

// agentScript is a voice model that asks the agent.
func agentScript() *simulator.Script {
	rule := func(text string, questions ...string) simulator.Rule {
		reply := simulator.Reply{Say: askMoment, Then: askChartAnswer, Failed: askFailAnswer}
		for _, q := range questions {
			arguments, _ := json.Marshal(map[string]string{"question": q})
			reply.Calls = append(reply.Calls, simulator.Call{Name: chat.AskAgentName, Arguments: string(arguments)})
		}
		return simulator.Rule{Match: regexp.MustCompile("^" + regexp.QuoteMeta(text) + "$"), Reply: reply}
	}
	return &simulator.Script{
		Typed: []simulator.Rule{
			rule(askChart, "Draw a pie chart."), rule(askFail, "Fail with quota."),
			rule(askTwice, "Tell me a long story.", "Tell me another long story."), rule(askLong, "Tell me a long story."),
		},
		Otherwise: simulator.Reply{Say: "Well."},
		Spoken:    []simulator.Reply{{Transcript: spokenWords, Say: spokenAnswer}},
	}
}

// outputs returns the function outputs that the upstream was sent.
func outputs(t *testing.T, s *simulator.Session) []string {
	t.Helper()
	var out []string
	for _, r := range s.Received() {
		if item, err := realtime.DecodeItem(r.Event.Item); err == nil && item.Type == realtime.ItemFunctionCallOutput {
			out = append(out, item.Output)
		}
	}
	return out
}

// toolEvent waits for an event about a tool that contains the given text.
func (c *caller) toolEvent(kind, text string) timedEvent {
	c.t.Helper()
	return c.wait(kind+" with "+text, func(ev timedEvent) bool {
		return ev.Type == "bridge.tool."+kind && strings.Contains(string(ev.Raw), text)
	})
}

// answered waits until the voice has finished saying something.
func (c *caller) answered(words string) {
	c.t.Helper()
	c.saved("answer", says(thread.RoleAssistant, words))
}

// heard waits until the given number of the call's answers were heard to their end.
func (c *caller) heard(answers int) {
	c.t.Helper()
	c.until("silence", func() bool {
		n := 0
		for _, ev := range c.events {
			if ev.Type == realtime.TypeOutputBufferStopped {
				n++
			}
		}
		return n >= answers
	})
}

const pieAnswer = "Here is your chart. Sales grew in every quarter of this year."

// TestAskAgent has a voice call ask the agent, which draws a chart, fails, is busy, and is
// cancelled. The call survives all of it.
func TestAskAgent(t *testing.T) {
	t.Parallel()
	for name, url := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{
				database: url(t), simulator: simulator.Config{Script: agentScript()}, environ: []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator"},
			})
			c := r.dial(t, request{})
			c.next("bridge.ready")

			c.say(askChart)
			c.toolEvent("started", chat.AskAgentName)
			c.toolEvent("progress", `"tool":"create_pie_chart"`)
			c.toolEvent("progress", `"text":"`)
			c.toolEvent("done", pieAnswer)
			c.answered(askChartAnswer)
			c.heard(2)
			if got := outputs(t, c.session); !slices.Equal(got, []string{pieAnswer}) {
				t.Errorf("the model was told %q", got)
			}
			charted := []string{
				"user text completed: " + askChart,
				"assistant voice completed: " + askMoment + "[tool-ask_agent output-available]",
				"assistant text completed: Let me draw that for you. \n" + pieAnswer + "[tool-create_pie_chart output-available]",
				"assistant voice completed: " + askChartAnswer,
			}
			r.wantScript(t, c.thread, charted...)
			r.askedBy(t, c.thread, 2, 1)

			c.say(askFail)
			c.toolEvent("failed", "asked to fail (quota)")
			c.answered(askFailAnswer)
			c.heard(4)
			r.wantScript(t, c.thread, append(slices.Clone(charted),
				"user text completed: "+askFail,
				"assistant voice completed: "+askMoment+"[tool-ask_agent output-error]",
				"assistant text failed: The simulator was asked to fail (quota).",
				"assistant voice completed: "+askFailAnswer)...)
			r.over(c, "hangup")

			wantRows(t, r, "SELECT name, executor, status, error, CASE WHEN call_id = '' THEN 'text' ELSE 'voice' END FROM tool_calls ORDER BY started_at",
				"ask_agent | app | done |  | voice", "create_pie_chart | app | done |  | text", "ask_agent | app | failed | the agent failed: The simulator was asked to fail (quota). | voice")
			wantRows(t, r, "SELECT status, count(*) FROM responses WHERE call_id = '' AND message_id <> '' GROUP BY status ORDER BY status", "completed | 2", "failed | 1")

			// The next call gets the answer once, and so do typed turns.
			next := r.dial(t, request{thread: c.thread})
			next.next("bridge.ready")
			replayed := []string{
				"user: " + askChart, "assistant: " + askMoment, "function_call ask_agent", "function_call_output",
				"function_call create_pie_chart", "function_call_output", "assistant: " + askChartAnswer,
				"user: " + askFail, "assistant: " + askMoment, "function_call ask_agent", "function_call_output", "assistant: " + askFailAnswer,
			}
			if got := replayOf(t, next.session); !slices.Equal(got, replayed) {
				t.Errorf("the next call was told %q", got)
			}
			r.over(next, "hangup")
			r.quiet()
		})
	}
}

// askedBy checks that a message answers a tool call in another message.
func (r *rig) askedBy(t *testing.T, thread string, answer, asking int) {
	t.Helper()
	all := r.messages(t, thread)
	if len(all) <= max(answer, asking) {
		t.Fatalf("the thread has %d messages", len(all))
	}
	for _, p := range all[asking].Parts {
		var output struct {
			MessageID string `json:"message_id"`
		}
		if p.IsTool() && p.ToolCallID == all[answer].AskedBy() && json.Unmarshal(p.Output, &output) == nil && output.MessageID == all[answer].ID {
			return
		}
	}
	t.Errorf("message %d is asked by %q, which is no call of message %d", answer, all[answer].AskedBy(), asking)
}

func wantRows(t *testing.T, r *rig, query string, want ...string) {
	t.Helper()
	if got := r.rows(t, query); !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", query, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestAskAgentIsBusy has a model that asks twice at once, cancels, and asks again.
func TestAskAgentIsBusy(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{simulator: simulator.Config{Script: agentScript()}, environ: []string{"VOICEBRIDGE_TEXT_PROVIDER=simulator"}})
	c := r.dial(t, request{})
	c.next("bridge.ready")
	c.say(askTwice)
	c.toolEvent("failed", "the agent is busy")
	c.toolEvent("done", "That is the whole story.")
	c.answered(askFailAnswer) // of the two outputs, the voice reports the failure
	if got := outputs(t, c.session); len(got) != 2 {
		t.Errorf("the model was told %q", got)
	}
	c.say(askLong)
	progress := c.toolEvent("progress", "Let me tell you how")
	var run struct {
		ToolCallID string `json:"tool_call_id"`
	}
	testkit.Must(t, json.Unmarshal(progress.Raw, &run))
	c.put(`{"type":"bridge.tool.cancel","tool_call_id":%q}`, run.ToolCallID)
	c.toolEvent("failed", "The user cancelled this tool call.")
	c.say("And now?")
	c.answered("Well.")
	r.over(c, "hangup")
	lines := r.script(t, c.thread)
	for _, want := range []string{"assistant text completed: Let me tell you how a message travels.", "assistant text interrupted: Let me tell you"} {
		if !slices.ContainsFunc(lines, func(line string) bool { return strings.HasPrefix(line, want) }) {
			t.Errorf("no %q in\n%s", want, strings.Join(lines, "\n"))
		}
	}
	wantRows(t, r, "SELECT status, count(*) FROM tool_calls GROUP BY status ORDER BY status", "cancelled | 1", "done | 1", "failed | 1")

	// Hanging up in the middle ends the wait for the agent, which goes on: its answer is in the thread.
	c = r.dial(t, request{thread: c.thread})
	c.next("bridge.ready")
	c.say(askLong)
	c.toolEvent("progress", "Let me tell you how")
	c.hangUp()
	r.untilSaved(c)
	wantRows(t, r, "SELECT status, count(*) FROM tool_calls GROUP BY status ORDER BY status", "cancelled | 2", "done | 1", "failed | 1")
	testkit.Eventually(t, "the agent's second story", func() bool {
		told := slices.DeleteFunc(r.script(t, c.thread), func(line string) bool {
			return !strings.HasPrefix(line, "assistant text completed: Let me tell you how a message travels.")
		})
		return len(told) == 2
	})
	r.wantLeft(c, "hangup")
	r.quiet()
}
