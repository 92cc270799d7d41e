package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

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
		value := values[name]
		secret, isSecret := secrets[name]
		target := secret.Name
		if !isSecret {
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
		if isSecret {
			err = l.cfg.Secrets.set(secret, value)
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
	f, ok := settingOf(key)
	if !ok {
		return noSetting(key, Variable)
	}
	value, err := parse(f.Type, text)
	if err != nil {
		return err
	}
	return l.k.Set(key, value)
}
