// Package input reads what clients send, within limits: bodies, JSON, query values, ids. Its errors
// are *problem.Error or those of the reader.
package input

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"net/http"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/web/problem"

	"github.com/labstack/echo/v4"
)

// Limits on requests, in bytes unless the name says otherwise.
const (
	MaxBody = 1 << 20 // any request
	MaxJSON = 64 << 10
)

// Body reads at most limit bytes of the body. A larger body gives the error too_large, an
// incomplete one a 400.
func Body(c echo.Context, limit int64, param string) ([]byte, error) {
	if coding := c.Request().Header.Get(echo.HeaderContentEncoding); coding != "" && !strings.EqualFold(coding, "identity") {
		return nil, problem.UnsupportedMedia("Send the body without a Content-Encoding.")
	}
	if err := Hold(c, limit); err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, limit+1))
	if int64(len(body)) > limit {
		// A client that is cut off while sending may not read why.
		_, _ = io.Copy(io.Discard, c.Request().Body)
		return nil, problem.TooLarge(param, fmt.Sprintf("The request body is larger than %d bytes.", limit))
	}
	if err != nil {
		return nil, BodyError(err)
	}
	BodyComplete(c)
	return body, nil
}

// BodyComplete removes the deadline for the body once all of it has been read: from then on the
// server reads only to notice that the client goes away, and a deadline would end the request's
// context.
func BodyComplete(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Time{})
}

// BodyError returns the client's error for a body that could not be read.
func BodyError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return problem.BadRequest("bad_body", "", "The request body could not be read completely.")
}

// MediaType returns the media type of a Content-Type header, in lower case, and its parameters. A
// malformed one counts as missing.
func MediaType(header string) (string, map[string]string) {
	t, params, err := mime.ParseMediaType(header)
	if err != nil {
		return "", nil
	}
	return t, params
}

// JSON reads one JSON object into dst. If optional is set, an empty body leaves dst unchanged.
func JSON(c echo.Context, dst any, optional bool) error {
	return JSONOf(c, dst, MaxJSON, optional)
}

// JSONOf is JSON with a limit of its own.
func JSONOf(c echo.Context, dst any, limit int64, optional bool) error {
	body, err := jsonBody(c, limit, optional)
	if err != nil || len(body) == 0 {
		return err
	}
	return Object(body, dst)
}

// JSONOrFirst reads a JSON object into the struct dst or, if the body begins with one of the given characters, its
// value into the first field of dst.
func JSONOrFirst(c echo.Context, dst any, limit int64, begins string) error {
	body, err := jsonBody(c, limit, false)
	if err != nil {
		return err
	}
	if len(body) == 0 {
		return problem.BadRequest("invalid_json", "", "The body is empty.")
	}
	if strings.ContainsRune(begins, rune(body[0])) {
		return Value(body, reflect.ValueOf(dst).Elem().Field(0).Addr().Interface())
	}
	return Object(body, dst)
}

func jsonBody(c echo.Context, limit int64, optional bool) ([]byte, error) {
	body, err := Body(c, limit, "")
	if err != nil {
		return nil, err
	}
	body = bytes.TrimSpace(body)
	if len(body) == 0 && optional {
		return nil, nil
	}
	if t, _ := MediaType(c.Request().Header.Get(echo.HeaderContentType)); t != echo.MIMEApplicationJSON &&
		t != "application/merge-patch+json" {
		return nil, problem.UnsupportedMedia("Send the body as application/json.")
	}
	return wholeNumbers(body), nil
}

// number matches a string, which is to be left alone, or a number with a fraction or an exponent.
var number = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?[eE][+-]?\d+|-?\d+\.\d+`)

// maxWhole is the largest number of which all smaller whole ones are exact (RFC 8259, section 6).
const maxWhole = 1 << 53

// wholeNumbers writes whole numbers of a JSON text, such as 30.0 or 3e1, without fraction and exponent: they are equal
// (RFC 8259, section 6), but not to encoding/json.
func wholeNumbers(body []byte) []byte {
	return number.ReplaceAllFunc(body, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		n, err := strconv.ParseFloat(string(token), 64)
		if err != nil || n != math.Trunc(n) || math.Abs(n) > maxWhole {
			return token
		}
		return strconv.AppendInt(nil, int64(n), 10)
	})
}

// Object decodes exactly one JSON object.
func Object(body []byte, dst any) error {
	if utf8.Valid(body) && !bytes.HasPrefix(bytes.TrimSpace(body), []byte("{")) {
		return problem.BadRequest("invalid_json", "", "The body must be one JSON object.")
	}
	return Value(body, dst)
}

// Value decodes exactly one JSON value.
func Value(body []byte, dst any) error {
	if !utf8.Valid(body) {
		return problem.BadRequest("invalid_json", "", "The body is not valid UTF-8.")
	}
	err := decode(body, dst)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		name := fieldName(e.Field, dst)
		return problem.Invalid(name, "%s must be %s, not %s.", cmp.Or(name, "the body"),
			withArticle(jsonKind(e.Type.Kind().String())), withArticle(e.Value))
	}
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e
	}
	if err != nil {
		return problem.BadRequest("invalid_json", "", "The body is not valid JSON.")
	}
	return nil
}

// fieldName returns the name that a client knows of a field: encoding/json puts those of embedded structs before it.
func fieldName(path string, dst any) string {
	t := reflect.TypeOf(dst).Elem()
	first, rest, nested := strings.Cut(path, ".")
	if !nested || t.Kind() != reflect.Struct {
		return path
	}
	if f, ok := t.FieldByName(first); ok && f.Anonymous && f.Tag.Get("json") == "" {
		return rest
	}
	return path
}

func jsonKind(goKind string) string {
	switch goKind {
	case "struct", "map":
		return "object"
	case "slice", "array":
		return "array"
	case "bool":
		return "boolean"
	case "string":
		return "string"
	default:
		return "number"
	}
}

// withArticle puts "a" or "an" before the kind of a JSON value.
func withArticle(kind string) string {
	if strings.HasPrefix(kind, "a") || strings.HasPrefix(kind, "o") {
		return "an " + kind
	}
	return "a " + kind
}

// IsObject reports whether b is a valid JSON object.
func IsObject(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

// Int reads a whole number between low and high from the query; it defaults to def.
func Int(c echo.Context, name string, def, low, high int64) (int64, error) {
	text := c.QueryParam(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, problem.Invalid(name, "%s must be a whole number from %d to %d.", name, low, high)
	}
	return n, nil
}

// Bool reads true or false from the query; it defaults to false.
func Bool(c echo.Context, name string) (bool, error) {
	text := c.QueryParam(name)
	if text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, problem.BadRequest("invalid_value", name, name+" must be true or false.")
	}
	return b, nil
}

// ValidID reports whether s can be an id: opaque, visible ASCII, not too long.
func ValidID(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '\\' })
}

// Part decodes a socket's message or a part of one, which must be exactly one JSON object. In errors
// it is called what.
func Part(what string, data []byte, dst any) error {
	if !utf8.Valid(data) || !bytes.HasPrefix(bytes.TrimSpace(data), []byte("{")) {
		return problem.BadRequest("bad_envelope", what, fmt.Sprintf("The %s must be one JSON object in UTF-8.", what))
	}
	err := decode(data, dst)
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return &problem.Error{Status: e.Status, Code: "bad_envelope", Param: what, Message: e.Message}
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return problem.BadRequest("bad_envelope", e.Field, fmt.Sprintf("%s of the %s must be %s, not %s.", e.Field,
			what, withArticle(jsonKind(e.Type.Kind().String())), withArticle(e.Value)))
	}
	if err != nil {
		return problem.BadRequest("bad_envelope", what, fmt.Sprintf("The %s is not valid JSON.", what))
	}
	return nil
}
