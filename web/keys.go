package web

import (
	"errors"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

const maxThreadID = 64

var errNoThread = problem.NotFound("thread_not_found", "There is no such thread.")

// threadKey returns the key of the thread in the path for the request's owner. An impossible id is
// a 404 like any unknown one.
func threadKey(c echo.Context) (persistence.Key, error) {
	id := c.Param("id")
	if !input.ValidID(id, maxThreadID) {
		return persistence.Key{}, errNoThread
	}
	return persistence.Key{Owner: identity(c).Owner, Thread: id}, nil
}

// orThread replaces a not-found error by one about the thread.
func orThread(err error) error {
	if errors.Is(err, persistence.ErrNotFound) {
		return errNoThread
	}
	return err
}
