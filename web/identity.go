package web

import (
	"fmt"

	"github.com/labstack/echo/v4"

	"voicebridge/web/access"
)

const identityKey = "identity"

// router registers the routes of a handler.
type router struct {
	*echo.Echo
	// user lets a request through when its caller is known, userOrSecret also takes
	// client secrets.
	user, userOrSecret echo.MiddlewareFunc
	// text counts a text of the caller, turn also an answer that is made meanwhile;
	// thread refuses one who has as many threads as he may.
	text, turn, thread echo.MiddlewareFunc
}

// identified lets a request through when its caller is known.
func identified(auth *access.Authenticator, events securityLog, secretsToo bool) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			who, err := auth.Identify(c.Request(), access.CallerOf(c.Request(), c.RealIP()), secretsToo)
			if err != nil {
				if c.Request().Header.Get(echo.HeaderAuthorization) != "" {
					events.refused(c, "token refused", err)
				}
				return err
			}
			c.Set(identityKey, who)
			return next(c)
		}
	}
}

// countsText refuses a caller who sends too much.
func countsText(limits *access.Allowances) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := limits.Text(c.Request().Context(), caller(c).Owner); err != nil {
				return err
			}
			return next(c)
		}
	}
}

// countsThread refuses a caller who has as many threads as he may.
func countsThread(limits *access.Allowances) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if err := limits.Thread(c.Request().Context(), caller(c).Owner); err != nil {
				return err
			}
			return next(c)
		}
	}
}

// countsTurn refuses a caller for whom too many answers are made at once.
func countsTurn(limits *access.Allowances) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			release, err := limits.Turn(c.Request().Context(), caller(c).Owner)
			if err != nil {
				return err
			}
			defer release()
			return next(c)
		}
	}
}

// caller returns the identity of an authenticated request. A route that was
// registered without authentication has none: that is a defect, not a request.
func caller(c echo.Context) access.Identity {
	who, ok := c.Get(identityKey).(access.Identity)
	if !ok {
		panic(fmt.Sprintf("route %s has no authentication", c.Path()))
	}
	return who
}
