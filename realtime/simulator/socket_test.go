package simulator_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// socketBench runs a simulator, and returns how to open a socket with headers and subprotocols.
func socketBench(t *testing.T, cfg simulator.Config) (open func(query string, header http.Header, protocols ...string) (*websocket.Conn, int, error)) {
	t.Helper()
	sim, err := simulator.New(cfg)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- sim.Run(ctx) }()
	server := httptest.NewServer(sim)
	t.Cleanup(func() {
		stop()
		must(t, <-done)
		server.Close()
	})
	return func(query string, header http.Header, protocols ...string) (conn *websocket.Conn, status int, err error) {
		conn, res, err := websocket.Dial(t.Context(), server.URL+"/v1/realtime"+query, &websocket.DialOptions{ //nolint:bodyclose // of a socket
			HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, HTTPHeader: header, Subprotocols: protocols,
		})
		if err == nil {
			conn.SetReadLimit(-1)
			t.Cleanup(func() { _ = conn.CloseNow() })
		}
		if res != nil {
			status = res.StatusCode
		}
		return conn, status, err
	}
}

// nextOf reads until an event of a type comes.
func nextOf(t *testing.T, conn *websocket.Conn, kind string) realtime.Event {
	t.Helper()
	for {
		_, data, err := conn.Read(t.Context())
		must(t, err)
		if ev, err := realtime.Decode(data); err == nil && ev.Type == kind {
			return ev
		}
	}
}

func tell(t *testing.T, conn *websocket.Conn, event string) {
	t.Helper()
	must(t, conn.Write(t.Context(), websocket.MessageText, []byte(event)))
}

// TestSocketKeys opens sockets with and without a key, which browsers send in a subprotocol.
func TestSocketKeys(t *testing.T) {
	open := socketBench(t, simulator.Config{APIKey: "sk-1"})
	const model = "?model=gpt-realtime"
	for name, tt := range map[string]struct {
		query     string
		header    http.Header
		protocols []string
		status    int
	}{
		"header":        {model, http.Header{"Authorization": {"Bearer sk-1"}}, nil, 101},
		"subprotocol":   {model, nil, []string{"realtime", "openai-insecure-api-key.sk-1"}, 101},
		"wrong key":     {model, nil, []string{"realtime", "openai-insecure-api-key.sk-2"}, 401},
		"no key":        {model, nil, []string{"realtime"}, 401},
		"no model":      {"", http.Header{"Authorization": {"Bearer sk-1"}}, nil, 400},
		"unknown model": {"?model=other", http.Header{"Authorization": {"Bearer sk-1"}}, nil, 400},
	} {
		conn, status, err := open(tt.query, tt.header, tt.protocols...)
		if status != tt.status || (err == nil) != (tt.status == 101) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err == nil {
			if ev := nextOf(t, conn, realtime.TypeSessionCreated); len(tt.protocols) > 0 && conn.Subprotocol() != "realtime" || string(realtime.Member(ev.Session, "model")) != `"gpt-realtime"` {
				t.Errorf("%s: subprotocol %q, %s", name, conn.Subprotocol(), ev.Session)
			}
		}
	}
}

// TestSocketIsStrict sends what a session over WebSocket does not take, and what only such a session takes.
func TestSocketIsStrict(t *testing.T) {
	open := socketBench(t, simulator.Config{})
	conn, _, err := open("?model=gpt-realtime", nil)
	must(t, err)
	nextOf(t, conn, realtime.TypeSessionCreated)
	for _, tt := range []struct{ event, code, param string }{
		{`{"type":"output_audio_buffer.clear","event_id":"e"}`, "invalid_value", "type"},
		{`{"type":"input_audio_buffer.append","event_id":"e","audio":"not base64"}`, "invalid_value", "audio"},
		{`{"type":"input_audio_buffer.append","event_id":"e","audio":""}`, "invalid_value", "audio"},
		{`{"type":"input_audio_buffer.append","event_id":"e"}`, "invalid_value", "audio"},
		{`{"type":"input_audio_buffer.append","event_id":"e","audio":"` + strings.Repeat("AAAA", 15<<18+1) + `"}`, "invalid_value", "audio"},
		{`{"type":"input_audio_buffer.commit","event_id":"e"}`, "input_audio_buffer_commit_empty", ""},
		{`{"type":"session.update","event_id":"e","session":{"type":"realtime","audio":{"input":{"format":{"type":"audio/pcm","rate":16000}}}}}`, "integer_above_max_value", ""},
	} {
		tell(t, conn, tt.event)
		if e := nextOf(t, conn, realtime.TypeError).Error; e.EventID != "e" || tt.param != "" && (e.Code != tt.code || e.Param != tt.param) {
			t.Errorf("%.80s: %+v, want %s", tt.event, e, tt.code)
		}
	}
	// Push to talk, in µ-law: a second of audio can be committed.
	tell(t, conn, `{"type":"session.update","session":{"type":"realtime","audio":{"input":{"format":{"type":"audio/pcmu"},"turn_detection":null},"output":{"format":{"type":"audio/pcma"}}}}}`)
	nextOf(t, conn, realtime.TypeSessionUpdated)
	tell(t, conn, `{"type":"input_audio_buffer.append","audio":"`+base64.StdEncoding.EncodeToString(make([]byte, 8000))+`"}`)
	tell(t, conn, `{"type":"input_audio_buffer.commit"}`)
	nextOf(t, conn, realtime.TypeInputCommitted)
	tell(t, conn, `{"type":"response.create"}`)
	sound, err := base64.StdEncoding.DecodeString(nextOf(t, conn, realtime.TypeOutputAudioDelta).Delta)
	if err != nil || len(sound) == 0 || len(sound) > 1600 {
		t.Errorf("%d bytes of A-law in one event, %v", len(sound), err)
	}
	nextOf(t, conn, realtime.TypeResponseDone)
}
