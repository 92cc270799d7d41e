package e2e

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// TestServe starts the program and stops it by a signal.
func TestServe(t *testing.T) {
	t.Parallel()
	s := launch(t, environment(t))
	for path, want := range map[string]string{
		"/": "<!doctype html>", "/healthz": `"ok"`, "/readyz": `"ok"`, "/api/config": `"upstream":"simulator","upstream_note":"No OPENAI_API_KEY is set`,
		"/api/threads": `{"threads":[],"next_cursor":null}`, "/api/tools": `"create_bar_chart"`,
		"/api/models": `"voice":"marin","transcription_model":"gpt-transcribe"},{"provider":"simulator",`, "/api/usage": `"usage":[]`, "/metrics": "voicebridge_calls_live 0", "/openapi.json": `"openapi":"3.1.0"`,
	} {
		if status, body := get(t, s.url+path); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: status %d: %.300s", path, status, body)
		}
	}
	testkit.Equal(t, s.terminate(), 0, "exit code: %s", s.stderr)
	if log := s.stderr.String(); !strings.Contains(log, "the upstream is the simulator") || !strings.Contains(log, "msg=stopping") {
		t.Errorf("log %s", log)
	}
}

// TestSimulate starts the upstream that runs here as a program.
func TestSimulate(t *testing.T) {
	t.Parallel()
	s := launch(t, nil, "simulate", "--listen", "127.0.0.1:0", "--refuse-status", "503", "--faulty-calls", "1", "--drop-after", "1m")
	if !strings.HasSuffix(s.url, "/v1") {
		t.Errorf("it printed %q", s.stdout.text.String())
	}
	for _, want := range []int{http.StatusServiceUnavailable, http.StatusBadRequest} { // of the first call, and then
		res, err := http.Post(s.url+"/realtime/calls", "application/sdp", strings.NewReader("no offer"))
		must(t, err)
		_ = res.Body.Close()
		testkit.Equal(t, res.StatusCode, want, "status")
	}
	if status, body := get(t, s.url+"/nothing"); status != 404 || !strings.Contains(body, "error") {
		t.Errorf("status %d: %s", status, body)
	}
	testkit.Equal(t, s.terminate(), 0, "exit code: %s", s.stderr)
}

// A running server holds its database and port; that is not a problem.
func TestDoctorBesideARunningServer(t *testing.T) {
	t.Parallel()
	environ := environment(t, "VOICEBRIDGE_UDP_PORT="+strconv.Itoa(freeUDPPort(t)))
	s := launch(t, environ)
	code, report, _ := runCommand(t, environ, "doctor", "--listen", strings.TrimPrefix(s.url, "http://"))
	testkit.Equal(t, code, 0, "exit code")
	for _, want := range []string{
		"ok: database: ", "which a running voicebridge uses, can be opened and has its tables", "ok: web address: a voicebridge is already running on ",
		"ok: media (UDP): port ", "by the running voicebridge",
	} {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in\n%s", want, report)
		}
	}
	if status, _ := get(t, s.url+"/readyz"); status != 200 {
		t.Error("the running server was disturbed")
	}
	testkit.Equal(t, s.terminate(), 0, "exit code: %s", s.stderr)
	// Doctor holds on to nothing: the next server gets the file and the port.
	if _, report, _ = runCommand(t, environ, "doctor"); !strings.Contains(report, "ok: database: ") || strings.Contains(report, "a voicebridge runs") {
		t.Errorf("afterwards:\n%s", report)
	}
	again := launch(t, environ)
	testkit.Equal(t, again.terminate(), 0, "exit code: %s", again.stderr)
}
