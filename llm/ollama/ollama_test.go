package ollama_test

import (
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/llm/llmtest"
	"voicebridge/llm/ollama"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func provider(t *testing.T, c ollama.Config) llm.Provider {
	t.Helper()
	p, err := ollama.New(c)
	testkit.Must(t, err)
	return p
}

func TestProvider(t *testing.T) {
	t.Parallel()
	llmtest.Run(t, llmtest.Wire{
		New: func(t *testing.T, baseURL string, client *http.Client) llm.Provider {
			return provider(t, ollama.Config{Host: baseURL, APIKey: llmtest.Key, HTTPClient: client, NumCtx: 16384})
		},
		Label: "Ollama", Named: true,
		Path:      "/api/chat",
		KeyHeader: "Authorization", KeyPrefix: "Bearer ",
		Uncached: true,
		Answers: []llmtest.Answer{
			{Exchange: "hang_after_stop", Text: "ok", Stop: llm.StopEnd},
			{Exchange: "tagged_thoughts", Thinks: true, Text: "ok", Stop: llm.StopEnd},
			{Exchange: "half_a_tag", Text: "<thi", Stop: llm.StopEnd},
			{Exchange: "other_arguments", Calls: llmtest.TwoCalls(), Stop: llm.StopToolCalls},
		},
		Without: map[string]string{
			"length_in_call":    "calls come whole",
			"filter":            "there is no filter",
			"cut_after_stop":    "the last line has it all",
			"http_400_too_long": "there are no codes",
			"http_429_quota":    "there are no codes",
			"stream_error":      "there are no codes",
		},
	})
}
