package e2e

import (
	"strings"
	"testing"

	"voicebridge/realtime"
)

// TestVoiceSettings checks how the operator's settings, in the environment of the program, reach the upstream.
func TestVoiceSettings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		environ, want []string
	}{
		"by default": {nil, []string{`"turn_detection":{"type":"server_vad"}`, `"transcription":{"model":"gpt-transcribe"}`}},
		"all": {[]string{
			`VOICEBRIDGE_REALTIME__TURN_DETECTION={"type":"semantic_vad","eagerness":"low"}`, "VOICEBRIDGE_REALTIME__NOISE_REDUCTION=near_field", "VOICEBRIDGE_REALTIME__LANGUAGE=de",
		}, []string{`"turn_detection":{"type":"semantic_vad","eagerness":"low"}`, `"noise_reduction":{"type":"near_field"}`, `"transcription":{"language":"de","model":"gpt-transcribe"}`}},
		"push to talk": {[]string{"VOICEBRIDGE_REALTIME__TURN_DETECTION__TYPE=none"}, []string{`"turn_detection":null`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{environ: tt.environ})
			c := r.dial(t, request{})
			c.next("bridge.ready")
			update, err := c.session.WaitFor(t.Context(), func(e realtime.Event) bool { return e.Type == realtime.TypeSessionUpdate })
			must(t, err)
			for _, want := range tt.want {
				if !strings.Contains(string(update.Raw), want) {
					t.Errorf("no %s in %s", want, update.Raw)
				}
			}
			r.over(c, "hangup")
		})
	}
}
