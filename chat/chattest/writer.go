// Package chattest provides what tests of text turns need.
package chattest

import (
	"context"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
)

// Writer saves what happens in turns until stop is called or the test ends, which must be after the coordinator has
// ended.
func Writer(t testing.TB, store *persistence.Store) (w *spool.Writer, stop func()) {
	t.Helper()
	w, err := spool.New(spool.Config{Store: store, Dir: t.TempDir()})
	testkit.Must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run() of the writer = %v", err)
		}
	})
	t.Cleanup(stop)
	return w, stop
}
