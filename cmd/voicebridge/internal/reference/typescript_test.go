package reference

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// typeScript are the schemas of the HTTP API as types, in their order.
func typeScript(t *testing.T) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "web/openapi.yaml"))
	must(t, err)
	var doc struct {
		Components struct{ Schemas yaml.Node }
	}
	must(t, yaml.Unmarshal(raw, &doc))
	var b strings.Builder
	b.WriteString("// What the HTTP API takes and answers with. Made by make gen; /openapi.json of a running server says more.\n")
	for name, schema := range pairs(&doc.Components.Schemas) {
		b.WriteString("\n" + remark(schema, "\n"))
		if key(schema, "properties") == nil {
			fmt.Fprintf(&b, "export type %s = %s;\n", name, typeOf(t, "", schema))
		} else {
			fmt.Fprintf(&b, "export interface %s %s\n", name, typeOf(t, "", schema))
		}
	}
	return b.String()
}

// beginning matches a pattern of which TypeScript can say how the text begins.
var beginning = regexp.MustCompile(`^\^[a-z]+[-_]$`)

// typeOf writes a schema as a type; an object has a line for each property.
func typeOf(t *testing.T, indent string, schema *yaml.Node) string {
	t.Helper()
	if ref := key(schema, "$ref"); ref != nil {
		return filepath.Base(ref.Value)
	}
	if values := key(schema, "enum"); values != nil {
		return union(values, func(n *yaml.Node) string { return "'" + n.Value + "'" })
	}
	if kinds := key(schema, "oneOf"); kinds != nil {
		return union(kinds, func(n *yaml.Node) string { return typeOf(t, indent, n) })
	}
	kind, pattern := key(schema, "type"), key(schema, "pattern")
	switch {
	case kind == nil:
		for name := range pairs(schema) {
			if name != "description" {
				t.Fatalf("line %d: a schema with %s and without a type", schema.Line, name)
			}
		}
		return "unknown"
	case pattern != nil && beginning.MatchString(pattern.Value):
		return "`" + pattern.Value[1:] + "${string}`"
	case kind.Kind == yaml.SequenceNode:
		return union(kind, func(n *yaml.Node) string {
			if n.Value == "null" {
				return n.Value
			}
			one := *schema
			one.Content = append([]*yaml.Node{{Value: "type"}, n}, schema.Content...)
			return typeOf(t, indent, &one)
		})
	case kind.Value == "integer":
		return "number"
	case kind.Value == "array":
		items := typeOf(t, indent, key(schema, "items"))
		if strings.Contains(items, " | ") && !strings.HasPrefix(items, "{") {
			items = "(" + items + ")"
		}
		return items + "[]"
	case kind.Value != "object":
		return kind.Value
	}
	properties := key(schema, "properties")
	if values := key(schema, "additionalProperties"); values != nil && values.Kind == yaml.MappingNode {
		return "Record<string, " + typeOf(t, indent, values) + ">"
	} else if properties == nil {
		return "Record<string, unknown>"
	}
	var b strings.Builder
	b.WriteString("{\n")
	required := key(schema, "required")
	for name, property := range pairs(properties) {
		mark := "?"
		if required != nil && slices.ContainsFunc(required.Content, func(n *yaml.Node) bool { return n.Value == name }) {
			mark = ""
		}
		inner := indent + "  "
		fmt.Fprintf(&b, "%s%s%s%s: %s;\n", inner, remark(property, " "), name, mark, typeOf(t, inner, property))
	}
	return b.String() + indent + "}"
}

func union(of *yaml.Node, write func(*yaml.Node) string) string {
	var kinds []string
	for _, n := range of.Content {
		kinds = append(kinds, write(n))
	}
	return strings.Join(kinds, " | ")
}

// remark is a description as editors show it.
func remark(schema *yaml.Node, end string) string {
	text := key(schema, "description")
	if text == nil {
		return ""
	}
	return "/** " + strings.ReplaceAll(oneLine(text.Value), "*/", "* /") + " */" + end
}

// pairs are the names of a mapping and what stands behind them.
func pairs(n *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		for pair := range slices.Chunk(n.Content, 2) {
			if !yield(pair[0].Value, pair[1]) {
				return
			}
		}
	}
}

// key is what stands behind a name of a mapping; nil if it has none.
func key(n *yaml.Node, name string) *yaml.Node {
	for have, value := range pairs(n) {
		if have == name {
			return value
		}
	}
	return nil
}
