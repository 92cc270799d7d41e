package persistence_test

import (
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
)

var must = testkit.Must

func TestMain(m *testing.M) { persistencetest.Main(m) }

func TestSQLite(t *testing.T) {
	t.Parallel()
	persistencetest.Run(t, persistencetest.SQLiteURL, persistencetest.EmptySQLiteURL)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	persistencetest.Run(t, persistencetest.PostgresURL, persistencetest.EmptyPostgresURL)
}
