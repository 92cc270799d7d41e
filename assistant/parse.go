package assistant

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// MaxBytes limits an assistant in JSON.
const MaxBytes = 256 << 10

// Error says what is wrong with a value, and where: "voice.speed", "http_tools[0].url".
type Error struct{ Path, Reason string }

// Error returns "voice.speed: …".
func (e *Error) Error() string { return e.Path + ": " + e.Reason }

func wrong(path, format string, args ...any) *Error {
	return &Error{strings.TrimPrefix(path, "."), fmt.Sprintf(format, args...)}
}

// Parse reads an assistant in JSON. What only the server may set, such as read_only, is left out. Its error is an *Error.
func Parse(raw []byte) (Assistant, error) {
	if len(raw) > MaxBytes {
		return Assistant{}, wrong("the assistant", "it has more than %d KiB", MaxBytes>>10)
	}
	value, err := object(raw)
	if err != nil {
		return Assistant{}, err
	}
	return decode(value)
}

// Patch changes an assistant as a JSON merge patch (RFC 7396) of its JSON: null brings the server's setting back. Its error is
// an *Error.
func (a *Assistant) Patch(patch []byte) (Assistant, error) {
	change, err := object(patch)
	if err != nil {
		return Assistant{}, err
	}
	if id, ok := change["id"]; ok && id != a.ID {
		return Assistant{}, wrong("id", "it cannot be changed")
	}
	value, err := object(a.JSON())
	if err != nil {
		return Assistant{}, err
	}
	out, err := decode(merge(value, change))
	out.Owner, out.Secret, out.CreatedAt = a.Owner, a.Secret, a.CreatedAt
	return out, err
}

// JSON returns the assistant as it is saved: without what the server adds to it.
func (a *Assistant) JSON() json.RawMessage {
	own := *a
	own.ReadOnly, own.CreatedAt, own.UpdatedAt = false, time.Time{}, time.Time{}
	raw, _ := json.Marshal(own) // all raw JSON in it is valid
	return raw
}

// served are the fields that only the server sets.
var served = []string{"read_only", "created_at", "updated_at", "secret"}

func decode(value map[string]any) (a Assistant, err error) {
	for _, name := range served {
		delete(value, name)
	}
	for name, v := range value { // as if it were missing
		if v == nil {
			delete(value, name)
		}
	}
	if err := check("", reflect.TypeFor[Assistant](), "", value); err != nil {
		return a, err
	}
	raw, _ := json.Marshal(value)
	if len(raw) > MaxBytes {
		return a, wrong("the assistant", "it has more than %d KiB", MaxBytes>>10)
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, wrong("the assistant", "%v", err) // every field was checked
	}
	a.ID = orName(a.ID, a.Name)
	return a, nil
}

func object(raw []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value map[string]any
	if err := d.Decode(&value); err != nil || value == nil || !utf8.Valid(raw) {
		return nil, wrong("the assistant", "it must be a JSON object")
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, wrong("the assistant", "it must be one JSON object")
	}
	return value, nil
}

func merge(into, change map[string]any) map[string]any {
	for name, v := range change {
		inner, isObject := v.(map[string]any)
		old, wasObject := into[name].(map[string]any)
		switch {
		case v == nil:
			delete(into, name)
		case isObject && name != "extract": // a schema is replaced as a whole
			if !wasObject {
				old = map[string]any{}
			}
			into[name] = merge(old, inner)
		default:
			into[name] = v
		}
	}
	return into
}

// check compares a decoded value with the type and the tags of its field.
func check(path string, t reflect.Type, tag reflect.StructTag, value any) error {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return checkDocument(path, tag, value)
	}
	switch t.Kind() {
	case reflect.Struct:
		return checkObject(path, t, value)
	case reflect.Map:
		return checkMap(path, tag, value)
	case reflect.Slice:
		return checkList(path, t.Elem(), tag, value)
	case reflect.String:
		text, ok := value.(string)
		if !ok {
			return wrong(path, "it must be text")
		}
		return checkText(path, tag, text)
	case reflect.Bool:
		if _, ok := value.(bool); !ok {
			return wrong(path, "it must be true or false")
		}
		return nil
	default:
		return checkNumber(path, t.Kind() == reflect.Int, tag, value)
	}
}

func checkObject(path string, t reflect.Type, value any) error {
	given, ok := value.(map[string]any)
	if !ok {
		return wrong(path, "it must be an object")
	}
	names := map[string]bool{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		names[name] = true
		v, set := given[name]
		switch {
		case v != nil:
			if err := check(path+"."+name, f.Type, f.Tag, v); err != nil {
				return err
			}
		case isRequired(f):
			return wrong(path+"."+name, "it is missing")
		case set:
			delete(given, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !names[name] || name == "-" {
			return wrong(path+"."+clip(name), "there is no such field")
		}
	}
	return nil
}

// isRequired reports whether a field may not be missing.
func isRequired(f reflect.StructField) bool {
	return f.Tag.Get("min") == "1" && f.Type.Kind() == reflect.String
}

func checkMap(path string, tag reflect.StructTag, value any) error {
	given, ok := value.(map[string]any)
	if !ok {
		return wrong(path, "it must be an object of names and texts")
	}
	if float64(len(given)) > bound(tag, "max") {
		return wrong(path, "it has more than %s entries", tag.Get("max"))
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		at := path + "." + clip(name)
		if err := formats[tag.Get("format")](name); err != "" {
			return wrong(at, "%s", err)
		}
		text, ok := given[name].(string)
		if !ok {
			return wrong(at, "it must be text")
		}
		if len(text) > maxValue {
			return wrong(at, "it is longer than %d bytes", maxValue)
		}
	}
	return nil
}

func checkList(path string, of reflect.Type, tag reflect.StructTag, value any) error {
	given, ok := value.([]any)
	if !ok {
		return wrong(path, "it must be a list")
	}
	if float64(len(given)) > bound(tag, "max") {
		return wrong(path, "it has more than %s entries", tag.Get("max"))
	}
	entry := reflect.StructTag(`min:"1" max:"200" format:"` + tag.Get("format") + `"`)
	for i, v := range given {
		if err := check(fmt.Sprintf("%s[%d]", path, i), of, entry, v); err != nil {
			return err
		}
	}
	return nil
}

func checkText(path string, tag reflect.StructTag, text string) error {
	values, listed := tag.Lookup("enum")
	switch format := formats[tag.Get("format")]; {
	case listed && !slices.Contains(strings.Split(values, ","), text):
		return wrong(path, "%q is not one of %s", clip(text), strings.ReplaceAll(values, ",", ", "))
	case tag.Get("min") == "1" && strings.TrimSpace(text) == "":
		return wrong(path, "it must not be empty")
	case float64(len(text)) > bound(tag, "max"):
		return wrong(path, "it is longer than %s bytes", tag.Get("max"))
	case strings.ContainsRune(text, 0):
		return wrong(path, "it contains a zero byte")
	case format != nil && text != "":
		if reason := format(text); reason != "" {
			return wrong(path, "%s", reason)
		}
	}
	return nil
}

func checkNumber(path string, whole bool, tag reflect.StructTag, value any) error {
	number, ok := value.(json.Number)
	n, err := number.Float64()
	_, notWhole := strconv.Atoi(number.String())
	switch low, high := tag.Get("min"), tag.Get("max"); {
	case !ok || err != nil:
		return wrong(path, "it must be a number")
	case whole && notWhole != nil:
		return wrong(path, "it must be a whole number")
	case low != "" && (n < bound(tag, "min") || n > bound(tag, "max")):
		return wrong(path, "%s is not between %s and %s", clip(number.String()), low, high)
	}
	return nil
}

func checkDocument(path string, tag reflect.StructTag, value any) error {
	if _, ok := value.(map[string]any); !ok {
		return wrong(path, "it must be a JSON schema, an object")
	}
	if raw, _ := json.Marshal(value); float64(len(raw)) > bound(tag, "max") {
		return wrong(path, "it is longer than %s bytes", tag.Get("max"))
	}
	return nil
}

// bound returns the number in a tag; without one, none is too large.
func bound(tag reflect.StructTag, name string) float64 {
	n, err := strconv.ParseFloat(tag.Get(name), 64)
	if err != nil {
		return MaxBytes
	}
	return n
}

// maxValue limits the value of a variable, in bytes.
const maxValue = 4096

// formats are the checks of texts that the tag format names. They return what is wrong.
var formats = map[string]func(text string) string{
	"id":       matches(idPattern, "it must be 1 to 64 of a-z, 0-9 and -"),
	"name":     matches(namePattern, "it must be 1 to 64 letters, digits, - and _"),
	"variable": checkVariable,
	"language": matches(languagePattern, "it must be a language code, such as en or de"),
	"line": func(text string) string {
		if strings.ContainsFunc(text, unicode.IsControl) {
			return "it must be one line of text"
		}
		return ""
	},
	"tool": matches(toolPattern, "it must be the name of a tool, or a pattern such as server__*"),
	"url": func(text string) string {
		u, err := url.Parse(text)
		if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || u.Fragment != "" {
			return "it must be an address of the form https://host/path"
		}
		return ""
	},
}

var (
	idPattern       = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	languagePattern = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
	toolPattern     = regexp.MustCompile(`^[A-Za-z0-9_*-]{1,64}(:write)?$`)
)

func matches(pattern *regexp.Regexp, reason string) func(string) string {
	return func(text string) string {
		if pattern.MatchString(text) {
			return ""
		}
		return reason
	}
}

func checkVariable(name string) string {
	if _, taken := builtIn[name]; taken {
		return "it has a value of its own"
	}
	if !variablePattern.MatchString(name) {
		return "the name of a variable must be 1 to 64 letters, digits and _"
	}
	return ""
}

// CheckVariables returns what is wrong with the values that a thread has for variables, nil if nothing is.
func CheckVariables(values map[string]string) error {
	given := make(map[string]any, len(values))
	for name, value := range values {
		given[name] = value
	}
	if err := checkMap("variables", `max:"64" format:"variable"`, given); err != nil {
		return err
	}
	return nil
}

// clip shortens what is quoted in an error.
func clip(text string) string {
	if len(text) > 64 {
		text = strings.ToValidUTF8(text[:64], "") + "…"
	}
	return text
}

// orName returns an id, or one made of a name.
func orName(id, name string) string {
	if id != "" {
		return id
	}
	var b strings.Builder
	for _, r := range strings.ToLower(name) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if s := b.String(); s != "" && !strings.HasSuffix(s, "-") {
			b.WriteByte('-')
		}
		if b.Len() == 60 { // with room for a number that tells it from others
			break
		}
	}
	if id = strings.Trim(b.String(), "-"); id == "" {
		return "assistant"
	}
	return id
}
