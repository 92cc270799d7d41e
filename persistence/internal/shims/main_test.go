package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestFileIsUpToDate(t *testing.T) {
	t.Parallel()
	want, err := generate("../pgdb/querier.go")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../sqlite_queries.go")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Error("persistence/sqlite_queries.go is stale: run go generate ./persistence")
	}
}

func TestRefuses(t *testing.T) {
	t.Parallel()
	for name, methods := range map[string]string{
		"no interface":       "",
		"a pointer":          "type Querier interface { Get(ctx context.Context, arg *Params) error }",
		"a map":              "type Querier interface { Get(ctx context.Context) (map[string]int, error) }",
		"too many results":   "type Querier interface { Get(ctx context.Context) (int64, int64, error) }",
		"no Go at all":       "type",
		"another interface":  "type Other interface { Get(ctx context.Context) error }",
		"an embedded method": "type Querier interface { Other }",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "querier.go")
			if err := os.WriteFile(path, []byte("package pgdb\n"+methods), 0o600); err != nil {
				t.Fatal(err)
			}
			if code, err := generate(path); err == nil {
				t.Errorf("generate() = %s", code)
			}
		})
	}
}
