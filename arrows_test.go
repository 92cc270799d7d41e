// Package voicebridge_test holds what is true of the whole tree and belongs to
// no single package: which package may import which, and that the documents
// name only what exists.
package voicebridge_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// module is the import path of this module's root.
const module = "voicebridge"

// levels are the top-level folders in layers from the top down. A package may import
// packages of its own folder and of lower layers, nothing else; so two folders in
// one layer never know each other.
var levels = [][]string{
	{"e2e", "measure", "examples", "deploy"}, // tests and measurements of the whole program; programs for its users and for releases
	{"cmd"},
	{"web"},
	{"bridge", "chat", "hooks", "recording", "phone"},
	{"realtime", "llm", "toolkit", "persistence"},
	{"thread", "assistant", "db"},
	{"internal"}, // what tests share
}

// vendors says which folders may import a vendor's module. The first entry that
// matches an import counts, so narrow entries come before wide ones.
var vendors = []struct {
	prefix string   // of import paths
	homes  []string // folders, or packages with all below them
}{
	{"github.com/pion/opus", []string{"realtime/opus"}},
	{"github.com/thesyncim/gopus", []string{"realtime/opus"}},
	{"github.com/pion/", []string{"realtime/rtc", "examples", "e2e"}},
	{"github.com/modelcontextprotocol/go-sdk", []string{"toolkit/mcptool"}},
	{"github.com/jackc/pgx", []string{"persistence"}},
	{"github.com/pressly/goose", []string{"persistence"}},
	{"modernc.org/sqlite", []string{"persistence"}},
	{"database/sql", []string{"persistence"}},
	{"modernc.org/quickjs", []string{"toolkit/code"}},
	{"github.com/labstack/echo", []string{"web"}},
	{"github.com/coder/websocket", []string{"web", "phone", "realtime/ws", "realtime/wsserver", "realtime/live", "realtime/simulator", "realtime/realtimetest", "examples"}},
	{"go.opentelemetry.io/proto/", []string{"cmd/voicebridge/internal/telemetry", "e2e"}}, // what receivers read
	{"go.opentelemetry.io/", []string{"cmd/voicebridge/internal/telemetry"}},
	{"github.com/prometheus/procfs", []string{"cmd/voicebridge"}},
	{"github.com/prometheus/", []string{"web", "cmd/voicebridge/internal/telemetry"}},
	{"github.com/minio/", []string{"recording"}},
	{"github.com/rivo/uniseg", []string{"llm/speech", "realtime/served"}},
	{"github.com/chromedp/", nil}, // only tests drive a browser
}

// pure names, for packages that only compute, the imports by which a package would read
// a clock's ticks, talk to somebody, or run beside itself.
var pure = map[string][]string{
	"bridge/internal/session": {"context", "sync", "os", "net", "database/sql", "voicebridge/realtime/rtc", "voicebridge/realtime/media"},
}

// vagueNames are package names that say nothing about what is inside.
var vagueNames = []string{"pkg", "util", "utils", "common", "types", "helpers", "misc", "shared", "base", "defs"}

// exceptions are the imports that break a rule on purpose. Each must still be
// needed: one that no package uses any more fails the test.
var exceptions = []exception{
	{"e2e", "github.com/coder/websocket", true, "the end-to-end tests are clients of the thread socket"},
	{"bridge", "github.com/coder/websocket", true, "the tests of calls are clients of the socket"},
	{"bridge", "voicebridge/phone", true, "a telephone calls each kind of upstream"},
	{"measure", "github.com/coder/websocket", true, "measured calls come over sockets"},
	{"cmd/voicebridge", "github.com/prometheus/client_golang/prometheus", true, "the dashboard is compared with the figures that there are"},
}

// undocumented are the packages that may lack a doc comment.
var undocumented = map[string]string{
	"persistence/internal/pgdb":     "written by sqlc",
	"persistence/internal/sqlitedb": "written by sqlc",
}

// exception allows one package one import.
type exception struct {
	from, to string // to is a prefix of import paths
	tests    bool   // in test files only
	reason   string
}

// pkg is what go list says about a package; see go help list.
type pkg struct {
	ImportPath   string   `json:"ImportPath"`
	Name         string   `json:"Name"`
	Doc          string   `json:"Doc"`
	GoFiles      []string `json:"GoFiles"`
	CgoFiles     []string `json:"CgoFiles"`
	Imports      []string `json:"Imports"`
	TestImports  []string `json:"TestImports"`
	XTestImports []string `json:"XTestImports"`
}

// room returns the package's path inside of the module, "" for its root.
func (p pkg) room() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, module), "/")
}

// within reports whether path is dir or lies below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

// level returns the number of a room's level, counted from the roof, and the
// top folder it lies in; ok is false for a package that is in no room.
func level(room string) (n int, top string, ok bool) {
	top, _, _ = strings.Cut(room, "/")
	for n, rooms := range levels {
		if slices.Contains(rooms, top) {
			return n, top, true
		}
	}
	return 0, top, false
}

// ownBreach says why from may not import the package to, "" when it may. Both are
// rooms; tests says whether the import stands in a test file.
func ownBreach(from, to string, tests bool) string {
	fromLevel, fromTop, ok := level(from)
	if !ok {
		return "" // reported once for the package itself
	}
	toLevel, toTop, ok := level(to)
	switch {
	case !ok:
		return "is in no room"
	case strings.HasSuffix(path.Base(to), "test") && !tests && !within(from, to):
		return "is for tests only"
	case fromTop == toTop:
		return ""
	case toLevel == fromLevel:
		return "is a neighbour: " + fromTop + " and " + toTop + " never import each other"
	case toLevel < fromLevel:
		return "is above it: arrows point downwards only"
	}
	return ""
}

// vendorBreach says why from may not import a package of another module.
func vendorBreach(from, imported string, tests bool) string {
	for _, v := range vendors {
		if !within(imported, strings.TrimSuffix(v.prefix, "/")) {
			continue
		}
		if v.homes == nil {
			if tests {
				return ""
			}
			return "is for tests only"
		}
		if slices.ContainsFunc(v.homes, func(home string) bool { return within(from, home) }) {
			return ""
		}
		return "belongs to " + strings.Join(v.homes, ", ")
	}
	return ""
}

// checker finds what breaks the rules in a set of packages.
type checker struct {
	exceptions   []exception
	undocumented map[string]string
}

// check returns one sentence for each breach, sorted.
func (c checker) check(pkgs []pkg) []string {
	used := make([]bool, len(c.exceptions))
	var found []string
	for _, p := range pkgs {
		room := p.room()
		if room == "" && len(p.GoFiles) == 0 {
			continue // the tests of the tree itself
		}
		found = append(found, c.checkPackage(p)...)
		found = append(found, c.checkImports(room, p.Imports, false, used)...)
		found = append(found, c.checkImports(room, slices.Concat(p.TestImports, p.XTestImports), true, used)...)
	}
	for i, e := range c.exceptions {
		if !used[i] {
			found = append(found, fmt.Sprintf("the exception for %s to import %s is no longer needed: take it out", e.from, e.to))
		}
		if e.reason == "" {
			found = append(found, fmt.Sprintf("the exception for %s to import %s gives no reason", e.from, e.to))
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// checkPackage looks at one package's place, name and doc comment.
func (c checker) checkPackage(p pkg) []string {
	var found []string
	room := p.room()
	if _, _, ok := level(room); !ok {
		found = append(found, fmt.Sprintf("%s is in no room: every package lies below one of %v", p.ImportPath, levels))
	}
	if slices.Contains(vagueNames, p.Name) || slices.Contains(vagueNames, path.Base(room)) {
		found = append(found, fmt.Sprintf("%s has a name that says nothing", p.ImportPath))
	}
	if len(p.GoFiles)+len(p.CgoFiles) > 0 && p.Doc == "" && c.undocumented[room] == "" {
		found = append(found, fmt.Sprintf("%s has no doc comment", p.ImportPath))
	}
	return found
}

// checkImports looks at the imports of one package and marks the exceptions it
// needs as used.
func (c checker) checkImports(from string, imports []string, tests bool, used []bool) []string {
	var found []string
	for _, imported := range imports {
		var why string
		if within(imported, module) {
			why = ownBreach(from, strings.TrimPrefix(imported, module+"/"), tests)
		} else {
			why = vendorBreach(from, imported, tests)
		}
		if why == "" && !tests && slices.ContainsFunc(pure[from], func(bad string) bool { return within(imported, bad) }) {
			why = "a package that only computes does not need"
		}
		if why == "" || c.excused(from, imported, tests, used) {
			continue
		}
		who := from
		if tests {
			who += " (tests)"
		}
		found = append(found, fmt.Sprintf("%s imports %s, which %s", who, imported, why))
	}
	return found
}

// excused reports whether an exception allows the import.
func (c checker) excused(from, imported string, tests bool, used []bool) bool {
	for i, e := range c.exceptions {
		if from == e.from && within(imported, e.to) && (tests || !e.tests) {
			used[i] = true
			return true
		}
	}
	return false
}

// listPackages asks the go command for all packages of the module.
func listPackages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list",
		"-json=ImportPath,Name,Doc,GoFiles,CgoFiles,Imports,TestImports,XTestImports", "./...")
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = fmt.Errorf("%w\n%s", err, exit.Stderr)
		}
		t.Fatalf("list packages: %v", err)
	}
	var pkgs []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return pkgs
		} else if err != nil {
			t.Fatalf("decode package list: %v", err)
		}
		pkgs = append(pkgs, p)
	}
}

// TestArrows holds the arrows of ARCHITECTURE.md over the whole tree.
func TestArrows(t *testing.T) {
	t.Parallel()
	pkgs := listPackages(t)
	if len(pkgs) < 5 {
		t.Fatalf("go list found only %d packages", len(pkgs))
	}
	for _, breach := range (checker{exceptions, undocumented}).check(pkgs) {
		t.Error(breach)
	}
}

// TestLiftOut shows that the protocol and the language models can be used
// without the rest of the program: neither imports anything else of it, nor a database.
func TestLiftOut(t *testing.T) {
	t.Parallel()
	for _, room := range []string{"realtime", "llm"} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./"+room+"/...").Output()
		if err != nil {
			t.Fatalf("list what %s needs: %v", room, err)
		}
		for imported := range strings.Lines(string(out)) {
			imported = strings.TrimSpace(imported)
			if within(imported, module) && !within(imported, module+"/"+room) {
				t.Errorf("%s needs %s", room, imported)
			}
			for _, database := range []string{"github.com/jackc/pgx", "github.com/pressly/goose", "modernc.org/sqlite"} {
				if within(imported, database) {
					t.Errorf("%s needs %s", room, imported)
				}
			}
		}
	}
}

// TestArrowsFail shows that every rule can be broken.
func TestArrowsFail(t *testing.T) {
	t.Parallel()
	good := func(importPath string, imports ...string) pkg {
		return pkg{ImportPath: importPath, Name: path.Base(importPath), Doc: "x", GoFiles: []string{"x.go"}, Imports: imports}
	}
	tests := []struct {
		name  string
		pkgs  []pkg
		c     checker
		wants []string
	}{
		{name: "a fair house", pkgs: []pkg{
			good("voicebridge/cmd/voicebridge", "voicebridge/web", "voicebridge/bridge", "voicebridge/realtime/rtc"),
			good("voicebridge/web", "github.com/labstack/echo/v4", "voicebridge/chat", "voicebridge/web/ui"),
			good("voicebridge/bridge", "voicebridge/realtime", "voicebridge/toolkit", "voicebridge/persistence"),
			good("voicebridge/realtime/rtc", "github.com/pion/webrtc/v4"),
			good("voicebridge/realtime/opus", "github.com/pion/opus", "github.com/thesyncim/gopus"),
			good("voicebridge/persistence", "github.com/jackc/pgx/v5/pgxpool", "modernc.org/sqlite"),
			{ImportPath: "voicebridge", Name: "voicebridge_test", XTestImports: []string{"testing"}},
		}},
		{name: "bridge and chat", pkgs: []pkg{
			good("voicebridge/bridge", "voicebridge/chat"),
			good("voicebridge/chat/queue", "voicebridge/bridge"),
		}, wants: []string{
			"bridge imports voicebridge/chat, which is a neighbour: bridge and chat never import each other",
			"chat/queue imports voicebridge/bridge, which is a neighbour: chat and bridge never import each other",
		}},
		{name: "pure", pkgs: []pkg{good("voicebridge/bridge/internal/session", "time", "context", "net/http", "voicebridge/realtime/rtc", "voicebridge/realtime")}, wants: []string{
			"bridge/internal/session imports context, which a package that only computes does not need",
			"bridge/internal/session imports net/http, which a package that only computes does not need",
			"bridge/internal/session imports voicebridge/realtime/rtc, which a package that only computes does not need",
		}},
		{name: "realtime and toolkit", pkgs: []pkg{good("voicebridge/toolkit/charts", "voicebridge/realtime")}, wants: []string{
			"toolkit/charts imports voicebridge/realtime, which is a neighbour: toolkit and realtime never import each other",
		}},
		{name: "llm and the database", pkgs: []pkg{good("voicebridge/llm/openai", "voicebridge/persistence", "voicebridge/chat")}, wants: []string{
			"llm/openai imports voicebridge/chat, which is above it: arrows point downwards only",
			"llm/openai imports voicebridge/persistence, which is a neighbour: llm and persistence never import each other",
		}},
		{name: "upwards", pkgs: []pkg{good("voicebridge/persistence", "voicebridge/bridge")}, wants: []string{
			"persistence imports voicebridge/bridge, which is above it: arrows point downwards only",
		}},
		{name: "upwards from a test", pkgs: []pkg{{
			ImportPath: "voicebridge/db", Name: "db", Doc: "x", GoFiles: []string{"x.go"},
			XTestImports: []string{"voicebridge/persistence"},
		}}, wants: []string{
			"db (tests) imports voicebridge/persistence, which is above it: arrows point downwards only",
		}},
		{name: "vendors", pkgs: []pkg{
			good("voicebridge/bridge", "github.com/pion/webrtc/v4"),
			good("voicebridge/realtime/simulator", "github.com/pion/opus"),
			good("voicebridge/web", "github.com/jackc/pgx/v5"),
			good("voicebridge/cmd/voicebridge", "github.com/labstack/echo/v4", "github.com/chromedp/chromedp"),
		}, wants: []string{
			"bridge imports github.com/pion/webrtc/v4, which belongs to realtime/rtc, examples, e2e",
			"cmd/voicebridge imports github.com/chromedp/chromedp, which is for tests only",
			"cmd/voicebridge imports github.com/labstack/echo/v4, which belongs to web",
			"realtime/simulator imports github.com/pion/opus, which belongs to realtime/opus",
			"web imports github.com/jackc/pgx/v5, which belongs to persistence",
		}},
		{name: "a suite outside of tests", pkgs: []pkg{good("voicebridge/bridge", "voicebridge/persistence/persistencetest")}, wants: []string{
			"bridge imports voicebridge/persistence/persistencetest, which is for tests only",
		}},
		{name: "names, docs, rooms", pkgs: []pkg{
			good("voicebridge/web/util"),
			good("voicebridge/extra"),
			{ImportPath: "voicebridge/chat", Name: "chat", GoFiles: []string{"x.go"}},
		}, wants: []string{
			"voicebridge/chat has no doc comment",
			"voicebridge/extra is in no room: every package lies below one of " + fmt.Sprint(levels),
			"voicebridge/web/util has a name that says nothing",
		}},
		{name: "exceptions", c: checker{exceptions: []exception{
			{from: "web", to: "github.com/jackc/pgx/v5", tests: true, reason: "only its tests"},
			{from: "bridge", to: "github.com/pion/webrtc", reason: "stale"},
			{from: "cmd/voicebridge", to: "github.com/labstack/echo"},
		}}, pkgs: []pkg{
			good("voicebridge/web", "github.com/jackc/pgx/v5"),
			{ImportPath: "voicebridge/web", Name: "web", TestImports: []string{"github.com/jackc/pgx/v5"}},
			good("voicebridge/cmd/voicebridge", "github.com/labstack/echo/v4"),
		}, wants: []string{
			"the exception for bridge to import github.com/pion/webrtc is no longer needed: take it out",
			"the exception for cmd/voicebridge to import github.com/labstack/echo gives no reason",
			"web imports github.com/jackc/pgx/v5, which belongs to persistence",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, tt.c.check(tt.pkgs), tt.wants, "breaches")
		})
	}
}
