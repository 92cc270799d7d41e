package db_test

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"

	"voicebridge/db"
	"voicebridge/internal/testkit"
)

// TestReleased: migrations that a release had stay as they are, forever, and new ones come after them, for both engines.
func TestReleased(t *testing.T) {
	t.Parallel()
	list, err := os.ReadFile("released.sha256")
	testkit.Must(t, err)
	last := map[string]string{} // by engine
	for line := range strings.Lines(string(list)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := db.Migrations.ReadFile(name)
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); err != nil || got != want {
			t.Errorf("%s was released and has changed (%v): undo that, and add a migration", name, err)
		}
		last[path.Dir(name)] = max(last[path.Dir(name)], path.Base(name))
	}
	numbers := map[string][]string{}
	for dir, newest := range last {
		files, err := fs.ReadDir(db.Migrations, dir)
		testkit.Must(t, err)
		for _, f := range files {
			numbers[dir] = append(numbers[dir], f.Name())
			if name := path.Join(dir, f.Name()); f.Name() <= newest && !strings.Contains(string(list), name) {
				t.Errorf("%s comes before %s, which was released: databases that have that one would not get it", name, newest)
			}
		}
	}
	if one, other := numbers["migrations/postgres"], numbers["migrations/sqlite"]; !slices.Equal(one, other) {
		t.Errorf("the migrations are %v for PostgreSQL and %v for SQLite, want the same names", one, other)
	}
}
