package persistence_test

import (
	"fmt"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// TestOtherVersions: tables from before the first migration, and those of a newer program, are refused, whoever opens
// them, and stay as they are.
func TestOtherVersions(t *testing.T) {
	t.Parallel()
	for engine, newURL := range map[string]func(testing.TB) string{"sqlite": persistencetest.SQLiteURL, "postgres": persistencetest.PostgresURL} {
		for version, want := range map[int]string{
			29:    "version 29, and this program begins with 30: run voicebridge migrate of",
			99999: "version 99999, and this program knows none after",
		} {
			t.Run(fmt.Sprint(engine, version), func(t *testing.T) {
				t.Parallel()
				url := newURL(t)
				persistencetest.Rows(t, url, fmt.Sprintf("UPDATE goose_db_version SET version_id = %d WHERE version_id > 0", version))
				refused := func(what string, err error) {
					t.Helper()
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%s = %v, want %q", what, err, want)
					}
				}
				refused("Migrate()", persistence.Migrate(t.Context(), url, nil))
				s := persistencetest.Open(t, url, persistence.Options{NoMigrate: true})
				_, err := s.Outdated(t.Context())
				refused("Outdated()", err)
				refused("Serve()", s.Serve(t.Context()))
				if got := persistencetest.Rows(t, url, "SELECT max(version_id) FROM goose_db_version"); got[0][0] != fmt.Sprint(version) {
					t.Errorf("the version is %v", got)
				}
			})
		}
	}
}
