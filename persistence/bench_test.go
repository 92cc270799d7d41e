package persistence_test

import (
	"strings"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// BenchmarkAppend appends messages of about 500 bytes, one per commit and in groups, and
// reports how many times faster a grouped message is. The PostgreSQL cluster of the tests
// does not sync to disk unless TEST_POSTGRES_FSYNC=on.
func BenchmarkAppend(b *testing.B) {
	for name, url := range map[string]func(testing.TB) string{
		"sqlite": persistencetest.SQLiteURL, "postgres": persistencetest.PostgresURL,
	} {
		b.Run(name, func(b *testing.B) {
			store := persistencetest.Open(b, url(b), persistence.Options{})
			single := appendGroups(b, store, 1, 200)
			for _, size := range []int{8, 32} {
				b.Run(map[int]string{8: "group of 8", 32: "group of 32"}[size], func(b *testing.B) {
					each := appendGroups(b, store, size, b.N)
					b.ReportMetric(float64(each.Nanoseconds()), "ns/message")
					b.ReportMetric(float64(single)/float64(each), "x-single")
				})
			}
			b.Run("single", func(b *testing.B) { appendGroups(b, store, 1, b.N) })
		})
	}
}

// appendGroups commits n groups and returns the time per message.
func appendGroups(b *testing.B, store *persistence.Store, size, n int) time.Duration {
	key := persistencetest.NewThread(b, store, "bench", "")
	text := make([]byte, 500)
	for i := range text {
		text[i] = 'x'
	}
	b.ResetTimer()
	start := time.Now()
	for range n {
		err := store.Batch(b.Context(), key, func(w *persistence.Batch) error {
			for range size {
				if _, err := w.AppendMessage(persistence.Message{
					Role: persistence.RoleUser, Parts: []persistence.Part{persistence.TextPart(string(text))},
				}); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start) / time.Duration(n*size)
}

// BenchmarkPlaceAfter puts messages after one of 100 bytes and after one of 20 KB, which must make
// no difference.
func BenchmarkPlaceAfter(b *testing.B) {
	for name, size := range map[string]int{"100 B": 100, "20 KB": 20 << 10} {
		b.Run(name, func(b *testing.B) {
			store := persistencetest.Open(b, persistencetest.SQLiteURL(b), persistence.Options{})
			key := persistencetest.NewThread(b, store, "bench", "")
			message := func(size int) persistence.Message {
				return persistence.Message{
					ID: persistence.NewID(), Role: persistence.RoleAssistant,
					Parts: []persistence.Part{persistence.TextPart(strings.Repeat("x", size))},
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				before, err := store.AppendMessage(b.Context(), key, message(size))
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				put := persistence.PutMessage{Message: message(10), Place: persistence.Place{How: persistence.PlaceAfter, After: before.ID}}
				if _, err := store.Apply(b.Context(), key, []persistence.Change{put}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
