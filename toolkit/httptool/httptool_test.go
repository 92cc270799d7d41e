package httptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
	"voicebridge/toolkit/guard"
	"voicebridge/toolkit/httptool"
	"voicebridge/toolkit/webhook"
)

// keeper keeps what is saved.
type keeper struct{ err error }

func (k keeper) SaveMedia(_ context.Context, call toolkit.Call, data []byte) (toolkit.Media, error) {
	return toolkit.Media{ID: "i" + strconv.Itoa(len(data)), MediaType: "image/png", URL: "/" + call.ThreadID, Width: 2, Height: 1}, k.err
}

// received is a request as its receiver saw it.
type received struct {
	method, query, body string
	header              http.Header
}

// serve answers requests, and returns a caller that may reach the server, and what the last request was.
func serve(t *testing.T, media httptool.Media, answer http.HandlerFunc) (caller *httptool.Caller, address string, last *received) {
	t.Helper()
	last = new(received)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*last = received{r.Method, r.URL.RawQuery, string(body), r.Header.Clone()}
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	testkit.Must(t, err)
	port, _ := strconv.Atoi(at.Port())
	rules := guard.Rules{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Ports: []int{port}}
	return httptool.New(guard.New(rules), media), server.URL, last
}

// run calls a tool, and returns its result.
func run(ctx context.Context, tool toolkit.Tool, arguments string) (result toolkit.Result, err error) {
	for chunk, err := range tool.Call(ctx, toolkit.Call{ID: "call.1", Arguments: arguments, Owner: "änna", ThreadID: "thread-1", CallID: "call-1"}) {
		if err != nil {
			return result, err
		}
		if chunk.Result != nil {
			result = *chunk.Result
		}
	}
	return result, nil
}

// TestSigned has a request verified by the library of Standard Webhooks.
func TestSigned(t *testing.T) {
	t.Parallel()
	caller, address, last := serve(t, nil, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"rooms": 2}`)
	})
	secret := webhook.NewSecret()
	tool := caller.Tool(httptool.Spec{
		Definition: toolkit.Definition{Name: "rooms", Description: "Counts rooms.", Parameters: json.RawMessage(`{"type":"object"}`)}, URL: address + "/rooms?key=a", Secret: secret, Timeout: time.Minute,
	})
	result, err := run(t.Context(), tool, `{"city":"Bonn"}`)
	if err != nil || result.Failed() || string(result.Output) != `{"rooms": 2}` {
		t.Errorf("%+v, %v", result, err)
	}
	testkit.Equal(t, []string{last.method, last.query, last.body}, []string{http.MethodPost, "key=a", `{"city":"Bonn"}`}, "request")
	for name, want := range map[string]string{"Content-Type": "application/json", "Voicebridge-Owner": "%C3%A4nna", "Voicebridge-Thread-Id": "thread-1", "Voicebridge-Call-Id": "call-1"} {
		testkit.Equal(t, last.header.Get(name), want, "%s", name)
	}
	theirs, err := standardwebhooks.NewWebhook(secret.Reveal())
	testkit.Must(t, err)
	if err := theirs.Verify([]byte(last.body), last.header); err != nil {
		t.Errorf("the signature: %v", err)
	}
	if tool.Definition().Name != "rooms" || tool.(toolkit.Timeouter).Timeout() != time.Minute || !tool.(toolkit.Writer).Writes("") {
		t.Errorf("the tool is %+v", tool.Definition())
	}
	if _, err := run(t.Context(), caller.Tool(httptool.Spec{URL: address}), ""); err != nil || last.header.Get("webhook-signature") != "" || last.body != "{}" {
		t.Errorf("without a secret: %+v, %v", last, err)
	}
}

func TestQuery(t *testing.T) {
	t.Parallel()
	caller, address, last := serve(t, nil, func(http.ResponseWriter, *http.Request) {})
	tool := caller.Tool(httptool.Spec{URL: address + "/?a=old&key=1", Method: http.MethodGet, Secret: webhook.NewSecret()})
	result, err := run(t.Context(), tool, `{"a":"ä b","n":12345678901234567890,"on":true,"list":["x","y",1],"deep":[{"z":1}],"nothing":null}`)
	if err != nil || string(result.Output) != `{"ok":true}` {
		t.Errorf("%+v, %v", result, err)
	}
	got, err := url.ParseQuery(last.query)
	want := url.Values{"a": {"ä b"}, "key": {"1"}, "n": {"12345678901234567890"}, "on": {"true"}, "list": {"x", "y", "1"}, "deep": {`[{"z":1}]`}, "nothing": {"null"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" || last.body != "" || last.method != http.MethodGet || tool.(toolkit.Writer).Writes("") {
		t.Errorf("%s %q, %v, query (-want +got):\n%s", last.method, last.body, err, diff)
	}
	if result, err := run(t.Context(), tool, `[1]`); err != nil || result.Error != "the arguments are not a JSON object" {
		t.Errorf("%+v, %v", result, err)
	}
}

// TestAnswers has a receiver answer in every way.
func TestAnswers(t *testing.T) {
	t.Parallel()
	writes := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if kind != "" {
				w.Header().Set("Content-Type", kind)
			}
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	png := "\x89PNG\r\n\x1a\n\x00\x00"
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		media  httptool.Media
		want   toolkit.Result // an error's text may be its beginning
	}{
		"text":            {writes(200, "text/plain", "Two rooms."), nil, toolkit.Result{Output: json.RawMessage(`{"content":[{"text":"Two rooms.","type":"text"}]}`), Model: "Two rooms."}},
		"nothing":         {writes(204, "", ""), nil, toolkit.Result{Output: json.RawMessage(`{"ok":true}`)}},
		"problem":         {writes(200, "application/problem+json", `[1]`), nil, toolkit.Result{Output: json.RawMessage(`[1]`)}},
		"half a JSON":     {writes(200, "application/json", `{"a":`), nil, toolkit.Result{Error: "127.0.0.1 answered with what is not valid JSON"}},
		"picture":         {writes(200, "image/png", png), keeper{}, toolkit.Result{Output: json.RawMessage(`{"content":[{"image_id":"i10","mimeType":"image/png","url":"/thread-1","width":2,"height":1,"type":"image"}]}`), Model: "[image, image/png, 2×1]"}},
		"no room":         {writes(200, "image/png", png), keeper{errors.New("SECRET")}, toolkit.Result{Error: "127.0.0.1 answered with a picture or a sound that cannot be kept"}},
		"nobody keeps it": {writes(200, "image/png", png), nil, toolkit.Result{Error: "127.0.0.1 answered with a picture or a sound, which cannot be kept here"}},
		"bytes":           {writes(200, "application/octet-stream", "\x00\x01"), nil, toolkit.Result{Error: "127.0.0.1 answered with application/octet-stream, which is neither"}},
		"text with bytes": {writes(200, "text/plain", "a\x00"), nil, toolkit.Result{Error: "127.0.0.1 answered with text/plain, which is neither"}},
		"no type":         {writes(200, "a b;;", "plain words"), nil, toolkit.Result{Output: json.RawMessage(`{"content":[{"text":"plain words","type":"text"}]}`), Model: "plain words"}},
		"not found":       {writes(404, "text/plain", "No such\n  room"), nil, toolkit.Result{Error: "127.0.0.1 answered 404: No such room"}},
		"broken":          {writes(500, "", ""), nil, toolkit.Result{Error: "127.0.0.1 answered 500"}},
		"redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusTemporaryRedirect)
		}, nil, toolkit.Result{Error: "127.0.0.1 answered with a redirect (307), which is not followed"}},
		"too much": {writes(200, "text/plain", strings.Repeat("a", httptool.MaxBody+1)), nil, toolkit.Result{Error: "127.0.0.1 answered with more than 1048576 bytes"}},
		"half a body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
		}, nil, toolkit.Result{Error: "127.0.0.1 broke off its answer"}},
		"hangs up": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, toolkit.Result{Error: "127.0.0.1 cannot be reached"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			caller, address, _ := serve(t, c.media, c.answer)
			got, err := run(t.Context(), caller.Tool(httptool.Spec{URL: address}), "{}")
			if c.want.Failed() && strings.HasPrefix(got.Error, c.want.Error) {
				got.Error = c.want.Error
			}
			if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestGuarded has tools with addresses that must not be reached.
func TestGuarded(t *testing.T) {
	t.Parallel()
	_, address, last := serve(t, nil, func(http.ResponseWriter, *http.Request) {})
	caller := httptool.New(guard.New(guard.Rules{}), nil)
	for _, to := range []string{address, "http://169.254.169.254/latest/meta-data", "http://localhost/", "http://[::1]/", "http://10.0.0.1/", "ftp://example.com/", "http://a b/"} {
		result, err := run(t.Context(), caller.Tool(httptool.Spec{URL: to}), "{}")
		if err != nil || !result.Failed() {
			t.Errorf("%s: %+v, %v", to, result, err)
		}
	}
	if last.method != "" {
		t.Errorf("it was asked: %+v", last)
	}
}

// TestEnds has calls end while the receiver does not answer.
func TestEnds(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	caller, address, _ := serve(t, nil, func(_ http.ResponseWriter, r *http.Request) {
		cancel(stopped)
		<-r.Context().Done()
	})
	tool := caller.Tool(httptool.Spec{URL: address})
	if _, err := run(ctx, tool, "{}"); !errors.Is(err, stopped) {
		t.Errorf("the error is %v", err)
	}
	for chunk, err := range tool.Call(t.Context(), toolkit.Call{}) { // whoever asks does not wait
		if err != nil || chunk.Result != nil {
			t.Errorf("%+v, %v", chunk, err)
		}
		break
	}
}
