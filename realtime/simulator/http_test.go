package simulator_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
)

// post sends a request and returns the status, the error's code and the body.
func (b *bench) post(path, contentType, token, body string) (int, string, []byte) {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.ctx, http.MethodPost, b.http.URL+path, strings.NewReader(body))
	must(b.t, err)
	req.Header.Set("Content-Type", contentType)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := b.client().HTTP.Do(req)
	must(b.t, err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	must(b.t, err)
	var w struct {
		Error realtime.Error `json:"error"`
	}
	if res.StatusCode >= 400 {
		if err := json.Unmarshal(raw, &w); err != nil || w.Error.Type == "" || w.Error.Message == "" {
			b.t.Errorf("%s: body %q is no error", path, raw)
		}
	}
	return res.StatusCode, w.Error.Code, raw
}

func TestHostileHTTP(t *testing.T) {
	b := newBench(t, simulator.Config{APIKey: "sk-test"})
	form := func(sdp, session string) (string, string) {
		var buf bytes.Buffer
		buf.WriteString("--B\r\nContent-Disposition: form-data; name=\"sdp\"\r\n\r\n" + sdp)
		if session != "" {
			buf.WriteString("\r\n--B\r\nContent-Disposition: form-data; name=\"session\"\r\n\r\n" + session)
		}
		buf.WriteString("\r\n--B--\r\n")
		return "multipart/form-data; boundary=B", buf.String()
	}
	for name, tt := range map[string]struct {
		path, token, sdp, session, contentType, body string
		status                                       int
		code                                         string
	}{
		"no key":          {path: "/v1/realtime/calls", status: 401},
		"wrong key":       {path: "/v1/realtime/calls", token: "sk-other", status: 401, code: "invalid_api_key"},
		"a secret":        {path: "/v1/realtime/calls", token: "ek_none", status: 401, code: "invalid_api_key"},
		"bad SDP":         {path: "/v1/realtime/calls", token: "sk-test", sdp: "hello", session: sessionAudio, status: 400, code: "invalid_offer"},
		"no SDP":          {path: "/v1/realtime/calls", token: "sk-test", sdp: "", session: sessionAudio, status: 400, code: "invalid_request"},
		"session no JSON": {path: "/v1/realtime/calls", token: "sk-test", sdp: "v=0", session: "[1]", status: 400, code: "invalid_request"},
		"unknown model":   {path: "/v1/realtime/calls", token: "sk-test", sdp: "v=0", session: `{"type":"realtime","model":"gpt-9"}`, status: 400, code: "model_not_found"},
		"no model":        {path: "/v1/realtime/calls", token: "sk-test", sdp: "v=0", session: `{"type":"realtime"}`, status: 400, code: "missing_required_parameter"},
		"no session type": {path: "/v1/realtime/calls", token: "sk-test", sdp: "v=0", session: `{"model":"gpt-realtime"}`, status: 400, code: "missing_required_parameter"},
		"unknown field":   {path: "/v1/realtime/calls", token: "sk-test", sdp: "v=0", session: `{"type":"realtime","model":"gpt-realtime","temperature":1}`, status: 400, code: "unknown_parameter"},
		"both modalities": {path: "/v1/realtime/calls", token: "sk-test", sdp: "v=0", session: `{"type":"realtime","model":"gpt-realtime","output_modalities":["text","audio"]}`, status: 400, code: "invalid_value"},
		"JSON":            {path: "/v1/realtime/calls", token: "sk-test", contentType: "application/json", body: `{}`, status: 400, code: "invalid_request"},
		"no content type": {path: "/v1/realtime/calls", token: "sk-test", contentType: ";", body: `{}`, status: 400, code: "invalid_request"},
		"broken form":     {path: "/v1/realtime/calls", token: "sk-test", contentType: "multipart/form-data; boundary=B", body: "--B\r\n", status: 400, code: "invalid_request"},
		"2 MB":            {path: "/v1/realtime/calls", token: "sk-test", contentType: "application/sdp", body: strings.Repeat("x", 2<<20), status: 400, code: "invalid_request"},
		"unknown hangup":  {path: "/v1/realtime/calls/rtc_none/hangup", token: "sk-test", status: 404, code: "call_id_not_found"},
		"hangup no key":   {path: "/v1/realtime/calls/rtc_none/hangup", status: 401},
		"unknown path":    {path: "/v1/realtime/sessions", token: "sk-test", status: 404},
	} {
		contentType, body := tt.contentType, tt.body
		if contentType == "" {
			contentType, body = form(tt.sdp, tt.session)
		}
		status, code, _ := b.post(tt.path, contentType, tt.token, body)
		if status != tt.status || code != tt.code {
			t.Errorf("%s: %d %s, want %d %s", name, status, code, tt.status, tt.code)
		}
	}
	testkit.Equal(t, len(b.srv.Sessions()), 0, "sessions")
}

// TestPagesOfOtherOrigins lets pages call, with a key.
func TestPagesOfOtherOrigins(t *testing.T) {
	b := newBench(t, simulator.Config{APIKey: "sk-test"})
	for _, tt := range []struct {
		method, path  string
		status        int
		origin, takes string
	}{
		{http.MethodOptions, "/v1/realtime/calls", http.StatusNoContent, "*", "authorization,content-type"},
		{http.MethodPost, "/v1/realtime/calls", http.StatusUnauthorized, "*", ""},
	} {
		req, err := http.NewRequestWithContext(b.ctx, tt.method, b.http.URL+tt.path, nil)
		must(t, err)
		req.Header.Set("Origin", "https://app.example.org")
		req.Header.Set("Access-Control-Request-Headers", "authorization,content-type")
		res, err := b.client().HTTP.Do(req)
		must(t, err)
		_ = res.Body.Close()
		origin, takes := res.Header.Get("Access-Control-Allow-Origin"), res.Header.Get("Access-Control-Allow-Headers")
		if res.StatusCode != tt.status || origin != tt.origin || takes != tt.takes {
			t.Errorf("%s %s: %d, origin %q, headers %q", tt.method, tt.path, res.StatusCode, origin, takes)
		}
		if exposed := res.Header.Get("Access-Control-Expose-Headers"); strings.Contains(exposed, "Location") != (origin == "*") {
			t.Errorf("%s %s exposes %q", tt.method, tt.path, exposed)
		}
	}
}

// TestRawSDP makes a call without a session of its own.
func TestRawSDP(t *testing.T) {
	b := newBench(t, simulator.Config{APIKey: "sk-test"})
	opened := make(chan realtime.Event, 1)
	peer, offer, err := b.rtc.Offer(b.ctx, media.Handlers{Message: func(data []byte) {
		if e, err := realtime.Decode(data); err == nil {
			select {
			case opened <- e:
			default:
			}
		}
	}})
	must(t, err)
	status, _, answer := b.post("/v1/realtime/calls", "application/sdp", "sk-test", offer)
	if status != http.StatusCreated {
		t.Fatalf("%d %s", status, answer)
	}
	must(t, peer.Accept(b.ctx, string(answer)))
	select {
	case e := <-opened:
		if e.Type != realtime.TypeSessionCreated || !strings.Contains(string(e.Session), `"model":"gpt-realtime-2.1"`) {
			t.Errorf("first event is %s", e.Raw)
		}
	case <-b.ctx.Done():
		t.Fatal("no event")
	}
}

func TestSessionLimit(t *testing.T) {
	b := newBench(t, simulator.Config{MaxSessions: 1})
	c := b.dial(sessionAudio)
	_, offer, err := b.rtc.Offer(b.ctx, media.Handlers{})
	must(t, err)
	_, err = b.client().CreateCall(b.ctx, offer, []byte(sessionAudio))
	var api *realtime.APIError
	if !errors.As(err, &api) || api.Status != http.StatusTooManyRequests || api.RetryAfter == 0 {
		t.Errorf("error is %v", err)
	}
	c.say("hello") // the first one is not disturbed
	c.next(realtime.TypeResponseDone)
}

func TestConfigErrors(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]simulator.Config{
		"negative calls": {FaultyCalls: -1},
		"negative time":  {MaxDuration: -1},
		"bad fault":      {Faults: simulator.Faults{Transcripts: "odd"}},
	} {
		if _, err := simulator.New(cfg); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
