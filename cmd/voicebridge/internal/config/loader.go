package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/knadh/koanf/v2"
)

// Error is everything that is wrong with the settings.
type Error struct {
	// Problems are the problems found, each naming its setting.
	Problems []error
}

// Error lists them, one per line.
func (e *Error) Error() string {
	lines := make([]string, 0, len(e.Problems))
	for _, p := range e.Problems {
		lines = append(lines, "  "+p.Error())
	}
	slices.Sort(lines)
	return "these settings are wrong:\n" + strings.Join(slices.Compact(lines), "\n")
}

// Unwrap returns the problems.
func (e *Error) Unwrap() []error { return e.Problems }

// loader collects the settings of all sources and their problems.
type loader struct {
	k        *koanf.Koanf
	cfg      Config
	problems []error
	// refused are keys of the file whose problem has already been noted.
	refused map[string]bool
}

func (l *loader) note(err error) {
	if err != nil {
		l.problems = append(l.problems, err)
	}
}

// check notes the values of a group that its declaration does not allow, and brings the others into their units.
func (l *loader) check(path string, group any) {
	each(reflect.ValueOf(group).Elem(), path, func(key string, _ reflect.Type, f reflect.StructField, value reflect.Value) {
		(*checks)(&l.problems).value(key, f.Tag, value)
		if n := unit(f); n != 1 {
			value.SetInt(value.Int() * n)
		}
	})
}

// lookup reads a variable. If there are several, the last one counts, as for os/exec.
func lookup(environ []string, name string) string {
	for _, entry := range slices.Backward(environ) {
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}
