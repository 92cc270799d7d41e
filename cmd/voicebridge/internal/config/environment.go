package config

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// variables are those whose names are not derived from the path of their key. All others are
// VOICEBRIDGE_ and the path in capitals, its parts joined by two underscores.
var variables = map[string]string{
	"OPENAI_BASE_URL":                          "openai_base_url",
	"ANTHROPIC_BASE_URL":                       "anthropic_base_url",
	"GEMINI_BASE_URL":                          "gemini_base_url",
	"OLLAMA_HOST":                              "ollama_host",
	"VOICEBRIDGE_REALTIME_URL":                 "realtime.url",
	"VOICEBRIDGE_REALTIME_API_KEY_HEADER":      "realtime.api_key_header",
	"VOICEBRIDGE_REALTIME_MODEL":               "realtime.model",
	"VOICEBRIDGE_REALTIME_VOICE":               "realtime.voice",
	"VOICEBRIDGE_REALTIME_TRANSCRIPTION_MODEL": "realtime.transcription_model",
	"VOICEBRIDGE_VOICE":                        "realtime.voice",
	"VOICEBRIDGE_TRANSCRIPTION_MODEL":          "realtime.transcription_model",
	"VOICEBRIDGE_TEXT_PROVIDER":                "text.provider",
	"VOICEBRIDGE_TEXT_MODEL":                   "text.model",
	"VOICEBRIDGE_METRICS_LISTEN":               "metrics.listen",
	"OTEL_EXPORTER_OTLP_ENDPOINT":              "traces.endpoint",
	"VOICEBRIDGE_SEARXNG_URL":                  "tools.web.searxng_url",
}

const prefix = "VOICEBRIDGE_"

// gone says of settings that earlier versions had, alone or as a group, what to do instead.
var gone = map[string]string{
	"tls.acme": "certificates are no longer requested by this program: remove this, and put a proxy in front that gets them, as in deploy/compose.yaml, or set tls.cert_file and tls.key_file",
}

// otherNames are second names of secrets.
var otherNames = map[string]string{prefix + "DATABASE_URL": "DATABASE_URL"}

// injected reports whether Kubernetes sets the variable in the pods of a namespace with a service called
// voicebridge.
func injected(name string) bool {
	return name == prefix+"PORT" || strings.HasPrefix(name, prefix+"PORT_") || strings.HasPrefix(name, prefix+"SERVICE_")
}

// keyOf returns the key that a variable sets; empty if the variable is not ours.
func keyOf(name string) string {
	if key, ok := variables[name]; ok {
		return key
	}
	path, ours := strings.CutPrefix(name, prefix)
	if !ours || name == prefix+"CONFIG" || injected(name) {
		return ""
	}
	return strings.ToLower(strings.ReplaceAll(path, "__", "."))
}

// Variable returns the variable that sets a key: one with a name of its own, or the one derived
// from the path.
func Variable(key string) string {
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if variables[name] == key {
			return name
		}
	}
	return cmp.Or(secretNames[key], prefix+strings.ToUpper(strings.ReplaceAll(key, ".", "__")))
}

// SecretVariables returns the names of the variables that are, or may contain, secrets.
func SecretVariables() []string { return slices.Sorted(maps.Keys(secretVariables)) }

// typeOf returns the type of the field that a key sets.
func typeOf(key string) (reflect.Type, bool) {
	t := reflect.TypeFor[Config]()
	for part := range strings.SplitSeq(key, ".") {
		if t.Kind() != reflect.Struct {
			return nil, false
		}
		field, ok := fieldFor(t, part)
		if !ok {
			return nil, false
		}
		t = field
	}
	return t, true
}

// readEnvironment reads the environment: secrets into Secrets, settings under their keys. If a
// setting is given under two names, the values must agree.
func (l *loader) readEnvironment(environ []string) {
	values := map[string]string{}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		values[name] = strings.TrimSpace(value) // if there are several, the last one counts, as for os/exec
	}
	maps.DeleteFunc(values, func(_, value string) bool { return value == "" })
	from := map[string]string{} // the variable that set a key or a secret
	for _, name := range slices.Sorted(maps.Keys(values)) {
		value, target := values[name], cmp.Or(otherNames[name], name)
		set, secret := secretVariables[target]
		if !secret {
			if target = keyOf(name); target == "" {
				continue
			}
		}
		if other, twice := from[target]; twice && values[other] != value {
			l.note(fmt.Errorf("%s: its value differs from that of %s, which is the same setting", name, other))
			continue
		}
		from[target] = name
		var err error
		if secret {
			err = set(&l.cfg.Secrets, value)
		} else {
			err = l.set(target, value)
		}
		if err != nil {
			l.note(fmt.Errorf("%s: %w", name, err))
		}
	}
}

// set stores the text of a variable under a key.
func (l *loader) set(key, text string) error {
	t, ok := typeOf(key)
	if !ok {
		for old, why := range gone {
			if key == old || strings.HasPrefix(key, old+".") {
				return errors.New(why)
			}
		}
		if other := meant(reflect.TypeFor[Config](), strings.ReplaceAll(key, ".", "_")); other != "" {
			return fmt.Errorf("there is no such setting: did you mean %s?", Variable(other))
		}
		return errors.New("there is no such setting")
	}
	value, err := parse(t, text)
	if err != nil {
		return err
	}
	return l.k.Set(key, value)
}

// meant returns the key in t whose parts a name joins by one underscore; empty if there is none.
func meant(t reflect.Type, name string) string {
	for f := range t.Fields() {
		key := f.Tag.Get("koanf")
		rest, inside := strings.CutPrefix(name, key+"_")
		if name == key {
			return key
		}
		if !inside || f.Type.Kind() != reflect.Struct {
			continue
		}
		if inner := meant(f.Type, rest); inner != "" {
			return key + "." + inner
		}
	}
	return ""
}

// parse reads a value of a type: lists with commas or as JSON, structures as JSON.
func parse(t reflect.Type, text string) (any, error) {
	switch t.Kind() {
	case reflect.Pointer:
		return parse(t.Elem(), text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return nil, errors.New("it must be true or false")
		}
		return text == "true", nil
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, errors.New("it must be a whole number")
		}
		return n, nil
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			return nil, errors.New("it must be a number")
		}
		return n, nil
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Struct && !strings.HasPrefix(text, "[") {
			return parseList(t.Elem(), text)
		}
		return parseJSON[[]any](text, "a list, written as JSON")
	case reflect.Struct:
		return parseJSON[map[string]any](text, "a group of settings, written as JSON")
	default:
		return text, nil
	}
}

// parseList splits at commas.
func parseList(t reflect.Type, text string) (any, error) {
	items := splitList(text)
	out := make([]any, 0, len(items))
	for _, item := range items {
		value, err := parse(t, item)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		out = append(out, value)
	}
	return out, nil
}

// parseJSON reads a structure. Its errors do not quote the input.
func parseJSON[T any](text, what string) (any, error) {
	var value T
	if json.Unmarshal([]byte(text), &value) != nil || reflect.ValueOf(value).IsNil() {
		return nil, errors.New("it must be " + what)
	}
	return whole(value), nil
}

// whole turns JSON numbers without a fraction into whole numbers, like those of YAML.
func whole(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = whole(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = whole(inner)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v)
		}
	}
	return value
}
