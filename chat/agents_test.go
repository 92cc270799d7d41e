package chat_test

import (
	"strings"
	"testing"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

// TestAgentTools runs calls of the agent tools against their schemas.
func TestAgentTools(t *testing.T) {
	t.Parallel()
	must(t, (chat.ClientTools{Tools: chat.AgentTools()}).Validate())
	r := toolkit.NewRegistry()
	for _, d := range chat.AgentTools() {
		run := tool{d.Name, echo.run}
		must(t, r.Add(toolkit.Entry{Tool: defined{run, d}, Executor: toolkit.ExecutorClient}))
	}
	router := toolkit.NewRouter(r, toolkit.RouterConfig{})
	for arguments, ok := range map[string]bool{
		`spawn {"prompt":"x","repository":"a/b"}`: true,
		`spawn {"prompt":"x","prUrl":"u"}`:        true,
		`spawn {"prompt":"x"}`:                    false,
		`spawn {"prompt":"x","prUrl":""}`:         false,
		`spawn {"repository":"a/b"}`:              false,
		`spawn {"prompt":"x","repository":"a/b","ref":"main","prUrl":"u","model":"m","autoCreatePr":true,"autoBranch":false,"skipReviewerRequest":true,"branchName":"n"}`: true,
		`spawn {}`:                                  false,
		`spawn {"prompt":""}`:                       false,
		`spawn {"prompt":"x","repository":"a"}`:     false,
		`spawn {"prompt":"x","force":true}`:         false,
		`status {"id":"1"}`:                         true,
		`status {}`:                                 false,
		`cancel {"id":"1"}`:                         true,
		`cancel {"id":1}`:                           false,
		`followup {"id":"1","prompt":"x"}`:          true,
		`followup {"id":"1"}`:                       false,
		`list {}`:                                   true,
		`list {"limit":5,"cursor":"c","prUrl":"u"}`: true,
		`list {"limit":0}`:                          false,
	} {
		name, input, _ := strings.Cut(arguments, " ")
		got := router.Call(t.Context(), toolkit.Call{ID: "1", Name: "agent_" + name, Arguments: input}, nil)
		if got.Failed() == ok {
			t.Errorf("%s: error %q", arguments, got.Error)
		}
		if arguments == `spawn {"prompt":"x"}` && (!strings.Contains(got.Error, "repository") || !strings.Contains(got.Error, "prUrl")) {
			t.Errorf("%s: the model cannot see from %q what is missing", arguments, got.Error)
		}
	}
	for name, want := range map[string]string{"agent_spawn": "agent.spawn", "agent_list": "agent.list", "agent_other": "agent_other", "look": "look"} {
		testkit.Equal(t, chat.AppName(name), want, "AppName(%q)", name)
	}
}

// defined is a tool with another definition.
type defined struct {
	tool
	def toolkit.Definition
}

func (d defined) Definition() toolkit.Definition { return d.def }
