package persistence_test

import (
	"testing"

	"voicebridge/persistence/persistencetest"
)

func TestMain(m *testing.M) { persistencetest.Main(m) }

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	persistencetest.Run(t, persistencetest.SQLiteURL, persistencetest.EmptySQLiteURL)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	persistencetest.Run(t, persistencetest.PostgresURL, persistencetest.EmptyPostgresURL)
}
