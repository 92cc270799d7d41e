package persistence_test

import (
	"fmt"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// BenchmarkLongThread asks a thread of 100,000 messages, of which one in a thousand
// has a rare word, what is asked all the time.
func BenchmarkLongThread(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{
		"sqlite": persistencetest.SQLiteURL, "postgres": persistencetest.PostgresURL,
	} {
		b.Run(name, func(b *testing.B) {
			address := url(b)
			store := persistencetest.Open(b, address, persistence.Options{})
			key := longThread(b, store, "m", 100_000)
			persistencetest.Rows(b, address, "ANALYZE") // PostgreSQL does so by itself after a minute
			b.Run("replay", func(b *testing.B) {
				for b.Loop() {
					if _, err := store.Replay(b.Context(), key, 20); err != nil {
						b.Fatal(err)
					}
				}
			})
			for _, word := range []string{"rare", "common"} {
				b.Run("search "+word, func(b *testing.B) {
					for b.Loop() {
						if _, _, err := store.Threads(b.Context(), "bench", persistence.ThreadFilter{Query: word}); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
			b.Run("stored bytes", func(b *testing.B) {
				for b.Loop() {
					if n, err := persistence.Stored(b.Context(), store, key.Owner); err != nil || n == 0 {
						b.Fatal(n, err)
					}
				}
			})
			if err := store.ResetThread(b.Context(), key); err != nil {
				b.Fatal(err)
			}
			b.Run("replay after a reset", func(b *testing.B) {
				for b.Loop() {
					if _, err := store.Replay(b.Context(), key, 20); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// BenchmarkDelete erases a thread of 10,000 messages while somebody writes to another,
// and says how long the longest of those writes took.
func BenchmarkDelete(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{
		"sqlite": persistencetest.SQLiteURL, "postgres": persistencetest.PostgresURL,
	} {
		b.Run(name, func(b *testing.B) {
			deleteLong(b, persistencetest.Open(b, url(b), persistence.Options{}), 10_000)
		})
	}
}

func deleteLong(b *testing.B, store *persistence.Store, amount int) {
	thread, err := store.CreateThread(b.Context(), "bench", "")
	if err != nil {
		b.Fatal(err)
	}
	other := persistence.Key{Owner: "bench", Thread: thread.ID}
	var longest time.Duration
	for i := range b.N {
		b.StopTimer()
		key := longThread(b, store, fmt.Sprint("d", i, "."), amount)
		b.StartTimer()
		deleted := make(chan error, 1)
		go func() { deleted <- store.DeleteThread(b.Context(), key) }()
		for going := true; going; {
			began := time.Now()
			m := persistence.Message{Role: persistence.RoleUser, Parts: []persistence.Part{persistence.TextPart("meanwhile")}}
			if _, err := store.AppendMessage(b.Context(), other, m); err != nil {
				b.Fatal(err)
			}
			longest = max(longest, time.Since(began))
			select {
			case err := <-deleted:
				if going = false; err != nil {
					b.Fatal(err)
				}
			case <-time.After(time.Millisecond):
			}
		}
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms-longest-write")
}

func longThread(b *testing.B, store *persistence.Store, prefix string, amount int) persistence.Key {
	thread, err := store.CreateThread(b.Context(), "bench", "")
	if err != nil {
		b.Fatal(err)
	}
	key := persistence.Key{Owner: "bench", Thread: thread.ID}
	for n := 0; n < amount; {
		var changes []persistence.Change
		for range 1000 {
			text := "a common sentence of the conversation"
			if n%1000 == 0 {
				text = "a rare thing was said"
			}
			changes = append(changes, persistence.PutMessage{
				Message: persistence.Message{ID: fmt.Sprint(prefix, n), Role: persistence.RoleUser, Parts: []persistence.Part{persistence.TextPart(text)}},
				Place:   persistence.Place{How: persistence.PlaceLast},
			})
			n++
		}
		if _, err := store.Apply(b.Context(), key, changes); err != nil {
			b.Fatal(err)
		}
	}
	return key
}
