package config

import (
	"encoding/base64"
	"encoding/json"
	"maps"
	"strings"

	"voicebridge/assistant"
	"voicebridge/web"
)

// readAssistant reads one of the settings, and the secret that a variable holds.
func readAssistant(given map[string]any, environment func(name string) string, known web.AssistantNames) (assistant.Assistant, error) {
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
	a.Secret = strings.TrimSpace(environment(name))
	if !validSecret(a.Secret) {
		return a, &assistant.Error{Path: "secret_env", Reason: name + " must be set to whsec_ and 24 to 64 bytes in Base64"}
	}
	return a, nil
}

// validSecret reports whether a secret has the form of Standard Webhooks.
func validSecret(text string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "whsec_"))
	return err == nil && strings.HasPrefix(text, "whsec_") && len(key) >= 24 && len(key) <= 64
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
