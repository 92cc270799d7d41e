package config

import (
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"voicebridge/bridge"
	"voicebridge/toolkit"
	"voicebridge/web"
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
	c.checkNumbers(&w)
	c.checkServing(&w)
	c.checkTelemetry(&w)
	c.checkCalls(&w)
	c.checkText(&w)
	c.Log.check(&w)
	for key, list := range map[string][]string{"allow": c.Tools.Allow, "deny": c.Tools.Deny, "approve": c.Tools.Approve} {
		if _, err := toolkit.ParseNames(list); err != nil {
			w.wrong("tools."+key, "%v", err)
		}
		if key != "approve" && slices.ContainsFunc(list, func(name string) bool { return strings.HasSuffix(name, ":write") }) {
			w.wrong("tools."+key, "only tools.approve takes the ending :write")
		}
	}
	for _, name := range c.Tools.Allow {
		if slices.Contains(c.Tools.Deny, name) {
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
	if host, ok := w.address("listen", c.Listen, "127.0.0.1:8080"); ok {
		if !offline && !IsLoopback(host) && !c.Auth().Required() && !c.Secrets.badTokens {
			w.wrong("listen", "%s can be reached from other machines, so callers must prove who they are: set VOICEBRIDGE_API_TOKENS=owner:token "+
				"(or VOICEBRIDGE_JWT_SECRET, or VOICEBRIDGE_JWT_JWKS_URL), or listen on 127.0.0.1", c.Listen)
		}
	}
	// The secret that signs is not known yet.
	if err := (access.Auth{Tokens: c.Secrets.Tokens, Secret: access.NewSecret("-")}).Validate(); err != nil {
		w.wrong("api_tokens", "%v", err)
	}
	for _, origin := range c.AllowedOrigins {
		if _, err := access.ParseOrigin(origin); err != nil {
			w.wrong("allowed_origins", "%v", err)
		}
	}
	if _, err := prefixes(c.TrustedProxies); err != nil {
		w.wrong("trusted_proxies", "%v", err)
	}
	if c.JWTJWKSURL != "" {
		w.httpURL("jwt_jwks_url", c.JWTJWKSURL)
		if u, err := url.Parse(c.JWTJWKSURL); err == nil && u.Scheme == "http" && !IsLoopback(u.Hostname()) {
			w.wrong("jwt_jwks_url", "keys that decide who has access must be fetched by https")
		}
		for key, value := range map[string]string{"jwt_issuer": c.JWTIssuer, "jwt_audience": c.JWTAudience} {
			if value == "" {
				w.wrong(key, "it is required with jwt_jwks_url, because its issuer also signs tokens for others")
			}
		}
	}
	w.between("udp_port", c.UDPPort, 0, 65535)
	for _, ip := range c.PublicIPs {
		if _, err := netip.ParseAddr(ip); err != nil {
			w.wrong("public_ips", "%q is not an IP address", ip)
		}
	}
	c.checkICE(w)
}

// checkICE moves the file's servers, which have no passwords, to those of the environment, which
// override them.
func (c *Config) checkICE(w *checks) {
	if len(c.Secrets.ICEServers) > 0 {
		return
	}
	for _, s := range c.ICEServers {
		c.Secrets.ICEServers = append(c.Secrets.ICEServers, web.ICEServer{URLs: s.URLs, Username: s.Username})
	}
	if err := checkICEServers(c.Secrets.ICEServers); err != nil {
		w.wrong("ice_servers", "%v", err)
	}
}

func (c *Config) checkUpstream(w *checks) {
	w.oneOf("upstream", c.Upstream, "", UpstreamOpenAI, UpstreamSimulator)
	w.httpURL("openai_base_url", c.OpenAIBaseURL)
	if c.Upstream == UpstreamOpenAI && !c.Secrets.OpenAIKey.IsSet() && !c.Secrets.RealtimeKey.IsSet() && c.OpenAIBaseURL == openAIURL && c.Realtime.URL == "" {
		w.wrong("upstream", "openai needs OPENAI_API_KEY")
	}
	w.present("realtime.model", c.Realtime.Model)
	w.present("realtime.voice", c.Realtime.Voice)
	w.present("realtime.transcription_model", c.Realtime.TranscriptionModel)
	if len(c.Realtime.Instructions) > maxInstructions {
		w.wrong("realtime.instructions", "it is longer than 32 KiB")
	}
	if unknown := bridge.UnknownPlaceholder(c.Realtime.Instructions); unknown != "" {
		w.wrong("realtime.instructions", "%s is unknown: use {{date}}, {{time}} or {{user}}", unknown)
	}
}

func (c *Config) checkNumbers(w *checks) {
	q, h, l := c.Conversations.Queue, c.Conversations.History, c.Limits
	w.between("conversations.retention_days", c.Conversations.RetentionDays, 0, 36_500)
	w.between("database.max_connections", c.Database.MaxConnections, 0, 1000)
	w.between("conversations.queue.delay_seconds", q.DelaySeconds, 0, 3600)
	w.between("conversations.queue.max_size", q.MaxSize, 0, 100_000)
	w.between("conversations.history.replay_messages", h.ReplayMessages, 0, 200)
	w.between("conversations.history.max_turns", h.MaxTurns, 1, 1000)
	w.between("conversations.history.max_tokens", h.MaxTokens, 100, 1_000_000)
	w.between("conversations.history.trim_chunk_tokens", h.TrimChunkTokens, 1, 100_000)
	w.between("conversations.history.max_tool_rounds", h.MaxToolRounds, 1, 100)
	c.checkPrices(w)
	w.between("tools.timeout_seconds", c.Tools.TimeoutSeconds, 1, maxToolSeconds)
	w.between("tools.filler_seconds", c.Tools.FillerSeconds, 0, 600)
	for _, name := range c.Tools.Toolkits {
		w.oneOf("tools.toolkits", name, ToolkitArtifacts, ToolkitCode, ToolkitWeb, ToolkitHTTP, ToolkitAgent)
	}
	w.between("tools.code.timeout_seconds", c.Tools.Code.TimeoutSeconds, 1, maxToolSeconds)
	w.between("tools.code.memory_mb", c.Tools.Code.MemoryMB, 4, 8192)
	w.between("tools.code.max_parallel", c.Tools.Code.MaxParallel, 1, 256)
	c.checkWeb(w)
	w.between("limits.max_calls", l.MaxCalls, 1, 100_000)
	w.between("limits.max_calls_per_owner", l.MaxCallsPerOwner, 1, 100_000)
	w.between("limits.setups_per_minute_per_ip", l.SetupsPerMinute, 1, 100_000)
	w.between("limits.sign_ins_per_minute_per_ip", l.SignInsPerMinute, 1, 100_000)
	w.between("limits.max_sockets", l.MaxSockets, 1, 1_000_000)
	w.between("limits.max_sockets_per_owner", l.SocketsPerOwner, 1, 1_000_000)
	w.between("limits.texts_per_minute_per_owner", l.TextsPerMinute, 1, 1_000_000)
	w.between("limits.max_turns_per_owner", l.TurnsPerOwner, 1, 1_000_000)
	w.between("limits.image_mb_per_owner", l.ImageMBPerOwner, 1, 1_000_000)
	w.between("limits.max_threads_per_owner", l.ThreadsPerOwner, 1, 100_000_000)
	w.between("limits.stored_mb_per_owner", l.StoredMBPerOwner, 1, 100_000_000)
	for _, m := range l.AllowedModels {
		if p, name, ok := strings.Cut(m, "/"); !ok || p == "" || name == "" {
			w.wrong("limits.allowed_models", "%q is not of the form provider/model", m)
		}
	}
	w.between("shutdown_seconds", c.ShutdownSeconds, 1, 600)
}

func (c *Log) check(w *checks) {
	w.oneOf("log.level", c.Level, "debug", "info", "warn", "error")
	w.oneOf("log.format", c.Format, "text", "json")
}
