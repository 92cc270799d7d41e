package main

import (
	"context"
	"fmt"
	"strconv"
	"testing"
	"time"

	"voicebridge/persistence/persistencetest"
)

// BenchmarkIdle measures how many transactions a second one, two and four idle programs make on the same PostgreSQL, for
// make growth: heartbeats, and looking for the work that nobody else has claimed.
func BenchmarkIdle(b *testing.B) {
	for b.Loop() { // runs once, whatever -benchtime says
	}
	const window = 20 * time.Second
	amounts := []int{1, 2, 4}
	urls := make([]string, len(amounts))
	for i, amount := range amounts {
		urls[i] = persistencetest.PostgresURL(b)
		for range amount {
			var out output
			environ := append(environment(b)[1:], "DATABASE_URL="+urls[i])
			persistencetest.Start(b, func(ctx context.Context) error {
				if code := execute(ctx, []string{"serve"}, environ, &out, &out); code != 0 {
					return fmt.Errorf("code %d: %s", code, &out)
				}
				return nil
			})
		}
	}
	for i, amount := range amounts {
		for persistencetest.Rows(b, urls[i], "SELECT count(*) FROM instances")[0][0] != strconv.Itoa(amount) {
			<-time.After(50 * time.Millisecond)
		}
	}
	transactions := func(i int) float64 {
		n, err := strconv.ParseFloat(persistencetest.Rows(b, urls[i],
			"SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()")[0][0], 64)
		must(b, err)
		return n
	}
	before := make([]float64, len(amounts))
	for i := range amounts {
		before[i] = transactions(i)
	}
	<-time.After(window)
	for i, amount := range amounts {
		b.ReportMetric((transactions(i)-before[i])/window.Seconds(), fmt.Sprintf("per-s@%d", amount))
	}
	b.ReportMetric(0, "ns/op")
}
