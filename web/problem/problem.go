// Package problem describes failures to clients: a status, a code for programs and a
// sentence for people.
package problem

import (
	"fmt"
	"net/http"
	"time"
)

// Error is a failure as reported to a client.
type Error struct {
	Status  int
	Code    string
	Message string
	// Param names the part of the request at fault, if any.
	Param string
	// RetryAfter says when a refused request may be sent again; zero means unknown.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// RetryFull is how long clients should wait before they retry if something is full.
const RetryFull = 10 * time.Second

// ErrShuttingDown refuses new work while the server stops.
var ErrShuttingDown = &Error{
	Status: http.StatusServiceUnavailable, Code: "shutting_down",
	Message: "The server is shutting down.", RetryAfter: 5 * time.Second,
}

// BadRequest returns a 400 about the named part of the request.
func BadRequest(code, param, message string) *Error {
	return &Error{Status: http.StatusBadRequest, Code: code, Param: param, Message: message}
}

// Invalid returns a 400 about a bad value of the named part of the request.
func Invalid(param, format string, args ...any) *Error {
	return BadRequest("invalid_value", param, fmt.Sprintf(format, args...))
}

// Conflict returns a 409 about the named part of the request.
func Conflict(code, param, message string) *Error {
	return &Error{Status: http.StatusConflict, Code: code, Param: param, Message: message}
}

// TooLarge returns a 413 about the named part of the request.
func TooLarge(param, message string) *Error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Code: "too_large", Param: param, Message: message}
}

// UnsupportedMedia returns a 415.
func UnsupportedMedia(message string) *Error {
	return &Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type", Message: message}
}

// Unauthorized returns a 401.
func Unauthorized(message string) *Error {
	return &Error{Status: http.StatusUnauthorized, Code: "invalid_api_key", Message: message}
}

// Forbidden returns a 403.
func Forbidden(code, message string) *Error {
	return &Error{Status: http.StatusForbidden, Code: code, Message: message}
}

// NotFound returns a 404.
func NotFound(code, message string) *Error {
	return &Error{Status: http.StatusNotFound, Code: code, Message: message}
}

// TooMany returns a 429 that says when to retry.
func TooMany(code, message string, retryAfter time.Duration) *Error {
	return &Error{Status: http.StatusTooManyRequests, Code: code, Message: message, RetryAfter: retryAfter}
}
