package session

import (
	"testing"

	"voicebridge/internal/testkit"
)

// TestVoice names the operator's voice as the API takes it.
func TestVoice(t *testing.T) {
	t.Parallel()
	for voice, want := range map[string]string{"marin": `"marin"`, "voice_1a": `{"id":"voice_1a"}`} {
		d := Defaults{Voice: voice}
		testkit.Equal(t, string(d.settings()[setVoice]), want, "voice %s is sent", voice)
	}
}
