package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"voicebridge/internal/testkit"
)

func TestFileIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := generate("../pgdb/querier.go", "../sqlitedb/querier.go")
	testkit.Must(t, err)
	got, err := os.ReadFile("../../sqlite_queries.go")
	testkit.Must(t, err)
	if !bytes.Equal(got, want) {
		t.Error("persistence/sqlite_queries.go is stale: run go generate ./persistence")
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	two := "type Querier interface { Get(ctx context.Context, id string, owner string) error }"
	for name, methods := range map[string][2]string{
		"no interface":       {"", ""},
		"a map":              {"type Querier interface { Get(ctx context.Context) (map[string]int, error) }"},
		"too many results":   {"type Querier interface { Get(ctx context.Context) (int64, int64, error) }"},
		"no Go at all":       {"type"},
		"another interface":  {"type Other interface { Get(ctx context.Context) error }"},
		"an embedded method": {"type Querier interface { Other }"},
		"another order":      {two, "type Querier interface { Get(ctx context.Context, owner string, id string) error }"},
		"one is missing":     {two, "type Querier interface { Put(ctx context.Context) error }"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			paths := [2]string{filepath.Join(t.TempDir(), "postgres.go"), filepath.Join(t.TempDir(), "sqlite.go")}
			for i, path := range paths {
				if methods[1] == "" {
					methods[1] = methods[0]
				}
				testkit.Must(t, os.WriteFile(path, []byte("package pgdb\n"+methods[i]), 0o600))
			}
			if code, err := generate(paths[0], paths[1]); err == nil {
				t.Errorf("generate() = %s", code)
			}
		})
	}
}
