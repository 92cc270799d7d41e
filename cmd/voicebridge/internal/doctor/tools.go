package doctor

import (
	"cmp"
	"context"
	"maps"
	"os"
	"slices"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/toolkit/code"
	"voicebridge/toolkit/guard"
	"voicebridge/toolkit/mcptool"
	"voicebridge/toolkit/mcptool/signin"
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
	d.signIns(ctx, &servers)
	folder, err := os.MkdirTemp("", "voicebridge-doctor-")
	if err != nil {
		d.say(problem, aboutMCP, "%v", err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	for name, s := range servers.Servers {
		if s.PerOwner { // for nobody, elsewhere
			s.PerOwner, s.MaxOwners, s.Cwd = false, 0, folder
			servers.Servers[name] = s
		}
	}
	open, err := mcptool.Open(servers, mcptool.Options{Version: d.version})
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
	needsOwner := func(s mcptool.Server) bool { return s.Auth != "" }
	if len(list) == 0 && !slices.ContainsFunc(slices.Collect(maps.Values(servers.Servers)), needsOwner) {
		d.say(fine, aboutMCP, "%s lists no enabled servers", path)
	}
	for _, s := range list {
		about := "MCP server " + s.Name
		switch {
		case !s.Connected:
			d.say(problem, about,
				"its tools are not offered: %s (its entry in %s may be wrong)", cmp.Or(s.Error, "it does not answer"), path)
		case s.Tools == 0:
			d.say(warning, about, "it answers but offers no tools")
		default:
			d.say(fine, about, "it answers; tools: %d", s.Tools)
		}
	}
}

// signIns finds out where owners sign in, and leaves those servers out of what is connected to: nobody has signed in
// here.
func (d *doctor) signIns(ctx context.Context, servers *mcptool.Config) {
	web := d.cfg.WebTools()
	desk, err := signin.New(signin.Config{
		Guarded: guard.New(guard.Rules{
			Allow: web.AllowPrefixes, Deny: web.DenyPrefixes, Ports: web.AllowPorts,
		}).RoundTripper(),
	})
	if err != nil {
		d.say(problem, aboutMCP, "%v", err)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(servers.Servers)) {
		s := servers.Servers[name]
		if s.Auth != mcptool.AuthOAuth || s.Disabled {
			continue
		}
		about := "MCP server " + name
		issuer, err := desk.Check(ctx, s.SignIn(name))
		if err != nil {
			d.say(problem, about, "owners cannot sign in: %v", err)
		} else {
			d.say(fine, about, "it answers; owners sign in at %s", issuer)
		}
		s.Disabled = true
		servers.Servers[name] = s
	}
}
