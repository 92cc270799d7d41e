package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"voicebridge/assistant"
	"voicebridge/assistant/schema"
)

// A setting is a field of a struct, which is the group of settings around it. The field's comment is its text in
// docs/reference and voicebridge.example.yaml, and its tags are the rest: those of package schema, and
//
//	yaml     its key; ",inline" puts the settings of a struct into the group around it, "key,flow" writes a group on one
//	         line of the example
//	default  as in the environment; without it the zero value
//	env      variables with names that are not derived from the key
//
// A list, or an object with any names, may have groups as its entries. What concerns more than one setting is code, in
// validate.go.

// rules are how settings are written.
func rules() *schema.Rules {
	return &schema.Rules{
		Tag: "yaml", Text: "text (in quotes, if it looks like a number)", Group: "a group of settings",
		Formats: formats, Default: byDefault,
		Texts: map[reflect.Type]func(string) (any, error){reflect.TypeFor[netip.Prefix](): network},
	}
}

// Setting is a setting, or a group of settings.
type Setting struct {
	// Key is its path in the file. In the settings of a list's entries the list has the index 0, in those of an object
	// with any names the index NAME.
	Key string
	// Field declares it, in the struct Group.
	Field reflect.StructField
	Group reflect.Type
}

// Settings returns all settings, each group before its own.
func Settings() []Setting { return slices.Clone(settings()) }

var settings = sync.OnceValue(func() []Setting { return settingsIn("", reflect.TypeFor[Config]()) })

func settingsIn(path string, group reflect.Type) (out []Setting) {
	for name, f := range rules().Fields(group) {
		key, inner := schema.Join(path, name), f.Type
		out = append(out, Setting{key, f, schema.Declarer(group, f)})
		switch inner.Kind() {
		case reflect.Slice:
			key, inner = key+"[0]", inner.Elem()
		case reflect.Map:
			key, inner = key+"[NAME]", inner.Elem()
		}
		if IsGroup(inner) {
			out = append(out, settingsIn(key, inner)...)
		}
	}
	return out
}

// IsGroup reports whether a type is a group of settings.
func IsGroup(t reflect.Type) bool { return rules().IsGroup(t) }

// settingOf returns the field that a key sets.
func settingOf(key string) (f reflect.StructField, ok bool) {
	for _, s := range settings() {
		if s.Key == key && !strings.Contains(key, "[") {
			return s.Field, true
		}
	}
	return f, false
}

// Schema returns the JSON schema of the file; text returns the text of a setting.
func Schema(text func(Setting) string) map[string]any {
	out := rules().JSON(reflect.TypeFor[Config](), func(group reflect.Type, f reflect.StructField) (string, bool) {
		return text(Setting{Field: f, Group: group}), false
	})
	fixed := assistant.Schema()
	fields, _ := fixed["properties"].(map[string]any)
	fields["secret_env"] = map[string]any{"type": "string", "pattern": variableName.String()}
	settings, _ := out["properties"].(map[string]any)
	list, _ := settings["assistants"].(map[string]any)
	list["items"] = fixed
	return out
}

func byDefault(key string, f reflect.StructField) any {
	text, ok := f.Tag.Lookup("default")
	if long := defaults[key]; long != "" {
		text, ok = long, true
	}
	if !ok {
		return nil
	}
	value, _ := parse(f.Type, text) // a test reads the defaults
	return value
}

// parse reads the text of a value: lists with commas or as JSON, structures as JSON.
func parse(t reflect.Type, text string) (any, error) {
	switch {
	case schema.IsText(t), t.Kind() == reflect.String:
		return text, nil
	case t.Kind() == reflect.Pointer:
		return parse(t.Elem(), text)
	case t.Kind() == reflect.Slice && !IsGroup(t.Elem()) && !strings.HasPrefix(text, "["):
		out := []any{}
		for _, item := range splitList(text) {
			value, err := parse(t.Elem(), item)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", item, err)
			}
			out = append(out, value)
		}
		return out, nil
	case t.Kind() == reflect.Slice:
		return parseJSON[[]any](text, "a list, written as JSON")
	case t.Kind() == reflect.Struct, t.Kind() == reflect.Map:
		return parseJSON[map[string]any](text, "a group of settings, written as JSON")
	case t.Kind() == reflect.Bool && (text == "true" || text == "false"):
		return text == "true", nil
	case t.Kind() == reflect.Bool:
		return nil, errors.New("it must be true or false")
	case t.Kind() == reflect.Float64:
		if _, err := strconv.ParseFloat(text, 64); err != nil {
			return nil, errors.New("it must be a number")
		}
	default:
		if _, err := strconv.Atoi(text); err != nil {
			return nil, errors.New("it must be a whole number")
		}
	}
	return json.Number(text), nil
}

// parseJSON reads a structure. Its errors do not quote the input.
func parseJSON[T []any | map[string]any](text, what string) (any, error) {
	var value T
	if json.Unmarshal([]byte(text), &value) != nil || value == nil {
		return nil, errors.New("it must be " + what)
	}
	return value, nil
}

func splitList(v string) []string {
	var out []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}

// network reads a network, or an address as the network that it is alone.
func network(text string) (any, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is not an address or a network", text)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q: write it as an IPv4 network", text)
	}
	return p, nil
}
