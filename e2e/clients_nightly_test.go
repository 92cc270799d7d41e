//go:build nightly

package e2e

import (
	"net/url"
	"strings"
	"testing"
)

// TestAISDKBetween talks to the server with the generations of the AI SDK between the first and the newest.
func TestAISDKBetween(t *testing.T) {
	t.Parallel()
	testAISDK(t, "5", "6")
}

// TestSDKBetween calls with a version of OpenAI's client between the oldest and the newest.
func TestSDKBetween(t *testing.T) {
	t.Parallel()
	testSDK(t, "v0.11")
}

// TestSocketClientsMore calls over WebSocket with OpenAI's package for Go, which takes minutes to compile, and with a
// version of its Agents SDK between the oldest and the newest.
func TestSocketClientsMore(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"openai-go", "v0.11"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			testSocketClient(t, client)
		})
	}
}

// TestUseRealtimeWalk has the AI SDK's hook make the call of the other clients.
func TestUseRealtimeWalk(t *testing.T) {
	t.Parallel()
	site := hookSite(t, nil)
	r := newRig(t, rigConfig{environ: []string{"VOICEBRIDGE_ALLOWED_ORIGINS=" + site.URL}})
	p := openBrowser(t)
	p.visit(t, site.URL+"/?socket="+url.QueryEscape(strings.Replace(r.url, "http", "ws", 1)+"/v1/realtime?model=gpt-realtime"))
	p.until(t, "the page", "window.client !== undefined")
	seen := eval[clientWalk](t, p, "client.walk('/voice.wav')")
	seen.check(t)
}
