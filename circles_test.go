package voicebridge_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
)

// upwards limits the arrows between a package's files that point back up, for all packages
// of a folder together. A file points at another if it names something that the other
// declares. The numbers may only fall: whoever lowers one updates it here.
var upwards = map[string]int{"bridge": 0, "chat": 0, "cmd": 0, "llm": 0, "persistence": 8, "realtime": 0, "toolkit": 0, "web": 0}

// arrow is a file of a package that names something of another one.
type arrow struct{ from, to string }

// listed is what go list says about a package and its compiled form.
type listed struct {
	ImportPath string
	Dir        string
	Export     string
	GoFiles    []string
}

// listExports lists the packages below the rooms and everything that they need.
func listExports(t *testing.T, rooms []string) []listed {
	t.Helper()
	args := []string{"list", "-export", "-deps", "-json=ImportPath,Dir,Export,GoFiles"}
	for _, room := range rooms {
		args = append(args, "./"+room+"/...")
	}
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	testkit.Must(t, err)
	var all []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("decode package list: %v", err)
		}
		all = append(all, p)
	}
}

// fileArrows are the arrows between the files of one package, each once. What is generated
// nobody reads from the top.
func fileArrows(t *testing.T, p listed, exports map[string]string) []arrow {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	generated := map[string]bool{}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(fset, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution|parser.ParseComments)
		testkit.Must(t, err)
		files = append(files, f)
		generated[name] = ast.IsGenerated(f)
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	config := types.Config{Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	own, err := config.Check(p.ImportPath, fset, files, info)
	if err != nil {
		t.Fatalf("check %s: %v", p.ImportPath, err)
	}
	found := map[arrow]bool{}
	for ident, object := range info.Uses {
		if object.Pkg() != own {
			continue
		}
		from, to := filepath.Base(fset.File(ident.Pos()).Name()), filepath.Base(fset.File(object.Pos()).Name())
		if from != to && !generated[from] {
			found[arrow{from, to}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b arrow) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
}

// storeys orders files so that few arrows point up (Eades, Lin and Smyth 1993): files that
// no other needs go to the top, those that need no other to the bottom, and of the rest
// first the one that needs more files than need it.
func storeys(arrows []arrow) (order []string) {
	left := map[string]bool{}
	for _, a := range arrows {
		left[a.from], left[a.to] = true, true
	}
	degrees := func(file string) (out, in int) {
		for _, a := range arrows {
			if left[a.from] && left[a.to] {
				if a.from == file {
					out++
				}
				if a.to == file {
					in++
				}
			}
		}
		return out, in
	}
	var bottom []string
	for len(left) > 0 {
		best, bestScore, at := "", 0, 0
		for _, file := range slices.Sorted(maps.Keys(left)) {
			out, in := degrees(file)
			switch {
			case out == 0 && at < 2:
				best, at = file, 2
			case at == 2:
			case in == 0 && at < 1:
				best, at = file, 1
			case at == 1:
			case best == "" || out-in > bestScore:
				best, bestScore = file, out-in
			}
		}
		delete(left, best)
		if at == 2 {
			bottom = append(bottom, best)
		} else {
			order = append(order, best)
		}
	}
	slices.Reverse(bottom)
	return append(order, bottom...)
}

// running returns the arrows that point up in an order from top to bottom.
func running(order []string, arrows []arrow) []arrow {
	return slices.DeleteFunc(slices.Clone(arrows), func(a arrow) bool {
		return slices.Index(order, a.from) < slices.Index(order, a.to)
	})
}

// TestUpwardArrows checks that reading a package from the top does not require going back
// more often than the limits allow.
func TestUpwardArrows(t *testing.T) {
	t.Parallel()
	all := listExports(t, slices.Sorted(maps.Keys(upwards)))
	exports := map[string]string{}
	for _, p := range all {
		exports[p.ImportPath] = p.Export
	}
	counts, lines := map[string]int{}, map[string][]string{}
	for _, p := range all {
		inside, ok := strings.CutPrefix(p.ImportPath, module+"/")
		room, _, _ := strings.Cut(inside, "/")
		if _, counted := upwards[room]; !ok || !counted {
			continue
		}
		arrows := fileArrows(t, p, exports)
		for _, up := range running(storeys(arrows), arrows) {
			counts[room]++
			lines[room] = append(lines[room], "  "+inside+": "+up.from+" → "+up.to)
		}
	}
	for room, limit := range upwards {
		if n := counts[room]; n > limit {
			t.Errorf("%s: %d arrows between files run back up, %d are allowed:\n%s", room, n, limit, strings.Join(lines[room], "\n"))
		} else if n < limit {
			t.Logf("%s: %d arrows between files run back up, %d are allowed: lower the number", room, n, limit)
		}
	}
}

// TestUpwardArrowsAreFound counts in small graphs.
func TestUpwardArrowsAreFound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		arrows []arrow
		want   []arrow
	}{
		"nothing":   {},
		"a tree":    {arrows: []arrow{{"a", "b"}, {"a", "c"}, {"b", "c"}}},
		"two":       {arrows: []arrow{{"a", "b"}, {"b", "a"}}, want: []arrow{{"b", "a"}}},
		"a circle":  {arrows: []arrow{{"a", "b"}, {"b", "c"}, {"c", "a"}}, want: []arrow{{"c", "a"}}},
		"a way out": {arrows: []arrow{{"top", "a"}, {"a", "b"}, {"b", "a"}, {"b", "low"}, {"top", "low"}}, want: []arrow{{"a", "b"}}},
	} {
		got := running(storeys(tt.arrows), tt.arrows)
		if len(got) != len(tt.want) || len(got) > 0 && name != "a way out" && !gocmp.Equal(got, tt.want, gocmp.AllowUnexported(arrow{})) {
			t.Errorf("%s: %v runs up, want %v", name, got, tt.want)
		}
	}
}
