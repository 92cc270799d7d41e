package spool

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// BenchmarkDurable lets 200 calls make 4,000 changes a second, each on schedule whether or
// not the one before is saved, and reports how long a change takes to reach the database.
// Most are words added to a message, one in twenty is a message.
func BenchmarkDurable(b *testing.B) {
	const calls, perSecond = 200, 4000
	for name, url := range persistencetest.URLs {
		b.Run(name, func(b *testing.B) {
			store := persistencetest.Open(b, url(b), persistence.Options{})
			w, err := New(Config{Store: store, Dir: b.TempDir(), Timeout: time.Minute})
			must(b, err)
			ctx, cancel := context.WithCancel(context.Background())
			var running sync.WaitGroup
			running.Go(func() { _ = w.Run(ctx) }) // it only ends
			defer running.Wait()
			defer cancel()
			keys := make([]thread.Key, calls)
			for i := range keys {
				keys[i] = persistencetest.NewThread(b, store, "bench", "")
			}
			took := make([]time.Duration, b.N)
			b.ResetTimer()
			var saving sync.WaitGroup
			for n, began := 0, time.Now(); n < b.N; n++ {
				time.Sleep(time.Until(began.Add(time.Duration(n) * time.Second / perSecond)))
				i, k := n%calls, n/calls
				id := fmt.Sprintf("m%d.%d", i, k/20)
				var change persistence.Change = persistence.PutDraft{Draft: persistence.Draft{MessageID: id, Start: k % 20 * 10, Text: "ten bytes "}}
				if k%20 == 0 {
					m := thread.Message{ID: id, Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("ten bytes ")}}
					m.Metadata.Status = thread.StatusInProgress
					change = persistence.PutMessage{Message: m, Place: persistence.Place{How: persistence.PlaceLast}}
				}
				saving.Go(func() {
					at := time.Now()
					if err := w.Save(ctx, keys[i], change); err != nil {
						b.Error(err)
					}
					took[n] = time.Since(at)
				})
			}
			saving.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms-p50")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "ms-p99")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
