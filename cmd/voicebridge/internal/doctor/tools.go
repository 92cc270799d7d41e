package doctor

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strings"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/toolkit/code"
	"voicebridge/toolkit/mcptool"
)

const aboutPrograms = "programs of the model"

// programs runs a small program in each enabled sandbox.
func (d *doctor) programs(ctx context.Context) {
	if !slices.Contains(d.cfg.Tools.Toolkits, config.ToolkitCode) {
		d.say(fine, aboutPrograms, "they are switched off")
		return
	}
	sandbox := code.New(d.cfg.Tools.Code)
	if confinement, err := sandbox.ProbeJavaScript(ctx); err != nil {
		d.say(problem, aboutPrograms, "JavaScript does not work, and its tool is not offered: %v", err)
	} else {
		d.say(fine, aboutPrograms, "JavaScript works, in a %s", confinement)
	}
	if !d.cfg.Tools.Code.PythonEnabled {
		return
	}
	if err := sandbox.ProbePython(ctx); err != nil {
		d.say(problem, aboutPrograms, "tools.code.python is set, but its tool is not offered: %v", err)
		return
	}
	d.say(fine, aboutPrograms, "Python works, in bubblewrap")
}

const aboutMCP = "MCP servers"

// mcpServers connects to each server and lists its tools, as a start does.
func (d *doctor) mcpServers(ctx context.Context) {
	path := d.cfg.MCPPath()
	if path == "" {
		d.say(fine, aboutMCP, "there is no %s, so none are used", config.MCPFile)
		return
	}
	servers, err := mcptool.LoadConfig(path)
	if err != nil {
		d.say(problem, aboutMCP, "%v: choose another file with VOICEBRIDGE_MCP_CONFIG", err)
		return
	}
	for _, w := range servers.Warnings {
		d.say(warning, aboutMCP, "%s: %s", path, w)
	}
	known, closeKnown := d.knownTools(ctx)
	defer closeKnown()
	open, err := mcptool.Open(servers, mcptool.Options{Version: d.version, Pins: known})
	if err != nil {
		d.say(problem, aboutMCP, "%v", err)
		return
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = open.Run(ctx) // it says why it was stopped
	}()
	defer func() {
		stop()
		<-ended
	}()
	<-open.Settled()
	list := open.Status()
	if len(list) == 0 {
		d.say(fine, aboutMCP, "%s lists no enabled servers", path)
	}
	for _, s := range list {
		about := "MCP server " + s.Name
		switch {
		case !s.Connected:
			d.say(problem, about, "its tools are not offered: %s (its entry in %s may be wrong)", cmp.Or(s.Error, "it does not answer"), path)
		case s.Tools == 0:
			d.say(warning, about, "it answers but offers no tools")
		default:
			d.say(fine, about, "it answers; tools: %d", s.Tools)
		}
		for _, held := range s.Held {
			d.say(warning, about, "the tool %s is held: %s", held.Tool.Name, held.Why)
		}
	}
}

// seenTools provides the tool definitions that the server has seen. Only the server adds to them.
type seenTools struct{ store *persistence.Store }

// ToolPins returns the pins of an MCP server; none if the database is unavailable.
func (s seenTools) ToolPins(ctx context.Context, server string) (map[string]string, error) {
	if s.store == nil {
		return nil, nil
	}
	pins, err := s.store.Admission.ToolPins(ctx, server)
	if err != nil {
		return nil, nil //nolint:nilerr // another check reports it
	}
	return pins, nil
}

// PinTools does nothing.
func (seenTools) PinTools(context.Context, string, map[string]string) error { return nil }

// knownTools opens the pins in an existing database. closeIt must be called.
func (d *doctor) knownTools(ctx context.Context) (known seenTools, closeIt func()) {
	address := d.cfg.Secrets.DatabaseURL.Reveal()
	if path, ok := strings.CutPrefix(address, "sqlite:"); ok {
		if _, err := os.Stat(path); err != nil {
			return seenTools{}, func() {}
		}
	}
	store, err := persistence.Open(ctx, address, persistence.Options{NoMigrate: true})
	if err != nil {
		return seenTools{}, func() {}
	}
	return seenTools{store}, func() { _ = store.Close() }
}
