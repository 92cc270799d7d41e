package session

import (
	"testing"

	"voicebridge/toolkit"
)

// TestVoice names the operator's voice as the API takes it.
func TestVoice(t *testing.T) {
	t.Parallel()
	for voice, want := range map[string]string{"marin": `"marin"`, "voice_1a": `{"id":"voice_1a"}`} {
		o := (&update{first: true}).object(&Defaults{Voice: voice}, toolkit.NewRegistry())
		if got := string(o[setVoice]); got != want {
			t.Errorf("voice %s is sent as %s, want %s", voice, got, want)
		}
	}
}
