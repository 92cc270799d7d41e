package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/llm/anthropic"
	"voicebridge/llm/google"
	"voicebridge/llm/ollama"
)

// question is a request that shows, without an answer of a model, whether a provider accepts the key and
// has the model.
type question struct {
	// base is the provider's address, and setting the variable of it.
	base, setting string
	path          string // below base
	variable      string // of the key
	header        http.Header
	// refused is the status, besides 401 and 403, of a wrong key; 0 if there is none.
	refused int
	// offered reports whether the body of a successful answer has the model; nil means that every such
	// answer has it.
	offered func(body []byte, model string) bool
	// model is what is asked for, and choice the variable that chooses another.
	model, choice string
}

// ofOpenAI is the question for OpenAI and compatible servers. Source:
// https://developers.openai.com/api/reference/models
func ofOpenAI(c *config.Config) question {
	return question{
		base: strings.TrimSuffix(c.OpenAIBaseURL, "/"), setting: "OPENAI_BASE_URL", path: "/models",
		variable: "OPENAI_API_KEY", header: withKey("Authorization", c.Secrets.OpenAIKey), offered: openAIHas,
	}
}

// providers are the questions for all providers.
var providers = map[string]func(*config.Config) question{
	config.ProviderOpenAI: ofOpenAI,
	// Source: https://docs.claude.com/en/api/models
	config.ProviderAnthropic: func(c *config.Config) question {
		header := withKey("X-Api-Key", c.Secrets.AnthropicKey)
		header.Set("Anthropic-Version", "2023-06-01")
		return question{
			base:     strings.TrimSuffix(strings.TrimRight(cmp.Or(c.AnthropicBaseURL, anthropic.BaseURL), "/"), "/v1"),
			setting:  "ANTHROPIC_BASE_URL",
			path:     "/v1/models/" + url.PathEscape(c.TextModel(config.ProviderAnthropic)),
			variable: "ANTHROPIC_API_KEY", header: header,
		}
	},
	// Source: https://ai.google.dev/api/models
	config.ProviderGoogle: func(c *config.Config) question {
		kind, name, named := strings.Cut(c.TextModel(config.ProviderGoogle), "/")
		if !named {
			kind, name = "models", kind
		}
		return question{
			base:     strings.TrimSuffix(strings.TrimRight(cmp.Or(c.GeminiBaseURL, google.BaseURL), "/"), "/v1beta"),
			setting:  "GEMINI_BASE_URL",
			path:     "/v1beta/" + kind + "/" + url.PathEscape(name),
			variable: "GEMINI_API_KEY", header: withKey("X-Goog-Api-Key", c.Secrets.GeminiKey),
			refused: http.StatusBadRequest,
		}
	},
	// Source: https://docs.ollama.com/api/tags
	config.ProviderOllama: func(c *config.Config) question {
		base, _ := ollama.Address(c.OllamaHost) // checked with the settings
		return question{
			base: base, setting: "OLLAMA_HOST", path: "/api/tags", variable: "OLLAMA_API_KEY",
			header: withKey("Authorization", c.Secrets.OllamaKey), offered: ollamaHas,
		}
	},
}

// openAIHas reports whether a list of models has one. An empty list says nothing.
func openAIHas(body []byte, model string) bool {
	var list struct{ Data []struct{ ID string } }
	return json.Unmarshal(body, &list) == nil &&
		(len(list.Data) == 0 || slices.Contains(list.Data, struct{ ID string }{model}))
}

// ollamaHas reports whether a list of models has one; a name without a tag means the tag latest.
func ollamaHas(body []byte, model string) bool {
	var list struct {
		Models []struct{ Name string }
	}
	if json.Unmarshal(body, &list) != nil {
		return false
	}
	if !strings.Contains(model, ":") {
		model += ":latest"
	}
	return slices.Contains(list.Models, struct{ Name string }{model})
}

// provider reports whether a provider of models answers, accepts the key and has the model.
func (d *doctor) provider(ctx context.Context, about string, q question) {
	status, body, err := get(ctx, q.base+q.path, q.header)
	if u, err := url.Parse(q.base); err == nil {
		q.base = u.Redacted()
	}
	switch {
	case err != nil:
		d.say(problem, about, "%s does not answer: is it reachable, and is %s right? (%v)", q.base, q.setting, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == q.refused:
		d.say(problem, about, "%s refuses the key (%d): is %s set, complete, and still valid?", q.base, status, q.variable)
	case status == http.StatusTooManyRequests:
		d.say(warning, about, "%s answers that the key's limit or credit is used up (%d)", q.base, status)
	case status == http.StatusOK && !json.Valid(body):
		d.say(problem, about, "%s answers with something other than JSON: is %s right?", q.base, q.setting)
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed,
		status == http.StatusOK && q.offered != nil && !q.offered(body, q.model):
		d.say(warning, about,
			"%s answers, but does not list the model %s: if no answers come, choose another with %s, or get this one",
			q.base, q.model, q.choice)
	case status != http.StatusOK:
		d.say(problem, about, "%s answers %d: is %s right?", q.base, status, q.setting)
	default:
		d.say(fine, about, "%s answers and has the model %s", q.base, q.model)
	}
}
