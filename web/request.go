package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
)

// Limits of what a request may hold, in bytes unless a name says otherwise.
const (
	maxBody     = 1 << 20 // any request
	maxJSON     = 64 << 10
	maxThreadID = 64
	maxCallID   = 128
	maxTitle    = 200 // runes
	maxQuery    = 200 // runes of a search
	maxCursor   = 512
)

// bodyTimeout is how long a client may take to send a request's body.
const bodyTimeout = 15 * time.Second

// readBody reads at most limit bytes of the body. A larger body is the error
// tooLarge(param), a body that stops in the middle a 400.
func readBody(c echo.Context, limit int64, param string) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(c.Request().Body, limit+1))
	if int64(len(body)) > limit {
		// A client that is cut off while it sends may not read why.
		_, _ = io.Copy(io.Discard, c.Request().Body)
		return nil, tooLarge(param, fmt.Sprintf("The request body is larger than %d bytes.", limit))
	}
	if err != nil {
		return nil, bodyError(err)
	}
	bodyIsHere(c)
	return body, nil
}

// bodyIsHere ends the time limit for the body once all of it was read: from then
// on the server reads only to notice that the client goes away, and a limit
// would end the request's context.
func bodyIsHere(c echo.Context) {
	_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Time{})
}

func bodyError(err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return err
	}
	return badRequest("bad_body", "", "The request body could not be read to its end.")
}

// mediaType returns the request's content type without its parameters, in lower
// case, and the parameters. A malformed one counts as none.
func mediaType(header string) (string, map[string]string) {
	t, params, err := mime.ParseMediaType(header)
	if err != nil {
		return "", nil
	}
	return t, params
}

// readJSON reads one JSON object into dst. With optional set an empty body is
// fine and leaves dst as it is.
func readJSON(c echo.Context, dst any, optional bool) error {
	return readJSONOf(c, dst, maxJSON, optional)
}

// readJSONOf is readJSON with a limit of its own.
func readJSONOf(c echo.Context, dst any, limit int64, optional bool) error {
	body, err := readBody(c, limit, "")
	if err != nil {
		return err
	}
	if len(bytes.TrimSpace(body)) == 0 && optional {
		return nil
	}
	if t, _ := mediaType(c.Request().Header.Get(echo.HeaderContentType)); t != echo.MIMEApplicationJSON {
		return unsupportedMedia("Send the body as application/json.")
	}
	return decodeObject(body, dst)
}

// decodeObject decodes exactly one JSON object.
func decodeObject(body []byte, dst any) error {
	if !utf8.Valid(body) {
		return badRequest("invalid_json", "", "The body is not valid UTF-8.")
	}
	if !isObject(body) {
		return badRequest("invalid_json", "", "The body must be one JSON object.")
	}
	err := json.Unmarshal(body, dst)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return badRequest("invalid_value", e.Field, fmt.Sprintf("%s must be a %s, not a %s.", e.Field, jsonKind(e.Type.Kind().String()), e.Value))
	}
	if e, ok := errors.AsType[*apiError](err); ok {
		return e
	}
	if err != nil {
		return badRequest("invalid_json", "", "The body is not valid JSON.")
	}
	return nil
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

// isObject reports whether b is a valid JSON object.
func isObject(b []byte) bool {
	b = bytes.TrimSpace(b)
	return len(b) > 0 && b[0] == '{' && json.Valid(b)
}

// queryInt reads a whole number between low and high from the query; absent, it
// is def.
func queryInt(c echo.Context, name string, def, low, high int64) (int64, error) {
	text := c.QueryParam(name)
	if text == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < low || n > high {
		return 0, badRequest("invalid_value", name, fmt.Sprintf("%s must be a whole number from %d to %d.", name, low, high))
	}
	return n, nil
}

// queryBool reads true or false from the query; absent, it is false.
func queryBool(c echo.Context, name string) (bool, error) {
	text := c.QueryParam(name)
	if text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest("invalid_value", name, name+" must be true or false.")
	}
	return b, nil
}

var errNoThread = notFound("thread_not_found", "There is no such thread.")

// threadKey returns the key of the thread in the path on behalf of the caller.
// An id that no thread can have is a 404 like any other unknown one.
func threadKey(c echo.Context) (persistence.Key, error) {
	id := c.Param("id")
	if !validID(id, maxThreadID) {
		return persistence.Key{}, errNoThread
	}
	return persistence.Key{Owner: caller(c).Owner, Thread: id}, nil
}

// validID reports whether s can be an id: opaque, visible ASCII, not too long.
func validID(s string, limit int) bool {
	if s == "" || len(s) > limit {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '/' || r == '\\' })
}

// cleanTitle trims a title and checks it.
func cleanTitle(title string) (string, error) {
	title = strings.TrimSpace(title)
	if utf8.RuneCountInString(title) > maxTitle {
		return "", badRequest("invalid_value", "title", fmt.Sprintf("title must have at most %d characters.", maxTitle))
	}
	if strings.ContainsFunc(title, unicode.IsControl) {
		return "", badRequest("invalid_value", "title", "title must be one line of text.")
	}
	return title, nil
}

// orThread replaces a not-found error by one that names the thread.
func orThread(err error) error {
	if errors.Is(err, persistence.ErrNotFound) {
		return errNoThread
	}
	return err
}
