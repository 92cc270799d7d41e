package ollama_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/chat/ollama"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, c ollama.Config) chat.Provider {
	t.Helper()
	p, err := ollama.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProvider(t *testing.T) {
	t.Parallel()
	chattest.Run(t, chattest.Wire{
		New: func(t *testing.T, baseURL string, client *http.Client) chat.Provider {
			return provider(t, ollama.Config{Host: baseURL, APIKey: chattest.Key, HTTPClient: client, NumCtx: 16384, KeepAlive: "10m"})
		},
		Label:     "Ollama",
		Path:      "/api/chat",
		KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Uncached: true,
		Answers:  []chattest.Answer{{Exchange: "hang_after_stop", Text: "ok", Stop: chat.StopEnd}},
		Without: map[string]string{
			"length_in_call": "calls come whole",
			"filter":         "there is no filter",
			"cut_after_stop": "the last line has it all",
		},
	})
}
