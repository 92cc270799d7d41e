//go:build unix

package spool

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// BenchmarkCalls lets 50 calls save growing answers of about 500 bytes, each directly and
// all through one Writer, and reports the processor time and the elapsed time of a change.
// The PostgreSQL cluster of the tests does not sync to disk unless TEST_POSTGRES_FSYNC=on;
// its own processor time is not counted.
func BenchmarkCalls(b *testing.B) {
	const calls = 50
	text := strings.Repeat("word ", 100)
	for name, url := range map[string]func(testing.TB) string{
		"sqlite": persistencetest.SQLiteURL, "postgres": persistencetest.PostgresURL,
	} {
		for _, way := range []string{"each", "writer"} {
			b.Run(name+"/"+way, func(b *testing.B) {
				store := persistencetest.Open(b, url(b), persistence.Options{})
				keys := make([]persistence.Key, calls)
				for i := range keys {
					keys[i] = persistencetest.NewThread(b, store, "bench", "")
				}
				commit := func(ctx context.Context, key persistence.Key, c []persistence.Change) error {
					_, err := store.Apply(ctx, key, c)
					return err
				}
				if way == "writer" {
					w, err := New(Config{Store: store, Dir: b.TempDir(), Timeout: time.Minute})
					if err != nil {
						b.Fatal(err)
					}
					ctx, cancel := context.WithCancel(context.Background())
					var running sync.WaitGroup
					running.Go(func() { _ = w.Run(ctx) }) // it only ends
					defer running.Wait()
					defer cancel()
					commit = func(ctx context.Context, key persistence.Key, c []persistence.Change) error {
						_, err := w.Commit(ctx, key, c)
						return err
					}
				}
				cpu := used()
				b.ResetTimer()
				var calling sync.WaitGroup
				for i, key := range keys {
					calling.Go(func() {
						for n := i; n < b.N; n += calls {
							// Every tenth is a new message, the others change it.
							id := fmt.Sprintf("m%d.%d", i, n/calls/10)
							how := persistence.PlaceKept
							if n/calls%10 == 0 {
								how = persistence.PlaceLast
							}
							if err := commit(b.Context(), key, []persistence.Change{put(id, text, how)}); err != nil {
								b.Error(err)
								return
							}
						}
					})
				}
				calling.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "changes/s")
				b.ReportMetric(float64((used()-cpu).Microseconds())/float64(b.N), "cpu-µs/change")
			})
		}
	}
}

// used is the processor time that this process has taken.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
