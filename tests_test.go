package voicebridge_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

// onlyThere is what the tests in e2e are for.
var onlyThere = regexp.MustCompile(`(?i)page|process|program|\bfiles?\b|signal|kill|\bports?\b|client|browser|SDK`)

// testsOf calls f with each file of tests, and of what only tests use.
func testsOf(t *testing.T, f func(file string, set *token.FileSet, parsed *ast.File)) {
	t.Helper()
	err := fs.WalkDir(os.DirFS("."), ".", func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == "testdata" || strings.HasPrefix(entry.Name(), "_")):
			return fs.SkipDir
		case !strings.HasSuffix(file, "_test.go") && !strings.HasSuffix(path.Dir(file), "test") || path.Ext(file) != ".go":
			return nil
		}
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err == nil {
			f(file, set, parsed)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestEndToEnd has each test of e2e say in its first line what only it sees: a process, files, signals, ports, other people's clients, the page.
func TestEndToEnd(t *testing.T) {
	t.Parallel()
	testsOf(t, func(file string, _ *token.FileSet, parsed *ast.File) {
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || path.Dir(file) != "e2e" || !strings.HasPrefix(f.Name.Name, "Test") || f.Name.Name == "TestMain" {
				continue
			}
			if first, _, _ := strings.Cut(f.Doc.Text(), "\n"); !onlyThere.MatchString(first) {
				t.Errorf("%s: %s does not say in its first line what only e2e sees (%s); what a package can see belongs there", file, f.Name.Name, onlyThere)
			}
		}
	})
}
