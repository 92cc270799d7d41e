package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/phone"
)

// fakeTwilio takes calls as Twilio does, refuses what it refuses, and lists them.
type fakeTwilio struct {
	mu    sync.Mutex
	calls []url.Values
}

func (f *fakeTwilio) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	user, password, _ := r.BasicAuth()
	_ = r.ParseForm()
	switch {
	case user != "AC1" || password != phoneSecret:
		w.WriteHeader(http.StatusUnauthorized)
	case r.Method == http.MethodPost && r.URL.Path == "/2010-04-01/Accounts/AC1/Calls.json":
		for _, name := range []string{"To", "From", "Url", "StatusCallback"} {
			if r.Form.Get(name) == "" {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
		}
		f.calls = append(f.calls, r.Form)
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprintf(w, `{"sid":"CA-out-%d","status":"queued"}`, len(f.calls))
	}
}

// dialled waits for the n-th call, and returns what it was asked with.
func (f *fakeTwilio) dialled(t *testing.T, n int) url.Values {
	t.Helper()
	testkit.Eventually(t, "a call out", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return len(f.calls) >= n
	})
	f.mu.Lock()
	defer f.mu.Unlock()
	testkit.Equal(t, len(f.calls), n, "calls")
	return f.calls[n-1]
}

const callee = "+493077777777"

// setupDialer is setupPhone with a dialer, and Twilio's API.
func setupDialer(t *testing.T, machine string) (*carrier, *fakeTwilio) {
	t.Helper()
	c, f := setupPhone(t), &fakeTwilio{}
	api := httptest.NewServer(f)
	t.Cleanup(api.Close)
	for name, line := range c.b.Phone.Lines {
		line.APIURL = api.URL
		c.b.Phone.Lines[name] = line
	}
	c.b.Phone.DialPrefixes, c.b.Phone.Machine = []string{"+49"}, machine
	d := phone.Dialer{Settings: c.b.Phone.Settings, Store: c.b.db.Records, PublicURL: phoneURL, Log: c.b.Logger}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return c, f
}

// dial asks for a call.
func (c *carrier) dial(t *testing.T, body string, options ...option) *answer {
	t.Helper()
	return c.b.do(t, "POST", "/api/calls", body, append([]option{as("alice-token-of-tests")}, options...)...)
}

// state reads how far a call has come.
func (c *carrier) state(t *testing.T, id string) string {
	t.Helper()
	var s callState
	r := c.b.do(t, "GET", "/api/calls/"+id, "", as("alice-token-of-tests"))
	wantStatus(t, r, 200)
	must(t, json.Unmarshal([]byte(r.body), &s))
	if s.EndReason != nil {
		return s.State + " " + *s.EndReason
	}
	return s.State
}

// says is a signed request of Twilio's to an address that it was given.
func (c *carrier) says(t *testing.T, address string, form url.Values) *answer {
	t.Helper()
	path, ok := strings.CutPrefix(address, phoneURL)
	if !ok {
		t.Fatalf("address %q", address)
	}
	return c.b.do(t, "POST", path, form.Encode(), formBody, twilio(address, form))
}

func (c *carrier) status(t *testing.T, asked url.Values, sid, status string, more ...string) {
	t.Helper()
	form := url.Values{"CallSid": {sid}, "CallStatus": {status}, "Direction": {"outbound-api"}, "From": {"+493099999999"}, "To": {callee}}
	for i := 0; i+1 < len(more); i += 2 {
		form.Set(more[i], more[i+1])
	}
	wantStatus(t, c.says(t, asked.Get("StatusCallback"), form), 200)
}

func dialledID(t *testing.T, r *answer) (call, thread string) {
	t.Helper()
	wantStatus(t, r, 202)
	var a dialAnswer
	must(t, json.Unmarshal([]byte(r.body), &a))
	testkit.Equal(t, a.State, "queued", "state")
	return a.CallID, a.ThreadID
}

func TestDial(t *testing.T) {
	t.Parallel()
	c, f := setupDialer(t, phone.IgnoreMachine)
	const body = `{"line":"support","to":"` + callee + `","variables":{"name":"Ada"}}`
	key := header("Idempotency-Key", "k1")
	id, thread := dialledID(t, c.dial(t, body, key))
	asked := f.dialled(t, 1)
	testkit.Equal(t, asked.Get("To")+" "+asked.Get("From"), callee+" +493099999999", "numbers")
	for range 2 {
		again, _ := dialledID(t, c.dial(t, body, key))
		testkit.Equal(t, again, id, "the same key")
	}
	r := c.dial(t, strings.Replace(body, "Ada", "Eve", 1), key)
	if r.StatusCode != http.StatusConflict || !strings.Contains(r.body, "idempotency_conflict") {
		t.Errorf("another body: %d %s", r.StatusCode, r.body)
	}
	r = c.dial(t, body)
	if r.StatusCode != http.StatusConflict || !strings.Contains(r.body, "call_active") {
		t.Errorf("the number again: %d %s", r.StatusCode, r.body)
	}
	testkit.Equal(t, c.state(t, id), "queued", "state")
	c.status(t, asked, "CA-out-1", "initiated")
	c.status(t, asked, "CA-out-1", "ringing")
	testkit.Equal(t, c.state(t, id), "ringing", "state")

	form := url.Values{"CallSid": {"CA-out-1"}, "CallStatus": {"in-progress"}, "Direction": {"outbound-api"}}
	conn, status := c.open(t, streamPath(t, c.says(t, asked.Get("Url"), form)))
	testkit.Equal(t, status, 101, "status")
	put(t, conn, connected)
	put(t, conn, begins("CA-out-1", "MZ1"))
	c.joined(t, 1)
	testkit.Equal(t, c.state(t, id), "answered", "state")
	s := c.b.calls.started()[0]
	if s.ThreadID != thread || s.Variables["name"] != "Ada" || s.Phone.CallID != id || s.Phone.Called != callee {
		t.Errorf("started %+v", s)
	}
	c.hangUp(t, conn, "call-1")
	c.status(t, asked, "CA-out-1", "completed")
	f.dialled(t, 1)
}

// TestDialEnds has calls out that nobody answers.
func TestDialEnds(t *testing.T) {
	t.Parallel()
	c, f := setupDialer(t, phone.HangUpMachine)
	for i, end := range []struct{ status, want string }{
		{"busy", "ended busy"}, {"no-answer", "ended no_answer"}, {"failed", "ended failed"}, {"canceled", "ended no_answer"},
	} {
		id, _ := dialledID(t, c.dial(t, `{"line":"support","to":"`+callee+`"}`))
		asked := f.dialled(t, i+1)
		c.status(t, asked, fmt.Sprint("CA-out-", i+1), "ringing")
		c.status(t, asked, fmt.Sprint("CA-out-", i+1), end.status)
		testkit.Equal(t, c.state(t, id), end.want, "%s", end.status)
		c.status(t, asked, fmt.Sprint("CA-out-", i+1), "ringing") // late
		testkit.Equal(t, c.state(t, id), end.want, "%s", end.status)
	}
	id, _ := dialledID(t, c.dial(t, `{"line":"support","to":"`+callee+`"}`))
	asked := f.dialled(t, 5)
	testkit.Equal(t, asked.Get("MachineDetection")+asked.Get("AsyncAmd"), "Enabletrue", "detection")
	c.status(t, asked, "CA-out-5", "in-progress", "AnsweredBy", "machine_start")
	testkit.Equal(t, c.state(t, id), "ended machine", "a machine")
}

// TestDialRefused has what must not be dialled.
func TestDialRefused(t *testing.T) {
	t.Parallel()
	c, f := setupDialer(t, phone.IgnoreMachine)
	c.b.Phone.Lines["bare"] = func() phone.Line { l := c.b.Phone.Lines["support"]; l.Account = ""; return l }()
	for body, want := range map[string]string{
		`{"line":"support","to":"+15551234567"}`:                         "400 number_not_allowed",
		`{"line":"support","to":"493077777777"}`:                         "400 number_not_allowed",
		`{"line":"support","to":"+49 30 77777777"}`:                      "400 number_not_allowed",
		`{"line":"support","to":"+4930<b>"}`:                             "400 number_not_allowed",
		`{"line":"support","to":"sip:a@b"}`:                              "400 number_not_allowed",
		`{"line":"support","to":"+49307777777\n"}`:                       "400 number_not_allowed",
		`{"line":"support"}`:                                             "400 number_not_allowed",
		`{"line":"bare","to":"` + callee + `"}`:                          "400 number_not_allowed",
		`{"line":"none","to":"` + callee + `"}`:                          "404 line_not_found",
		`{"line":"desk","to":"` + callee + `"}`:                          "404 line_not_found", // bob's
		`{"line":"support","to":"` + callee + `","assistant_id":"none"}`: "404 assistant_not_found",
		`{"line":"support","to":"` + callee + `","thread_id":"none"}`:    "404 thread_not_found",
		`{"line":1}`: "400 ",
	} {
		r := c.dial(t, body)
		_, code, _ := strings.Cut(want, " ")
		if got := fmt.Sprint(r.StatusCode); got != want[:3] || !strings.Contains(r.body, code) {
			t.Errorf("%s: %d %s, want %s", body, r.StatusCode, r.body, want)
		}
	}
	id, _ := dialledID(t, c.dial(t, `{"line":"busy","to":"`+callee+`"}`))
	asked := f.dialled(t, 1)
	wantStatus(t, c.b.do(t, "GET", "/api/calls/"+id, "", as("bob-token-of-tests")), 404)
	form := url.Values{"CallSid": {"CA-out-1"}, "CallStatus": {"ringing"}}
	for _, address := range []string{
		strings.Replace(asked.Get("StatusCallback"), id, "none", 1),
		strings.Replace(asked.Get("StatusCallback"), "/busy/", "/support/", 1), // another line's
		strings.Replace(asked.Get("StatusCallback"), "/busy/", "/desk/", 1),    // another owner's
	} {
		wantStatus(t, c.says(t, address, form), 403)
	}
	wantStatus(t, c.b.do(t, "POST", strings.TrimPrefix(asked.Get("StatusCallback"), phoneURL), form.Encode(), formBody), 403)
	testkit.Equal(t, c.state(t, id), "queued", "state")
	for i := range 2 {
		dialledID(t, c.dial(t, fmt.Sprintf(`{"line":"busy","to":"+4930666666%d"}`, i)))
		f.dialled(t, i+2)
	}
	r := c.dial(t, `{"line":"busy","to":"+49306666669"}`)
	if r.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a full line: %d %s", r.StatusCode, r.body)
	}
	if !slices.Contains([]string{"queued", "ringing"}, c.state(t, id)) {
		t.Error("a call is gone")
	}
}
