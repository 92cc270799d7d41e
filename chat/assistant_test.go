package chat_test

import (
	"strings"
	"testing"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/persistence/persistencetest"
	"voicebridge/toolkit"
)

// makes adds an assistant of the owner.
func (b *bench) makes(text string) {
	b.t.Helper()
	a, err := assistant.Parse([]byte(text))
	must(b.t, err)
	_, err = b.store.Assistants.Create(b.t.Context(), b.key.Owner, a, true)
	must(b.t, err)
}

// TestAsk has calls ask text models as settings and assistants say.
func TestAsk(t *testing.T) {
	t.Parallel()
	first, second := deltas(says("one")), deltas(says("two"))
	second.name = "second"
	b := start(t, persistencetest.SQLite(t), chat.Config{
		Providers: []llm.Provider{first, second}, Models: map[string]string{"fake": "m1", "second": "m2"}, NoTitles: true,
		Settings: chat.Settings{MaxTokens: 500}, Attempts: 2,
	})
	for name, c := range map[string]struct {
		texts           []assistant.Text
		provider, model string
		warm            bool
		max             int
	}{
		"the server's":         {nil, "fake", "m1", false, 2000},
		"a provider":           {[]assistant.Text{{Provider: "second"}}, "second", "m2", false, 2000},
		"a model":              {[]assistant.Text{{Model: "big", MaxTokens: 9000}}, "fake", "big", false, 2000},
		"both":                 {[]assistant.Text{{Provider: "second", Model: "big", Temperature: new(0.5), MaxTokens: 77}, {}}, "second", "big", true, 77},
		"the last counts":      {[]assistant.Text{{Provider: "second", Model: "big", MaxTokens: 77}, {Provider: "fake"}}, "fake", "m1", false, 2000},
		"one that is gone":     {[]assistant.Text{{Provider: "gone", Model: "big"}}, "fake", "m1", false, 2000},
		"a model of the other": {[]assistant.Text{{Provider: "second"}, {Model: "big"}}, "second", "big", false, 2000},
	} {
		ask := b.c.Ask(c.texts...)
		if r := ask.Request; ask.Provider.Name() != c.provider || r.Model != c.model || (r.Temperature != nil) != c.warm || r.MaxTokens != c.max || ask.Attempts != 2 {
			t.Errorf("%s: Ask() = %+v", name, ask)
		}
	}
	b.stop()
}

// TestAssistantsOfTurns has two assistants, whose requests differ; one is changed, and deleted.
func TestAssistantsOfTurns(t *testing.T) {
	t.Parallel()
	first, second := deltas(says("one")), deltas(says("two"))
	second.name = "second"
	store := persistencetest.SQLite(t)
	b := start(t, store, chat.Config{
		Providers: []llm.Provider{first, second}, Models: map[string]string{"fake": "m1", "second": "m2"}, NoTitles: true, UserName: strings.ToUpper,
		Settings: chat.Settings{Instructions: "The server's.", MaxTokens: 500}, SpokenInstructions: "The server's voice.",
	})
	b.makes(`{"id":"desk","name":"Desk","instructions":"You help {{user}} in {{city}}.","variables":{"city":"Bonn"},
		"text":{"provider":"second","model":"big","temperature":0.5,"max_tokens":77},"history":{"max_turns":1}}`)
	b.makes(`{"id":"plain","name":"Plain","text":{"model":"other"}}`)
	choose := func(id string) {
		t.Helper()
		_, err := store.SetAssistant(t.Context(), b.key, assistant.Ref{Owner: b.key.Owner, ID: id}, nil)
		must(t, err)
	}
	last := func(f *fake) llm.Request {
		t.Helper()
		all := f.seen()
		if len(all) == 0 {
			t.Fatalf("%s was not asked", f.name)
		}
		return all[len(all)-1]
	}
	b.say("Hello")
	if got := last(first); got.System != "The server's." || got.Model != "m1" || got.MaxTokens != 500 || got.Temperature != nil {
		t.Errorf("without an assistant: %+v", got)
	}
	choose("desk")
	b.say("Hello again")
	got := last(second)
	if got.System != "You help ANNA in Bonn." || got.Model != "big" || got.MaxTokens != 77 || got.Temperature == nil || *got.Temperature != 0.5 || len(got.Messages) != 1 {
		t.Errorf("with desk: %+v", got)
	}
	// The request's own choice comes first, and a spoken answer keeps the assistant's words.
	b.wait(b.turn(chat.TurnRequest{User: "Anna B.", Text: "Third", Provider: "fake", Spoken: true}))
	if got := last(first); !strings.HasPrefix(got.System, "You help Anna B. in Bonn.\n\n") || got.Model != "m1" {
		t.Errorf("with desk, by another provider: %+v", got)
	}
	choose("plain")
	b.say("Fourth")
	if got := last(first); got.System != "The server's." || got.Model != "other" || len(got.Messages) < 5 {
		t.Errorf("with plain: %+v", got)
	}
	_, err := store.Assistants.Change(t.Context(), "anna", "plain", func(a assistant.Assistant) (assistant.Assistant, error) {
		return a.Patch([]byte(`{"text":null,"instructions":"Changed."}`))
	})
	must(t, err)
	b.say("Fifth")
	if got := last(first); got.System != "Changed." || got.Model != "m1" {
		t.Errorf("after a change: %+v", got)
	}
	must(t, store.Assistants.Delete(t.Context(), "anna", "plain"))
	b.say("Sixth")
	if got := last(first); got.System != "The server's." {
		t.Errorf("after it was deleted: %+v", got)
	}
}

// TestCostOfALentAssistant has one that wants more than the server gives: it gets that in its owner's threads alone.
func TestCostOfALentAssistant(t *testing.T) {
	t.Parallel()
	for owner, want := range map[string][2]int{"anna": {9000, 3}, "eve": {500, 1}} {
		provider := deltas(says("one"), says("two"))
		store := persistencetest.SQLite(t)
		b := start(t, store, chat.Config{
			Providers: []llm.Provider{provider}, NoTitles: true, Settings: chat.Settings{MaxTokens: 500},
			History: chat.HistoryConfig{MaxTurns: 1},
		})
		a, err := assistant.Parse([]byte(`{"id":"desk","name":"Desk","shared":true,"text":{"max_tokens":9000},"history":{"max_turns":50}}`))
		must(t, err)
		_, err = store.Assistants.Create(t.Context(), owner, a, true)
		must(t, err)
		_, err = store.SetAssistant(t.Context(), b.key, assistant.Ref{Owner: owner, ID: "desk"}, nil)
		must(t, err)
		b.say("First")
		b.say("Second")
		all := provider.seen()
		if got := all[len(all)-1]; got.MaxTokens != want[0] || len(got.Messages) != want[1] {
			t.Errorf("with that of %s: %d tokens after %d messages, want %v", owner, got.MaxTokens, len(got.Messages), want)
		}
	}
}

// TestApprovalsOfAssistants has a tool that only an assistant wants to be approved. Its limit of an answer holds as it is, tools or not.
func TestApprovalsOfAssistants(t *testing.T) {
	t.Parallel()
	provider := deltas(calls("c1", "echo", `{"a":1}`), says("done"))
	store := persistencetest.SQLite(t)
	b := start(t, store, chat.Config{Providers: []llm.Provider{provider}, NoTitles: true, Tools: tools(t, echo), ApproveTools: toolkit.MustNames("other")})
	b.makes(`{"id":"careful","name":"Careful","text":{"max_tokens":77},"tools":{"approve":["ec*"]}}`)
	_, err := store.SetAssistant(t.Context(), b.key, assistant.Ref{Owner: b.key.Owner, ID: "careful"}, nil)
	must(t, err)
	turn := b.turn(chat.TurnRequest{Text: "Echo!"})
	b.until(turn, chat.EventToolApproval)
	turn.Interrupt()
	b.wait(turn)
	if got := provider.seen()[0]; got.MaxTokens != 77 || len(got.Tools) == 0 {
		t.Errorf("the limit of an answer with %d tools: %d", len(got.Tools), got.MaxTokens)
	}
}
