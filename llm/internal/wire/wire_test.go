package wire_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// answers is a network on which every request gets the same answer.
type answers struct {
	body string
	err  error // after the body

	unreachable bool // err is returned instead
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.unreachable {
		return nil, a.err
	}
	body := io.Reader(strings.NewReader(a.body))
	if a.err != nil {
		body = io.MultiReader(body, failing{a.err})
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(body)}, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// collector collects the events of an answer that never ends by itself.
type collector struct{ events []string }

func (c *collector) Event(raw json.RawMessage) ([]llm.Delta, *wire.Problem) {
	c.events = append(c.events, string(raw))
	return nil, nil
}

func (c *collector) Over() bool { return false }

func (c *collector) End() []llm.Delta { return nil }

var failures = wire.Failures{Provider: "p", Label: "P", Kind: func(p wire.Problem) llm.ErrorKind { return wire.KindOfStatus(p.Status) }}

// exchange sends a request through base and returns the events of the answer, joined,
// and the error at its end.
func exchange(t *testing.T, base *http.Client, address string, form wire.Form) (string, *llm.Error) {
	t.Helper()
	var c collector
	for _, err := range wire.NewClient(base, form, failures).Stream(t.Context(), address, http.Header{"X-Api-Key": {"secret"}}, "?", &c) {
		if err == nil {
			continue // an event without a piece of the answer
		}
		e, ok := errors.AsType[*llm.Error](err)
		if !ok {
			t.Fatalf("Stream() = %v", err)
		}
		return strings.Join(c.events, "\n"), e
	}
	t.Fatal("Stream() ends without an error")
	return "", nil
}

func TestStream(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	tests := []struct {
		name    string
		form    wire.Form
		body    string
		err     error
		want    string
		failure string // part of the error; empty if the answer just ends
	}{
		{name: "nothing"},
		{name: "events", body: "event: a\ndata: {\"x\":1}\n\ndata: [DONE]\n\n", want: "{\"x\":1}"},
		{name: "without names", body: "event: a\ndata: 1\n\n", want: "1"},
		{name: "comments and other fields", body: ": x\n\nid: 1\nretry: 2\nfoo\nfoo: bar\ndata: 1\n: y\n\n", want: "1"},
		{name: "carriage returns", body: "data:1\r\n\r\ndata:  2 \r\n\r\n", want: "1\n2"},
		{name: "data on lines", body: "data: {\ndata:\"x\":\ndata: 1}\n\n", want: "{ \"x\": 1}"},
		{name: "name without data", body: "event: a\n\ndata: 1\n\n", want: "1"},
		{name: "empty data", body: "data\n\ndata:\n\ndata: \n\n"},
		{name: "no last line end", body: "data: 1\n\ndata: 2", want: "1\n2"},
		{name: "no last empty line", body: "data: [DONE]\n"},
		{name: "half an event", body: "data: 1\n\ndata: {\"x\":", want: "1", failure: "unexpected EOF"},
		{name: "half a name", body: "data: 1\n\nda", want: "1"},
		{name: "broken off", body: "data: 1\n\ndata: 2\n", err: broken, want: "1", failure: "broken"},
		{name: "not JSON", body: "data: 1\n\ndata: {x}\n\ndata: 3\n\n", want: "1", failure: "not JSON"},
		{name: "not UTF-8", body: "event: \xff\ndata: \"a\xff\xfeb\"\n\n", want: "\"a\uFFFDb\""},
		{name: "an object", body: "{\"error\":\n\"oh\"}", want: "{\"error\":\n\"oh\"}", failure: "oh"},
		{name: "a large object", body: "{\"x\":\n\"" + strings.Repeat("x", 1<<20) + "\"}", want: "{\"x\":\n\"" + strings.Repeat("x", 1<<20) + "\"}", failure: "not a stream"},
		{name: "an object later", body: "data: 1\n\n{\"error\":\"oh\"}", want: "1", failure: "oh"},
		{name: "an array", body: "[{\"error\":{\"message\":\"oh\"}}]", failure: "oh"},
		{name: "a page", body: "<html>\n<p>x", failure: "not a stream"},
		{name: "a long line", body: "data: 1\n\ndata: \"" + strings.Repeat("x", wire.MaxEvent) + "\"\n\n", want: "1", failure: "larger"},
		{name: "a line that never ends", body: strings.Repeat("x", 2*wire.MaxEvent), failure: "larger"},
		{name: "an event of many lines", body: strings.Repeat("data: 1234567890\n", wire.MaxEvent/11+1), failure: "larger"},

		{name: "lines", form: wire.NDJSON, body: "{}\n\n [1] \r\n", want: "{}\n[1]"},
		{name: "lines without the last end", form: wire.NDJSON, body: "{}\n{\"x\":1}", want: "{}\n{\"x\":1}"},
		{name: "half a line", form: wire.NDJSON, body: "{}\n{\"x\":", want: "{}", failure: "unexpected EOF"},
		{name: "lines broken off", form: wire.NDJSON, body: "{}\n{}", err: broken, want: "{}", failure: "broken"},
		{name: "a line that is not JSON", form: wire.NDJSON, body: "{}\nx\n{}\n", want: "{}", failure: "not JSON"},
		{name: "a page for lines", form: wire.NDJSON, body: "<html>\n", failure: "not a stream"},
		{name: "a long JSON line", form: wire.NDJSON, body: "\"" + strings.Repeat("x", wire.MaxEvent) + "\"\n", failure: "larger"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := exchange(t, &http.Client{Transport: answers{body: tt.body, err: tt.err}}, "http://host/", tt.form)
			testkit.Equal(t, got, tt.want, "the events")
			if failure := fmt.Sprint(err.Err); !strings.Contains(failure, cmp.Or(tt.failure, "EOF")) || tt.failure == "" && failure != "EOF" {
				t.Errorf("the error has %s, want %q", failure, tt.failure)
			}
		})
	}
}

// TestAtWork: servers show by comments, or by events without a piece of the answer, that they are still at work, and the
// reader learns of it.
func TestAtWork(t *testing.T) {
	t.Parallel()
	body := ": OPENROUTER PROCESSING\n\n: again\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n"
	signs := 0
	for d, err := range wire.NewClient(&http.Client{Transport: answers{body: body}}, wire.SSE, failures).Stream(t.Context(), "http://host/", http.Header{}, "?", &collector{}) {
		if err == nil && d == (llm.Delta{}) {
			signs++
		}
	}
	if signs != 4 { // the first is that the server has begun to answer
		t.Errorf("there are %d signs of work, want 4", signs)
	}
}

// FuzzStream looks for a body that breaks an adapter.
func FuzzStream(f *testing.F) {
	f.Add([]byte("event: a\ndata: {}\n\n"), false)
	f.Add([]byte("data: 1\r\ndata:\xff\n\n{\"error\":"), false)
	f.Add([]byte("{}\n[1]\nx"), true)
	f.Fuzz(func(t *testing.T, body []byte, lines bool) {
		form := wire.SSE
		if lines {
			form = wire.NDJSON
		}
		got, _ := exchange(t, &http.Client{Transport: answers{body: string(body)}}, "http://host/", form)
		for events := json.NewDecoder(strings.NewReader(got)); ; {
			var event json.RawMessage
			if err := events.Decode(&event); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatalf("the events are %q of %q", got, body)
			}
		}
	})
}

// TestRedirect: a key never follows a redirect.
func TestRedirect(t *testing.T) {
	t.Parallel()
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request with %v was redirected", r.Header)
	}))
	defer thief.Close()
	s := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer s.Close()
	if _, err := exchange(t, s.Client(), s.URL, wire.SSE); err.Status != http.StatusTemporaryRedirect {
		t.Errorf("Stream() = %v, want an error of status 307", err)
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
		``:                           {},
		`plain text`:                 {Message: "plain text"},
		`<html>`:                     {},
		`{"error":`:                  {},
		`null`:                       {},
		`[]`:                         {},
		`{"error":"oh"}`:             {Message: "oh"},
		`{"error":null}`:             {},
		`{"error":{"message":null}}`: {},
		`{"errors":[{"msg":"oh"}]}`:  {Message: "oh"},
		`{"error":{"message":true},"detail":[7]}`:                                              {Message: "[7]"},
		`{"detail":"oh"}`:                                                                      {Message: "oh"},
		`{"detail":[{"msg": "x"}]}`:                                                            {Message: `[{"msg":"x"}]`},
		`{"message":"oh","type":"t","code":400}`:                                               {Message: "oh", Type: "t", Code: "400"},
		`{"error":{"message":"oh","type":null,"code":"c"}}`:                                    {Message: "oh", Code: "c"},
		`[{"error":{"message":"oh","status":"S","code":4,"details":[{}]}}]`:                    {Message: "oh", Type: "S", Code: "4", Details: []json.RawMessage{json.RawMessage(`{}`)}},
		`{"type":"error","error":{"type":"overloaded_error","message":"oh"},"request_id":"r"}`: {Message: "oh", Type: "overloaded_error"},
		`{"object":"error","message":{"detail":[]},"type":"t"}`:                                {Message: `{"detail":[]}`, Type: "t"},
		"{\"error\":\"\xff\"}":                                                                 {Message: "\uFFFD"},
	} {
		got := wire.ParseProblem([]byte(body))
		got.Texts = "" // TestKindsOfWords looks at these
		testkit.Equal(t, gocmp.Diff(want, got), "", "ParseProblem(%s)", body)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
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
		{name: "not a number", header: header("Retry-After", "NaN")},
		{name: "nonsense", header: header("Retry-After", "soon")},
		{name: "details", details: `{"retryDelay":"34.5s"}`, min: 34500 * time.Millisecond, max: 34500 * time.Millisecond},
		{name: "bad details", details: `{"retryDelay":"-3s"}`},
	} {
		p := wire.Problem{Status: 429, Header: tt.header}
		if tt.details != "" {
			p.Details = []json.RawMessage{json.RawMessage(`7`), json.RawMessage(tt.details)}
		}
		e := failures.Problem(p)
		if e.Kind != llm.KindRate || e.RetryAfter < tt.min || e.RetryAfter > tt.max {
			t.Errorf("%s: the error is %+v, want one to wait %s to %s", tt.name, e, tt.min, tt.max)
		}
	}
}

// TestSecrets: no part of an error contains a key.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const key = "very-secret-key"
	f := wire.Failures{Provider: "p", Label: "P", Secrets: []string{"", "P", key}, Kind: func(wire.Problem) llm.ErrorKind { return llm.KindBadRequest }}
	refused := &http.Client{Transport: answers{err: fmt.Errorf("dial http://%s/: refused", key), unreachable: true}}
	var all []error
	for _, err := range wire.NewClient(refused, wire.SSE, f).Stream(t.Context(), "http://host/", http.Header{}, nil, &collector{}) {
		all = append(all, err)
	}
	for _, err := range append(all, f.Problem(wire.Problem{Message: "bad " + key})) {
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
		testkit.Equal(t, string(wire.Object(text)), want, "Object(%q)", text)
	}
	for text, want := range map[string]string{
		"": "{}", "\t": "{}", "null": "{}", `""`: "{}", "x": "x", ` {} `: ` {} `, `"{\"a\":1}"`: `{"a":1}`, `"\"{}\""`: "{}", `[1]`: `[1]`, `"{`: `"{`,
	} {
		testkit.Equal(t, wire.Arguments(text), want, "Arguments(%q)", text)
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
		testkit.Equal(t, string(wire.Schema(json.RawMessage(parameters))), want, "Schema(%s)", parameters)
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
