package config

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/hooks"
	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/realtime"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/ws"
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
	c.checkPhone(&w)
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

func (c *Config) checkPhone(w *checks) {
	if len(c.Phone.Lines) > 0 && !strings.HasPrefix(c.PublicURL, "https://") {
		w.wrong("public_url", "phone.lines need it, of the form https://host")
	}
	for name, line := range c.Phone.Lines {
		key, err := base64.StdEncoding.DecodeString(line.PublicKey)
		if line.Carrier == "telnyx" && (err != nil || len(key) != 32) {
			w.wrong("phone.lines."+name+".public_key", "it must be Telnyx' public key, 32 bytes in base64")
		}
	}
}

func (c *Config) checkNetwork(w *checks, offline bool) {
	host, err := splitAddress(c.Listen)
	open := err == nil && !IsLoopback(host) && !c.Auth().Required()
	if open && !offline && !c.Secrets.badTokens {
		w.wrong("listen",
			"%s can be reached from other machines, so callers must prove who they are: set VOICEBRIDGE_API_TOKENS=owner:token "+
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
	hasKey := c.Secrets.OpenAIKey.IsSet() || c.Secrets.RealtimeKey.IsSet()
	if c.Upstream == UpstreamOpenAI && !hasKey && c.OpenAIBaseURL == openAIURL && c.Realtime.URL == "" {
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

// checkCalls checks the settings of voice calls.
func (c *Config) checkCalls(w *checks) {
	r := c.Realtime
	if r.URL != "" {
		address, _, _ := strings.Cut(r.URL, "?") // such as Azure's ?api-version=…
		if isSocket(address) {
			address = "http" + strings.TrimPrefix(address, "ws")
		}
		if err := checkURL(address); err != nil {
			w.wrong("realtime.url", "%v", err)
		}
	}
	checkTurns(r.TurnDetection, w)
}

// pushToTalk is the type of turn detection that the API has no name for.
const pushToTalk = "none"

// checkTurns compares the turn detection with what the API takes of its type.
func checkTurns(t bridge.TurnDetection, w *checks) {
	const key = "realtime.turn_detection."
	types := realtime.SessionFields.At("audio.input.turn_detection").Cases
	if known := append(slices.Sorted(maps.Keys(types)), pushToTalk); !slices.Contains(known, t.Type) {
		w.wrong(key+"type", "%q is not one of %s", t.Type, strings.Join(known, ", "))
	}
	var set map[string]any
	raw, err := json.Marshal(t)
	if err = cmp.Or(err, json.Unmarshal(raw, &set)); err != nil {
		w.wrong(key+"threshold", "%v", err) // it is not finite
	}
	for kind, fields := range types {
		for name, f := range fields.Fields {
			value, ok := set[name]
			if ok && kind != t.Type {
				w.wrong(key+name, "it belongs to the type %s", kind)
			}
			if text, ok := value.(string); ok && !slices.Contains(f.Enum, text) {
				w.wrong(key+name, "%q is not one of %s", text, strings.Join(f.Enum, ", "))
			}
			if n, ok := value.(float64); ok && !(n >= f.Low && n <= f.High) {
				w.wrong(key+name, "%v is not between %v and %v", n, f.Low, f.High)
			}
		}
	}
}

// checkServing checks the settings of how others reach the server.
func (c *Config) checkServing(w *checks) {
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		w.wrong("tls.cert_file", "it and tls.key_file belong together")
	}
	_, port, _ := net.SplitHostPort(c.Metrics.Listen)
	if c.Metrics.Listen != "" && port != "0" && c.MetricsAddress() == c.Listen {
		w.wrong("metrics.listen", "the page and the API already use this address")
	}
	switch {
	case len(c.TURN.URLs) > 0 && !c.Secrets.TURNSecret.IsSet():
		w.wrong("turn.urls", "they need VOICEBRIDGE_TURN_SECRET")
	case len(c.TURN.URLs) == 0 && c.Secrets.TURNSecret.IsSet():
		w.wrong("turn.urls", "VOICEBRIDGE_TURN_SECRET is set, but there are no servers to use it with")
	}
}

// checkUpstreams checks what the tags do not say.
func (c *Config) checkUpstreams(w *checks) {
	for i := range c.Upstreams {
		u, key := &c.Upstreams[i], fmt.Sprintf("upstreams[%d].", i)
		if slices.ContainsFunc(c.Upstreams[:i], func(other Upstream) bool { return other.Name == u.Name }) {
			w.wrong(key+"name", "%q is the name of another", u.Name)
		}
		for name, rate := range map[string]int{"rate_in": u.RateIn, "rate_out": u.RateOut} {
			if rate != 0 && !slices.Contains(pcm.Rates, rate) {
				w.wrong(key+name, "%d is not one of %v", rate, pcm.Rates)
			}
		}
		switch {
		case u.IsCascade() && u.URL+u.Transport != "":
			w.wrong(key+"url", "a cascade has no transport, and its addresses are cascade.stt.url and cascade.tts.url")
		case u.IsCascade():
			c.checkCascade(w, u, key)
		case u.Cascade != nil:
			w.wrong(key+"cascade", "it is for the profile cascade")
		}
		if u.IsLive() && u.By() != TransportWebRTC {
			w.wrong(key+"transport", "GPT-Live is served over webrtc")
		}
		if _, known := ws.Find(u.Profile); !known && u.Profile != UpstreamLiveName || u.BuiltIn() || u.Unlisted {
			continue // reported by its tag, or by its settings
		}
		schemes := []string{"https", "http"}
		if u.By() == TransportWebSocket {
			schemes = []string{"wss", "ws", "https", "http"}
		}
		address, err := url.Parse(u.Address())
		switch {
		case u.Address() == "":
			w.wrong(key+"url", "an upstream of the profile %s needs it with the transport %s", u.Profile, u.By())
		case err != nil || address.Host == "" || !slices.Contains(schemes, address.Scheme):
			w.wrong(key+"url", "it must be an address of the form %s://host/path", schemes[0])
		}
	}
}

// checkCascade checks what the tags of a cascade do not say.
func (c *Config) checkCascade(w *checks, u *Upstream, key string) {
	if u.Cascade == &c.Cascade {
		key = ""
	}
	key += "cascade."
	for name, url := range map[string]string{"stt.url": u.Cascade.STT.URL, "tts.url": u.Cascade.TTS.URL} {
		if url == "" {
			w.wrong(key+name, "a cascade needs it, such as http://127.0.0.1:8000/v1 (%s)", Variable("cascade."+name))
		}
	}
	if t := u.Cascade.Turns; t.MaxPause > 0 && t.MinPause > t.MaxPause {
		w.wrong(key+"turns.min_pause_ms", "%d is more than max_pause_ms, %d", t.MinPause, t.MaxPause)
	}
	c.checkProvider(w, key+"text.provider", u.Cascade.Text.Provider)
}
