package config

import (
	"errors"
	"io/fs"
	"os"
	"time"

	"voicebridge/toolkit/webtools"
)

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
	w, s := c.Tools.Web, &c.Secrets
	w.ExaKey, w.TavilyKey, w.BraveKey = s.ExaKey.Reveal(), s.TavilyKey.Reveal(), s.BraveKey.Reveal()
	// So that a tool still has time to report that its request took too long.
	w.Timeout = c.Tools.Timeout - min(5*time.Second, c.Tools.Timeout/6)
	return w
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
		if web.Provider == name && !needs.have {
			w.wrong(key+"search", "%s needs %s", name, needs.what)
		}
	}
}
