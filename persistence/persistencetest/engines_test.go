package persistencetest_test

import (
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

func TestMain(m *testing.M) { persistencetest.Main(m) }

func TestEngines(t *testing.T) {
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		one, two := open(t), open(t)
		if _, err := one.CreateThread(t.Context(), "owner", "title"); err != nil {
			t.Fatalf("CreateThread() = %v", err)
		}
		threads, _, err := two.Threads(t.Context(), "owner", persistence.ThreadFilter{})
		if err != nil || len(threads) != 0 {
			t.Errorf("another database has %v, %v, want nothing", threads, err)
		}
	})
}

// TestServerCrashed ends while its server is down, which must not fail the clean-up.
func TestServerCrashed(t *testing.T) {
	t.Parallel()
	server := persistencetest.NewServer(t)
	server.Crash()
	server.Start()
	server.Crash()
}
