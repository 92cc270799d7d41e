package chat_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/thread"
)

func text(role thread.Role, parts ...thread.Part) thread.Message {
	return thread.Message{Role: role, Parts: parts, Metadata: thread.Metadata{Status: thread.StatusCompleted}}
}

func words(role thread.Role, s string) thread.Message {
	return text(role, thread.TextPart(s))
}

func toolPart(id, name string, state thread.ToolState, input, output string) thread.Part {
	p := thread.ToolPart(name)
	p.ToolCallID, p.State, p.Input = id, state, json.RawMessage(input)
	switch state {
	case thread.ToolOutputAvailable:
		p.Output = json.RawMessage(output)
	case thread.ToolOutputError:
		p.ErrorText = output
	}
	return p
}

func TestMessages(t *testing.T) {
	t.Parallel()
	const user, assistant, system = thread.RoleUser, thread.RoleAssistant, thread.RoleSystem
	heard := func(s string, parts ...thread.Part) thread.Message {
		m := text(assistant, parts...)
		m.Metadata.Status, m.Metadata.HeardText = thread.StatusInterrupted, &s
		return m
	}
	signed := toolPart("a", "t", thread.ToolOutputAvailable, "{}", `"x"`)
	signed.Raw = json.RawMessage(`{"type":"tool-t","callProviderMetadata":{"fake":{"thoughtSignature":"s"},"other":{"no":1},"voicebridge":{"result":"short"}}}`)
	plain := toolPart("a", "t", thread.ToolOutputAvailable, "{}", `"x"`)
	plain.Raw = json.RawMessage(`{"callProviderMetadata":{"fake":{"value_":"s"}}}`)
	notice := words(assistant, "no money")
	notice.Metadata.Extra = map[string]json.RawMessage{"notice": json.RawMessage("true")}
	for name, c := range map[string]struct {
		thread []thread.Message
		want   string
	}{
		"words":     {[]thread.Message{words(system, "s"), words(user, "u"), words(assistant, "a")}, "system: s\nuser: u\nassistant: a"},
		"no words":  {[]thread.Message{words(user, " "), text(user), text(assistant, thread.StepStart())}, ""},
		"two texts": {[]thread.Message{text(assistant, thread.TextPart("a"), thread.TextPart("b"))}, "assistant: a\nb"},
		"steps": {[]thread.Message{text(assistant,
			thread.StepStart(), thread.TextPart("one"),
			toolPart("a", "t", thread.ToolOutputAvailable, `{"x": 1}`, `{"y": 2}`), toolPart("b", "t", thread.ToolOutputError, `{}`, "broken"),
			thread.StepStart(), toolPart("c", "t", thread.ToolInputAvailable, ``, ""),
			thread.StepStart(), thread.TextPart("end"))},
			"assistant: one a=t({\"x\":1}) b=t({})\ntool: {\"y\":2} <- a t\ntool: Error: broken <- b t failed\n" +
				"assistant:  c=t({})\ntool: Error: the call ended before it was answered <- c t failed\nassistant: end"},
		"text after a call": {[]thread.Message{text(assistant, thread.StepStart(), toolPart("a", "t", thread.ToolOutputAvailable, `{}`, `"x"`), thread.TextPart("more"))},
			"assistant: more a=t({})\ntool: x <- a t"},
		"strange calls": {[]thread.Message{text(assistant,
			toolPart("a", "t.t/ü", thread.ToolOutputAvailable, `"text"`, ``), toolPart("a", "", thread.ToolOutputAvailable, `[1]`, `null`))},
			"assistant:  a=t_t__({}) call_a090a256cb93456a8f5d575b=unknown({})\ntool: null <- a t_t__\ntool: null <- call_a090a256cb93456a8f5d575b unknown"},
		"heard":          {[]thread.Message{heard("One two.", thread.TextPart("One two. "), thread.TextPart("Three."))}, "assistant: One two."},
		"heard in part":  {[]thread.Message{heard("One two. Th", thread.TextPart("One two."), thread.TextPart("Three."))}, "assistant: One two.\nTh"},
		"heard nothing":  {[]thread.Message{heard("", thread.TextPart("One two."))}, ""},
		"notice":         {[]thread.Message{words(user, "u"), notice}, "user: u"},
		"metadata":       {[]thread.Message{text(assistant, signed)}, "assistant:  a=t({}){\"thoughtSignature\":\"s\"}\ntool: short <- a t"},
		"plain metadata": {[]thread.Message{text(assistant, plain)}, "assistant:  a=t({})\"s\"\ntool: x <- a t"},
		"chart": {[]thread.Message{text(assistant, toolPart("a", "t", thread.ToolOutputAvailable, `{}`, `{"chartId":"7","chartData":[1,2],"title":"Sales"}`))},
			"assistant:  a=t({})\ntool: {\"summary\":\"Sales\",\"chartId\":\"7\"} <- a t"},
		"unknown parts": {[]thread.Message{text(user, thread.Part{Type: "file"}, thread.TextPart("u"))}, "user: u"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkText(t, "the request", talk(chat.HistoryConfig{}.Messages(c.thread, "fake")), c.want)
		})
	}
}

// TestEarlierOutputs cuts long outputs, but not those that may be new to the model.
func TestEarlierOutputs(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", 9000)
	messages := []thread.Message{
		words(thread.RoleUser, "u"),
		text(thread.RoleAssistant, toolPart("a", "t", thread.ToolOutputAvailable, `{"x":"`+long+`"}`, `"`+long+`"`)),
	}
	got := chat.HistoryConfig{}.Messages(messages, "")
	if got[2].Content != long || len(got[1].ToolCalls[0].Arguments) > 100 {
		t.Errorf("the last output has %d bytes, the arguments %d", len(got[2].Content), len(got[1].ToolCalls[0].Arguments))
	}
	got = chat.HistoryConfig{}.Messages(append(messages, words(thread.RoleAssistant, "a")), "")
	if n := utf8.RuneCountInString(got[2].Content); n < 8000 || n > 8010 || !utf8.ValidString(got[2].Content) {
		t.Errorf("the earlier output has %d characters, want about 8000", n)
	}
}

// tokens counts a request by the heuristic, without system messages.
func tokens(messages []llm.Message) int {
	n := 0
	for _, m := range messages {
		if m.Role == llm.RoleSystem {
			continue
		}
		size := utf8.RuneCountInString(m.Content)
		for _, c := range m.ToolCalls {
			size += utf8.RuneCountInString(c.Name) + utf8.RuneCountInString(c.Arguments)
		}
		n += (size + 3) / 4
	}
	return n
}

// randomTurn returns the messages of a plausible turn.
func randomTurn(r *rand.Rand, n int) []thread.Message {
	var turn []thread.Message
	filler := func(most int) string { return strings.Repeat("wörd ", r.IntN(most)) }
	if r.IntN(6) == 0 {
		turn = append(turn, words(thread.RoleSystem, fmt.Sprintf("order %d", n)))
	}
	turn = append(turn, words(thread.RoleUser, fmt.Sprintf("question %d %s", n, filler(60))))
	answer := text(thread.RoleAssistant)
	for step := range 1 + r.IntN(3) {
		answer.Parts = append(answer.Parts, thread.StepStart(), thread.TextPart(filler(80)))
		for call := range r.IntN(3) {
			states := []thread.ToolState{thread.ToolInputAvailable, thread.ToolOutputAvailable, thread.ToolOutputError}
			answer.Parts = append(answer.Parts, toolPart(fmt.Sprintf("c%d-%d-%d", n, step, call), "tool", states[r.IntN(3)],
				`{"q":"`+filler(30)+`"}`, `"`+filler(120)+`"`))
		}
	}
	return append(turn, answer)
}

// checkPairs reports what is wrong with the calls of a request.
func checkPairs(messages []llm.Message) error {
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if m.Role == llm.RoleTool {
			return fmt.Errorf("message %d answers a call that does not exist", i)
		}
		for n, c := range m.ToolCalls {
			if i+1+n >= len(messages) || messages[i+1+n].Role != llm.RoleTool || messages[i+1+n].ToolCallID != c.ID {
				return fmt.Errorf("call %s of message %d has no result after it", c.ID, i)
			}
		}
		i += len(m.ToolCalls)
	}
	return nil
}

// TestTrimming grows random conversations turn by turn and checks each request.
func TestTrimming(t *testing.T) {
	t.Parallel()
	for seed := range uint64(24) {
		r := rand.New(rand.NewPCG(seed, 1))
		h := chat.HistoryConfig{MaxTurns: 1 + r.IntN(30), MaxTokens: 200 + r.IntN(4000), TrimChunkTokens: 50 + r.IntN(300)}
		h.TrimChunkTokens = min(h.TrimChunkTokens, h.MaxTokens/2)
		var thread []thread.Message
		var before []llm.Message
		orders, kept := 0, 0
		for n := range 50 {
			turn := randomTurn(r, n)
			question := len(turn) - 1
			orders += question - 1
			thread = append(thread, turn[:question]...) // a request is made when the user has spoken
			got := h.Messages(thread, "p")
			if err := checkPairs(got); err != nil {
				t.Fatalf("seed %d, turn %d: %v", seed, n, err)
			}
			questions := count(got, llm.RoleUser)
			if questions > h.MaxTurns {
				t.Fatalf("seed %d, turn %d: %d turns, at most %d", seed, n, questions, h.MaxTurns)
			}
			if size := tokens(got); size > h.MaxTokens && questions > 1 {
				t.Fatalf("seed %d, turn %d: %d tokens, at most %d", seed, n, size, h.MaxTokens)
			}
			if count(got, llm.RoleSystem) != orders {
				t.Fatalf("seed %d, turn %d: system messages are lost", seed, n)
			}
			checkStep(t, h, fmt.Sprintf("seed %d, turn %d", seed, n), before, got)
			if n > 0 && stable(before, got) {
				kept++
			}
			before = got
			thread = append(thread, turn[question:]...)
		}
		if h.MaxTurns >= 12 && h.MaxTokens > 3000 && kept < 20 {
			t.Errorf("seed %d: only %d of 49 requests begin like the one before", seed, kept)
		}
	}
}

// TestLongInstructions: instructions of any size leave room for what was said.
func TestLongInstructions(t *testing.T) {
	t.Parallel()
	h := chat.HistoryConfig{MaxTokens: 200}
	got := h.Messages([]thread.Message{
		words(thread.RoleSystem, strings.Repeat("rule ", 1000)), words(thread.RoleUser, "I am Anna."), words(thread.RoleAssistant, "Hello."),
		words(thread.RoleSystem, strings.Repeat("rule ", 1000)), words(thread.RoleUser, "Who am I?"),
	}, "p")
	if text := talk(got); count(got, llm.RoleSystem) != 2 || !strings.Contains(text, "user: I am Anna.\nassistant: Hello.\n") {
		t.Errorf("the request is\n%s", text)
	}
}

// checkStep compares a request with the one before: it begins the same, or it was trimmed,
// and then it is a whole chunk below the limit or a quarter of the turns shorter.
func checkStep(t *testing.T, h chat.HistoryConfig, where string, before, got []llm.Message) {
	t.Helper()
	if stable(before, got) {
		return
	}
	questions := count(got, llm.RoleUser)
	few := questions <= h.MaxTurns-h.MaxTurns/4
	small := tokens(got) <= h.MaxTokens-h.TrimChunkTokens
	if !few && !small && questions > 1 {
		t.Errorf("%s: trimmed to %d turns and %d tokens", where, questions, tokens(got))
	}
}

// stable reports whether a request begins with all of the earlier one. The outputs in the
// earlier one's last messages may be shorter now.
func stable(before, got []llm.Message) bool {
	return len(got) >= len(before) && slices.EqualFunc(before, got[:len(before)], func(a, b llm.Message) bool {
		return a.Role == b.Role && a.ToolCallID == b.ToolCallID && (a.Content == b.Content || a.Role == llm.RoleTool)
	})
}

func count(messages []llm.Message, role llm.Role) int {
	n := 0
	for _, m := range messages {
		if m.Role == role {
			n++
		}
	}
	return n
}

// TestAnchor checks long threads of which only the end is read.
func TestAnchor(t *testing.T) {
	t.Parallel()
	var messages []thread.Message
	changes, last := 0, int64(0)
	for seq := int64(1); seq < 5000; seq += 3 {
		m := words(thread.RoleUser, "x")
		m.Seq = seq
		messages = append(messages, m)
		window := messages[max(0, len(messages)-400):]
		got := chat.AlignStart(window)
		if len(got) == 0 || got[len(got)-1].Seq != seq || len(window) > 10 && len(got) < len(window)/3 {
			t.Fatalf("%d messages became %d", len(window), len(got))
		}
		if len(window) == 400 && got[0].Seq != last {
			changes++
			last = got[0].Seq
		}
	}
	if changes > 12 {
		t.Errorf("the first message changed %d times", changes)
	}
}

func FuzzMessages(f *testing.F) {
	f.Add(`[{"id":"a","role":"assistant","parts":[{"type":"step-start"},{"type":"tool-x","toolCallId":"1","state":"output-available","input":{},"output":[1],"callProviderMetadata":{"p":[]}}]}]`)
	f.Add(`[{"id":"a","role":"assistant","parts":[{"type":"dynamic-tool","toolName":"x","toolCallId":"","state":"","callProviderMetadata":7}],"metadata":{"heard_text":"x"}}]`)
	f.Fuzz(func(t *testing.T, data string) {
		var thread []thread.Message
		if json.Unmarshal([]byte(data), &thread) != nil {
			return
		}
		if err := checkPairs(chat.HistoryConfig{MaxTurns: 2, MaxTokens: 50, TrimChunkTokens: 10}.Messages(thread, "p")); err != nil {
			t.Error(err)
		}
	})
}
