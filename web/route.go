package web

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/input"
	"voicebridge/web/problem"
)

// router registers the routes of a handler.
type router struct {
	*echo.Echo
	// user admits authenticated requests; userOrSecret also accepts client secrets.
	user, userOrSecret echo.MiddlewareFunc
	// ofThread and ofCall also pass requests on to the process that has the thread's call or turn, or the call.
	ofThread, ofCall echo.MiddlewareFunc
	// text counts a text of the owner; thread rejects an owner who has too many threads.
	text, thread echo.MiddlewareFunc
	// explain says what an error of the store means to a handler's clients, and noThread that the thread in a path
	// cannot be.
	explain  func(error) error
	noThread error
	// types are the input and the answer of each route that has them.
	types map[string][2]reflect.Type
}

// GET registers a route for GET, and for HEAD, which is answered alike but without a body (RFC 9110,
// section 9.3.2): the server drops it. Sockets and streams have only GET, from Echo itself.
func (r router) GET(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) {
	r.HEAD(path, h, m...)
	r.Echo.GET(path, h, m...)
}

// passing returns a router whose routes pass requests on to the process that has the thread's call or turn.
func (r router) passing() router {
	r.user = r.ofThread
	return r
}

// none is the input of a route that needs none, and the answer that has no content.
type none struct{}

// route registers a handler for authenticated requests. In is filled from the request (see fill), and Out is the
// answer: JSON, a [reply] or [none]. A test compares both with what openapi.yaml says of the route.
func route[In, Out any](
	r router, pattern string, serve func(ctx context.Context, who caller, in In) (Out, error),
	limits ...echo.MiddlewareFunc,
) {
	r.types[pattern] = [2]reflect.Type{reflect.TypeFor[In](), reflect.TypeFor[Out]()}
	method, path, _ := strings.Cut(pattern, " ")
	add := func(path string, h echo.HandlerFunc, m ...echo.MiddlewareFunc) { r.Add(method, path, h, m...) }
	if method == http.MethodGet {
		add = r.GET
	}
	add(path, func(c echo.Context) error {
		var in In
		if err := r.fill(c, &in); err != nil {
			return err
		}
		out, err := serve(c.Request().Context(), caller{identity(c), c}, in)
		if err != nil {
			return r.explain(err)
		}
		switch out := any(out).(type) {
		case none:
			return c.NoContent(http.StatusNoContent)
		case interface{ write(c echo.Context) error }:
			return out.write(c)
		default:
			return c.JSON(http.StatusOK, out)
		}
	}, append([]echo.MiddlewareFunc{r.user}, limits...)...)
}

// reply is an answer with a status of its own, and the place of what was made.
type reply[T any] struct {
	status int
	at     string
	body   T
}

func created[T any](at string, body T) reply[T] { return reply[T]{http.StatusCreated, at, body} }

func accepted[T any](body T) reply[T] { return reply[T]{http.StatusAccepted, "", body} }

func (r reply[T]) write(c echo.Context) error {
	if r.at != "" {
		c.Response().Header().Set(echo.HeaderLocation, r.at)
	}
	return c.JSON(r.status, r.body)
}

// fill reads a request into the fields of a struct, in their order, as their types and tags say:
//
//	Key   thread.Key                                the caller's thread that the path names
//	ID    string `path:"hook_id"`                   an id in the path
//	Title string `query:"title"`                    a value of the query, also a bool
//	Limit int64  `query:"limit" range:"50,1,200"`   a number: its default, the least and the greatest
//	Body  T      `body:"64 KiB,optional"`           the JSON object in the body, of at most so much; with bare:"[" it
//	                                                may begin with [ and is then the value of the first field
func (r router) fill(c echo.Context, in any) error {
	v := reflect.ValueOf(in).Elem()
	for i := range v.NumField() {
		if err := r.fillField(c, v.Type().Field(i).Tag, v.Field(i).Addr().Interface()); err != nil {
			return err
		}
	}
	return nil
}

func (r router) fillField(c echo.Context, tag reflect.StructTag, field any) (err error) {
	name, part := tag.Get("query"), tag.Get("path")
	switch field := field.(type) {
	case *thread.Key:
		*field, err = threadOf(c, r.noThread)
	case *string:
		*field = c.QueryParam(name)
		if part == "" {
			break
		}
		if *field = c.Param(part); !input.ValidID(*field, maxThreadID) {
			err = r.explain(persistence.ErrNotFound)
		}
	case *bool:
		*field, err = input.Bool(c, name)
	case *int64:
		var def, low, high int64
		if _, err := fmt.Sscanf(tag.Get("range"), "%d,%d,%d", &def, &low, &high); err != nil {
			return fmt.Errorf("range of %s: %w", name, err)
		}
		*field, err = input.Int(c, name, def, low, high)
	default:
		var limit int64
		if _, err := fmt.Sscanf(tag.Get("body"), "%d KiB", &limit); err != nil {
			return fmt.Errorf("limit of the body: %w", err)
		}
		if begins, ok := tag.Lookup("bare"); ok {
			return input.JSONOrFirst(c, field, limit<<10, begins)
		}
		err = input.JSONOf(c, field, limit<<10, strings.HasSuffix(tag.Get("body"), "optional"))
	}
	return err
}

// admits rejects an owner whom a limit rejects.
func admits(limit func(ctx context.Context, owner string) error) echo.MiddlewareFunc {
	return before(func(c echo.Context) error { return limit(c.Request().Context(), identity(c).Owner) })
}

// texts is one text or a list of texts; a single empty text counts as none.
type texts []string

func (t *texts) UnmarshalJSON(data []byte) error {
	var one *string
	if json.Unmarshal(data, &one) == nil {
		*t = nil
		if one != nil && *one != "" {
			*t = texts{*one}
		}
		return nil
	}
	if json.Unmarshal(data, (*[]string)(t)) != nil {
		return problem.Invalid("instructions", "instructions must be a text or a list of texts.")
	}
	return nil
}

// headerIdempotencyKey names a request, so that it can be sent again when its answer was lost.
const headerIdempotencyKey = "Idempotency-Key"

// idempotencyKey returns the key of a request, from its body or the header; empty for none.
func idempotencyKey(c echo.Context, inBody string) (string, error) {
	key := cmp.Or(inBody, c.Request().Header.Get(headerIdempotencyKey))
	if len(key) > thread.MaxIDBytes {
		return "", problem.Invalid("idempotency_key", "The idempotency key is too long.")
	}
	return key, nil
}
