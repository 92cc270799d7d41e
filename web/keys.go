package web

import (
	"errors"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

const maxThreadID = 64

var errNoThread = problem.NotFound("thread_not_found", "There is no such thread.")

// onThread serves with the key of the thread in the path for the request's owner. An impossible id
// is a 404 like any unknown one.
func onThread(serve func(echo.Context, thread.Key) error) echo.HandlerFunc {
	return withKey(serve, errNoThread)
}

func withKey(serve func(echo.Context, thread.Key) error, notFound error) echo.HandlerFunc {
	return func(c echo.Context) error {
		id := c.Param("id")
		if !input.ValidID(id, maxThreadID) {
			return notFound
		}
		return serve(c, thread.Key{Owner: identity(c).Owner, Thread: id})
	}
}

// orThread replaces a not-found error by one about the thread.
func orThread(err error) error {
	if errors.Is(err, persistence.ErrNotFound) {
		return errNoThread
	}
	return err
}
