// Package reference generates the pages of docs/reference from the code: settings, events of a
// call, and the HTTP API; and the example of a settings file. Its test fails when one is stale; with -update it writes them.
package reference

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"voicebridge/internal/testkit"
)

var must = testkit.Must

var update = flag.Bool("update", false, "write the pages anew")

const root = "../../../.."

func TestReference(t *testing.T) {
	t.Parallel()
	for name, page := range map[string]string{
		"docs/reference/settings.md": settings(t), "voicebridge.example.yaml": example(t), "docs/reference/events.md": events(t), "docs/reference/api.md": api(t),
		"docs/reference/voicebridge.schema.json": schemaOfSettings(t), "docs/reference/voicebridge.d.ts": typeScript(t),
	} {
		path := filepath.Join(root, name)
		if *update {
			must(t, os.WriteFile(path, []byte(page), 0o644))
			continue
		}
		have, err := os.ReadFile(path)
		must(t, err)
		testkit.Equal(t, page, string(have), "%s is stale, run make gen", name)
	}
}

// structs returns the struct types in some files, with their comments.
func structs(t *testing.T, pattern string) map[string]declared {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	out := map[string]declared{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(t, err)
		for _, d := range parsed.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok || group.Tok != token.TYPE {
				continue
			}
			for _, spec := range group.Specs {
				spec := spec.(*ast.TypeSpec)
				if s, ok := spec.Type.(*ast.StructType); ok {
					doc := spec.Doc
					if doc == nil {
						doc = group.Doc
					}
					out[spec.Name.Name] = declared{sentence(doc.Text(), spec.Name.Name), s.Fields.List}
				}
			}
		}
	}
	return out
}

// declared is a struct type.
type declared struct {
	doc    string
	fields []*ast.Field
}

// comment returns a field's comment, above it or behind it.
func comment(f *ast.Field) string {
	text := strings.TrimSpace(f.Doc.Text() + f.Comment.Text())
	for _, name := range f.Names {
		text = sentence(text, name.Name)
	}
	return text
}

// sentence returns a comment without the name that it begins with.
func sentence(text, name string) string {
	rest, ok := strings.CutPrefix(strings.TrimSpace(text), name+" ")
	if !ok {
		return text
	}
	for _, verb := range []string{"is ", "are ", "says "} {
		rest = strings.TrimPrefix(rest, verb)
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// preformatted matches a line of a comment that is shown as it is.
var preformatted = regexp.MustCompile(`(?m)^\t(.*)$`)

// cell returns text for a table cell.
func cell(text string) string {
	return strings.ReplaceAll(oneLine(preformatted.ReplaceAllString(text, "`$1`")), "|", `\|`)
}

func tag(f *ast.Field, key string) string {
	if f.Tag == nil {
		return ""
	}
	raw, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return ""
	}
	name, _, _ := strings.Cut(reflect.StructTag(raw).Get(key), ",")
	return name
}

// events is the page of the bridge's own events and of the reasons why calls end.
func events(t *testing.T) string {
	t.Helper()
	const source = "bridge/internal/session/*.go"
	var b strings.Builder
	b.WriteString(`# Events of a call

Made from the code by ` + "`make gen`" + `. The data channel ` + "`oai-events`" + ` carries the Realtime API's own events and, beside them, those of the bridge.
Fields that are empty are left out.
`)
	types := structs(t, source)
	for _, name := range slices.Sorted(maps.Keys(types)) {
		kind := ""
		var rows []string
		for _, f := range types[name].fields {
			key := tag(f, "json")
			if key == "type" {
				kind = comment(f)
			} else if key != "" {
				rows = append(rows, fmt.Sprintf("| `%s` | %s |\n", key, cell(comment(f))))
			}
		}
		if !strings.HasPrefix(kind, "bridge.") {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n| field | |\n|---|---|\n%s", ticked(kind), strings.Join(rows, ""))
	}
	b.WriteString("\n## Why calls end\n\nThe `reason` of `bridge.ended`, also in the table `calls`.\n\n| reason | |\n|---|---|\n")
	for _, c := range constants(t, source, "EndReason") {
		fmt.Fprintf(&b, "| `%s` | %s |\n", c.value, cell(c.comment))
	}
	return b.String()
}

// ticked writes "bridge.tool.started, progress" as two names of events.
func ticked(kinds string) string {
	var out []string
	base := ""
	for kind := range strings.SplitSeq(kinds, ", ") {
		if strings.HasPrefix(kind, "bridge.") {
			base = kind[:strings.LastIndex(kind, ".")+1]
		} else {
			kind = base + kind
		}
		out = append(out, "`"+kind+"`")
	}
	return strings.Join(out, ", ")
}

type constant struct{ value, comment string }

// constants returns the constants of a type in some files, in order.
func constants(t *testing.T, pattern, kind string) []constant {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	must(t, err)
	var out []constant
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			ident, named := spec.Type.(*ast.Ident)
			literal, text := spec.Values[0].(*ast.BasicLit)
			if named && text && ident.Name == kind {
				if value, err := strconv.Unquote(literal.Value); err == nil && value != "" && spec.Comment != nil {
					out = append(out, constant{value, spec.Comment.Text()})
				}
			}
			return true
		})
	}
	return out
}

// api is the page of routes, made from the description that the server publishes.
func api(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "web/openapi.yaml"))
	must(t, err)
	var doc map[string]any
	must(t, yaml.Unmarshal(raw, &doc))
	var b strings.Builder
	b.WriteString(`# HTTP API

Made by ` + "`make gen`" + ` from the description that a running server gives at ` + "`/openapi.json`" + `, which says more: bodies, answers and errors.
`)
	paths, _ := doc["paths"].(map[string]any)
	byTag := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		operations, _ := paths[path].(map[string]any)
		for _, method := range []string{"get", "post", "put", "patch", "delete"} {
			o, ok := operations[method].(map[string]any)
			if !ok {
				continue
			}
			tags, _ := o["tags"].([]any)
			for _, tag := range tags {
				name := fmt.Sprint(tag)
				byTag[name] = append(byTag[name], fmt.Sprintf("| `%s %s` | %v |\n", strings.ToUpper(method), path, o["summary"]))
			}
		}
	}
	list, _ := doc["tags"].([]any)
	for _, entry := range list {
		about, _ := entry.(map[string]any)
		name := fmt.Sprint(about["name"])
		fmt.Fprintf(&b, "\n## %v\n\n| route | |\n|---|---|\n%s", about["description"], strings.Join(byTag[name], ""))
	}
	return b.String()
}
