package bridge_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
	"voicebridge/realtime/simulator"
)

// TestSafetyIdentifier checks that the upstream can tell owners apart, and does not learn who they
// are.
func TestSafetyIdentifier(t *testing.T) {
	t.Parallel()
	identifiers := make(chan string, 1)
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		identifiers <- r.Header.Get("OpenAI-Safety-Identifier")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(ts.Close)
	api, err := rtc.New(rtc.Config{Loopback: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = api.Close() })
	upstream := bridge.NewRealtime("openai", api, &realtime.Client{BaseURL: ts.URL, HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}})
	ask := func(owner string) string {
		t.Helper()
		if _, err := upstream.Dial(t.Context(), bridge.Dial{Owner: owner}); err == nil {
			t.Fatal("Dial() = nil")
		}
		return <-identifiers
	}
	ada, again, bert := ask("ada@example.org"), ask("ada@example.org"), ask("bert@example.org")
	if ada == "" || len(ada) > 64 || ada != again || ada == bert || strings.Contains(ada, "ada") {
		t.Errorf("the upstream received %q, %q and %q", ada, again, bert)
	}
	if nobody := ask(""); nobody != "" {
		t.Errorf("for nobody the upstream received %q", nobody)
	}
}

// TestUpstreamAsksToWait passes on how long the upstream asks to wait.
func TestUpstreamAsksToWait(t *testing.T) {
	t.Parallel()
	b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{Faults: simulator.Faults{
		RefuseStatus: http.StatusServiceUnavailable, RefuseHeader: http.Header{"Retry-After": {"7"}},
	}}})
	_, err := b.try(bridge.Start{})
	if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != bridge.CodeUpstreamRefused || e.RetryAfter != 7*time.Second {
		t.Errorf("Start() = %#v", err)
	}
}
