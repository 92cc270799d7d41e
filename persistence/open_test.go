package persistence_test

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
)

// The errors say what to do and never show the password.
func TestOpenErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must(t, os.WriteFile(file, []byte(strings.Repeat("not a database ", 100)), 0o600))
	nobody, err := url.Parse(persistencetest.PostgresURL(t))
	must(t, err)
	nobody.User = url.UserPassword("nobody", "hunter2")
	nothing := *nobody
	nothing.User, nothing.Path = url.UserPassword("postgres", "hunter2"), "/nothing"
	var drops []func()
	defer func() {
		for _, drop := range drops {
			drop()
		}
	}()
	encoded := func(encoding string) string {
		u, err := url.Parse(persistencetest.PostgresURL(t))
		must(t, err)
		persistencetest.Rows(t, u.String(), `CREATE DATABASE "`+u.Path[1:]+`-other" ENCODING '`+encoding+`' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'`)
		drops = append(drops, func() { persistencetest.Rows(t, u.String(), `DROP DATABASE "`+u.Path[1:]+`-other"`) })
		other := *u
		other.Path += "-other"
		return other.String()
	}
	for name, c := range map[string]struct{ url, want string }{
		"Latin letters only": {encoded("LATIN1"), "its encoding is LATIN1"},
		"bytes":              {encoded("SQL_ASCII"), "--encoding=UTF8"},

		"empty":                {"", "DATABASE_URL must be"},
		"other":                {"mysql://me:hunter2@host/db", "DATABASE_URL must be"},
		"in memory":            {"sqlite::memory:", "needs a file"},
		"no path":              {"sqlite:", "needs a file"},
		"folder":               {"sqlite:" + dir, "DATABASE_URL"},
		"below a file":         {"sqlite:" + file + "/x/y.db", "DATABASE_URL"},
		"not a database":       {"sqlite:" + file, "not an SQLite database"},
		"malformed":            {"postgres://me:hunter2%zz@host/db", "cannot be read"},
		"slash in password":    {"postgres://me:12/hunter2@host/db", "cannot be read"},
		"question in password": {"postgres://me:12?hunter2@host/db", "cannot be read"},
		"hash in password":     {"postgres://me:12#hunter2@host/db", "cannot be read"},
		"bad port":             {"postgres://me:hunter2@host:port/db", "cannot be read"},
		"bad setting":          {"postgres://me:hunter2@host/db?sslmode=hunter2", "cannot be read"},
		"nobody there":         {"postgres://me:hunter2@127.0.0.1:1/db", "is PostgreSQL running there"},
		"unknown user":         {nobody.String(), "check the user and the password"},
		"unknown database":     {nothing.String(), "createdb"},
		"password in error":    {"postgres://hunter2:hunter2@127.0.0.1:1/hunter2", "PostgreSQL at 127.0.0.1:1"},
	} {
		s, err := persistence.Open(t.Context(), c.url, persistence.Options{})
		if err == nil {
			t.Errorf("%s: Open() = nil", name)
			_ = s.Close()
			continue
		}
		if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: Open() = %v, want %q and no password", name, err, c.want)
		}
	}
	if _, err := persistence.Open(t.Context(), persistencetest.SQLiteURL(t), persistence.Options{Instance: "\x00"}); err == nil {
		t.Error("Open() with a bad instance = nil")
	}
}

// TestAddressesOfOthers opens databases by addresses as other libraries write them.
func TestAddressesOfOthers(t *testing.T) {
	t.Parallel()
	address := persistencetest.EmptyPostgresURL(t)
	persistencetest.Rows(t, address, `CREATE SCHEMA "Own"`)
	u, err := url.Parse(address)
	must(t, err)
	q := u.Query()
	q.Set("schema", "Own")
	q.Set("pgbouncer", "true")
	u.RawQuery = q.Encode()
	persistencetest.Open(t, u.String(), persistence.Options{})
	if rows := persistencetest.Rows(t, address, `SELECT count(*) FROM "Own".threads`); rows[0][0] != "0" {
		t.Errorf("the schema's threads: %v", rows)
	}
	// The server of the tests wants no password, so one with @ in it is right if it is read as one.
	s, err := persistence.Open(t.Context(), strings.Replace(address, "postgres@", "postgres:a@b@", 1), persistence.Options{NoMigrate: true})
	must(t, err)
	must(t, s.Close())
}

// SQLite before 3.44, such as Debian 12's sqlite3, refuses to read anything from a file with
// an aggregate that has an ORDER BY of its own.
func TestOlderSQLiteReadsTheFile(t *testing.T) {
	t.Parallel()
	ordered := regexp.MustCompile(`(?i)group_concat\([^()]*\border by\b`)
	for _, row := range persistencetest.Rows(t, persistencetest.SQLiteURL(t), "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL") {
		if ordered.MatchString(row[1]) {
			t.Errorf("%s has an ordered aggregate", row[0])
		}
	}
}

// Any file name works, and other users cannot read the file.
func TestSQLiteFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new", "a b?c#d%20&é'.db")
	s := persistencetest.Open(t, "sqlite:"+path, persistence.Options{})
	if _, err := s.CreateThread(t.Context(), "anna", ""); err != nil {
		t.Fatalf("CreateThread() = %v", err)
	}
	for _, name := range []string{path, path + "-wal"} {
		info, err := os.Stat(name)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, info.Mode())
		}
	}
}
