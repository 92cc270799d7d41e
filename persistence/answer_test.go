package persistence_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// BenchmarkAnswer saves an answer in each of 50 calls at a time: its beginning, its words in
// 20 drafts, each of which goes into one transaction with those of the other calls, and its end with
// its response. On a busy machine, `perf stat -e instructions:u` says more than a clock: the
// difference between 20 and 4 rounds is that of 16 times 50 answers.
func BenchmarkAnswer(b *testing.B) {
	const calls, drafts = 50, 20
	for name, url := range persistencetest.URLs {
		for size, bytes := range map[string]int{"300 B": 15, "20 KB": 1024} {
			b.Run(name+"/"+size, func(b *testing.B) {
				store := persistencetest.Open(b, url(b), persistence.Options{})
				if err := store.Serve(b.Context()); err != nil { // it sets how the index is merged
					b.Fatal(err)
				}
				keys := make([]thread.Key, calls)
				for i := range keys {
					keys[i] = persistencetest.NewThread(b, store, "bench", "")
				}
				words := newWords(bytes)
				b.ReportAllocs()
				b.ResetTimer()
				for n := range b.N {
					saveAnswers(b, store, keys, n, drafts, words)
				}
				must(b, persistence.Index(b.Context(), store))
			})
		}
	}
}

// saveAnswers saves the nth answer in each thread.
func saveAnswers(b *testing.B, store *persistence.Store, keys []thread.Key, n, drafts int, words func() string) {
	apply := func(key thread.Key, changes ...persistence.Change) {
		if _, err := persistencetest.Apply(context.Background(), store, key, changes); err != nil {
			b.Fatal(err)
		}
	}
	texts := make([]strings.Builder, len(keys))
	message := func(i, n int, status thread.Status) thread.Message {
		m := thread.Message{
			ID: fmt.Sprintf("m%d.%d", i, n), Role: thread.RoleAssistant,
			Parts: []thread.Part{thread.TextPart(texts[i].String())},
		}
		m.Metadata = thread.Metadata{Source: thread.SourceVoice, Status: status, ItemID: m.ID, Model: "m", Voice: "v"}
		return m
	}
	for i, key := range keys {
		texts[i].WriteString(words())
		place := persistence.Place{How: persistence.PlaceLast}
		if n > 0 {
			place = persistence.Place{How: persistence.PlaceAfter, After: fmt.Sprintf("m%d.%d", i, n-1)}
		}
		apply(key, persistence.PutMessage{Message: message(i, n, thread.StatusInProgress), Place: place})
	}
	for range drafts {
		groups := make([]persistence.ThreadChanges, len(keys))
		for i, key := range keys {
			more, start := words(), texts[i].Len()
			texts[i].WriteString(more)
			draft := persistence.Draft{MessageID: fmt.Sprintf("m%d.%d", i, n), Start: start, Text: more}
			groups[i] = persistence.ThreadChanges{Key: key, Changes: []persistence.Change{persistence.PutDraft{Draft: draft}}}
		}
		if _, err := store.ApplyAll(context.Background(), groups); err != nil {
			b.Fatal(err)
		}
	}
	for i, key := range keys {
		m := message(i, n, thread.StatusCompleted)
		m.Metadata.Usage = []byte(`{"total_tokens":100,"input_tokens":50,"output_tokens":50}`)
		m.Metadata.LatencyMS = map[string]int64{"commit": 10, "response": 20, "first_audio": 300}
		r := records.Response{ID: m.ID, MessageID: m.ID, Status: "completed", RawUsage: m.Metadata.Usage}
		apply(key, persistence.PutMessage{Message: m}, persistence.PutResponse{Response: r})
	}
}

// newWords returns a function that returns about size bytes of words from a fixed vocabulary.
func newWords(size int) func() string {
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same for every run
	vocabulary := make([]string, 3000)
	for i := range vocabulary {
		word := make([]byte, 2+random.IntN(8))
		for j := range word {
			word[j] = "etaoinshrdlucmfwypvbgk"[min(random.IntN(22), random.IntN(22))]
		}
		vocabulary[i] = string(word) + " "
	}
	return func() string {
		var text strings.Builder
		for text.Len() < size {
			text.WriteString(vocabulary[random.IntN(len(vocabulary))])
		}
		return text.String()
	}
}
