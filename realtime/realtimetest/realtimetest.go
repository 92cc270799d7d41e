// Package realtimetest stands in for other vendors' Realtime servers in tests: it replays recorded exchanges, and
// serves the API over WebSocket strictly.
package realtimetest

import (
	"bufio"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

//go:embed exchanges/*.http
var exchanges embed.FS

// Key is the API key in the exchanges.
const Key = "the-key"

// Replay answers requests like the one in exchanges/NAME.http with the answer recorded there, and fails the test for
// any other method, path, key or body. It returns the server's address with the path of the exchange's calls route.
func Replay(t *testing.T, name string) (callsURL string) {
	t.Helper()
	text, err := exchanges.ReadFile("exchanges/" + name + ".http")
	if err != nil {
		t.Fatal(err)
	}
	asked, answered, ok := strings.Cut(withoutNotes(string(text)), "=== answer\n")
	if !ok {
		t.Fatalf("%s holds no answer", name)
	}
	want, err := http.ReadRequest(bufio.NewReader(strings.NewReader(strings.Replace(asked, "HTTP/1.1\n", fmt.Sprintf("HTTP/1.1\nContent-Length: %d\n", bodyLen(asked)), 1))))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	wantBody := fields(t, want)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := fields(t, r); r.Method != want.Method || r.URL.RequestURI() != want.URL.RequestURI() || !reflect.DeepEqual(got, wantBody) {
			t.Errorf("%s: the request is %s %s %v, want %s %s %v", name, r.Method, r.URL, got, want.Method, want.URL, wantBody)
		}
		for _, header := range []string{"Api-Key", "Authorization"} {
			if r.Header.Get(header) != want.Header.Get(header) {
				t.Errorf("%s: %s is %q, want %q", name, header, r.Header.Get(header), want.Header.Get(header))
			}
		}
		answer, err := http.ReadResponse(bufio.NewReader(strings.NewReader(answered)), r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		defer answer.Body.Close()
		maps.Copy(w.Header(), answer.Header)
		w.WriteHeader(answer.StatusCode)
		_, _ = io.Copy(w, answer.Body)
	}))
	t.Cleanup(server.Close)
	path, _, _ := strings.Cut(want.URL.Path, "/calls")
	return server.URL + path + "/calls"
}

func withoutNotes(text string) string {
	var kept strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "#") {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

func bodyLen(message string) int {
	_, body, _ := strings.Cut(message, "\n\n")
	return len(body)
}

// fields reads the parts of a body, form or JSON, that are compared.
func fields(t *testing.T, r *http.Request) map[string]any {
	kind, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	out := map[string]any{"": kind}
	switch kind {
	case "multipart/form-data":
		form := multipart.NewReader(r.Body, params["boundary"])
		for {
			part, err := form.NextPart()
			if err != nil {
				break
			}
			data, _ := io.ReadAll(part)
			out[part.FormName()+" "+part.Header.Get("Content-Type")] = strings.TrimSpace(string(data))
		}
	case "application/json":
		var body map[string]any
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Errorf("the body is not JSON: %v", err)
		}
		out["body"] = body
	}
	return out
}
