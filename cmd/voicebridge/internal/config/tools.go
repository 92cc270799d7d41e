package config

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"voicebridge/toolkit/code"
	"voicebridge/toolkit/webtools"
)

// MCPFile is the file of MCP servers that is read if it exists and no other is set.
const MCPFile = "mcp.json"

const maxToolSeconds = 600

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

// CodeTools returns the settings of the tools that run programs.
func (c *Config) CodeTools(log *slog.Logger) code.Config {
	k := c.Tools.Code
	return code.Config{
		Timeout: time.Duration(k.TimeoutSeconds) * time.Second, MemoryBytes: int64(k.MemoryMB) << 20,
		MaxParallel: k.MaxParallel, PythonEnabled: k.Python, AllowUnconfined: k.Unconfined, Logger: log,
	}
}

// WebTools returns the settings of the tools that reach the web.
func (c *Config) WebTools() webtools.Config {
	w, s := c.Tools.Web, &c.Secrets
	out := webtools.Config{
		Provider: w.Search, SearXNGURL: w.SearXNGURL, Timeout: c.webTimeout(),
		ExaKey: s.ExaKey.Reveal(), TavilyKey: s.TavilyKey.Reveal(), BraveKey: s.BraveKey.Reveal(),
	}
	out.AllowPrefixes, _ = prefixes(w.AllowNetwork) // checked by checkWeb, like the next two
	out.DenyPrefixes, _ = prefixes(w.DenyNetwork)
	for _, port := range w.AllowPorts {
		out.AllowPorts = append(out.AllowPorts, uint16(port))
	}
	return out
}

// checkWeb checks the settings of the tools that reach the web.
func (c *Config) checkWeb(w *checks) {
	const key = "tools.web."
	web, s := c.Tools.Web, &c.Secrets
	for name, needs := range map[string]struct {
		have bool
		what string
	}{
		webtools.ProviderSearXNG: {web.SearXNGURL != "", named(key + "searxng_url")}, webtools.ProviderExa: {s.ExaKey.IsSet(), "EXA_API_KEY"},
		webtools.ProviderTavily: {s.TavilyKey.IsSet(), "TAVILY_API_KEY"}, webtools.ProviderBrave: {s.BraveKey.IsSet(), "BRAVE_API_KEY"},
	} {
		if web.Search == name && !needs.have {
			w.wrong(key+"search", "%s needs %s", name, needs.what)
		}
	}
}

// webTimeout is how long a request may take, so that its tool still has time to report that it took
// too long. Values out of range are reported elsewhere.
func (c *Config) webTimeout() time.Duration {
	limit := time.Duration(max(0, min(c.Tools.TimeoutSeconds, maxToolSeconds))) * time.Second
	return limit - min(5*time.Second, limit/6)
}
