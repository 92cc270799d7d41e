package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"voicebridge/assistant"
	"voicebridge/hooks"
	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/toolkit"
	"voicebridge/web/access"
)

// validate returns everything that is wrong with the settings; offline is that of [Sources]. It moves
// secrets in the database and ICE settings to Secrets.
func (c *Config) validate(offline bool) []error {
	var w checks
	if !c.Secrets.DatabaseURL.IsSet() {
		c.Secrets.DatabaseURL = access.NewSecret(c.DatabaseURL)
	}
	c.checkDatabase(&w)
	c.checkNetwork(&w, offline)
	c.checkUpstream(&w)
	c.checkUpstreams(&w)
	c.checkHooks(&w)
	c.checkServing(&w)
	c.checkCalls(&w)
	c.checkText(&w)
	c.checkWeb(&w)
	for key, list := range map[string]toolkit.Names{"allow": c.Tools.Allow, "deny": c.Tools.Deny} {
		if slices.ContainsFunc(list, func(name toolkit.Name) bool { return strings.HasSuffix(name.String(), ":write") }) {
			w.wrong("tools."+key, "only tools.approve takes the ending :write")
		}
	}
	for _, name := range c.Tools.Allow {
		if slices.ContainsFunc(c.Tools.Deny, func(other toolkit.Name) bool { return other.String() == name.String() }) {
			w.wrong("tools.deny", "%q is also in tools.allow", name)
		}
	}
	return w
}

func (c *Config) checkDatabase(w *checks) {
	value := c.Secrets.DatabaseURL.Reveal()
	path, isSQLite := strings.CutPrefix(value, "sqlite:")
	isPostgres := strings.HasPrefix(value, "postgres://") || strings.HasPrefix(value, "postgresql://")
	switch {
	case !isSQLite && !isPostgres:
		w.wrong("database_url", "it must be sqlite:PATH or postgres://…")
	case isSQLite && path == "":
		w.wrong("database_url", "the path of the SQLite file is missing")
	case isSQLite && strings.HasPrefix(path, "//") && !strings.HasPrefix(path, "///"): // which would be the name of a host
		w.wrong("database_url", "it must be sqlite:PATH, without // before the path")
	}
}

func (c *Config) checkNetwork(w *checks, offline bool) {
	if host, err := splitAddress(c.Listen); err == nil && !offline && !IsLoopback(host) && !c.Auth().Required() && !c.Secrets.badTokens {
		w.wrong("listen", "%s can be reached from other machines, so callers must prove who they are: set VOICEBRIDGE_API_TOKENS=owner:token "+
			"(or VOICEBRIDGE_JWT_SECRET, or VOICEBRIDGE_JWT_JWKS_URL), or listen on 127.0.0.1", c.Listen)
	}
	// The secret that signs is not known yet.
	if err := (access.Auth{Tokens: c.Secrets.Tokens, Secret: access.NewSecret("-")}).Validate(); err != nil {
		w.wrong("api_tokens", "%v", err)
	}
	if c.JWT.JWKSURL != "" {
		if u, err := url.Parse(c.JWT.JWKSURL); err == nil && u.Scheme == "http" && !IsLoopback(u.Hostname()) {
			w.wrong("jwt_jwks_url", "keys that decide who has access must be fetched by https")
		}
		for key, value := range map[string]string{"jwt_issuer": c.JWT.JWTIssuer, "jwt_audience": c.JWT.JWTAudience} {
			if value == "" {
				w.wrong(key, "it is required with jwt_jwks_url, because its issuer also signs tokens for others")
			}
		}
	}
	c.checkICE(w)
}

// checkICE replaces the file's servers, which have no passwords, with those of the environment.
func (c *Config) checkICE(w *checks) {
	if len(c.Secrets.ICEServers) > 0 {
		c.ICEServers = c.Secrets.ICEServers
	} else if err := checkICEServers(c.ICEServers); err != nil {
		w.wrong("ice_servers", "%v", err)
	}
}

func (c *Config) checkUpstream(w *checks) {
	if c.Upstream == UpstreamOpenAI && !c.Secrets.OpenAIKey.IsSet() && !c.Secrets.RealtimeKey.IsSet() && c.OpenAIBaseURL == openAIURL && c.Realtime.URL == "" {
		w.wrong("upstream", "openai needs OPENAI_API_KEY")
	}
	if unknown := assistant.UnknownPlaceholder(c.Realtime.Instructions); unknown != "" {
		w.wrong("realtime.instructions", "%s is unknown: use {{date}}, {{time}} or {{user}}", unknown)
	}
}

// checkHooks checks what the tags do not say.
func (c *Config) checkHooks(w *checks) {
	addresses, err := hooks.NewAddresses(c.Hooks.Allow)
	if err != nil {
		w.wrong("hooks.allow", "%v", err)
		return
	}
	for i := range c.Hooks.Endpoints {
		e, key := &c.Hooks.Endpoints[i], fmt.Sprintf("hooks.endpoints[%d].", i)
		address, err := addresses.Check(e.URL)
		if err != nil {
			w.wrong(key+"url", "%v (hooks.allow names exceptions)", err)
		}
		e.URL = address
		if slices.ContainsFunc(c.Hooks.Endpoints[:i], func(other Endpoint) bool { return other.URL == e.URL && err == nil }) {
			w.wrong(key+"url", "it is the address of another")
		}
		if err := hooked.CheckEvents(e.Events); err != nil {
			w.wrong(key+"events", "%s", strings.TrimPrefix(persistence.Reason(err), "invalid events: "))
		}
	}
}
