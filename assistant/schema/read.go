// Package schema reads values as YAML and JSON have them into structs whose fields declare by tags what they may be:
//
//	min, max  of a number, of the bytes of a text (min 1: not blank), or of each entry of a list
//	items     how many entries a list or an object may have
//	enum      the possible texts, separated by commas; it begins with one if the text may be empty
//	format    the entry of Rules.Formats that a text, or a name in an object, must satisfy unless it is empty
//
// A field of the kind int64 is given in the unit that its name contains: seconds, minutes and days of a time.Duration,
// mb.
package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Rules are how structs of one kind are written.
type Rules struct {
	// Tag has the names of fields: json or yaml. A struct whose tag says inline, or without a name of its own, is part of
	// the one around it.
	Tag string
	// Text and Group are what texts and structs are called in errors.
	Text, Group string
	// Formats are the checks that tags name.
	Formats map[string]func(text string) error
	// Patterns are those of formats that the JSON schema has.
	Patterns map[string]*regexp.Regexp
	// Texts read types that read their own texts otherwise.
	Texts map[reflect.Type]func(text string) (any, error)
	// Unknown says what is wrong with a field that there is not; nil if that has been said already.
	Unknown func(path string) error
	// Default returns what is read where nothing is given, or nil; it may be nil itself.
	Default func(path string, f reflect.StructField) any
}

// Problem is what is wrong with a value.
type Problem struct {
	Path   string // such as http_tools[0].url
	Reason error
}

// MaxText limits texts that declare no other limit, and MaxValue those in an object of texts, in bytes.
const (
	MaxText  = 256 << 10
	MaxValue = 4096
)

// Read sets the fields of the struct that into points to, and returns what is wrong, in the order of the fields. Null
// is the same as a value that is missing.
func (r *Rules) Read(into any, values map[string]any) []Problem {
	w := reader{Rules: r}
	w.object("", reflect.ValueOf(into).Elem(), values)
	return w.problems
}

type reader struct {
	*Rules

	problems []Problem
}

func (r *reader) wrong(path, format string, args ...any) {
	r.problems = append(r.problems, Problem{path, fmt.Errorf(format, args...)})
}

func (r *reader) object(path string, dst reflect.Value, value any) {
	given, ok := value.(map[string]any)
	if !ok {
		r.wrong(path, "it must be %s", r.Group)
		return
	}
	unknown := maps.Clone(given)
	for name, f := range r.Fields(dst.Type()) {
		delete(unknown, name)
		at, v := Join(path, name), given[name]
		if v == nil && r.Default != nil {
			v = r.Default(at, f)
		}
		switch {
		case v != nil:
			r.value(at, f.Tag, dst.FieldByIndex(f.Index), v)
		case required(f):
			r.wrong(at, "it is missing")
		case r.IsGroup(f.Type):
			r.object(at, dst.FieldByIndex(f.Index), map[string]any{})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(unknown)) {
		at := Join(path, Clip(name))
		if err := r.Unknown(at); err != nil {
			r.wrong(at, "%w", err)
		}
	}
}

func (r *reader) value(path string, tag reflect.StructTag, dst reflect.Value, value any) {
	t := dst.Type()
	text, isText := value.(string)
	switch {
	case t.Kind() == reflect.Pointer:
		inner := reflect.New(t.Elem())
		r.value(path, tag, inner.Elem(), value)
		dst.Set(inner)
	case t == reflect.TypeFor[json.RawMessage]():
		r.document(path, tag, dst, value)
	case IsText(t) && isText:
		if err := r.parse(dst, text); err != nil {
			r.wrong(path, "%w", err)
		}
	case IsText(t), t.Kind() == reflect.String && !isText:
		r.wrong(path, "it must be %s", r.Text)
	case t.Kind() == reflect.String:
		r.text(path, tag, text)
		dst.SetString(text)
	case t.Kind() == reflect.Struct:
		r.object(path, dst, value)
	case t.Kind() == reflect.Map:
		r.texts(path, tag, dst, value)
	case t.Kind() == reflect.Slice:
		r.list(path, tag, dst, value)
	case t.Kind() == reflect.Bool:
		on, ok := value.(bool)
		if !ok {
			r.wrong(path, "it must be true or false")
		}
		dst.SetBool(on)
	default:
		r.number(path, tag, dst, value)
	}
}

func (r *reader) parse(dst reflect.Value, text string) error {
	read := r.Texts[dst.Type()]
	if read == nil {
		return dst.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	value, err := read(text)
	if err == nil {
		dst.Set(reflect.ValueOf(value))
	}
	return err
}

func (r *reader) list(path string, tag reflect.StructTag, dst reflect.Value, value any) {
	given, ok := value.([]any)
	if !ok {
		r.wrong(path, "it must be a list")
		return
	}
	if float64(len(given)) > bound(tag, "items") {
		r.wrong(path, "it has more than %s entries", tag.Get("items"))
		return
	}
	dst.Set(reflect.MakeSlice(dst.Type(), len(given), len(given)))
	for i, v := range given {
		r.value(fmt.Sprintf("%s[%d]", path, i), tag, dst.Index(i), v)
	}
}

// texts reads an object of texts, of structs, or of anything.
func (r *reader) texts(path string, tag reflect.StructTag, dst reflect.Value, value any) {
	given, ok := value.(map[string]any)
	if !ok {
		r.wrong(path, "it must be an object")
		return
	}
	if dst.Type() == reflect.TypeFor[map[string]any]() {
		dst.Set(reflect.ValueOf(given))
		return
	}
	if float64(len(given)) > bound(tag, "items") {
		r.wrong(path, "it has more than %s entries", tag.Get("items"))
		return
	}
	if r.IsGroup(dst.Type().Elem()) {
		r.groups(path, tag, dst, given)
		return
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at := r.name(path, tag, name)
		text, ok := given[name].(string)
		if !ok {
			r.wrong(at, "it must be %s", r.Text)
		}
		if len(text) > MaxValue {
			r.wrong(at, "it is longer than %s", size(MaxValue))
		}
		out[name] = text
	}
	dst.Set(reflect.ValueOf(out))
}

// name checks a name in an object of texts or structs, and returns its path.
func (r *reader) name(path string, tag reflect.StructTag, name string) string {
	at := Join(path, Clip(name))
	if format := r.Formats[tag.Get("format")]; format != nil {
		if err := format(name); err != nil {
			r.wrong(at, "%w", err)
		}
	}
	return at
}

// groups reads an object of structs.
func (r *reader) groups(path string, tag reflect.StructTag, dst reflect.Value, given map[string]any) {
	dst.Set(reflect.MakeMap(dst.Type()))
	for _, name := range slices.Sorted(maps.Keys(given)) {
		one := reflect.New(dst.Type().Elem()).Elem()
		r.object(r.name(path, tag, name), one, given[name])
		dst.SetMapIndex(reflect.ValueOf(name), one)
	}
}

func (r *reader) text(path string, tag reflect.StructTag, text string) {
	values, listed := tag.Lookup("enum")
	format := r.Formats[tag.Get("format")]
	switch {
	case listed && !slices.Contains(strings.Split(values, ","), text):
		names := strings.ReplaceAll(strings.TrimPrefix(values, ","), ",", ", ")
		r.wrong(path, "%q is not one of %s", Clip(text), names)
	case tag.Get("min") != "" && strings.TrimSpace(text) == "":
		r.wrong(path, "it must not be empty")
	case len(text) > int(min(bound(tag, "max"), MaxText)):
		r.wrong(path, "it is longer than %s", size(int(min(bound(tag, "max"), MaxText))))
	case strings.ContainsRune(text, 0):
		r.wrong(path, "it contains a zero byte")
	case format != nil && text != "":
		if err := format(text); err != nil {
			r.wrong(path, "%w", err)
		}
	}
}

func (r *reader) number(path string, tag reflect.StructTag, dst reflect.Value, value any) {
	text := ""
	switch v := value.(type) {
	case int, int64, uint64, json.Number:
		text = fmt.Sprint(v)
	case float64:
		text = strconv.FormatFloat(v, 'f', -1, 64)
	}
	n, err := strconv.ParseFloat(text, 64)
	whole, notWhole := strconv.ParseInt(text, 10, 64)
	isFloat := dst.Kind() == reflect.Float64
	switch low, high := tag.Get("min"), tag.Get("max"); {
	case err != nil && isFloat:
		r.wrong(path, "it must be a number")
	case notWhole != nil && !isFloat:
		r.wrong(path, "it must be a whole number")
	case low != "" && !(n >= bound(tag, "min") && n <= bound(tag, "max")): // nor NaN
		r.wrong(path, "%s is not between %s and %s", Clip(text), low, high)
	case isFloat:
		dst.SetFloat(n)
	default:
		dst.SetInt(whole * Unit(path, dst.Type()))
	}
}

func (r *reader) document(path string, tag reflect.StructTag, dst reflect.Value, value any) {
	if _, ok := value.(map[string]any); !ok {
		r.wrong(path, "it must be a JSON schema, an object")
		return
	}
	raw, err := json.Marshal(value)
	if err != nil {
		r.wrong(path, "it must be JSON")
	} else if float64(len(raw)) > bound(tag, "max") {
		r.wrong(path, "it is longer than %s", size(int(bound(tag, "max"))))
	}
	dst.SetBytes(raw)
}

// Fields returns the fields of a struct that have names, those of structs that are part of it included.
func (r *Rules) Fields(t reflect.Type) iter.Seq2[string, reflect.StructField] {
	return func(yield func(string, reflect.StructField) bool) {
		for f := range t.Fields() {
			name, option, _ := strings.Cut(f.Tag.Get(r.Tag), ",")
			if option != "inline" {
				if name != "" && name != "-" && !yield(name, f) {
					return
				}
				continue
			}
			for name, inner := range r.Fields(f.Type) {
				inner.Index = slices.Concat(f.Index, inner.Index)
				if !yield(name, inner) {
					return
				}
			}
		}
	}
}

// IsGroup reports whether a type is a struct with fields that have names.
func (r *Rules) IsGroup(t reflect.Type) bool {
	if t.Kind() != reflect.Struct {
		return false
	}
	for range r.Fields(t) {
		return true
	}
	return false
}

// IsText reports whether a value is written as a text, which its type reads.
func IsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

var units = map[string]int64{
	"seconds": int64(time.Second), "minutes": int64(time.Minute), "days": 24 * int64(time.Hour), "mb": 1 << 20,
}

// Unit returns the unit of a field of this type, which its name contains; 1 if it has none.
func Unit(path string, t reflect.Type) int64 {
	if t.Kind() == reflect.Int64 {
		for part := range strings.SplitSeq(path[strings.LastIndex(path, ".")+1:], "_") {
			if n, ok := units[part]; ok {
				return n
			}
		}
	}
	return 1
}

// required reports whether a field may not be missing.
func required(f reflect.StructField) bool {
	return f.Type.Kind() == reflect.String && f.Tag.Get("min") == "1"
}

// bound returns the number in a tag; without one, nothing is too large.
func bound(tag reflect.StructTag, name string) float64 {
	n, err := strconv.ParseFloat(tag.Get(name), 64)
	if err != nil {
		return math.Inf(1)
	}
	return n
}

func size(n int) string {
	if n >= 1024 && n%1024 == 0 {
		return fmt.Sprintf("%d KiB", n/1024)
	}
	return fmt.Sprintf("%d bytes", n)
}

// Join returns the path of what has a name in the object at path.
func Join(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// Clip shortens what is quoted in an error.
func Clip(text string) string {
	if len(text) > 64 {
		text = strings.ToValidUTF8(text[:64], "") + "…"
	}
	return text
}
