package reference

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
	"go.yaml.in/yaml/v3"

	"voicebridge/cmd/voicebridge/internal/config"
)

// texts are the comments of structs and their fields, by package.
type texts struct {
	t        *testing.T
	packages map[string]map[string]declared
}

// of returns the struct that a type is, as it is declared.
func (x *texts) of(kind reflect.Type) declared {
	x.t.Helper()
	dir := strings.TrimPrefix(kind.PkgPath(), "voicebridge/")
	if x.packages[dir] == nil {
		x.packages[dir] = structs(x.t, path.Join(dir, "*.go"))
	}
	d, ok := x.packages[dir][kind.Name()]
	if !ok {
		x.t.Fatalf("%s declares no struct %s", dir, kind.Name())
	}
	return d
}

// setting returns the text of a setting; a group has that of its type unless it has its own.
func (x *texts) setting(s config.Setting) string {
	x.t.Helper()
	text := x.field(s.Group, s.Field.Name)
	if text == "" && config.IsGroup(s.Field.Type) {
		text = strings.TrimSpace(x.of(s.Field.Type).doc)
	}
	return text
}

func (x *texts) field(group reflect.Type, name string) string {
	x.t.Helper()
	for _, f := range x.of(group).fields {
		for _, n := range f.Names {
			if n.Name == name {
				return forOperators(comment(f))
			}
		}
	}
	return ""
}

// forOperators returns the first paragraph of a comment, with the preformatted lines after it. What follows is for readers of the code.
func forOperators(text string) string {
	var out []string
	for i, paragraph := range strings.Split(text, "\n\n") {
		if i == 0 || strings.HasPrefix(paragraph, "\t") {
			out = append(out, paragraph)
		}
	}
	return strings.Join(out, "\n\n")
}

// values returns what a setting may be, unless its text says so.
func values(s config.Setting, text string, bounds bool) string {
	tag := s.Field.Tag
	low, high, enum := tag.Get("min"), tag.Get("max"), splitList(tag.Get("enum"))
	switch {
	case slices.ContainsFunc(enum, func(value string) bool { return !strings.Contains(text, value) }):
		return " One of: " + strings.Join(enum, ", ") + "."
	case bounds && low != "" && high != "":
		return " From " + low + " to " + high + "."
	}
	return ""
}

func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' })
}

// settings is the page of settings, each with its variable, default and meaning.
func settings(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString(`# Settings

Made from the code by ` + "`make gen`" + `. Flags come before the environment, the environment before the file
([voicebridge.example.yaml](../../voicebridge.example.yaml)), the file before these defaults. In the environment lists have commas and
structures are JSON. Secrets have variables only, and stand at the end; the name with _FILE after it
names a file that holds the secret, as Docker and systemd provide them.

## The top level
`)
	x := &texts{t, map[string]map[string]declared{}}
	all := config.Settings()
	rows := func(group string, in bool) {
		b.WriteString("\n| setting | variable | default | |\n|---|---|---|---|\n")
		for _, s := range all {
			if parent(s.Key) != group || config.IsGroup(s.Field.Type) {
				continue
			}
			variable := ""
			if !in {
				variable = "`" + config.Variable(s.Key) + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", last(s.Key), variable, defaultOf(s), cell(x.setting(s)+values(s, x.setting(s), true)))
		}
	}
	rows("", false)
	for _, s := range all {
		index, many := map[reflect.Kind]string{reflect.Slice: "[0]", reflect.Map: "[NAME]"}[s.Field.Type.Kind()]
		switch {
		case many && config.IsGroup(s.Field.Type.Elem()):
			fmt.Fprintf(&b, "\n## An entry of `%s`\n\n%s\n", s.Key, cell(x.of(s.Field.Type.Elem()).doc))
			rows(s.Key+index, true)
		case config.IsGroup(s.Field.Type):
			fmt.Fprintf(&b, "\n## `%s`\n\n%s\n", s.Key, cell(x.setting(s)))
			rows(s.Key, strings.Contains(s.Key, "["))
		}
	}
	b.WriteString("\n## Secrets\n\n| variable | |\n|---|---|\n")
	for f := range reflect.TypeFor[config.Secrets]().Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("env"), ","); name != "" {
			fmt.Fprintf(&b, "| `%s` | %s |\n", name, cell(x.field(reflect.TypeFor[config.Secrets](), f.Name)))
		}
	}
	return b.String()
}

// schemaOfSettings is the JSON schema of the file, by which editors complete it.
func schemaOfSettings(t *testing.T) string {
	t.Helper()
	x := &texts{t, map[string]map[string]declared{}}
	s := config.Schema(func(s config.Setting) string { return oneLine(strings.ReplaceAll(x.setting(s), "`", "")) })
	s["$schema"], s["title"] = "https://json-schema.org/draft/2020-12/schema", "voicebridge.yaml"
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	must(t, encoder.Encode(s))
	return out.String()
}

// TestSchema has the schema and the program take the same settings.
func TestSchema(t *testing.T) {
	t.Parallel()
	var s jsonschema.Schema
	must(t, json.Unmarshal([]byte(schemaOfSettings(t)), &s))
	schema, err := s.Resolve(nil)
	must(t, err)
	for text, ok := range map[string]bool{
		example(t): true,
		"listen: 127.0.0.1:1\ncalls: {idle_minutes: 5}\ntools: {web: {allow_ports: [81]}}":                                   true,
		"assistants: [{name: Desk, secret_env: DESK, voice: {speed: 1.5}}]":                                                  true,
		"prices: [{model: m, input: 0.5}]\nupstreams: [{name: a, profile: xai, voice: eve}]":                                 true,
		"public_url: https://a.example\nphone: {lines: {desk: {carrier: twilio, owner: a, secret_env: DESK, max_calls: 3}}}": true,
		"phone: {lines: {desk: {carrier: other, owner: a, secret_env: DESK}}}":                                               false,
		"phone: {lines: {desk: {owner: a}}}":                                                                                 false, "phone: {lines: [x]}": false,
		"listenn: x": false, "listen: 8080": false, "udp_port: 70000": false, "udp_port: 1.5": false, "public_ips: 1.2.3.4": false,
		"conversations: {queue: {enabled: 1}}": false, "conversations: x": false, "log: {level: loud}": false,
		"tools: {web: {allow_ports: [0]}}": false, "prices: [{input: 1}]": false, "upstreams: [{name: a}]": false,
		"assistants: [{name: x, voice: {speed: 9}}]": false, "assistants: [{}]": false,
	} {
		var values any
		must(t, yaml.Unmarshal([]byte(text), &values))
		if err := schema.Validate(values); (err == nil) != ok {
			t.Errorf("the schema says of %.80q: %v", text, err)
		}
		path := filepath.Join(t.TempDir(), "voicebridge.yaml")
		must(t, os.WriteFile(path, []byte(text), 0o600))
		if _, err := config.Load(config.Sources{File: path, Environ: []string{"DESK=whsec_" + strings.Repeat("a", 32)}}); (err == nil) != ok {
			t.Errorf("the program says of %.80q: %v", text, err)
		}
	}
}

// parent returns the key of the group that a setting is in.
func parent(key string) string { return key[:max(0, strings.LastIndex(key, "."))] }

// last returns the name of a setting in its group.
func last(key string) string { return key[strings.LastIndex(key, ".")+1:] }

// defaultOf returns the default of a setting for the page.
func defaultOf(s config.Setting) string {
	v := s.Default()
	text := scalar(v)
	switch {
	case v.Kind() == reflect.Slice && v.Len() > 0:
		text = strings.NewReplacer("[", "", "]", "", ", ", ",").Replace(text)
	case v.Kind() == reflect.Pointer, v.Kind() == reflect.Slice, v.Kind() == reflect.String && v.Len() == 0, strings.Contains(s.Key, "["):
		return s.Field.Tag.Get("default")
	case long(v):
		return "a text that comes with the program"
	}
	return "`" + text + "`"
}

func long(v reflect.Value) bool {
	return v.Kind() == reflect.String && strings.Contains(v.String(), "\n")
}

// scalar writes a value, or a list of values, in YAML.
func scalar(v reflect.Value) string {
	if v.Kind() == reflect.Slice {
		var items []string
		for i := range v.Len() {
			items = append(items, scalar(v.Index(i)))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	value := v.Interface()
	if text, ok := value.(fmt.Stringer); ok {
		value = text.String()
	}
	out, err := yaml.Marshal(value)
	if err != nil {
		panic(err) // a type that no setting has
	}
	return strings.TrimSpace(string(out))
}

// example is voicebridge.example.yaml.
func example(t *testing.T) string {
	t.Helper()
	x := &texts{t, map[string]map[string]declared{}}
	lines := append([]line{{text: "# yaml-language-server: $schema=docs/reference/voicebridge.schema.json"}}, above("", `All settings of voicebridge with their defaults. Copy to voicebridge.yaml and keep only what you change.

Flags override the environment, which overrides this file. An unknown key or an invalid value prevents the start with a message that names it. Every
setting has an environment variable: VOICEBRIDGE_ and its path in capitals, the parts joined by two underscores, as in
VOICEBRIDGE_CALLS__IDLE_MINUTES=5. Lists are separated by commas, structures are JSON.

The code makes this file (make gen). Secrets do not belong in it; they come from the environment:`)...)
	kind := reflect.TypeFor[config.Secrets]()
	for f := range kind.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("env"), ","); name != "" {
			text := strings.TrimSuffix(oneLine(x.field(kind, f.Name)), ".")
			lines = append(lines, line{text: strings.TrimSpace(fmt.Sprintf("#   %-28s  %s", name, text))})
		}
	}
	for _, s := range config.Settings() {
		if parent(s.Key) == "" {
			lines = append(append(lines, line{}), x.show(s, "")...)
		}
	}
	return aligned(lines)
}

// line is a line of a settings file, with the comment behind it.
type line struct{ text, behind string }

// width is the most that comments fill of a line.
const width = 120

// show returns the lines of a setting: its comment, behind it if there is room and it is in a group, and its default.
func (x *texts) show(s config.Setting, indent string) []line {
	x.t.Helper()
	name, text := last(s.Key), x.setting(s)
	text += values(s, text, false)
	if config.IsGroup(s.Field.Type) && !strings.HasSuffix(s.Field.Tag.Get("yaml"), ",flow") {
		lines := append(above(indent, text), line{text: indent + name + ":"})
		for _, inner := range config.Settings() {
			if parent(inner.Key) == s.Key {
				lines = append(lines, x.show(inner, indent+"  ")...)
			}
		}
		return lines
	}
	for _, inner := range config.Settings() {
		if enum := splitList(inner.Field.Tag.Get("enum")); parent(inner.Key) == s.Key && len(enum) > 0 {
			text += fmt.Sprintf(" %s: %s.", last(inner.Key), strings.Join(enum, ", "))
		}
	}
	one := indent + name + ": " + flow(s)
	if long(s.Default()) {
		one = indent + "# " + name + ": …"
	}
	if text := strings.TrimSuffix(text, "."); indent != "" && !long(s.Default()) && !config.IsGroup(s.Field.Type) && !strings.Contains(text, "\n") && utf8.RuneCountInString(one+text) < width-20 {
		return []line{{one, strings.ReplaceAll(text, "`", "")}}
	}
	return append(above(indent, text), line{text: one})
}

// flow returns the default of a setting, or of a group without what has none.
func flow(s config.Setting) string {
	if !config.IsGroup(s.Field.Type) {
		return scalar(s.Default())
	}
	var items []string
	for _, inner := range config.Settings() {
		optional := strings.HasSuffix(inner.Field.Tag.Get("json"), ",omitempty") && inner.Default().IsZero()
		if parent(inner.Key) == s.Key && !optional {
			items = append(items, last(inner.Key)+": "+flow(inner))
		}
	}
	return "{" + strings.Join(items, ", ") + "}"
}

// above returns a comment above a setting. Its preformatted lines stay as they are.
func above(indent, text string) []line {
	var lines []line
	for i, paragraph := range strings.Split(strings.TrimSpace(strings.ReplaceAll(text, "`", "")), "\n\n") {
		if strings.HasPrefix(paragraph, "\t") {
			for one := range strings.Lines(paragraph) {
				lines = append(lines, line{text: indent + "#   " + strings.TrimSpace(one)})
			}
			continue
		}
		if i > 0 {
			lines = append(lines, line{text: indent + "#"})
		}
		row := indent + "#"
		for word := range strings.FieldsSeq(paragraph) {
			if utf8.RuneCountInString(row)+1+utf8.RuneCountInString(word) > width {
				lines, row = append(lines, line{text: row}), indent+"#"
			}
			row += " " + word
		}
		if row != indent+"#" {
			lines = append(lines, line{text: row})
		}
	}
	return lines
}

// aligned joins lines, with the comments behind neighbours below each other.
func aligned(lines []line) string {
	var b strings.Builder
	column := 0
	for i, l := range lines {
		if l.behind == "" {
			b.WriteString(l.text + "\n")
			column = 0
			continue
		}
		if column == 0 {
			for _, next := range lines[i:] {
				if next.behind == "" {
					break
				}
				column = max(column, utf8.RuneCountInString(next.text))
			}
		}
		fmt.Fprintf(&b, "%-*s # %s\n", column, l.text, l.behind)
	}
	return b.String()
}
