package llmtest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/llm"
)

// failures are the failed exchanges of every vendor.
var failures = []Failure{
	{Exchange: "cut_text", Kind: llm.KindUnavailable, Text: "Hello,", Says: "broke off"},
	{Exchange: "cut_half_event", Kind: llm.KindUnavailable, Text: "Hello,", Says: "broke off"},
	{Exchange: "cut_call", Kind: llm.KindUnavailable, Text: "Let me look.", Says: "broke off"},
	{Exchange: "no_stop", Kind: llm.KindUnavailable, Text: "Hello,", Says: "broke off"},
	{Exchange: "malformed", Kind: llm.KindUnavailable, Text: "Hello,", Says: "unreadable"},
	{Exchange: "huge_event", Kind: llm.KindBadRequest, Text: "Hello,", Says: "more than"},
	{Exchange: "stream_error", Kind: llm.KindOverloaded, Text: "Hello,", Says: "overloaded"},
	{Exchange: "stream_error_unknown", Kind: llm.KindUnavailable, Text: "Hello,", Says: "broke off"},
	{Exchange: "http_401", Kind: llm.KindAuth, Status: 401, Says: "Check the key"},
	{Exchange: "http_403", Kind: llm.KindAuth, Status: 403, Says: "not allow"},
	{Exchange: "http_402", Kind: llm.KindQuota, Status: 402, Says: "billing"},
	{Exchange: "http_429", Kind: llm.KindRate, Status: 429, After: 7 * time.Second, Says: "Wait"},
	{Exchange: "http_429_quota", Kind: llm.KindQuota, Status: 429, Says: "billing"},
	{Exchange: "http_400_too_long", Kind: llm.KindTooLong, Status: 400, Says: "too long"},
	{Exchange: "http_413", Kind: llm.KindTooLong, Status: 413, Says: "too long"},
	{Exchange: "http_400", Kind: llm.KindBadRequest, Status: 400, Says: "does not accept"},
	{Exchange: "http_404", Kind: llm.KindBadRequest, Status: 404, Says: "some-model"},
	{Exchange: "http_500", Kind: llm.KindOverloaded, Status: 500, Says: "Try again"},
	{Exchange: "http_503", Kind: llm.KindOverloaded, Status: 503, Says: "Try again"},
	{Exchange: "http_529", Kind: llm.KindOverloaded, Status: 529, Says: "Try again"},
}

// strangers are answers from something other than the vendor's server, or none at all.
var strangers = []struct {
	Failure
	answer string
}{
	{Failure{Exchange: "silence", Kind: llm.KindUnavailable, Says: "broke off"}, "200 OK\nContent-Type: text/event-stream\n\n"},
	{Failure{Exchange: "silence cut", Kind: llm.KindUnavailable, Says: "broke off"}, "200 OK\n\n<<cut>>"},
	{Failure{Exchange: "no content", Kind: llm.KindUnavailable, Says: "broke off"}, "204 No Content\n\n"},
	{Failure{Exchange: "a page", Kind: llm.KindBadRequest, Status: 200, Says: "check the address"}, "200 OK\nContent-Type: text/html\n\n<!doctype html>\n<title>Welcome</title>"},
	{Failure{Exchange: "a proxy's page", Kind: llm.KindOverloaded, Status: 502, Says: "Try again"}, "502 Bad Gateway\nContent-Type: text/html\n\n<html><h1>502</h1></html>"},
	{Failure{Exchange: "refusal cut", Kind: llm.KindOverloaded, Status: 500, Says: "Try again"}, "500 Oops\nContent-Type: application/json\n\n{\"error\":<<cut>>"},
	{Failure{Exchange: "empty refusal", Kind: llm.KindAuth, Status: 401, Says: "Check the key"}, "401 Unauthorized\n\n"},
	{Failure{Exchange: "a redirect", Kind: llm.KindBadRequest, Status: 302, Says: "check the address"}, "302 Found\nLocation: /elsewhere\n\n"},
	{Failure{Exchange: "not modified", Kind: llm.KindBadRequest, Status: 304, Says: "check the address"}, "304 Not Modified\n\n"},
	{Failure{Exchange: "bad waiting time", Kind: llm.KindRate, Status: 429, Says: "Wait"}, "429 Slow Down\nRetry-After: -1e999\n\n"},
	{Failure{Exchange: "endless waiting time", Kind: llm.KindRate, Status: 429, After: 24 * time.Hour, Says: "Wait"}, "429 Slow Down\nRetry-After: 99999999999999999999\n\n"},
	{Failure{Exchange: "key in the error", Kind: llm.KindBadRequest, Status: 400, Says: "***"}, "400 Bad Request\nContent-Type: application/json\n\n" +
		`{"error":{"message":"what is ` + Key + `?","code":400}}`},
	{Failure{Exchange: "a long error", Kind: llm.KindBadRequest, Status: 400, Says: "…"}, "400 Bad Request\n\n" + `{"error":{"message":"<<long 100000>>"}}`},
	{Failure{Exchange: "a strange error", Kind: llm.KindBadRequest, Status: 400, Says: "does not accept"}, "400 Bad Request\n\n" +
		`{"error":{"message":["<<ff>>"],"code":{"a":1},"type":null,"details":[null,1,{"retryDelay":"x"}]}}`},
}

func (w Wire) failures(t *testing.T) {
	t.Parallel()
	for _, f := range slices.Concat(failures, w.Failures) {
		t.Run(f.Exchange, func(t *testing.T) {
			t.Parallel()
			if x := w.exchange(t, f.Exchange); x.status != 0 {
				w.fails(t, x, f)
			}
		})
	}
	for _, s := range strangers {
		t.Run(s.Exchange, func(t *testing.T) {
			t.Parallel()
			w.fails(t, parse(t, []byte("HTTP/1.1 "+s.answer)), s.Failure)
		})
	}
}

// fails checks how an exchange fails.
func (w Wire) fails(t *testing.T, x exchange, want Failure) {
	t.Helper()
	s := serve(t, x)
	p := w.New(t, s.URL, s.client(t))
	got, err := drain(t, p, t.Context(), greeting)
	if err == nil {
		t.Fatalf("Stream() has no error but the answer %+v", got)
	}
	if got.Text != want.Text || got.Calls != nil {
		t.Errorf("before the error came %q and %d calls, want %q and none", got.Text, len(got.Calls), want.Text)
	}
	e := w.check(t, p, err, true)
	if e.Kind != want.Kind || e.Status != want.Status || e.RetryAfter != want.After {
		t.Errorf("the error has kind %s, status %d, wait %s, want %s, %d, %s (%v)", e.Kind, e.Status, e.RetryAfter, want.Kind, want.Status, want.After, err)
	}
	if !strings.Contains(e.Message, want.Says) {
		t.Errorf("the message is %q, want one with %q", e.Message, want.Says)
	}
	once(t, s)
}

// check checks what must hold for every error. asked means that it is about the tests' server.
func (w Wire) check(t *testing.T, p llm.Provider, err error, asked bool) *llm.Error {
	t.Helper()
	e, ok := errors.AsType[*llm.Error](err)
	if !ok {
		t.Fatalf("Stream() = %v (%T), want a *llm.Error", err, err)
	}
	label := w.Label
	if asked && !w.Named {
		label = "127.0.0.1"
	}
	if e.Provider != p.Name() || !strings.Contains(e.Message, label) {
		t.Errorf("the error is of %q and says %q, want them to name %q and %q", e.Provider, e.Message, p.Name(), label)
	}
	if n := len([]rune(e.Message)); n > 500 || strings.ContainsAny(e.Message, "\n\r\t") {
		t.Errorf("the message has %d characters or more than one line: %q", n, e.Message)
	}
	for err := error(e); err != nil; err = errors.Unwrap(err) {
		if text := fmt.Sprintf("%v %+v %#v", err, err, err); strings.Contains(text, Key) {
			t.Errorf("the key is in the error: %s", text)
		}
	}
	return e
}
