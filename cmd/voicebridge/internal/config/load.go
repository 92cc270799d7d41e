package config

import (
	"bytes"
	"cmp"
	"encoding"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	parser "github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/file"
	"github.com/knadh/koanf/v2"
	"go.yaml.in/yaml/v3"

	"voicebridge/assistant"
	"voicebridge/realtime/live"
	"voicebridge/toolkit/webhook"
	"voicebridge/web/access"
)

// Sources are where settings come from.
type Sources struct {
	// File is the path of the YAML file given by flag; empty means VOICEBRIDGE_CONFIG, else
	// voicebridge.yaml if it exists.
	File string
	// Environ is the environment, as returned by os.Environ.
	Environ []string
	// Flags are the given flags, by key.
	Flags map[string]any
	// Offline is set for commands that serve nobody: they accept any address without authentication.
	Offline bool
}

const defaultFile = "voicebridge.yaml"

// Load reads and checks the settings. Its error names everything that is wrong, not only the first
// problem.
func Load(src Sources) (Config, error) {
	l := newLoader()
	l.readFile(src)
	l.readEnvironment(src.Environ)
	l.readFlags(src.Flags)
	l.decode()
	l.check("", &l.cfg)
	l.nameUpstream(src.Environ, Defaults().Realtime)
	l.readUpstreams(src.Environ)
	l.readAssistants(src.Environ)
	l.readHooks(src.Environ)
	l.problems = append(l.problems, l.cfg.validate(src.Offline)...)
	if len(l.problems) > 0 {
		return Config{}, &Error{l.problems}
	}
	return l.cfg, nil
}

// Defaults returns the settings of an empty environment.
func Defaults() Config {
	l := newLoader()
	l.decode()
	l.check("", &l.cfg)
	return l.cfg
}

// Default returns a setting's value in an empty environment as it is written, the zero value for those of a list's entries.
func (s Setting) Default() reflect.Value {
	l := newLoader()
	l.decode()
	v := reflect.ValueOf(l.cfg)
	for name := range strings.SplitSeq(s.Key, ".") {
		f, ok := fieldFor(v.Type(), name)
		if !ok {
			return reflect.Zero(s.Field.Type)
		}
		v = v.FieldByIndex(f.Index)
	}
	if v.Kind() == reflect.Int64 {
		return reflect.ValueOf(v.Int())
	}
	return v
}

// LoadLog reads and checks the settings of the log, from the environment and the flags, for a command that reads no
// others.
func LoadLog(src Sources) (Log, error) {
	l := newLoader()
	l.readEnvironment(slices.DeleteFunc(slices.Clone(src.Environ), func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		group, _, _ := strings.Cut(keyOf(name), ".")
		return group != "log"
	}))
	l.readFlags(src.Flags)
	l.decode()
	l.check("log", &l.cfg.Log)
	if len(l.problems) > 0 {
		return Log{}, &Error{l.problems}
	}
	return l.cfg.Log, nil
}

func newLoader() *loader {
	return &loader{k: koanf.New("."), refused: map[string]bool{}}
}

func (l *loader) readFlags(flags map[string]any) {
	for key, value := range flags {
		l.note(l.k.Set(key, value))
		if key == "database_url" {
			l.cfg.Secrets.DatabaseURL = access.Secret{} // the flag takes precedence over the environment
		}
	}
}

func (l *loader) readFile(src Sources) {
	path, asked := cmp.Or(src.File, lookup(src.Environ, "VOICEBRIDGE_CONFIG")), true
	if path == "" {
		path, asked = defaultFile, false
	}
	if _, err := os.Stat(path); err != nil {
		if asked || !errors.Is(err, fs.ErrNotExist) {
			l.note(fmt.Errorf("read settings file (choose another with --config or VOICEBRIDGE_CONFIG): %w", err))
		}
		return
	}
	f := koanf.New(".")
	if err := f.Load(file.Provider(path), oneDocument{}); err != nil {
		l.note(fmt.Errorf("read settings file %s: %w", path, err))
		return
	}
	l.refuseSecrets("", f.Raw())
	l.note(l.k.Merge(f))
}

// oneDocument is YAML of which nothing is ignored: the parser reads the first document only.
type oneDocument struct{ *parser.YAML }

func (oneDocument) Unmarshal(text []byte) (map[string]any, error) {
	documents := yaml.NewDecoder(bytes.NewReader(text))
	var settings map[string]any
	if err := documents.Decode(&settings); err != nil && !errors.Is(err, io.EOF) {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "map[string]interface {}", "a group of settings"))
	}
	for {
		var more any
		switch err := documents.Decode(&more); {
		case errors.Is(err, io.EOF):
			return settings, nil
		case err != nil:
			return nil, err
		case more != nil:
			return nil, errors.New("it has a second document after ---: put all settings into one")
		}
	}
}

// decode stores the collected values in the config and names unknown keys and values of the wrong
// type.
func (l *loader) decode() {
	values := l.k.Raw()
	expand(values)
	unknown := unknownKeys("", values, reflect.TypeFor[Config]())
	complete("", values, reflect.TypeFor[Config]())
	decoder, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		TagName: "koanf", Result: &l.cfg, DecodeHook: mapstructure.DecodeHookFuncValue(convert),
	})
	l.problems = append(l.problems, decodeProblems(cmp.Or(err, decoder.Decode(values)))...)
	for _, key := range unknown {
		if !l.refused[key] {
			l.note(fmt.Errorf("%s: %w", key, noSetting(key, func(key string) string { return key })))
		}
	}
}

// expand writes out what is short for more.
func expand(values map[string]any) {
	list, _ := values["upstreams"].([]any)
	for _, entry := range list {
		if u, ok := entry.(map[string]any); ok {
			if on, short := u["live"].(bool); short {
				u["live"] = map[string]any{"on": on}
			}
		}
	}
}

// unknownKeys returns the keys in value that type t does not have.
func unknownKeys(path string, value any, t reflect.Type) []string {
	var out []string
	switch v := value.(type) {
	case []any:
		if t.Kind() == reflect.Slice {
			for i, inner := range v {
				out = append(out, unknownKeys(fmt.Sprintf("%s[%d]", path, i), inner, t.Elem())...)
			}
		}
	case map[string]any:
		if !IsGroup(t) {
			return nil // a value of the wrong type, which the decoder reports
		}
		for key, inner := range v {
			full := strings.TrimPrefix(path+"."+key, ".")
			field, ok := fieldFor(t, key)
			if !ok {
				out = append(out, full)
				continue
			}
			out = append(out, unknownKeys(full, inner, field.Type)...)
		}
	}
	return out
}

// decodeProblems splits the joined errors of a decode.
func decodeProblems(err error) []error {
	if err == nil {
		return nil
	}
	e, ok := err.(*mapstructure.DecodeError) //nolint:errorlint // a wrapped one belongs to another level
	if joined := (interface{ Unwrap() []error })(nil); !ok && errors.As(err, &joined) {
		var out []error
		for _, e := range joined.Unwrap() {
			out = append(out, decodeProblems(e)...)
		}
		return out
	}
	if !ok {
		return []error{err}
	}
	if bad, ok := errors.AsType[*mapstructure.UnconvertibleTypeError](err); ok {
		return []error{fmt.Errorf("%s: it must be %s", named(e.Name()), kindName(bad.Expected.Kind()))}
	}
	if f, ok := settingOf(e.Name()); ok && (f.Type.Kind() == reflect.Slice || f.Type.Kind() == reflect.Struct) {
		return []error{fmt.Errorf("%s: it must be %s", named(e.Name()), kindName(f.Type.Kind()))}
	}
	return []error{fmt.Errorf("%s: %w", named(e.Name()), e.Unwrap())}
}

// convert reads texts whose types say how, and rejects numbers that the decoder would change.
func convert(from, to reflect.Value) (any, error) {
	switch {
	case isText(to.Type()) && from.Kind() != reflect.String:
		return nil, errors.New("it must be " + kindName(reflect.String))
	case to.Type() == reflect.TypeFor[netip.Prefix]():
		return network(from.String())
	case isText(to.Type()):
		value := reflect.New(to.Type())
		err := value.Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(from.String()))
		return value.Elem().Interface(), err
	case from.CanFloat() && to.CanInt():
		return nil, errors.New("it must be a whole number")
	}
	return from.Interface(), nil
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.String:
		return "text (in quotes, if it looks like a number)"
	case reflect.Bool:
		return "true or false"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "a group of settings"
	default:
		return "a whole number"
	}
}

// readUpstreams reads the variables that upstreams name.
func (l *loader) readUpstreams(environ []string) {
	for i := range l.cfg.Upstreams {
		u, key := &l.cfg.Upstreams[i], fmt.Sprintf("upstreams[%d].", i)
		if name := u.APIKeyEnv; name != "" {
			value := strings.TrimSpace(lookup(environ, name))
			if value == "" {
				l.note(fmt.Errorf("%s: %s is not set", named(key+"api_key_env"), name))
			} else if err := checkKey(value); err != nil {
				l.note(fmt.Errorf("%s: %w", name, err))
			}
			u.Key = access.NewSecret(value)
		} else if u.Profile == UpstreamOpenAI || u.Profile == UpstreamLiveName {
			u.Key = cmp.Or(u.Key, l.cfg.Secrets.OpenAIKey)
		}
		if u.Profile == UpstreamOpenAI && u.URL == "" && l.cfg.OpenAIBaseURL != openAIURL {
			u.URL = strings.TrimSuffix(l.cfg.OpenAIBaseURL, "/") + map[bool]string{true: "/realtime/calls", false: "/realtime"}[u.By() == TransportWebRTC]
		}
		if u.Profile == UpstreamLiveName && u.URL == "" {
			u.URL = strings.TrimSuffix(l.cfg.OpenAIBaseURL, "/") + "/live/sessions"
		}
		if u.IsLive() {
			u.Model = cmp.Or(u.Model, live.Model)
		}
		if name := u.HeadersEnv; name != "" {
			var s Secrets
			if err := parseTraceHeaders(&s, lookup(environ, name)); err != nil {
				l.note(fmt.Errorf("%s: %w", name, err))
			}
			u.Headers = s.TraceHeaders
		}
	}
}

// readAssistants reads the assistants of the settings, and the variables that hold their secrets.
func (l *loader) readAssistants(environ []string) {
	for i, given := range l.cfg.Assistants {
		key := fmt.Sprintf("assistants[%d]", i)
		a, err := readAssistant(given, func(name string) string { return lookup(environ, name) }, l.cfg.AssistantNames())
		if e, ok := errors.AsType[*assistant.Error](err); ok {
			err = fmt.Errorf("%s: %s", named(key+"."+e.Path), e.Reason)
		}
		if err == nil && slices.ContainsFunc(l.cfg.Fixed, func(other assistant.Assistant) bool { return other.ID == a.ID }) {
			err = fmt.Errorf("%s: %q is the id of another", named(key+".id"), a.ID)
		}
		if err != nil {
			l.note(err)
			continue
		}
		l.cfg.Fixed = append(l.cfg.Fixed, a)
	}
}

// readHooks reads the variables that hooks name.
func (l *loader) readHooks(environ []string) {
	for i := range l.cfg.Hooks.Endpoints {
		e := &l.cfg.Hooks.Endpoints[i]
		if e.SecretEnv == "" {
			continue // reported by its tag
		}
		value := strings.TrimSpace(lookup(environ, e.SecretEnv))
		if value == "" {
			l.note(fmt.Errorf("%s: %s is not set", named(fmt.Sprintf("hooks.endpoints[%d].secret_env", i)), e.SecretEnv))
			continue
		}
		var err error
		if e.Secret, err = webhook.ParseSecret(value); err != nil || !strings.HasPrefix(value, webhook.Prefix) {
			err = errors.New("it must be whsec_ and 24 to 64 bytes in base64")
		}
		if err != nil {
			l.note(fmt.Errorf("%s: %w", e.SecretEnv, err))
		}
	}
}
