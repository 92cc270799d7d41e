package session

import "testing"

// TestVoice names the operator's voice as the API takes it.
func TestVoice(t *testing.T) {
	t.Parallel()
	for voice, want := range map[string]string{"marin": `"marin"`, "voice_1a": `{"id":"voice_1a"}`} {
		d := Defaults{Voice: voice}
		if got := string(d.settings()[setVoice]); got != want {
			t.Errorf("voice %s is sent as %s, want %s", voice, got, want)
		}
	}
}
