package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
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
func (c *Config) WebTools() (webtools.Config, error) {
	w, s := c.Tools.Web, &c.Secrets
	networks, err := prefixes(w.AllowNetwork)
	if err != nil {
		return webtools.Config{}, fmt.Errorf("allow_networks: %w", err)
	}
	out := webtools.Config{
		Provider: w.Search, SearXNGURL: w.SearXNGURL, AllowPrefixes: networks, Timeout: c.webTimeout(),
		ExaKey: s.ExaKey.Reveal(), TavilyKey: s.TavilyKey.Reveal(), BraveKey: s.BraveKey.Reveal(),
	}
	if out.DenyPrefixes, err = prefixes(w.DenyNetwork); err != nil {
		return webtools.Config{}, fmt.Errorf("deny_networks: %w", err)
	}
	for _, port := range w.AllowPorts {
		if port < 1 || port > math.MaxUint16 {
			return webtools.Config{}, fmt.Errorf("allow_ports: %d is not a port", port)
		}
		out.AllowPorts = append(out.AllowPorts, uint16(port))
	}
	return out, nil
}

// webTimeout is how long a request may take, so that its tool still has time to report that it took
// too long. Values out of range are reported elsewhere.
func (c *Config) webTimeout() time.Duration {
	limit := time.Duration(max(0, min(c.Tools.TimeoutSeconds, maxToolSeconds))) * time.Second
	return limit - min(5*time.Second, limit/6)
}
