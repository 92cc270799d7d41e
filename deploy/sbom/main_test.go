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
	for _, purl := range pagesModules(t) {
		if !strings.Contains(b.String(), `"`+purl+`"`) {
			t.Errorf("%s is missing", purl)
		}
	}
	if err := write(&b, "main.go", "v1.2.3", time.Now()); err == nil {
		t.Error("a text is taken for a program")
	}
}

// pagesModules returns what package.json and its lock file have the page depend on.
func pagesModules(t *testing.T) (purls []string) {
	t.Helper()
	read := func(name string, to any) {
		raw, err := os.ReadFile("../../web/ui/" + name)
		if err == nil {
			err = json.Unmarshal(raw, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var page struct{ Dependencies map[string]string }
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	read("package.json", &page)
	read("package-lock.json", &lock)
	page.Dependencies["svelte"] = "" // needed to build, but its runtime is in the page
	for name := range page.Dependencies {
		purls = append(purls, "pkg:npm/"+name+"@"+lock.Packages["node_modules/"+name].Version)
	}
	return purls
}
