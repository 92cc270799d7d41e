package chat

import (
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/thread"
)

// TestAnswersTo finds what answers a message of a thread, in which calls stand between it and its other answers: what a call has said
// answers only what was said in it.
func TestAnswersTo(t *testing.T) {
	t.Parallel()
	message := func(role thread.Role, id, call, answers string) thread.Message {
		m := thread.Message{ID: id, Role: role, Metadata: thread.Metadata{CallID: call}}
		if answers != "" {
			m = withExtra(m, extraAnswers, answers)
		}
		return m
	}
	user := func(id, call string) thread.Message { return message(thread.RoleUser, id, call, "") }
	says := func(id, call, answers string) thread.Message {
		return message(thread.RoleAssistant, id, call, answers)
	}
	for name, tt := range map[string]struct {
		messages []thread.Message
		want     string
	}{
		"a turn":                             {[]thread.Message{user("q", ""), says("a", "", "q")}, "a"},
		"a greeting before the second try":   {[]thread.Message{user("q", ""), says("f", "", "q"), says("hello", "c1", ""), says("a", "", "q")}, "f a"},
		"a greeting and no try":              {[]thread.Message{user("q", ""), says("hello", "c1", "")}, ""},
		"spoken words before the second try": {[]thread.Message{user("q", ""), says("f", "", "q"), user("u", "c1"), says("s", "c1", ""), says("a", "", "q")}, "f a"},
		"the question's own call":            {[]thread.Message{user("q", "c1"), says("a", "c1", ""), says("b", "c1", "")}, "a b"},
		"another call":                       {[]thread.Message{user("q", "c1"), says("hello", "c2", ""), says("a", "", "q")}, "a"},
		"answers to another":                 {[]thread.Message{user("q", "c1"), says("a", "c1", "p")}, ""},
	} {
		var got []string
		for _, m := range answersTo(tt.messages, "q") {
			got = append(got, m.ID)
		}
		testkit.Equal(t, got, strings.Fields(tt.want), "%s", name)
	}
}
