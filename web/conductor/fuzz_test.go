package conductor

import (
	"testing"

	"github.com/coder/websocket"

	"voicebridge/web/input"
)

// FuzzEnvelope reads whatever an app may send.
func FuzzEnvelope(f *testing.F) {
	for _, seed := range []string{
		`{"id":"1","type":"transcript.final","sessionId":"s","payload":{"text":"hi"}}`,
		`{"type":"tool.result","payload":{"callId":"c","result":{"a":[1]},"error":null}}`,
		`{"type":"interrupt","payload":null}`, `{}`, `[]`, `{"type":7}`, `{"type":"transcript.final","payload":{"text":"\u0000\ud800"}}`, "\xff", `{"payload":`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := readEnvelope(websocket.MessageText, data)
		if err != nil {
			return
		}
		if in.Type == "" {
			t.Error("an envelope without a type is accepted")
		}
		var transcript textPayload
		_ = input.Part("payload", in.Payload, &transcript)
		_ = errorWords(in.Payload)
	})
}
