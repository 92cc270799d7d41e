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

	"voicebridge/internal/testkit"
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
	testkit.Must(t, err)
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

// TestWaits has each wait of a test end by internal/testkit, which says what was awaited. What the goroutines that a test starts and the
// fakes that a product calls wait for ends with the test; what waits in a bubble of synctest does not wait for a clock.
func TestWaits(t *testing.T) {
	t.Parallel()
	testsOf(t, func(file string, set *token.FileSet, parsed *ast.File) {
		for _, decl := range parsed.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Body == nil || !strings.Contains(file, "/") || strings.HasPrefix(file, "internal/testkit/") {
				continue
			}
			waits(f, func(at token.Pos) {
				t.Errorf("%s: a wait that nothing ends: testkit.Receive, Eventually or Context say what was awaited", set.Position(at))
			})
		}
	})
}

// waits calls report for the bare waits in a function that has the test.
func waits(f *ast.FuncDecl, report func(token.Pos)) {
	var look func(n ast.Node, ofTest bool)
	look = func(n ast.Node, ofTest bool) {
		ast.Inspect(n, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncLit:
				look(n.Body, hasTest(n.Type))
				return false
			case *ast.GoStmt, *ast.DeferStmt:
				return false
			case *ast.CallExpr:
				return !bubble(n)
			case *ast.CommClause:
				for _, s := range n.Body {
					look(s, ofTest)
				}
				return false
			case *ast.UnaryExpr:
				if n.Op == token.ARROW && ofTest && !ends(n.X) {
					report(n.Pos())
				}
			}
			return true
		})
	}
	look(f.Body, hasTest(f.Type))
}

// hasTest reports whether a function has a parameter of the package testing.
func hasTest(f *ast.FuncType) bool {
	for _, p := range f.Params.List {
		t := p.Type
		if star, ok := t.(*ast.StarExpr); ok {
			t = star.X
		}
		if sel, ok := t.(*ast.SelectorExpr); ok {
			if pkg, ok := sel.X.(*ast.Ident); ok && pkg.Name == "testing" {
				return true
			}
		}
	}
	return false
}

// bubble reports whether a call runs a bubble, or something beside the test.
func bubble(call *ast.CallExpr) bool {
	if name, ok := call.Fun.(*ast.Ident); ok {
		return name.Name == "bubble"
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	return ok && (sel.Sel.Name == "Cleanup" || sel.Sel.Name == "Go" || sel.Sel.Name == "Test")
}

// ends reports whether a channel is one of a clock.
func ends(ch ast.Expr) bool {
	switch ch := ch.(type) {
	case *ast.CallExpr:
		sel, ok := ch.Fun.(*ast.SelectorExpr)
		return ok && (sel.Sel.Name == "After" || sel.Sel.Name == "Tick")
	case *ast.SelectorExpr:
		return ch.Sel.Name == "C"
	}
	return false
}
