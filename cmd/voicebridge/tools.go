package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
	"voicebridge/toolkit/code"
	"voicebridge/toolkit/guard"
	"voicebridge/toolkit/httptool"
	"voicebridge/toolkit/mcptool"
	"voicebridge/toolkit/mcptool/signin"
	"voicebridge/toolkit/webhook"
	"voicebridge/toolkit/webtools"
)

// tools are the server's tools: the permanent ones, and those of MCP servers, which come and go.
type tools struct {
	own []toolkit.Entry
	// agent is the tool by which a voice call requests a text turn; may be nil.
	agent toolkit.Tool
	// delegated means that an upstream answers by that tool alone: no list takes it away.
	delegated bool
	mcp       *mcptool.Servers
	// folder is where processes of MCP servers work of which each owner has one.
	folder string
	pick   config.Tools
	// http runs the tools of assistants' own.
	http *httptool.Caller
	log  *slog.Logger
	// desk is where owners sign in to MCP servers; nil without a database.
	desk *signin.Desk
	// changed gets a signal when the tools of MCP servers have changed.
	changed chan struct{}

	// built is what shared has returned last, and builtFrom the tools of MCP servers in it.
	mu        sync.Mutex
	built     *toolkit.Registry
	builtFrom []toolkit.Entry
}

// openTools makes the server's own tools. run connects to the MCP servers. close must be called.
func openTools(
	ctx context.Context, cfg config.Config, store *persistence.Store, log *slog.Logger,
) (*tools, error) {
	t := &tools{pick: cfg.Tools, log: log, changed: make(chan struct{}, 1)}
	if store != nil {
		t.http = httptool.New(guard.New(guardRules(cfg)), chat.Media{Store: store, Quota: cfg.ImageQuota()})
	}
	t.openOwn(ctx, cfg)
	if err := t.openMCP(cfg, store); err != nil {
		return nil, err
	}
	return t, nil
}

// reportLists logs entries that match no tool: a tool that should be denied may be misspelt.
func (t *tools) reportLists() {
	entries := t.entries()
	if t.agent != nil {
		entries = append(entries, toolkit.Entry{Tool: t.agent})
	}
	lists := map[string]toolkit.Names{"allow": t.pick.Allow, "deny": t.pick.Deny, "approve": t.pick.Approve}
	for key, list := range lists {
		if key == "approve" && fmt.Sprint(t.pick.Approve) == fmt.Sprint(config.Defaults().Tools.Approve) {
			continue // the toolkit http may be off
		}
		for _, entry := range list.Unmatched(entries, absentTools...) {
			t.log.Warn("setting names an unknown tool", "setting", "tools."+key, "entry", entry)
		}
	}
}

// absentTools are known even if the server lacks them: the page declares some, and programs run only
// where they are enabled and the host can confine them.
var absentTools = []string{code.JavaScriptName, code.PythonName, "changeBrowserTheme", "look"}

// openMCP prepares the MCP servers.
func (t *tools) openMCP(cfg config.Config, store *persistence.Store) error {
	t.folder = filepath.Join(dataDir(cfg.Secrets.DatabaseURL.Reveal()), "mcp")
	var servers mcptool.Config
	path := cfg.MCPPath()
	if path != "" {
		var err error
		if servers, err = mcptool.LoadConfig(path); err != nil {
			return fmt.Errorf("%w (choose another file with VOICEBRIDGE_MCP_CONFIG)", err)
		}
	}
	for _, warning := range servers.Warnings {
		t.log.Warn("MCP configuration", "file", path, "warning", warning)
	}
	options := mcptool.Options{
		Logger: t.log, Version: buildVersion(), CallTimeout: cfg.Tools.Timeout,
		Changed: func() {
			select {
			case t.changed <- struct{}{}:
			default:
			}
		},
	}
	var err error
	if store != nil {
		options.Pins = store.Admission
		options.Media = chat.Media{Store: store, Quota: cfg.ImageQuota()}
		if t.desk, err = openDesk(cfg, store, t.log); err != nil {
			return err
		}
		options.SignIn = t.desk
		options.Folder = t.folder
	}
	t.mcp, err = mcptool.Open(servers, options)
	return err
}

// openDesk makes what lets owners sign in to MCP servers. What those name is reached as what models request.
func openDesk(cfg config.Config, store *persistence.Store, log *slog.Logger) (*signin.Desk, error) {
	return signin.New(signin.Config{
		Store: store.Grants, Secret: cfg.Secrets.Signing.Reveal(), Logger: log,
		Guarded:  guard.New(guardRules(cfg)).RoundTripper(),
		NotFound: func(err error) bool { return errors.Is(err, persistence.ErrNotFound) },
	})
}

// guardRules say what may be reached for users and models.
func guardRules(cfg config.Config) guard.Rules {
	web := cfg.WebTools()
	return guard.Rules{Allow: web.AllowPrefixes, Deny: web.DenyPrefixes, Ports: web.AllowPorts}
}

// openOwn makes the tools of the enabled toolkits.
func (t *tools) openOwn(ctx context.Context, cfg config.Config) {
	on := func(name string) bool { return slices.Contains(cfg.Tools.Toolkits, name) }
	if on(config.ToolkitArtifacts) {
		t.add(charts.Tools()...)
	}
	if on(config.ToolkitCode) {
		sandbox := cfg.Tools.Code
		sandbox.Logger = t.log
		t.add(code.New(sandbox).Tools(ctx)...)
	}
	for _, tool := range webtools.New(cfg.WebTools()) {
		kit := config.ToolkitWeb
		if tool.Definition().Name == "http" {
			kit = config.ToolkitHTTP
		}
		if on(kit) {
			t.add(tool)
		}
	}
}

func (t *tools) add(list ...toolkit.Tool) {
	for _, tool := range list {
		t.own = append(t.own, toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp})
	}
}

// run keeps the MCP servers connected until ctx ends.
func (t *tools) run(ctx context.Context) error {
	var reported sync.WaitGroup
	defer reported.Wait()
	reported.Go(func() {
		if <-t.mcp.Settled(); ctx.Err() == nil {
			t.reportLists()
		}
	})
	return t.mcp.Run(ctx)
}

func (t *tools) close() error { return t.mcp.Close() }

// entries returns the current tools, whether they may be used or not.
func (t *tools) entries() []toolkit.Entry { return slices.Concat(t.own, t.mcp.Tools()) }

// registry returns the tools of an assistant, not to be changed; of the zero value those of the server. What an
// operator allows is allowed to everybody with access.
func (t *tools) registry(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error) {
	return t.of(ctx, owner, a, true)
}

// of is registry. With wait, the tools of the owner's MCP servers that were never connected are waited for.
func (t *tools) of(ctx context.Context, owner string, a assistant.Assistant, wait bool) (*toolkit.Registry, error) {
	r, err := t.with(ctx, owner, func(server string) bool {
		return wait && (a.MCPServers == nil || slices.Contains(a.MCPServers, server))
	})
	if err != nil || a.ID == "" {
		return r, err
	}
	return t.chosen(r, a)
}

// chosen returns those of the server's tools that an assistant has, and its own.
func (t *tools) chosen(r *toolkit.Registry, a assistant.Assistant) (*toolkit.Registry, error) {
	out := toolkit.NewRegistry()
	allows := allowedBy(a)
	for _, e := range r.Entries() {
		ofServer := e.Executor == toolkit.ExecutorMCP && a.MCPServers != nil
		if !allows(e.Tool.Definition().Name) || ofServer && !slices.Contains(a.MCPServers, e.Server) {
			continue
		}
		if err := out.Add(e); err != nil {
			return nil, fmt.Errorf("add tool: %w", err)
		}
	}
	for _, own := range a.HTTPTools {
		isAgent := t.agent != nil && own.Name == t.agent.Definition().Name
		if t.http == nil || isAgent || !allows(own.Name) || !t.pick.Allows(own.Name) {
			continue
		}
		secret, _ := webhook.ParseSecret(a.Secret) // of one in the settings that names none, requests are not signed
		made := t.http.Tool(httptool.Spec{
			Definition: toolkit.Definition{Name: own.Name, Description: own.Description, Parameters: own.Parameters},
			URL:        own.URL, Method: own.Method, Timeout: time.Duration(own.TimeoutSeconds) * time.Second, Secret: secret,
		})
		if err := out.Add(toolkit.Entry{Tool: made, Executor: toolkit.ExecutorApp}); err != nil {
			t.log.Warn("HTTP tool left out", "assistant", a.ID, "error", err) // its name may have been taken later
		}
	}
	return out, nil
}

// allowedBy returns which tools an assistant may use.
func allowedBy(a assistant.Assistant) func(name string) bool {
	allow, deny := toolkit.Names(nil).With(a.Tools.Allow), toolkit.Names(nil).With(a.Tools.Deny)
	return func(name string) bool { return !deny.Has(name) && (a.Tools.Allow == nil || allow.Has(name)) }
}

// with returns the tools of an owner. Those of the owner's MCP servers that were never connected are waited for if wait
// says so.
func (t *tools) with(ctx context.Context, owner string, wait func(server string) bool) (*toolkit.Registry, error) {
	r, err := t.shared()
	if err != nil {
		return r, err
	}
	own := t.mcp.ToolsOf(ctx, owner, wait)
	if len(own) == 0 {
		return r, nil
	}
	r = r.Clone()
	return r, t.addTo(r, own)
}

// shared returns the tools that are the same for every owner.
func (t *tools) shared() (*toolkit.Registry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	served := t.mcp.Tools()
	if t.built != nil && slices.Equal(served, t.builtFrom) {
		return t.built, nil
	}
	r := toolkit.NewRegistry()
	if err := t.addTo(r, slices.Concat(t.own, served)); err != nil {
		return nil, err
	}
	t.built, t.builtFrom = r, served
	return r, nil
}

// addTo adds the tools that may be used.
func (t *tools) addTo(r *toolkit.Registry, list []toolkit.Entry) error {
	for _, e := range list {
		if !t.pick.Allows(e.Tool.Definition().Name) {
			continue
		}
		err := r.Add(e)
		if err != nil && e.Executor == toolkit.ExecutorMCP {
			// A server that changed its tools must not prevent calls.
			t.log.Warn("MCP tool left out", "server", e.Server, "error", err)
			continue
		}
		if err != nil {
			return fmt.Errorf("add tool: %w", err)
		}
	}
	if n := r.Len(); n > toolkit.MaxOffered {
		t.log.Warn("more tools than models accept, the last ones are not offered", "tools", n, "limit", toolkit.MaxOffered)
	}
	return nil
}

// spoken returns the tools of a new voice call: those of every turn, and the one that requests a text
// turn. A call waits for none: those that come later reach it then.
func (t *tools) spoken(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error) {
	r, err := t.of(ctx, owner, a, false)
	if err != nil || t.agent == nil {
		return r, err
	}
	name := t.agent.Definition().Name
	if !t.delegated && (!t.pick.Allows(name) || !allowedBy(a)(name)) {
		return r, nil
	}
	r = r.Clone()
	if err := r.Add(toolkit.Entry{Tool: t.agent, Executor: toolkit.ExecutorApp}); err != nil {
		return nil, fmt.Errorf("add tool: %w", err)
	}
	return r, nil
}
