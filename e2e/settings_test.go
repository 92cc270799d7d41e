package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"voicebridge/persistence/persistencetest"
)

// write writes a settings file into a folder of the test.
func write(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	must(t, os.WriteFile(path, []byte(yaml), 0o600))
	return path
}

// noFile is an empty settings file, so that a test does not read one in the working
// directory.
func noFile(t *testing.T) string { return write(t, "") }

// environment is that of a program on an empty database, without settings.
func environment(t *testing.T, more ...string) []string {
	t.Helper()
	return append([]string{"DATABASE_URL=" + persistencetest.EmptySQLiteURL(t), "VOICEBRIDGE_LISTEN=127.0.0.1:0", "VOICEBRIDGE_CONFIG=" + noFile(t)}, more...)
}
