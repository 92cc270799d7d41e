package config

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"voicebridge/toolkit/webtools"
	"voicebridge/web"
	"voicebridge/web/access"
)

// Auth returns how callers prove who they are.
func (c *Config) Auth() access.Auth {
	a := c.JWT
	a.Tokens, a.JWTSecret, a.Secret = c.Secrets.Tokens, c.Secrets.JWTSecret, c.Secrets.Signing
	return a
}

// ImageQuota returns how many bytes of images one owner may store; 0 means no limit, for the one
// local user.
func (c *Config) ImageQuota() int64 {
	if !c.Auth().Required() {
		return 0
	}
	return c.Limits.ImageBytesPerOwner
}

// TurnsPerOwner returns how many text turns one owner may have at once; 0 means no limit, for the one
// local user.
func (c *Config) TurnsPerOwner() int {
	if !c.Auth().Required() {
		return 0
	}
	return c.Limits.TurnsPerOwner
}

// Driver returns the upstream in use: openai, cascade or simulator.
func (c *Config) Driver() string {
	if profile := c.Upstreams[0].Profile; profile == UpstreamSimulator || profile == UpstreamCascade {
		return profile
	}
	return UpstreamOpenAI
}

// DelegatesToChat reports whether an upstream has its work done by text turns.
func (c *Config) DelegatesToChat() bool {
	return slices.ContainsFunc(c.Upstreams, func(u Upstream) bool { return u.IsLive() })
}

// VoiceKey returns the key for voice calls: RealtimeKey, or else the one for text.
func (c *Config) VoiceKey() access.Secret {
	return cmp.Or(c.Secrets.RealtimeKey, c.Secrets.OpenAIKey)
}

// unlisted returns the upstream of settings that list none: openai with a key, else the simulator.
func (c *Config) unlisted() Upstream {
	if c.Upstream == UpstreamSimulator || c.Upstream == "" && !c.VoiceKey().IsSet() {
		return Upstream{Name: UpstreamSimulator, Profile: UpstreamSimulator, Unlisted: true}
	}
	return Upstream{
		Name: UpstreamOpenAI, Profile: UpstreamOpenAI, Key: c.VoiceKey(), KeyHeader: c.Realtime.APIKeyHeader, Unlisted: true,
		URL: cmp.Or(c.Realtime.URL, strings.TrimSuffix(c.OpenAIBaseURL, "/")+"/realtime/calls"),
	}
}

// TURNServers returns the TURN servers with a password for one owner that expires some time after
// now; none if they share no secret with us. The password does not reveal the owner.
//
// Source: draft-uberti-behave-turn-rest-00; static-auth-secret of coturn.
func (c *Config) TURNServers(owner string, now time.Time) []web.ICEServer {
	if len(c.TURN.URLs) == 0 {
		return nil
	}
	tag := sha256.Sum256([]byte(owner))
	ends := now.Add(c.TURN.TTL).Unix()
	username := fmt.Sprintf("%d:%x", ends, tag[:6])
	mac := hmac.New(sha1.New, []byte(c.Secrets.TURNSecret.Reveal()))
	mac.Write([]byte(username))
	password := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return []web.ICEServer{{URLs: c.TURN.URLs, Username: username, Credential: access.NewSecret(password)}}
}

// Loopback reports whether only this machine can reach the server.
func (c *Config) Loopback() bool {
	host, _, err := net.SplitHostPort(c.Listen)
	return err == nil && IsLoopback(host)
}

// On reports whether the server speaks https itself.
func (t *TLS) On() bool { return t.CertFile != "" }

// MetricsAddress returns the address of the operators' port, which is on loopback if it has no
// host.
func (c *Config) MetricsAddress() string {
	if strings.HasPrefix(c.Metrics.Listen, ":") {
		return "127.0.0.1" + c.Metrics.Listen
	}
	return c.Metrics.Listen
}

// IsLoopback reports whether host is this machine, by name or address.
func IsLoopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

// Slog returns the level as one of log/slog.
func (c *Log) Slog() slog.Level {
	var level slog.Level
	_ = level.UnmarshalText([]byte(c.Level)) // checked by validate
	return level
}

// UserName returns an owner's name as far as the settings tell it: owners of tokens are called what they are there.
// Empty: not known.
func (c *Config) UserName(owner string) string {
	if slices.ContainsFunc(c.Secrets.Tokens, func(t access.StaticToken) bool { return t.Owner == owner }) {
		return owner
	}
	return ""
}

// MCPFile is the file of MCP servers that is read if it exists and no other is set.
const MCPFile = "mcp.json"

// MCPPath returns the path of the file that lists the MCP servers, empty if there is none.
func (c *Config) MCPPath() string {
	if c.MCPConfig != "" {
		return c.MCPConfig
	}
	if _, err := os.Stat(MCPFile); errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return MCPFile
}

// WebTools returns the settings of the tools that reach the web.
func (c *Config) WebTools() webtools.Config {
	w := c.Tools.Web
	w.BraveKey = c.Secrets.BraveKey.Reveal()
	// So that a tool still has time to report that its request took too long.
	w.Timeout = c.Tools.Timeout - min(5*time.Second, c.Tools.Timeout/6)
	return w
}

// checkWeb checks the settings of the tools that reach the web.
func (c *Config) checkWeb(w *checks) {
	const key = "tools.web."
	web := c.Tools.Web
	switch {
	case web.Provider == webtools.ProviderSearXNG && web.SearXNGURL == "":
		w.wrong(key+"search", "searxng needs %s", named(key+"searxng_url"))
	case web.Provider == webtools.ProviderBrave && !c.Secrets.BraveKey.IsSet():
		w.wrong(key+"search", "brave needs BRAVE_API_KEY")
	}
}

// Origins are the pages that may use the API, the one at public_url included: by its name carriers come, too.
func (c *Config) Origins() []string {
	u, err := url.Parse(c.PublicURL)
	if err != nil || u.Host == "" {
		return c.AllowedOrigins
	}
	return append(slices.Clone(c.AllowedOrigins), u.Scheme+"://"+u.Host)
}
