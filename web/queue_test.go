package web

import (
	"context"
	"iter"
	"testing"

	"voicebridge/chat"
	"voicebridge/llm"
	"voicebridge/thread"
)

// slowModel is a provider that answers when the test lets it.
type slowModel struct{ release chan struct{} }

func (h slowModel) Name() string { return "held" }

func (h slowModel) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Delta, error] {
	return func(yield func(llm.Delta, error) bool) {
		select {
		case <-h.release:
			yield(llm.Delta{Text: "ok", Stop: llm.StopEnd}, nil)
		case <-ctx.Done():
			yield(llm.Delta{}, context.Cause(ctx))
		}
	}
}

// busy is a bundle with a thread whose turn runs until release is closed.
func busy(t *testing.T, change func(*Config)) (b *bundle, key thread.Key, release chan struct{}) {
	t.Helper()
	release = make(chan struct{})
	b = setupChat(t, chat.Config{Providers: []llm.Provider{slowModel{release}}, NoTitles: true}, change)
	owner := "local"
	if change != nil {
		owner = "alice"
	}
	key = b.thread(t, owner)
	if _, err := b.chat.Turn(t.Context(), chat.TurnRequest{Key: key, Text: "first"}); err != nil {
		t.Fatal(err)
	}
	return b, key, release
}
