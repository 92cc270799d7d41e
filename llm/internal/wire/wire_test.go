package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers is a network on which every request gets one answer.
type answers struct {
	status int
	header http.Header
	body   string
	err    error // after the body
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	body := io.Reader(strings.NewReader(a.body))
	if a.err != nil {
		body = io.MultiReader(body, failing{a.err})
	}
	return &http.Response{StatusCode: a.status, Header: a.header, Body: io.NopCloser(body)}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// exchange sends a request through a and returns what a vendor's client gets.
func exchange(t *testing.T, a answers, o wire.Options, filter func([]byte) []byte) (string, *wire.Exchange) {
	t.Helper()
	if a.status == 0 {
		a.status = http.StatusOK
	}
	ctx, x := wire.NewExchange(t.Context(), filter)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://host/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := wire.NewClient(&http.Client{Transport: a}, o).Do(r)
	if err != nil {
		t.Fatalf("Do() = %v", err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("the client sees an error: %v", err)
	}
	return string(got), x
}

func TestStream(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		name    string
		form    wire.Form
		bare    bool
		body    string
		err     error
		want    string
		failure string // a part of it
		refused string // the message of what came instead
	}{
		{name: "nothing"},
		{name: "events", body: "event: a\ndata: {\"x\":1}\n\ndata: [DONE]\n\n", want: "event: a\ndata: {\"x\":1}\n\ndata: [DONE]\n\n"},
		{name: "without names", bare: true, body: "event: a\ndata: 1\n\n", want: "data: 1\n\n"},
		{name: "comments and other fields", body: ": x\n\nid: 1\nretry: 2\nfoo\nfoo: bar\ndata: 1\n: y\n\n", want: "data: 1\n\n"},
		{name: "carriage returns", body: "data:1\r\n\r\ndata:  2 \r\n\r\n", want: "data: 1\n\ndata: 2\n\n"},
		{name: "data on lines", body: "data: {\ndata:\"x\":\ndata: 1}\n\n", want: "data: { \"x\": 1}\n\n"},
		{name: "name without data", body: "event: a\n\ndata: 1\n\n", want: "data: 1\n\n"},
		{name: "empty data", body: "data\n\ndata:\n\ndata: \n\n", want: ""},
		{name: "no last line end", body: "data: 1\n\ndata: 2", want: "data: 1\n\ndata: 2\n\n"},
		{name: "no last empty line", body: "data: [DONE]\n", want: "data: [DONE]\n\n"},
		{name: "half an event", body: "data: 1\n\ndata: {\"x\":", want: "data: 1\n\n", failure: "unexpected EOF"},
		{name: "half a name", body: "data: 1\n\nda", want: "data: 1\n\n"},
		{name: "broken off", body: "data: 1\n\ndata: 2\n", err: broken, want: "data: 1\n\n", failure: "broken"},
		{name: "no JSON", body: "data: 1\n\ndata: {x}\n\ndata: 3\n\n", want: "data: 1\n\n", failure: "no JSON"},
		{name: "no UTF-8", body: "event: \xff\ndata: \"a\xff\xfeb\"\n\n", want: "event: \uFFFD\ndata: \"a\uFFFDb\"\n\n"},
		{name: "an object", body: "{\"error\":\n\"oh\"}\n", failure: "no stream", refused: "oh"},
		{name: "an object later", body: "data: 1\n\n{\"error\":\"oh\"}", want: "data: 1\n\n", failure: "no stream", refused: "oh"},
		{name: "an array", body: "[{\"error\":{\"message\":\"oh\"}}]", failure: "no stream", refused: "oh"},
		{name: "a page", body: "<html>\n<p>x", failure: "no stream"},
		{name: "a long line", body: "data: 1\n\ndata: \"" + strings.Repeat("x", wire.MaxEvent) + "\"\n\n", want: "data: 1\n\n", failure: "larger"},
		{name: "a line that never ends", body: strings.Repeat("x", 2*wire.MaxEvent), failure: "larger"},
		{name: "an event of many lines", body: strings.Repeat("data: 1234567890\n", wire.MaxEvent/11+1), failure: "larger"},

		{name: "lines", form: wire.NDJSON, body: "{}\n\n [1] \r\n", want: "{}\n[1]\n"},
		{name: "lines without the last end", form: wire.NDJSON, body: "{}\n{\"x\":1}", want: "{}\n{\"x\":1}\n"},
		{name: "half a line", form: wire.NDJSON, body: "{}\n{\"x\":", want: "{}\n", failure: "unexpected EOF"},
		{name: "lines broken off", form: wire.NDJSON, body: "{}\n{}", err: broken, want: "{}\n", failure: "broken"},
		{name: "a line that is no JSON", form: wire.NDJSON, body: "{}\nx\n{}\n", want: "{}\n", failure: "no JSON"},
		{name: "a page for lines", form: wire.NDJSON, body: "<html>\n", failure: "no stream"},
		{name: "a long JSON line", form: wire.NDJSON, body: "\"" + strings.Repeat("x", wire.MaxEvent) + "\"\n", failure: "larger"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, x := exchange(t, answers{body: tt.body, err: tt.err}, wire.Options{Form: tt.form, Nameless: tt.bare}, nil)
			if got != tt.want {
				t.Errorf("the client reads %.200q, want %.200q", got, tt.want)
			}
			if failure := fmt.Sprint(x.Failure()); !strings.Contains(failure, tt.failure) || (tt.failure == "") != (x.Failure() == nil) {
				t.Errorf("Failure() = %s, want one with %q", failure, tt.failure)
			}
			if p, _ := x.Problem(); p.Message != tt.refused {
				t.Errorf("Problem() says %q, want %q", p.Message, tt.refused)
			}
		})
	}
}

func TestMaxAnswer(t *testing.T) {
	t.Parallel()
	body := strings.Repeat("data: 1\n\n", 100)
	for limit, ok := range map[int64]bool{int64(len(body)): true, int64(len(body)) - 1: false, 1: false} {
		got, x := exchange(t, answers{body: body}, wire.Options{MaxAnswer: limit}, nil)
		if (x.Failure() == nil) != ok || int64(len(got)) > limit {
			t.Errorf("with a limit of %d the client reads %d bytes, failure %v", limit, len(got), x.Failure())
		}
	}
}

func TestFilter(t *testing.T) {
	t.Parallel()
	got, _ := exchange(t, answers{body: "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n"}, wire.Options{}, func(data []byte) []byte {
		if string(data) == "1" {
			return nil
		}
		return append([]byte("1"), data...)
	})
	if want := "data: 12\n\ndata: [DONE]\n\n"; got != want {
		t.Errorf("the client reads %q, want %q", got, want)
	}
}

// FuzzStream looks for a body that a client could stumble over.
func FuzzStream(f *testing.F) {
	f.Add([]byte("event: a\ndata: {}\n\n"), false)
	f.Add([]byte("data: 1\r\ndata:\xff\n\n{\"error\":"), false)
	f.Add([]byte("{}\n[1]\nx"), true)
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		form := wire.SSE
		if lines {
			form = wire.NDJSON
		}
		got, x := exchange(t, answers{body: string(body)}, wire.Options{Form: form, Nameless: true}, nil)
		_, _ = x.Problem()
		end := "\n\n"
		if lines {
			end = "\n"
		}
		for event := range strings.SplitSeq(strings.TrimSuffix(got, end), end) {
			data, ok := strings.CutPrefix(event, "data: ")
			if got == "" {
				return
			}
			if !lines && !ok || !json.Valid([]byte(data)) && !strings.HasPrefix(data, "[DONE]") {
				t.Errorf("the client reads the event %q of %q", event, body)
			}
		}
	})
}

// TestRedirect shows that a key never follows a redirect.
func TestRedirect(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request with %v comes along", r.Header)
	}))
	defer thief.Close()
	s := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	ctx, x := wire.NewExchange(t.Context(), nil)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", "secret")
	resp, err := wire.NewClient(s.Client(), wire.Options{}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if p, ok := x.Problem(); !ok || p.Status != http.StatusTemporaryRedirect {
		t.Errorf("Problem() = %+v, %v, want one with status 307", p, ok)
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for base, ok := range map[string]bool{
		"https://api.example.com/v1": true, "http://[::1]:8080": true,
		"": false, "api.example.com": false, "ftp://x": false, "https://": false, "http://user:hunter2hunter2@[": false, "ws://u:hunter2hunter2@h/": false,
	} {
		err := wire.CheckURL(base)
		if (err == nil) != ok {
			t.Errorf("CheckURL(%q) = %v", base, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("CheckURL(%q) = %v, which has the password", base, err)
		}
	}
}

func TestParseProblem(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]wire.Problem{
		``:                                       {},
		`plain text`:                             {Message: "plain text"},
		`<html>`:                                 {},
		`{"error":`:                              {},
		`null`:                                   {},
		`[]`:                                     {},
		`{"error":"oh"}`:                         {Message: "oh"},
		`{"error":null}`:                         {},
		`{"detail":"oh"}`:                        {Message: "oh"},
		`{"detail":[{"msg":"x"}]}`:               {},
		`{"message":"oh","type":"t","code":400}`: {Message: "oh", Type: "t", Code: "400"},
		`{"error":{"message":"oh","type":null,"code":"c"}}`:                                    {Message: "oh", Code: "c"},
		`[{"error":{"message":"oh","status":"S","code":4,"details":[{}]}}]`:                    {Message: "oh", Type: "S", Code: "4", Details: []json.RawMessage{json.RawMessage(`{}`)}},
		`{"type":"error","error":{"type":"overloaded_error","message":"oh"},"request_id":"r"}`: {Message: "oh", Type: "overloaded_error"},
		"{\"error\":\"\xff\"}": {Message: "\uFFFD"},
	} {
		if diff := cmp.Diff(want, wire.ParseProblem([]byte(body))); diff != "" {
			t.Errorf("ParseProblem(%s) (-want +got):\n%s", body, diff)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	f := wire.Failures{Provider: "p", Label: "P", Kind: func(p wire.Problem) llm.ErrorKind { return wire.KindOfStatus(p.Status) }}
	header := func(name, value string) http.Header { return http.Header{name: {value}} }
	for _, tt := range []struct {
		name     string
		header   http.Header
		details  string
		min, max time.Duration
	}{
		{name: "none"},
		{name: "seconds", header: header("Retry-After", "7"), min: 7 * time.Second, max: 7 * time.Second},
		{name: "parts of seconds", header: header("Retry-After", " 1.5 "), min: 1500 * time.Millisecond, max: 1500 * time.Millisecond},
		{name: "milliseconds", header: header("Retry-After-Ms", "250"), min: 250 * time.Millisecond, max: 250 * time.Millisecond},
		{name: "date", header: header("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)), min: 59 * time.Minute, max: time.Hour},
		{name: "past date", header: header("Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT")},
		{name: "negative", header: header("Retry-After", "-5")},
		{name: "infinite", header: header("Retry-After", "Inf"), min: 24 * time.Hour, max: 24 * time.Hour},
		{name: "no number", header: header("Retry-After", "NaN")},
		{name: "nonsense", header: header("Retry-After", "soon")},
		{name: "details", details: `{"retryDelay":"34.5s"}`, min: 34500 * time.Millisecond, max: 34500 * time.Millisecond},
		{name: "bad details", details: `{"retryDelay":"-3s"}`},
	} {
		p := wire.Problem{Status: 429, Header: tt.header}
		if tt.details != "" {
			p.Details = []json.RawMessage{json.RawMessage(`7`), json.RawMessage(tt.details)}
		}
		e, ok := errors.AsType[*llm.Error](f.Problem(p, nil))
		if !ok || e.Kind != llm.KindRate || e.RetryAfter < tt.min || e.RetryAfter > tt.max {
			t.Errorf("%s: the error is %+v, want one to wait %s to %s", tt.name, e, tt.min, tt.max)
		}
	}
}

// TestSecrets shows that no part of an error has a key.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const key = "very-secret-key"
	f := wire.Failures{Provider: "p", Label: "P", Secrets: []string{"", "P", key}, Kind: func(wire.Problem) llm.ErrorKind { return llm.KindBadRequest }}
	_, x := wire.NewExchange(t.Context(), nil)
	for _, err := range []error{
		f.Of(t.Context(), x, fmt.Errorf("dial http://%s/: refused", key)),
		f.Problem(wire.Problem{Message: "bad " + key}, fmt.Errorf("%w: %s", context.Canceled, key)),
	} {
		for ; err != nil; err = errors.Unwrap(err) {
			if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, key) || !strings.Contains(text, "P") && !strings.Contains(text, "***") {
				t.Errorf("the error is %s", text)
			}
		}
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": `{}`, " \n": `{}`, `{}`: `{}`, ` {"b":1, "a":2} `: `{"b":1, "a":2}`,
		`{"a":`: `{"arguments":"{\"a\":"}`, `[1]`: `{"arguments":"[1]"}`, `null`: `{"arguments":"null"}`, `x`: `{"arguments":"x"}`,
	} {
		if got := string(wire.Object(text)); got != want {
			t.Errorf("Object(%q) = %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{"": "{}", "\t": "{}", "x": "x", ` {} `: ` {} `} {
		if got := wire.Arguments(text); got != want {
			t.Errorf("Arguments(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	const empty = `{"type":"object","properties":{}}`
	for parameters, want := range map[string]string{
		"": empty, "null": empty, "[]": empty, "{": empty,
		`{}`:                                   `{"properties":{},"type":"object"}`,
		`{"type":"object", "properties":null}`: `{"properties":{},"type":"object"}`,
		`{"required":["a"],"properties":{"a":{}}}`: `{"properties":{"a":{}},"required":["a"],"type":"object"}`,
	} {
		if got := string(wire.Schema(json.RawMessage(parameters))); got != want {
			t.Errorf("Schema(%s) = %s, want %s", parameters, got, want)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	if a, b := wire.NewCallID(), wire.NewCallID(); a == b || len(a) > 40 {
		t.Errorf("NewCallID() = %q, then %q", a, b)
	}
	if a, b := wire.StandIn("a"), wire.StandIn("b"); a == b || a != wire.StandIn("a") || len(a) > 40 {
		t.Errorf("StandIn(a) = %q, StandIn(b) = %q", a, b)
	}
}
