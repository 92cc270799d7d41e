package realtime_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/realtimetest"
)

// client talks to a replayed server.
func client(t *testing.T, exchange string, c realtime.Client) *realtime.Client {
	t.Helper()
	transport := &http.Transport{DisableKeepAlives: true}
	c.CallsURL, c.HTTP = realtimetest.Replay(t, exchange), &http.Client{Transport: transport}
	return &c
}

// TestOtherServers creates calls at Azure and LocalAI as their documentation describes.
func TestOtherServers(t *testing.T) {
	t.Parallel()
	azure := realtime.Client{APIKey: realtimetest.Key, KeyHeader: "api-key"}
	localAI := realtime.Client{JSON: true}
	for exchange, c := range map[string]struct {
		client  realtime.Client
		session string
		id      string
		want    realtime.APIError
	}{
		"azure_created":       {client: azure, session: `{"type":"realtime","model":"my-deployment"}`, id: "rtc_u0_Azure01"},
		"azure_wrong_key":     {client: azure, session: `{"type":"realtime","model":"my-deployment"}`, want: realtime.APIError{Status: 401, Code: "401", Message: "Access denied due to"}},
		"azure_no_deployment": {client: azure, session: `{"type":"realtime","model":"my-deployment"}`, want: realtime.APIError{Status: 404, Code: "DeploymentNotFound", Message: "The API deployment"}},
		"azure_rate_limit":    {client: azure, session: `{"type":"realtime","model":"my-deployment"}`, want: realtime.APIError{Status: 429, Code: "429", Message: "Requests to", RetryAfter: 12 * time.Second}},
		"localai_created":     {client: localAI, session: `{"type":"realtime","model":"gpt-realtime","audio":{"output":{"voice":"x"}}}`},
		"localai_bad_offer":   {client: localAI, session: `{"model":"gpt-realtime"}`, want: realtime.APIError{Status: 400, Message: "invalid SDP offer"}},
		"localai_no_opus":     {client: localAI, session: `{"model":"gpt-realtime"}`, want: realtime.APIError{Status: 500, Message: "opus backend not available"}},
	} {
		t.Run(exchange, func(t *testing.T) {
			t.Parallel()
			call, err := client(t, exchange, c.client).CreateCall(t.Context(), "v=0", []byte(c.session))
			if c.want.Status == 0 {
				if err != nil || call.ID != c.id || !strings.HasPrefix(call.Answer, "v=0\r\n") && !strings.HasPrefix(call.Answer, "v=0\n") || !strings.Contains(call.Answer, "m=audio") {
					t.Errorf("CreateCall() = %+v, %v", call, err)
				}
				return
			}
			e, ok := errors.AsType[*realtime.APIError](err)
			if !ok || e.Status != c.want.Status || e.Code != c.want.Code || e.RetryAfter != c.want.RetryAfter || !strings.HasPrefix(e.Message, c.want.Message) {
				t.Errorf("CreateCall() = %+v, want %+v", err, c.want)
			}
		})
	}
	t.Run("azure_hangup", func(t *testing.T) {
		t.Parallel()
		if err := client(t, "azure_hangup", azure).Hangup(t.Context(), "rtc_u0_Azure01"); err != nil {
			t.Errorf("Hangup() = %v", err)
		}
	})
}
