package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/cmd/voicebridge/internal/telemetry"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
	"voicebridge/toolkit/code"
	"voicebridge/toolkit/mcptool"
	"voicebridge/toolkit/webtools"
	"voicebridge/web"
)

// tools are the server's tools: the permanent ones, and those of MCP servers, which come and go.
type tools struct {
	own []toolkit.Entry
	// agent is the tool by which a voice call requests a text turn; may be nil.
	agent toolkit.Tool
	mcp   *mcptool.Servers // nil when none is configured
	pick  config.Tools
	// assistants keeps which of them the assistants of threads have; may be nil.
	assistants interface {
		Of(ctx context.Context, key thread.Key) (assistant.Assistant, error)
	}
	log *slog.Logger
	// changed gets a signal when the tools of MCP servers have changed.
	changed chan struct{}

	// built is what registry has returned last, and builtFrom the tools of MCP servers in it.
	mu        sync.Mutex
	built     *toolkit.Registry
	builtFrom []toolkit.Entry
}

// openTools makes the server's own tools. run connects to the MCP servers. close must be called.
func openTools(ctx context.Context, cfg config.Config, store *persistence.Store, traces *telemetry.Traces, log *slog.Logger) (*tools, error) {
	t := &tools{pick: cfg.Tools, log: log, changed: make(chan struct{}, 1)}
	if store != nil {
		t.assistants = store.Assistants
	}
	t.openOwn(ctx, cfg)
	if err := t.openMCP(cfg, store, traces); err != nil {
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
	for key, list := range map[string]toolkit.Names{"allow": t.pick.Allow, "deny": t.pick.Deny, "approve": t.pick.Approve} {
		if key == "approve" && fmt.Sprint(t.pick.Approve) == fmt.Sprint(config.Defaults().Tools.Approve) {
			continue // the toolkit http may be off
		}
		for _, entry := range list.Unmatched(entries, absentTools...) {
			t.log.Warn("setting names an unknown tool", "setting", "tools."+key, "entry", entry)
		}
	}
}

// absentTools are known even if the server lacks them: the page declares one, and programs run only
// where they are enabled and the host can confine them.
var absentTools = []string{code.JavaScriptName, code.PythonName, "changeBrowserTheme"}

// openMCP prepares the MCP servers, if any are configured.
func (t *tools) openMCP(cfg config.Config, store *persistence.Store, traces *telemetry.Traces) error {
	path := cfg.MCPPath()
	if path == "" {
		return nil
	}
	servers, err := mcptool.LoadConfig(path)
	if err != nil {
		return fmt.Errorf("%w (choose another file with VOICEBRIDGE_MCP_CONFIG)", err)
	}
	for _, warning := range servers.Warnings {
		t.log.Warn("MCP configuration", "file", path, "warning", warning)
	}
	options := mcptool.Options{Logger: t.log, Version: buildVersion(), Trace: traces.Write, Changed: func() {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}}
	if store != nil {
		options.Pins = store.Admission
		options.Media = chat.Media{Store: store, Quota: cfg.ImageQuota()}
	}
	t.mcp, err = mcptool.Open(servers, options)
	return err
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
	if t.mcp == nil {
		t.reportLists()
		<-ctx.Done()
		return nil
	}
	var reported sync.WaitGroup
	defer reported.Wait()
	reported.Go(func() {
		if <-t.mcp.Settled(); ctx.Err() == nil {
			t.reportLists()
		}
	})
	return t.mcp.Run(ctx)
}

func (t *tools) close() error {
	if t.mcp == nil {
		return nil
	}
	return t.mcp.Close()
}

// entries returns the current tools, whether they may be used or not.
func (t *tools) entries() []toolkit.Entry { return slices.Concat(t.own, t.served()) }

// served returns the current tools of MCP servers.
func (t *tools) served() []toolkit.Entry {
	if t.mcp == nil {
		return nil
	}
	return t.mcp.Tools()
}

// servers returns the state of the MCP servers; nil if none is configured.
func (t *tools) servers() func() []web.ToolServer {
	if t.mcp == nil {
		return nil
	}
	return func() []web.ToolServer {
		var all []web.ToolServer
		for _, s := range t.mcp.Status() {
			one := web.ToolServer{Name: s.Name, Connected: s.Connected, Tools: s.Tools}
			for _, h := range s.Held {
				if t.pick.Allows(h.Tool.Name) {
					one.Held = append(one.Held, web.HeldTool{Tool: h.Tool, Why: h.Why})
				}
			}
			all = append(all, one)
		}
		return all
	}
}

// registry returns the tools of a thread's assistant, not to be changed, or those of the server without a thread. What an
// operator allows is allowed to everybody with access.
func (t *tools) registry(ctx context.Context, owner, threadID string) (*toolkit.Registry, error) {
	r, err := t.all()
	if err != nil {
		return nil, err
	}
	a, err := t.assistant(ctx, owner, threadID)
	if err != nil || a.ID == "" {
		return r, err
	}
	return chosen(r, a)
}

// assistant returns that of a thread, the zero value if there is none.
func (t *tools) assistant(ctx context.Context, owner, threadID string) (assistant.Assistant, error) {
	if threadID == "" || t.assistants == nil {
		return assistant.Assistant{}, nil
	}
	return t.assistants.Of(ctx, thread.Key{Owner: owner, Thread: threadID})
}

// chosen returns those of the server's tools that an assistant has.
func chosen(r *toolkit.Registry, a assistant.Assistant) (*toolkit.Registry, error) {
	out := toolkit.NewRegistry()
	allows := allowedBy(a)
	for _, e := range r.Entries() {
		if !allows(e.Tool.Definition().Name) || e.Executor == toolkit.ExecutorMCP && a.MCPServers != nil && !slices.Contains(a.MCPServers, e.Server) {
			continue
		}
		if err := out.Add(e); err != nil {
			return nil, fmt.Errorf("add tool: %w", err)
		}
	}
	return out, nil
}

// allowedBy returns which tools an assistant may use.
func allowedBy(a assistant.Assistant) func(name string) bool {
	list := func(texts []string) (names toolkit.Names) {
		for _, text := range texts {
			var n toolkit.Name
			if n.UnmarshalText([]byte(text)) == nil { // it was checked
				names = append(names, n)
			}
		}
		return names
	}
	allow, deny := list(a.Tools.Allow), list(a.Tools.Deny)
	return func(name string) bool { return !deny.Has(name) && (a.Tools.Allow == nil || allow.Has(name)) }
}

// all returns the server's tools, not to be changed.
func (t *tools) all() (*toolkit.Registry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	served := t.served()
	if t.built != nil && slices.Equal(served, t.builtFrom) {
		return t.built, nil
	}
	r := toolkit.NewRegistry()
	for _, e := range slices.Concat(t.own, served) {
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
			return nil, fmt.Errorf("add tool: %w", err)
		}
	}
	if n := r.Len(); n > toolkit.MaxOffered {
		t.log.Warn("more tools than models accept, the last ones are not offered", "tools", n, "limit", toolkit.MaxOffered)
	}
	t.built, t.builtFrom = r, served
	return r, nil
}

// spoken returns the tools of a new voice call: those of every turn, and the one that requests a text
// turn.
func (t *tools) spoken(ctx context.Context, owner, threadID string) (*toolkit.Registry, error) {
	r, err := t.registry(ctx, owner, threadID)
	if err != nil || t.agent == nil || !t.pick.Allows(t.agent.Definition().Name) {
		return r, err
	}
	if a, err := t.assistant(ctx, owner, threadID); err != nil || !allowedBy(a)(t.agent.Definition().Name) {
		return r, err
	}
	r = r.Clone()
	if err := r.Add(toolkit.Entry{Tool: t.agent, Executor: toolkit.ExecutorApp}); err != nil {
		return nil, fmt.Errorf("add tool: %w", err)
	}
	return r, nil
}
