package queue_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"voicebridge/chat/queue"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// TestTitles gives messages titles in order, cut between characters.
func TestTitles(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		p := &provider{title: func(_ context.Context, words string) (string, error) {
			switch words {
			case "broken":
				return "", &llm.Error{Kind: llm.KindOverloaded, Message: "not now"}
			case "long":
				return `"` + strings.Repeat("\u00e4\U0001f600", 30) + `"`, nil
			}
			return "Title of " + words, nil
		}}
		b := start(t, open(t), p, queue.Config{AutoGenerateTitles: true})
		w := b.watch(b.store)
		b.add("one")
		b.add("broken")
		long := b.add("long")
		b.add("  last\n\n message ")
		w.until("queue_message_titled Title of last message")
		list, _ := b.list()
		var titles []string
		for _, m := range list {
			titles = append(titles, m.Title)
		}
		cut := strings.Repeat("\u00e4\U0001f600", 14) + "\u00e4…"
		testkit.Equal(t, titles, []string{"Title of one", "", cut, "Title of last message"}, "the titles")
		if m, err := b.q.Get(t.Context(), b.key, long.ID); err != nil || utf8.RuneCountInString(m.Title) != 30 {
			t.Errorf("Get() = %+v, %v", m, err)
		}
		// A changed text gets a new title.
		if m, err := b.q.Edit(t.Context(), b.key, long.ID, "short"); err != nil || m.Title != "" {
			t.Errorf("Edit() = %+v, %v", m, err)
		}
		w.until("queue_message_titled Title of short")
	})
}

// TestTitlesOverwhelmed drops titles rather than messages, and finishes the one in
// progress when the server stops.
func TestTitlesOverwhelmed(t *testing.T) {
	t.Parallel()
	entered, hold := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p := &provider{title: func(ctx context.Context, words string) (string, error) {
		once.Do(func() {
			close(entered)
			<-hold
		})
		return "T " + words, ctx.Err()
	}}
	b := prepare(t, persistencetest.SQLite(t), p, queue.Config{AutoGenerateTitles: true})
	first := b.add("m0")
	for n := range 130 {
		b.add(fmt.Sprintf("m%d", n+1))
	}
	if list, _ := b.list(); len(list) != 131 {
		t.Errorf("%d messages wait, want 131", len(list))
	}
	stop := b.run()
	testkit.Take(t, "the beginning", entered)
	b.cancel()
	close(hold)
	stop()
	if m, err := b.q.Get(t.Context(), b.key, first.ID); err != nil || m.Title != "T m0" {
		t.Errorf("the message in flight is titled %q, %v", m.Title, err)
	}
}
