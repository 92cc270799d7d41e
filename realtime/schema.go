package realtime

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Kind is the JSON type of a value.
type Kind string

// The kinds of a Field, in the words of the API's errors.
const (
	Any     Kind = "" // whatever it is
	String  Kind = "a string"
	Bool    Kind = "a boolean"
	Number  Kind = "a number"
	Integer Kind = "an integer"
	List    Kind = "an array"
	Object  Kind = "an object"
	null    Kind = "null"
)

// Lock says from when on a field of a session can no longer change.
type Lock int

// The locks of a Field.
const (
	Unlocked      Lock = iota
	AtCreation         // of the session
	OnceSet            // as long as it has a value, except back to null
	OnceSpoken         // once the model has produced audio
	WhileAnswered      // as long as a response is in progress
)

// Who says who may set a field through a server that stands between a client and the API.
type Who int

// Those who set fields, each with those after it.
const (
	ByServer Who = iota // only the server itself; what anybody else sends is left out
	ByApp               // an application's server, in the session that it fixes with a client secret
	ByClient            // any client, such as a page
)

// Field is what the API allows as one value, as far as it can be said without looking at other events. The zero value
// allows everything.
type Field struct {
	Kind Kind
	Null bool   // null is allowed as well: it switches something off
	Or   *Field // another kind that is allowed as well

	// Enum holds the values of a String, if they are few. Is, if set, accepts a String, and Want names what it accepts.
	Enum []string
	Is   func(string) bool
	Want string
	// Low and High bound a number, the characters of a String, and the entries of a List or an Object. If High is 0,
	// there are no bounds.
	Low, High float64

	// Fields are the known members of an Object, and Of describes all others. If Of is nil, there may be no others.
	Fields   map[string]Field
	Required []string
	// By names the member that decides which of Cases describes the Object as well.
	By    string
	Cases map[string]Field
	// Parts means that the members are set one by one; any other Object is replaced as a whole.
	Parts bool
	// Of also describes the entries of a List, and Key the names of an Object's other members.
	Of, Key *Field

	// Only and Except are the models that have the field, and those that have not: the nearest model named by an object
	// around it counts.
	Only, Except *regexp.Regexp
	Lock         Lock
	Who          Who
}

// At returns the field that path leads to, a sequence of members with dots between them. There must be one.
func (f Field) At(path string) Field {
	for name := range strings.SplitSeq(path, ".") {
		member, ok := f.Fields[name]
		if !ok {
			panic("realtime: no field " + path) // the caller's mistake
		}
		f = member
	}
	return f
}

// Refuse returns the API's error for a request that it does not take.
func Refuse(code, param, format string, args ...any) *Error {
	return &Error{Type: "invalid_request_error", Code: code, Param: param, Message: fmt.Sprintf(format, args...)}
}

// Check returns what is wrong with a value, nil if nothing is. It is a decoded one, with numbers as json.Number;
// param is the path to it. model is the session's, if known. The error is always the same: unknown members come
// first, then bad values, then missing members, each in the order of their names.
func (f Field) Check(param string, v any, model string) *Error {
	got := kindOf(v)
	switch {
	case f.Or != nil && got == f.Or.Kind:
		return f.Or.Check(param, v, model)
	case f.Kind == Any, got == null && f.Null:
		return nil
	case got != f.Kind && (got != Number || f.Kind != Integer):
		return wrongKind(param, f.Kind, got)
	}
	switch v := v.(type) {
	case string:
		return f.checkString(param, v)
	case json.Number:
		return f.checkNumber(param, v)
	case []any:
		return f.checkList(param, v, model)
	case map[string]any:
		return f.checkObject(param, v, model)
	}
	return nil
}

func kindOf(v any) Kind {
	switch v.(type) {
	case nil:
		return null
	case string:
		return String
	case bool:
		return Bool
	case json.Number:
		return Number
	case []any:
		return List
	}
	return Object
}

func wrongKind(param string, want, got Kind) *Error {
	return Refuse("invalid_type", param, "Invalid type for '%s': expected %s, but got %s instead.", param, want, got)
}

// isFor reports whether a model takes the field.
func (f Field) isFor(model string) bool {
	if f.Only != nil && !f.Only.MatchString(model) {
		return false
	}
	return f.Except == nil || !f.Except.MatchString(model)
}

func (f Field) checkString(param, s string) *Error {
	n := utf8.RuneCountInString(s)
	switch {
	case len(f.Enum) > 0 && !slices.Contains(f.Enum, s):
		supported := strings.Join(f.Enum, "', '")
		return Refuse("invalid_value", param, "Invalid value: '%s'. Supported values are: '%s'.", s, supported)
	case f.Is != nil && !f.Is(s):
		return Refuse("invalid_value", param, "Invalid '%s': expected %s.", param, f.Want)
	case float64(n) < f.Low:
		return Refuse("invalid_value", param, "Invalid '%s': empty string.", param)
	case f.High > 0 && float64(n) > f.High:
		return Refuse("string_above_max_length", param,
			"Invalid '%s': string too long. Expected a string with maximum length %v, "+
				"but got a string with length %d instead.", param, f.High, n)
	}
	return nil
}

func (f Field) checkNumber(param string, n json.Number) *Error {
	v, err := n.Float64()
	switch {
	case err == nil && f.Kind == Integer && v != math.Trunc(v):
		return wrongKind(param, Integer, "a decimal number")
	case err != nil || v < f.Low || f.High > 0 && v > f.High:
		return Refuse("invalid_value", param, "Invalid '%s': expected %s between %s and %s, but got %s instead.",
			param, f.Kind, plain(f.Low), plain(f.High), n)
	}
	return nil
}

// plain writes a bound without an exponent.
func plain(bound float64) string { return strconv.FormatFloat(bound, 'f', -1, 64) }

// checkSize checks how many entries a List or an Object has.
func (f Field) checkSize(param string, n int) *Error {
	switch {
	case float64(n) < f.Low:
		return Refuse("invalid_value", param, "Invalid '%s': empty array.", param)
	case f.High > 0 && float64(n) > f.High:
		return Refuse("invalid_value", param, "Invalid '%s': expected at most %v entries, but got %d instead.",
			param, f.High, n)
	}
	return nil
}

func (f Field) checkList(param string, list []any, model string) *Error {
	if err := f.checkSize(param, len(list)); err != nil || f.Of == nil {
		return err
	}
	for i, v := range list {
		if err := f.Of.Check(fmt.Sprintf("%s[%d]", param, i), v, model); err != nil {
			return err
		}
	}
	return nil
}

func (f Field) checkObject(param string, o map[string]any, model string) *Error {
	f, err := f.resolve(param, o)
	if err == nil {
		err = f.checkSize(param, len(o))
	}
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(o))
	for _, name := range names {
		if _, ok := f.Fields[name]; !ok && f.Of == nil {
			return Refuse("unknown_parameter", below(param, name), "Unknown parameter: '%s'.", below(param, name))
		}
	}
	if own, ok := o["model"].(string); ok {
		model = own
	}
	for _, name := range names {
		if err := f.checkMember(param, name, o[name], model); err != nil {
			return err
		}
	}
	return missing(param, o, f.Required)
}

// resolve returns the field with the cases that o is one of.
func (f Field) resolve(param string, o map[string]any) (Field, *Error) {
	for f.By != "" {
		if err := missing(param, o, []string{f.By}); err != nil {
			return f, err
		}
		kind := Field{Kind: String, Enum: slices.Sorted(maps.Keys(f.Cases))}
		if err := kind.Check(below(param, f.By), o[f.By], ""); err != nil {
			return f, err
		}
		own := f.Cases[o[f.By].(string)]
		all := map[string]Field{f.By: kind}
		maps.Copy(all, f.Fields)
		maps.Copy(all, own.Fields)
		own.Fields, own.Required = all, slices.Concat(f.Required, own.Required)
		f = own
	}
	return f, nil
}

func (f Field) checkMember(param, name string, v any, model string) *Error {
	member, known := f.Fields[name]
	if !known {
		member = *f.Of
		if f.Key != nil {
			if err := f.Key.Check(param, name, model); err != nil {
				return err
			}
		}
	}
	at := below(param, name)
	if err := member.Check(at, v, model); err != nil {
		return err
	}
	if v != nil && !member.isFor(model) {
		return Refuse("invalid_value", at, "'%s' is not supported with the '%s' model.", at, model)
	}
	return nil
}

// missing refuses an object without one of the named members.
func missing(param string, o map[string]any, names []string) *Error {
	for _, name := range names {
		if _, ok := o[name]; !ok {
			at := below(param, name)
			return Refuse("missing_required_parameter", at, "Missing required parameter: '%s'.", at)
		}
	}
	return nil
}

// below returns the path to a member of the object at param.
func below(param, name string) string {
	if param == "" {
		return name
	}
	return param + "." + name
}
