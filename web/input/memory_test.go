package input

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/labstack/echo/v4"

	"voicebridge/internal/testkit"
	"voicebridge/web/problem"
)

// status returns the status of an error for the client, 200 if there is none.
func status(err error) int {
	if e, ok := errors.AsType[*problem.Error](err); ok {
		return e.Status
	}
	if err != nil {
		return http.StatusInternalServerError
	}
	return http.StatusOK
}

// TestHostileShapes has JSON that is small as text and large once it is decoded, for both ways of decoding.
func TestHostileShapes(t *testing.T) {
	t.Parallel()
	list := func(value string, n int) string {
		return `{"x":[` + strings.TrimSuffix(strings.Repeat(value+",", n), ",") + `]}`
	}
	for name, c := range map[string]struct {
		body string
		want int
	}{
		"as many as possible":  {list("1", MaxValues-3), 200},
		"empty objects":        {list("{}", MaxValues), 413},
		"numbers":              {list("1", MaxValues+1), 413},
		"commas in a text":     {`{"x":"` + strings.Repeat(`[,{\",`, MaxValues) + `"}`, 200},
		"names":                {`{` + strings.Repeat(`"":0,`, MaxValues) + `"":0}`, 413},
		"as deep as possible":  {`{"x":` + strings.Repeat("[", MaxDepth-1) + strings.Repeat("]", MaxDepth-1) + `}`, 200},
		"deep":                 {`{"x":` + strings.Repeat("[", MaxDepth) + strings.Repeat("]", MaxDepth) + `}`, 400},
		"deep, and never ends": {`{"x":` + strings.Repeat("[", 1<<20), 400},
	} {
		for _, decoded := range []error{Object([]byte(c.body), new(any)), Part("message", []byte(c.body), new(any))} {
			testkit.Equal(t, status(decoded), c.want, "%s: (%v)", name, decoded)
		}
	}
}

// TestBodiesWaitForMemory has owners whose memory is used up, and who have some.
func TestBodiesWaitForMemory(t *testing.T) {
	t.Parallel()
	body := `{"x":"` + strings.Repeat("a", 2*freeBytes) + `"}`
	var taken, given int64
	some := func(_ context.Context, n int64) (func(), error) {
		taken += n
		return func() { given += n }, nil
	}
	none := func(context.Context, int64) (func(), error) { return nil, context.DeadlineExceeded }
	request := func(body string, length int64, m Memory) (c echo.Context, err error) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(body))
		r.ContentLength = length
		r.Header.Set(echo.HeaderContentType, echo.MIMEApplicationJSON)
		c = echo.New().NewContext(r, httptest.NewRecorder())
		SetMemory(c, m)
		return c, JSONOf(c, new(any), MaxBody, false)
	}
	c, err := request(body, int64(len(body)), some)
	if err != nil || taken != int64(len(body)) || given != 0 {
		t.Errorf("%d bytes: took %d, gave back %d, %v", len(body), taken, given, err)
	}
	Release(c)
	Release(c)
	testkit.Equal(t, given, taken, "took, gave back")
	if _, err := request(body, -1, some); err != nil || taken != given+MaxBody {
		t.Errorf("of unknown length: took %d, %v", taken-given, err)
	}
	c, err = request(body, int64(len(body)), none)
	if rest, _ := c.Request().Body.Read(make([]byte, 1)); status(err) != http.StatusTooManyRequests || rest > 0 {
		t.Errorf("without memory: %v, %d bytes are left to read", err, rest)
	}
	if _, err := request(`{"x":1}`, 7, none); err != nil {
		t.Errorf("a small one without memory: %v", err)
	}
}
