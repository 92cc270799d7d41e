package web

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// made stands in openapi.yaml above the schemas that are made from Go types.
const made = "    # What follows is made by make gen: the types and their comments are in Go, listed in schemas_test.go.\n"

// components are the types that have a schema in the document, in its order. Of what clients send, only some is required.
var components = []struct {
	name string
	of   reflect.Type
	sent []string
}{
	{name: "Thread", of: reflect.TypeFor[persistence.Thread]()},
	{name: "ListedThread", of: reflect.TypeFor[listedThread]()},
	{name: "CallReport", of: reflect.TypeFor[callAnswer]()},
	{name: "Dialled", of: reflect.TypeFor[dialAnswer]()},
	{name: "CallState", of: reflect.TypeFor[callState]()},
	{name: "HookChange", of: reflect.TypeFor[hookBody](), sent: []string{}},
	{name: "Hook", of: reflect.TypeFor[hookAnswer]()},
	{name: "CreatedHook", of: reflect.TypeFor[createdHook]()},
	{name: "Delivery", of: reflect.TypeFor[deliveryAnswer]()},
	{name: "QueuedMessage", of: reflect.TypeFor[queuedAnswer]()},
	{name: "Queue", of: reflect.TypeFor[queueAnswer]()},
	{name: "Usage", of: reflect.TypeFor[usageFigures]()},
	{name: "UsageRow", of: reflect.TypeFor[usageRow]()},
	{name: "Model", of: reflect.TypeFor[Model]()},
	{name: "Tool", of: reflect.TypeFor[toolAnswer]()},
	{name: "ToolServer", of: reflect.TypeFor[ToolServer]()},
	{name: "MCPServer", of: reflect.TypeFor[serverAnswer]()},
	{name: "Turn", of: reflect.TypeFor[turnAnswer]()},
	{name: "ToolDefinition", of: reflect.TypeFor[toolkit.Definition](), sent: []string{"name"}},
	{name: "SessionCall", of: reflect.TypeFor[chat.SessionCall]()},
	{name: "TextSession", of: reflect.TypeFor[chat.Session]()},
	{name: "SessionAnswer", of: reflect.TypeFor[sessionAnswer]()},
	{name: "Error", of: reflect.TypeFor[plainErrorBody]()},
	{name: "RealtimeError", of: reflect.TypeFor[openAIErrorBody]()},
}

// TestSchemas compares the schemas in openapi.yaml with the types of the answers; with -update it writes them.
func TestSchemas(t *testing.T) {
	t.Parallel()
	have, err := os.ReadFile("openapi.yaml")
	must(t, err)
	byHand, _, ok := strings.Cut(string(have), made)
	if !ok {
		t.Fatalf("openapi.yaml has no line %q", made)
	}
	want := byHand + made + string(schemas(t))
	if *update {
		must(t, os.WriteFile("openapi.yaml", []byte(want), 0o644))
	} else if diff := cmp.Diff(string(have), want); diff != "" {
		t.Errorf("openapi.yaml is stale, run make gen (-have +want):\n%s", diff)
	}
}

// schemas returns the schemas as they stand in the document.
func schemas(t *testing.T) []byte {
	t.Helper()
	w := schemaWriter{t, map[string]declarations{}}
	var declared yaml.Node
	text, err := json.Marshal(assistant.Schema())
	must(t, err)
	must(t, yaml.Unmarshal(text, &declared))
	all := object("Assistant", declared.Content[0])
	for _, c := range components {
		set(all, c.name, w.group(c.of, c.sent))
	}
	w.events(all)
	flow(all)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	must(t, encoder.Encode(all))
	return append([]byte("    "), bytes.TrimSuffix(bytes.ReplaceAll(out.Bytes(), []byte("\n"), []byte("\n    ")), []byte("    "))...)
}

// flow writes on one line what has no properties and no kinds, so that each of these has a line; it reports whether there are any.
func flow(n *yaml.Node) (properties bool) {
	for i, c := range n.Content {
		inner := flow(c)
		lines := []string{"properties", "oneOf", "mapping"}
		if properties = properties || inner || slices.Contains(lines, c.Value); i%2 == 1 && slices.Contains(lines, n.Content[i-1].Value) {
			c.Style = 0
		}
	}
	n.Style = 0
	if !properties && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
	return properties
}

// object is a mapping of names to what stands behind them.
func object(pairs ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for pair := range slices.Chunk(pairs, 2) {
		set(n, pair[0].(string), pair[1])
	}
	return n
}

// set gives a mapping a value, in the place of the one that it has.
func set(n *yaml.Node, key string, value any) {
	v, ok := value.(*yaml.Node)
	if !ok {
		v = &yaml.Node{}
		if err := v.Encode(value); err != nil {
			panic(err)
		}
	}
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			n.Content[i+1] = v
			return
		}
	}
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, v)
}

// schemaWriter makes schemas of types, with what their packages say of them.
type schemaWriter struct {
	t        *testing.T
	packages map[string]declarations
}

// group is the schema of a struct.
func (w schemaWriter) group(of reflect.Type, sent []string) *yaml.Node {
	s, properties := object("type", "object"), object()
	required := sent
	for _, f := range reflect.VisibleFields(of) {
		name, option, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		always := sent == nil && option == ""
		if always {
			required = append(required, name)
		}
		declarer := of
		if n := len(f.Index) - 1; n > 0 {
			declarer = of.FieldByIndex(f.Index[:n]).Type
		}
		set(properties, name, w.field(f, declarer, always))
	}
	if len(required) > 0 {
		set(s, "required", required)
	}
	set(s, "properties", properties)
	return s
}

// field is the schema of a field: that of its type, with the rules of its tag openapi (or except: a value that it
// never has), and its comment.
func (w schemaWriter) field(f reflect.StructField, declarer reflect.Type, always bool) *yaml.Node {
	s := w.value(f.Type, always)
	if rules, ok := f.Tag.Lookup("openapi"); ok {
		var doc yaml.Node
		must(w.t, yaml.Unmarshal([]byte("{"+rules+"}"), &doc))
		for rule := range slices.Chunk(doc.Content[0].Content, 2) {
			switch rule[0].Value {
			case "except": // of the type's values
				values := s.Content[len(s.Content)-1]
				values.Content = slices.DeleteFunc(values.Content, func(n *yaml.Node) bool { return n.Value == rule[1].Value })
				continue
			case "$ref":
				s = object()
			}
			set(s, rule[0].Value, rule[1])
		}
	}
	if text := w.of(declarer).comments[declarer.Name()+"."+f.Name]; text != "" {
		set(s, "description", text)
	}
	return s
}

// events adds the schemas of the bridge's own events in a call, made of the types of docs/reference/events.md: those of
// which the comment on the field type names them.
func (w schemaWriter) events(all *yaml.Node) {
	parsed, err := parser.ParseFile(token.NewFileSet(), "../bridge/internal/session/event.go", nil, parser.ParseComments)
	must(w.t, err)
	oneOf, mapping := object().Content, object()
	set(all, "EndReason", w.value(reflect.TypeFor[bridge.EndReason](), false))
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		group, ok := spec.Type.(*ast.StructType)
		if !ok || !strings.HasPrefix(group.Fields.List[0].Doc.Text()+group.Fields.List[0].Comment.Text(), "bridge.") {
			return true
		}
		name := "Bridge" + strings.ToUpper(spec.Name.Name[:1]) + spec.Name.Name[1:]
		properties, required := object(), []string{"type"}
		var types []string
		for i, f := range group.Fields.List {
			property, option, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			text := forClients(f.Doc.Text()+f.Comment.Text(), f.Names[0].Name)
			if i == 0 {
				for kind := range strings.SplitSeq(strings.ToLower(text[:1])+text[1:], ", ") {
					if !strings.HasPrefix(kind, "bridge.") {
						kind = types[0][:strings.LastIndex(types[0], ".")+1] + kind
					}
					types = append(types, kind)
				}
				set(properties, property, object("type", "string", "enum", types))
				continue
			}
			if option == "" {
				required = append(required, property)
			}
			s := w.expression(f.Type)
			if values := s.Content; len(values) > 2 && values[2].Value == "enum" { // in Go, constants have names that nothing else may have
				var names []string
				for _, v := range values[3].Content {
					names = append(names, name+f.Names[0].Name+strings.ToUpper(v.Value[:1])+v.Value[1:])
				}
				set(s, "x-enum-varnames", names)
			}
			if text != "" {
				set(s, "description", text)
			}
			set(properties, property, s)
		}
		set(all, name, object("type", "object", "required", required, "properties", properties))
		ref := "#/components/schemas/" + name
		oneOf = append(oneOf, object("$ref", ref))
		for _, kind := range types {
			set(mapping, kind, ref)
		}
		return false
	})
	set(all, "BridgeEvent", object(
		"description", "What the bridge itself tells in a call, beside the Realtime API's events: on the data channel, or as a message of the WebSocket",
		"oneOf", &yaml.Node{Kind: yaml.SequenceNode, Content: oneOf},
		"discriminator", object("propertyName", "type", "mapping", mapping)))
}

// expression is the schema of a type as it is written in the package of a call's session.
func (w schemaWriter) expression(e ast.Expr) *yaml.Node {
	switch e := e.(type) {
	case *ast.StarExpr:
		return w.expression(e.X)
	case *ast.SelectorExpr:
		return w.expression(e.Sel)
	case *ast.Ident:
		if e.Name == reflect.TypeFor[bridge.EndReason]().Name() {
			return object("$ref", "#/components/schemas/EndReason")
		}
		for _, of := range []reflect.Type{
			reflect.TypeFor[string](), reflect.TypeFor[bool](), reflect.TypeFor[int](), reflect.TypeFor[int64](), reflect.TypeFor[float64](), reflect.TypeFor[time.Time](),
			reflect.TypeFor[thread.Message](), reflect.TypeFor[toolkit.Executor](), reflect.TypeFor[bridge.RecordingState](),
		} {
			if of.Name() == e.Name {
				return w.value(of, false)
			}
		}
		if e.Name == "RawMessage" { // any JSON
			return object()
		}
	}
	w.t.Fatalf("a field of an event has the type %T %v", e, e)
	return nil
}

// value is the schema of a type; a pointer may be null where its field is never left out.
func (w schemaWriter) value(of reflect.Type, always bool) *yaml.Node {
	for _, c := range components {
		if c.of == of {
			return object("$ref", "#/components/schemas/"+c.name)
		}
	}
	switch {
	case of.Kind() == reflect.Pointer:
		s := w.value(of.Elem(), false)
		if always {
			set(s, "type", []string{s.Content[1].Value, "null"})
		}
		return s
	case of == reflect.TypeFor[thread.Message]():
		return object("$ref", "#/components/schemas/Message")
	case of == reflect.TypeFor[json.RawMessage]():
		return object("type", "object")
	case of == reflect.TypeFor[time.Time]():
		return object("type", "string", "format", "date-time")
	case of.Kind() == reflect.Struct:
		return w.group(of, nil)
	case of.Kind() == reflect.Map:
		return object("type", "object", "additionalProperties", w.value(of.Elem(), false))
	case of.Kind() == reflect.Slice:
		return object("type", "array", "items", w.value(of.Elem(), false))
	case of.Kind() == reflect.Bool:
		return object("type", "boolean")
	case of.Kind() == reflect.Float64:
		return object("type", "number")
	case of.Kind() != reflect.String:
		return object("type", "integer")
	}
	s := object("type", "string")
	if values := w.of(of).values[of.Name()]; len(values) > 0 {
		set(s, "enum", values)
	}
	return s
}

// declarations are what a package says of its types: the comments of fields (Type.Field), the texts that a type can be.
type declarations struct {
	comments map[string]string
	values   map[string][]string
}

// of reads the package of a type.
func (w schemaWriter) of(kind reflect.Type) declarations {
	dir, ours := strings.CutPrefix(kind.PkgPath(), "voicebridge/")
	d, ok := w.packages[dir]
	if ok || !ours {
		return d
	}
	d = declarations{map[string]string{}, map[string][]string{}}
	w.packages[dir] = d
	files, err := filepath.Glob(filepath.Join("..", dir, "*.go"))
	must(w.t, err)
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		must(w.t, err)
		ast.Inspect(parsed, d.visit)
	}
	return d
}

func (d declarations) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.TypeSpec:
		group, ok := n.Type.(*ast.StructType)
		if !ok {
			break
		}
		for _, f := range group.Fields.List {
			for _, name := range f.Names {
				d.comments[n.Name.Name+"."+name.Name] = forClients(f.Doc.Text()+f.Comment.Text(), name.Name)
			}
		}
	case *ast.ValueSpec:
		kind, named := n.Type.(*ast.Ident)
		if !named || len(n.Values) != 1 {
			break
		}
		if text, ok := n.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING && len(text.Value) > 2 {
			d.values[kind.Name] = append(d.values[kind.Name], strings.Trim(text.Value, `"`))
		}
	}
	return true
}

// forClients is a comment without the name of the Go field.
func forClients(text, name string) string {
	text = strings.TrimSuffix(strings.Join(strings.Fields(text), " "), ".")
	if rest, ok := strings.CutPrefix(text, name+" "); ok {
		text = rest
		for _, verb := range []string{"is ", "are ", "says "} {
			text = strings.TrimPrefix(text, verb)
		}
	}
	if text != "" {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	return text
}
