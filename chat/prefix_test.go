package chat_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/pictures"
	"voicebridge/thread"
)

// written is a request as a provider's cache sees it.
func written(r llm.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n%v\n", r.System, r.Tools)
	for _, m := range r.Messages {
		fmt.Fprintf(&b, "%s %q %v %s\n", m.Role, m.Content, m.ToolCalls, m.ToolCallID)
	}
	return b.String()
}

// common returns the length of the common prefix of two requests.
func common(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// TestStablePrefix counts, over ten turns with tools, what a provider's cache would hit:
// each request begins with all of the one before it.
func TestStablePrefix(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		var answers [][]llm.Delta
		for n := range 10 {
			answers = append(answers, calls(fmt.Sprintf("functions.echo:%d", n), "echo", `{"number": 1, "text": "<ü>", "b": {"z": 1.50, "y": []}}`), says("Well, ", fmt.Sprint(n)))
		}
		provider := deltas(answers...)
		b := start(t, open(t), chat.Config{
			Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true, Settings: chat.Settings{Instructions: "Be kind."},
			Context: &chat.DefaultContext{Memories: forgetful{}},
		})
		for n := range 10 {
			b.say(fmt.Sprintf("Something about elephants, number %d", n))
		}
		sent, cached := 0, 0
		requests := provider.seen()
		for i, r := range requests {
			text := written(r)
			sent += len(text)
			if i == 0 {
				continue
			}
			before := written(requests[i-1])
			kept := common(before, text)
			cached += kept
			if kept < len(before) {
				t.Errorf("request %d differs from the one before it at byte %d: %.80q, was %.80q", i, kept, text[kept:], before[kept:])
			}
		}
		t.Logf("%d requests of %d bytes, %d of them cached", len(requests), sent, cached)
		if len(requests) != 20 || cached < sent*8/10 {
			t.Errorf("%d requests, %d of %d bytes cached", len(requests), cached, sent)
		}
	})
}

// TestLongThreadKeepsItsInstructions has more messages than a request considers: instructions from
// before these are still read, and those from before a reset are not.
func TestLongThreadKeepsItsInstructions(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(says("Arr."))
		b := start(t, open(t), asking(provider))
		b.write(words(thread.RoleSystem, "Talk like a queen."), words(thread.RoleUser, "Hi"))
		must(t, b.store.ResetThread(t.Context(), b.key))
		long := []thread.Message{words(thread.RoleSystem, "Talk like a pirate."), words(thread.RoleSystem, "Be brief.")}
		for n := range 250 {
			long = append(long, words(thread.RoleUser, "Ahoy"), words(thread.RoleAssistant, "Arr."))
			if n == 3 {
				long = append(long, words(thread.RoleSystem, "Mention parrots."))
			}
		}
		b.write(long...)
		b.say("What now?")
		got := talk(provider.seen()[0].Messages)
		if !strings.HasPrefix(got, "system: Talk like a pirate.\nsystem: Be brief.\nsystem: Mention parrots.\nuser: ") || strings.Count(got, "system: ") != 3 || !strings.HasSuffix(got, "user: What now?\n") {
			t.Errorf("the request is\n%s", got)
		}
	})
}

// TestManyTurns sends as many turns as the settings allow, also when these are more messages than are usually read.
func TestManyTurns(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(says("Arr."))
		const most = 300
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, NoTitles: true, History: chat.HistoryConfig{MaxTurns: most, MaxTokens: 1 << 20}})
		var long []thread.Message
		for range 500 {
			long = append(long, words(thread.RoleUser, "Ahoy"), words(thread.RoleAssistant, "Arr."))
		}
		b.write(long...)
		b.say("What now?")
		if n := strings.Count(talk(provider.seen()[0].Messages), "user: "); n < most*3/4 || n > most {
			t.Errorf("the request has %d turns, want up to %d", n, most)
		}
	})
}

// forgetful remembers something different each time.
type forgetful struct{}

func (forgetful) SearchMessages(context.Context, thread.Key, []string, int) ([]persistence.SearchHit, error) {
	return []persistence.SearchHit{{Role: thread.RoleUser, Text: persistence.NewID(), CreatedAt: time.Now(), Hits: 9}}, nil
}

// TestImages shows pictures to the model, by data URL and by address, and says which are
// missing.
func TestImages(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(says("A dot."))
		b := start(t, open(t), asking(provider))
		saved, err := b.store.Pictures.Save(t.Context(), b.key, pictures.Image{MediaType: "image/gif", Width: 1, Height: 1, Data: []byte("kept")}, 0)
		must(t, err)
		dot := pngOf(t, 1)
		inline := chat.Image{MediaType: "image/png", URL: "data:image/png;base64," + base64.StdEncoding.EncodeToString(dot)}
		b.wait(b.turn(chat.TurnRequest{Text: "What is this?", Images: []chat.Image{inline}, ImageIDs: []string{saved.ID}}))
		b.wait(b.turn(chat.TurnRequest{ImageIDs: []string{"lost"}}))
		got := provider.seen()[1].Messages
		want := []llm.Image{{MediaType: "image/png", Data: dot}, {MediaType: "image/gif", Data: []byte("kept")}}
		testkit.Equal(t, got[0].Images, want, "images")
		if c := got[2].Content; !strings.HasPrefix(c, "(An image that cannot be shown.)") || got[2].Images != nil {
			t.Errorf("the lost image is %q", c)
		}
		if p := b.messages()[0].Parts; len(p) != 3 || p[0].Type != "file" || !strings.Contains(string(p[1].Raw), "/images/"+saved.ID) {
			t.Errorf("parts %+v", p)
		}
		for name, images := range map[string][]chat.Image{
			"a type": {{MediaType: "image/svg+xml", URL: "/x"}}, "no data": {{MediaType: "image/png", URL: "data:image/png;base64,"}},
			"broken data": {{MediaType: "image/png", URL: "data:image/png;base64,%%%"}}, "too many": make([]chat.Image, chat.MaxImages+1),
		} {
			if _, err := b.c.Turn(t.Context(), chat.TurnRequest{Key: b.key, Images: images}); !errors.Is(err, chat.ErrImages) {
				t.Errorf("%s: Turn() = %v", name, err)
			}
		}
	})
}

// TestUnsaid has text turn out to be thoughts: it is saved as such, while what was said in earlier steps and comes later
// stays text.
func TestUnsaid(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(
			append([]llm.Delta{{Text: "Look: "}}, calls("a", "echo", "{}")...),
			append([]llm.Delta{{Text: "I th"}, {Text: "ink"}, {Reasoning: ".", Unsaid: true}}, says("Done", ".")...))
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true})
		b.wait(b.turn(chat.TurnRequest{Text: "Go"}))
		m := b.messages()[1]
		var parts []string
		for _, p := range m.Parts {
			parts = append(parts, p.Type+" "+p.Text)
		}
		want := []string{"step-start ", "text Look: ", "tool-echo ", "step-start ", "reasoning ", "reasoning ", "text Done."}
		if diff := cmp.Diff(want, parts); diff != "" || !strings.Contains(string(m.Parts[4].Raw), "I think") {
			t.Errorf("parts (-want +got):\n%s%s", diff, m.Parts[4].Raw)
		}
	})
}

// TestReasoning saves what the model thinks as a part, and does not send it back.
func TestReasoning(t *testing.T) {
	engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		provider := deltas(
			append([]llm.Delta{{Reasoning: "Let me "}, {Reasoning: "think."}, {Text: "Look: "}, {Reasoning: "More."}}, calls("a", "echo", "{}")...), says("Done."))
		b := start(t, open(t), chat.Config{Providers: []llm.Provider{provider}, Tools: tools(t, echo), NoTitles: true})
		turn := b.turn(chat.TurnRequest{Text: "Go"})
		b.wait(turn)
		var events []string
		for _, e := range b.follow(turn, 0) {
			if e.TextID != "" {
				events = append(events, strings.TrimSpace(string(e.Type)+" "+e.TextID+" "+e.Delta))
			}
		}
		want := []string{
			"reasoning-start reasoning-1", "reasoning-delta reasoning-1 Let me", "reasoning-delta reasoning-1 think.", "reasoning-end reasoning-1",
			"text-start text-1", "text-delta text-1 Look:", "text-end text-1",
			"reasoning-start reasoning-2", "reasoning-delta reasoning-2 More.", "reasoning-end reasoning-2",
			"text-start text-2", "text-delta text-2 Done.", "text-end text-2",
		}
		testkit.Equal(t, events, want, "events")
		parts := b.messages()[1].Parts
		if got := strings.ReplaceAll(string(parts[1].Raw), " ", ""); parts[1].Type != "reasoning" || !strings.Contains(got, `"text":"Letmethink."`) || len(parts) != 7 {
			t.Errorf("parts %+v", parts)
		}
		checkText(t, "the second request", talk(provider.seen()[1].Messages), "user: Go\nassistant: Look:  a=echo({})\ntool: {} <- a echo")
	})
}
