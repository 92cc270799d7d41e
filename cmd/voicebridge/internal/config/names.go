package config

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

const prefix = "VOICEBRIDGE_"

// variables are those whose names are not derived from the path of their key. All others are VOICEBRIDGE_ and the path
// in capitals, its parts joined by two underscores.
var variables = func() map[string]string {
	out := map[string]string{}
	for _, s := range settings() {
		for _, name := range names(s.Field) {
			out[name] = s.Key
		}
	}
	return out
}()

// secrets are the fields of Secrets by their variables.
var secrets = func() map[string]reflect.StructField {
	out := map[string]reflect.StructField{}
	for f := range reflect.TypeFor[Secrets]().Fields() {
		for _, name := range names(f) {
			out[name] = f
		}
	}
	return out
}()

// names returns the variables that a field names.
func names(f reflect.StructField) []string { return splitList(f.Tag.Get("env")) }

// secretNames are the variables of secrets by the keys that somebody might give them in the file.
var secretNames = func() map[string]string {
	out := map[string]string{}
	for _, name := range SecretVariables() {
		out[strings.ToLower(strings.TrimPrefix(name, prefix))] = name
	}
	return out
}()

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

// own returns the first variable with a name of its own that sets a key, empty if there is none.
func own(key string) string {
	if f, ok := settingOf(key); ok && f.Tag.Get("env") != "" {
		return names(f)[0]
	}
	return secretNames[key]
}

// Variable returns the variable that sets a key: one with a name of its own, or the one derived
// from the path.
func Variable(key string) string {
	return cmp.Or(own(key), prefix+strings.ToUpper(strings.ReplaceAll(key, ".", "__")))
}

// SecretVariables returns the names of the variables that are, or may contain, secrets.
func SecretVariables() []string {
	var out []string
	for f := range reflect.TypeFor[Secrets]().Fields() {
		out = append(out, names(f)[:min(1, len(names(f)))]...)
	}
	slices.Sort(out)
	return out
}

// named returns a key together with the variable that sets it, if that has a name of its own or the
// key is at the top level.
func named(key string) string {
	setting, _, _ := strings.Cut(key, "[")
	name := own(setting)
	if _, ok := settingOf(setting); ok && name == "" && !strings.Contains(key, ".") {
		name = Variable(setting)
	}
	if name == "" {
		return key
	}
	return key + " (" + name + ")"
}

// gone says of settings that earlier versions had, alone or as a group, what to do instead.
var gone = map[string]string{
	"tls.acme": "certificates are no longer requested by this program: remove this, and put a proxy in front that gets " +
		"them, as in deploy/compose.yaml, or set tls.cert_file and tls.key_file",
}

// idle are settings of earlier versions without which the program does the same, or better: they do not stop a start.
var idle = regexp.MustCompile(`^(upstreams\[\d+\]\.)?live(\.(delegate|model|effort|instructions|on))?$`)

// noSetting says what is wrong with a key that is none. written returns another as it is written in the same place.
func noSetting(key string, written func(key string) string) error {
	for old, why := range gone {
		if key == old || strings.HasPrefix(key, old+".") {
			return errors.New(why)
		}
	}
	for _, s := range settings() {
		switch {
		case s.Key == key:
			return errors.New("write it as a group that has the rest inside, without the dot")
		case strings.ReplaceAll(s.Key, ".", "_") == strings.ReplaceAll(key, ".", "_"):
			return fmt.Errorf("there is no such setting: did you mean %s?", written(s.Key))
		}
	}
	return errors.New("there is no such setting")
}

// checks collects wrong values by key.
type checks []error

func (c *checks) wrong(key, format string, args ...any) {
	*c = append(*c, fmt.Errorf(named(key)+": "+format, args...))
}
