package config

import (
	"encoding/json"
	"maps"

	"voicebridge/assistant"
	"voicebridge/web"
)

// readAssistant reads one of the settings, and the secret that a variable holds.
func readAssistant(given map[string]any, environ []string, known web.AssistantNames) (assistant.Assistant, error) {
	given = maps.Clone(given)
	name, _ := given["secret_env"].(string)
	delete(given, "secret_env")
	raw, err := json.Marshal(given)
	if err != nil {
		return assistant.Assistant{}, &assistant.Error{Path: "name", Reason: "it holds what JSON has no form for"}
	}
	a, err := assistant.Parse(raw)
	if err == nil {
		err = web.CheckAssistant(a, known)
	}
	if err != nil || name == "" {
		return a, err
	}
	secret, err := webhookSecret(environ, name)
	if err != nil {
		return a, &assistant.Error{Path: "secret_env", Reason: err.Error()}
	}
	a.Secret = secret.Reveal()
	return a, nil
}

// AssistantNames returns the names that assistants may use. Those of MCP servers are not known yet.
func (c *Config) AssistantNames() web.AssistantNames {
	out := web.AssistantNames{Providers: c.TextProviders(), Upstreams: []string{}}
	for _, u := range c.Upstreams {
		out.Upstreams = append(out.Upstreams, u.Name)
	}
	if len(c.Upstreams) == 0 {
		out.Upstreams = append(out.Upstreams, c.Driver())
	}
	return out
}
