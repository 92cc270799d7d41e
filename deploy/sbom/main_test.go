package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
)

// TestWrite lists the modules of the tests' own program.
func TestWrite(t *testing.T) {
	t.Parallel()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := write(&b, path, "v1.2.3", time.Unix(0, 0).UTC()); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal([]byte(b.String()), &d); err != nil {
		t.Fatal(err)
	}
	if d.Version != "SPDX-2.3" || d.Creation.Created != "1970-01-01T00:00:00Z" || len(d.Packages) < 2 || d.Packages[0].Version != "v1.2.3" || d.Packages[1].Name != "stdlib" || strings.HasPrefix(d.Packages[1].Version, "go") || len(d.Relationship) != len(d.Packages) {
		t.Errorf("document %s", b.String())
	}
	if err := write(&b, "main.go", "v1.2.3", time.Now()); err == nil {
		t.Error("a text is taken for a program")
	}
}
