package simulator_test

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// control sends a control request and returns the status and the body.
func (b *bench) control(method, path, body string) (int, string) {
	b.t.Helper()
	r, err := http.NewRequestWithContext(b.ctx, method, b.http.URL+path, strings.NewReader(body))
	must(b.t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	must(b.t, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(b.t, err)
	return res.StatusCode, strings.TrimSpace(string(text))
}

func TestControlFaults(t *testing.T) {
	b := newBench(t, simulator.Config{Control: true, Faults: simulator.Faults{ExpireAfter: simulator.Duration(90 * time.Minute)}})
	for _, step := range []struct{ method, path, body, want string }{
		{"GET", "/simulator/faults", "", `{"faults":{"expire_after":"1h30m0s"},"calls":null}`},
		{"PUT", "/simulator/faults?calls=2", `{"refuse_status":503,"answer_delay":"5ms","transcripts":"late"}`,
			`{"faults":{"refuse_status":503,"answer_delay":"5ms","transcripts":"late"},"calls":2}`},
	} {
		if status, got := b.control(step.method, step.path, step.body); status != http.StatusOK || got != step.want {
			t.Errorf("%s %s: %d %s, want %s", step.method, step.path, status, got, step.want)
		}
	}
	for range 2 {
		if status, _ := b.control("POST", "/v1/realtime/calls", ""); status != http.StatusServiceUnavailable {
			t.Errorf("a call of the first two gets %d", status)
		}
	}
	b.dial(sessionAudio)
	if _, got := b.control("DELETE", "/simulator/faults", ""); got != `{"faults":{},"calls":null}` {
		t.Errorf("after DELETE: %s", got)
	}
}

func TestControlHostile(t *testing.T) {
	b := newBench(t, simulator.Config{Control: true})
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{"PUT", "/simulator/faults", ``, 400},
		{"PUT", "/simulator/faults", `null and more`, 400},
		{"PUT", "/simulator/faults", `[]`, 400},
		{"PUT", "/simulator/faults", `{"refuse_status":200}`, 400},
		{"PUT", "/simulator/faults", `{"refuse_status":1e99}`, 400},
		{"PUT", "/simulator/faults", `{"transcripts":"sung"}`, 400},
		{"PUT", "/simulator/faults", `{"drop_after":"-3s"}`, 400},
		{"PUT", "/simulator/faults", `{"drop_after":3}`, 400},
		{"PUT", "/simulator/faults", `{"drop_after":"soon"}`, 400},
		{"PUT", "/simulator/faults", `{"fail_responses":-1}`, 400},
		{"PUT", "/simulator/faults", `{"drop_afterwards":"1s"}`, 400},
		{"PUT", "/simulator/faults", `{"refuse_body":"` + strings.Repeat("x", 70<<10) + `"}`, 400},
		{"PUT", "/simulator/faults?calls=0", `{}`, 400},
		{"PUT", "/simulator/faults?calls=many", `{}`, 400},
		{"POST", "/simulator/faults", `{}`, 405},
		{"POST", "/simulator/calls/rtc_nobody/drop", ``, 404},
		{"POST", "/simulator/calls/rtc_nobody/explode", ``, 404},
		{"POST", "/simulator/calls/rtc_nobody/inject", `{}`, 404},
		{"POST", "/simulator/calls/all/inject", ``, 400},
		{"POST", "/simulator/calls/all/inject", strings.Repeat("x", 70<<10), 400},
		{"POST", "/simulator/calls/all/drop", ``, 200},
		{"GET", "/simulator/", ``, 404},
	} {
		if status, body := b.control(tt.method, tt.path, tt.body); status != tt.want {
			t.Errorf("%s %s %.60s: %d %s, want %d", tt.method, tt.path, tt.body, status, body, tt.want)
		}
	}
	if _, got := b.control("GET", "/simulator/faults", ""); got != `{"faults":{},"calls":null}` {
		t.Errorf("bad requests have changed the faults: %s", got)
	}
	cross, err := http.NewRequestWithContext(b.ctx, http.MethodPost, b.http.URL+"/simulator/calls/all/drop", nil)
	must(t, err)
	cross.Header.Set("Sec-Fetch-Site", "cross-site")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(cross)
	must(t, err)
	res.Body.Close()
	testkit.Equal(t, res.StatusCode, http.StatusForbidden, "a page of another origin")
}

// TestControlOff serves no control routes unless they are enabled, and with a key only to
// clients that have it.
func TestControlOff(t *testing.T) {
	b := newBench(t, simulator.Config{})
	if status, _ := b.control("GET", "/simulator/faults", ""); status != http.StatusNotFound {
		t.Errorf("without Control: %d", status)
	}
	t.Run("key", func(t *testing.T) {
		b := newBench(t, simulator.Config{Control: true, APIKey: "secret"})
		if status, _ := b.control("GET", "/simulator/faults", ""); status != http.StatusUnauthorized {
			t.Errorf("without the key: %d", status)
		}
	})
}

func TestControlCalls(t *testing.T) {
	b := newBench(t, simulator.Config{Control: true})
	c, other := b.dial(sessionAudio), b.dial(sessionAudio)
	do := func(action, body string) {
		t.Helper()
		if status, got := b.control("POST", "/simulator/calls/"+c.ses.ID()+"/"+action, body); status != 200 || got != `{"calls":1}` {
			t.Errorf("%s: %d %s", action, status, got)
		}
	}
	do("speak", "")
	c.next(realtime.TypeInputSpeechStarted)
	c.next(realtime.TypeResponseDone)
	do("inject", `{"type":"hello.there"}`)
	c.next("hello.there")
	do("silence", "")
	do("inject", `{"type":"hello.again"}`)
	do("expire", "")
	testkit.Take(t, "the end of c.ses", c.ses.Done())
	testkit.Take(t, "the end of c.peer", c.peer.Done())
	for _, kind := range c.types() {
		if kind == "hello.again" {
			t.Error("a silent session has spoken")
		}
	}
	if status, got := b.control("POST", "/simulator/calls/all/drop", ""); status != 200 || got != `{"calls":1}` {
		t.Errorf("drop of all: %d %s", status, got)
	}
	testkit.Take(t, "the end of other.ses", other.ses.Done())
	_, got := b.control("GET", "/simulator/calls", "")
	var calls struct {
		Calls []struct {
			ID, Ended string
			Seconds   float64
			Received  int `json:"events_received"`
		}
	}
	if err := json.Unmarshal([]byte(got), &calls); err != nil || len(calls.Calls) != 2 {
		t.Fatalf("calls %s: %v", got, err)
	}
	if first := calls.Calls[0]; first.ID != c.ses.ID() || first.Ended != simulator.ErrExpired.Error() || first.Seconds <= 0 {
		t.Errorf("first call %+v", first)
	}
	if second := calls.Calls[1]; second.Ended != simulator.ErrDropped.Error() {
		t.Errorf("second call %+v", second)
	}
}

// TestSilence sends nothing after the given time, while the connection stays up.
func TestSilence(t *testing.T) {
	b := newBench(t, simulator.Config{Control: true, Faults: simulator.Faults{SilenceAfter: simulator.Duration(time.Nanosecond)}})
	c := b.dial(sessionAudio)
	c.say("hello")
	if _, err := c.ses.WaitFor(b.ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeResponseCreate }); err != nil {
		t.Fatal(err)
	}
	if types := c.types(); len(types) != 1 {
		t.Errorf("a silent session sends %v", types)
	}
}

// TestExpiresAt announces the length of sessions in advance and keeps to it.
func TestExpiresAt(t *testing.T) {
	b := newBench(t, simulator.Config{MaxDuration: 500 * time.Millisecond})
	before := time.Now()
	c := b.dial(sessionAudio)
	var created struct {
		Session struct {
			ExpiresAt int64 `json:"expires_at"`
		}
	}
	must(t, json.Unmarshal(c.all()[0].Raw, &created))
	if at := created.Session.ExpiresAt; at < before.Unix() || at > time.Now().Unix()+1 {
		t.Errorf("expires_at is %d, now is %d", at, time.Now().Unix())
	}
	if e := c.next(realtime.TypeError); e.Error.Code != "session_expired" {
		t.Errorf("error %+v", e.Error)
	}
	testkit.Take(t, "the end of c.peer", c.peer.Done())
}

// TestRemembers repeats words of the conversation when asked for them.
func TestRemembers(t *testing.T) {
	b := newBench(t, simulator.Config{})
	c := b.dial(sessionAudio)
	answer := func(question string) string {
		t.Helper()
		c.say(question)
		done := c.next(realtime.TypeResponseDone)
		return response(t, done).Output[0].Text()
	}
	if got := answer("repeat everything that I said"); !strings.Contains(got, "nothing yet") {
		t.Errorf("at first: %q", got)
	}
	answer("the word is heliotrope")
	if got := answer("what did I say before?"); !strings.Contains(got, "heliotrope") {
		t.Errorf("before: %q", got)
	}
	if got := answer("repeat everything that I said"); !strings.Contains(got, "heliotrope / what did I say before?") {
		t.Errorf("everything: %q", got)
	}
}

// TestFaultsAreDocumented finds each fault, by its flag, in docs/simulator.md.
func TestFaultsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/simulator.md")
	must(t, err)
	faults := reflect.TypeFor[simulator.Faults]()
	for field := range faults.Fields() {
		if field.Tag.Get("kong") == "-" {
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if flag := "`--" + strings.ReplaceAll(name, "_", "-") + "`"; name == "" || !strings.Contains(string(text), "| "+flag+" |") {
			t.Errorf("%s is not in the table: want %s", field.Name, flag)
		}
		if field.Tag.Get("help") == "" {
			t.Errorf("%s has no help", field.Name)
		}
	}
}
