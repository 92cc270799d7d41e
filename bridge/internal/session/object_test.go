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

// TestSettings sends what the operator has chosen, and no more.
func TestSettings(t *testing.T) {
	t.Parallel()
	d := Defaults{NoiseReduction: "near_field", Speed: 1.5, TranscriptionModel: "gpt-transcribe", Language: "de", TurnDetection: TurnDetection{Type: "none"}}
	for d, want := range map[*Defaults][4]string{
		{}: {"", "", `{"model":""}`, `{"type":"server_vad"}`},
		&d: {`{"type":"near_field"}`, "1.5", `{"language":"de","model":"gpt-transcribe"}`, "null"},
	} {
		got := d.settings()
		testkit.Equal(t, [4]string{string(got[setNoise]), string(got[setSpeed]), string(got[setTranscription]), string(got[setTurns])}, want, "of %+v", d)
	}
}

// TestKeyterms tells the model that transcribes of words, in its own way, unless the client has hints of that kind.
func TestKeyterms(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ model, client, want string }{
		{"gpt-transcribe", `{}`, `{"keywords":["Aoife","Xarelto"],"model":"gpt-transcribe"}`},
		{"whisper-1", `{}`, `{"model":"whisper-1","prompt":"Aoife, Xarelto"}`},
		{"gpt-realtime-whisper", `{}`, `{"model":"gpt-realtime-whisper"}`},
		{"gpt-transcribe", `{"model":"whisper-1"}`, `{"model":"whisper-1","prompt":"Aoife, Xarelto"}`},
		{"gpt-transcribe", `{"keywords":["Ann"],"language":"de"}`, `{"keywords":["Ann"],"language":"de","model":"gpt-transcribe"}`},
		{"whisper-1", `{"prompt":"Of ships."}`, `{"model":"whisper-1","prompt":"Of ships."}`},
		{"gpt-transcribe", `{"model":7}`, `{"model":7,"prompt":"Aoife, Xarelto"}`},
		{"gpt-transcribe", `[]`, `[]`},
	} {
		d := Defaults{TranscriptionModel: c.model, Keyterms: []string{"Aoife", "Xarelto"}}
		testkit.Equal(t, string(d.transcription([]byte(c.client))), c.want, "%s is told, where the client wants %s", c.model, c.client)
	}
	d := Defaults{TranscriptionModel: "gpt-transcribe"}
	testkit.Equal(t, string(d.transcription([]byte(`{}`))), `{"model":"gpt-transcribe"}`, "without terms")
}
