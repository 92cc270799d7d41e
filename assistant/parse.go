package assistant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"voicebridge/assistant/schema"
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

// Parse reads an assistant in JSON. What only the server may set, such as read_only, is left out. Its error is an
// *Error.
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

// Patch changes an assistant as a JSON merge patch (RFC 7396) of its JSON: null brings the server's setting back. Its
// error is an *Error.
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
	if err := read(&a, value); err != nil {
		return a, err
	}
	if len(a.JSON()) > MaxBytes {
		return a, wrong("the assistant", "it has more than %d KiB", MaxBytes>>10)
	}
	a.ID = orName(a.ID, a.Name)
	return a, nil
}

// read returns the first thing that is wrong.
func read(into any, value map[string]any) error {
	if problems := rules.Read(into, value); len(problems) > 0 {
		return wrong(problems[0].Path, "%v", problems[0].Reason)
	}
	return nil
}

var rules = &schema.Rules{
	Tag: "json", Text: "text", Group: "an object", Formats: formats, Patterns: map[string]*regexp.Regexp{"id": idPattern},
	Unknown: func(string) error { return errors.New("there is no such field") },
}

// Schema returns the JSON schema of an assistant as the API's description has it.
func Schema() map[string]any {
	s := rules.JSON(reflect.TypeFor[Assistant](), func(_ reflect.Type, f reflect.StructField) (string, bool) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		return f.Tag.Get("doc"), slices.Contains(served, name)
	})
	s["description"] = "A named set of what is otherwise the server's settings"
	return s
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

// formats are the checks of texts that the tag format names. They return what is wrong.
var formats = map[string]func(text string) error{
	"id":       matches(idPattern, "it must be 1 to 64 of a-z, 0-9 and -"),
	"name":     matches(namePattern, "it must be 1 to 64 letters, digits, - and _"),
	"variable": checkVariable,
	"language": matches(languagePattern, "it must be a language code, such as en or de"),
	"line":     CheckLine,
	"keyterm":  CheckKeyterm,
	"number":   CheckNumber,
	"tool":     matches(toolPattern, "it must be the name of a tool, or a pattern such as server__*"),
	"url": func(text string) error {
		u, err := url.Parse(text)
		isWeb := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
		if !isWeb || u.User != nil || u.Fragment != "" {
			return errors.New("it must be an address of the form https://host/path")
		}
		return nil
	},
}

var (
	idPattern       = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)
	namePattern     = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	variablePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	languagePattern = regexp.MustCompile(`^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$`)
	numberPattern   = regexp.MustCompile(`^\+[1-9][0-9]{6,14}$`) // E.164, section 6.2
	toolPattern     = regexp.MustCompile(`^[A-Za-z0-9_*-]{1,64}(:write)?$`)
)

func matches(pattern *regexp.Regexp, reason string) func(string) error {
	return func(text string) error {
		if pattern.MatchString(text) {
			return nil
		}
		return errors.New(reason)
	}
}

// CheckLine returns what is wrong with a text that must be one line, nil if nothing is.
func CheckLine(text string) error {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("it must be one line of text")
	}
	return nil
}

// CheckNumber returns what is wrong with the number of a telephone, nil if nothing is.
func CheckNumber(text string) error {
	return matches(numberPattern, "it must be a number such as +493012345678")(text)
}

// CheckKeyterm returns what is wrong with a word that a transcription is to know, nil if nothing is.
func CheckKeyterm(text string) error {
	if utf8.RuneCountInString(text) > 64 {
		return errors.New("it is longer than 64 characters")
	}
	return CheckLine(text)
}

func checkVariable(name string) error {
	if _, taken := builtIn[name]; taken {
		return errors.New("it has a value of its own")
	}
	if !variablePattern.MatchString(name) {
		return errors.New("the name of a variable must be 1 to 64 letters, digits and _")
	}
	return nil
}

// CheckVariables returns what is wrong with the values that a thread has for variables, nil if nothing is.
func CheckVariables(values map[string]string) error {
	given := make(map[string]any, len(values))
	for name, value := range values {
		given[name] = value
	}
	var into struct {
		Variables map[string]string `json:"variables" items:"64" format:"variable"`
	}
	return read(&into, map[string]any{"variables": given})
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
