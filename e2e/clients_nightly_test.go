//go:build nightly

package e2e

import "testing"

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

// TestSocketClientsMore calls over WebSocket with OpenAI's package for Go, which takes minutes to compile, and with older
// versions of its Agents SDK.
func TestSocketClientsMore(t *testing.T) {
	t.Parallel()
	for _, client := range []string{"openai-go", "v0.11", "v0.4"} {
		t.Run(client, func(t *testing.T) {
			t.Parallel()
			testSocketClient(t, client)
		})
	}
}
