package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"

	"voicebridge/toolkit"
	"voicebridge/toolkit/charts"
	"voicebridge/toolkit/mcptool"
)

const defaultMCPFile = "mcp.json"

// tools are the server's tools: those that are always here, and those of the MCP
// servers, which come and go.
type tools struct {
	own  []toolkit.Entry
	mcp  *mcptool.Servers // nil when none is configured
	pick toolsConfig
	log  *slog.Logger
}

// openTools connects to the MCP servers. close must be called.
func openTools(ctx context.Context, cfg config, log *slog.Logger) (*tools, error) {
	t := &tools{pick: cfg.Tools, log: log}
	for _, tool := range charts.Tools() {
		t.own = append(t.own, toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp})
	}
	path := cfg.MCPConfig
	if path == "" {
		if _, err := os.Stat(defaultMCPFile); errors.Is(err, fs.ErrNotExist) {
			return t, nil
		}
		path = defaultMCPFile
	}
	servers, err := mcptool.LoadConfig(path)
	if err != nil {
		return nil, err
	}
	t.mcp, err = mcptool.Open(ctx, servers, mcptool.Options{Logger: log, Version: buildVersion()})
	return t, err
}

// run keeps the MCP servers connected until ctx ends.
func (t *tools) run(ctx context.Context) error {
	if t.mcp == nil {
		<-ctx.Done()
		return nil
	}
	return t.mcp.Run(ctx)
}

func (t *tools) close() error {
	if t.mcp == nil {
		return nil
	}
	return t.mcp.Close()
}

// registry returns the tools of a new call. The same for every owner and thread
// for now: what an operator allows, he allows all who may come in.
func (t *tools) registry(context.Context, string, string) (*toolkit.Registry, error) {
	r := toolkit.NewRegistry()
	entries := slices.Clone(t.own)
	if t.mcp != nil {
		entries = append(entries, t.mcp.Tools()...)
	}
	for _, e := range entries {
		if !t.picked(e.Tool.Definition().Name) {
			continue
		}
		err := r.Add(e)
		if err != nil && e.Executor == toolkit.ExecutorMCP {
			// A server that changed its tools must not keep calls from starting.
			t.log.Warn("MCP tool left out", "server", e.Server, "error", err)
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("add tool: %w", err)
		}
	}
	return r, nil
}

// picked reports whether the operator lets a tool be used.
func (t *tools) picked(name string) bool {
	if slices.Contains(t.pick.Deny, name) {
		return false
	}
	return len(t.pick.Allow) == 0 || slices.Contains(t.pick.Allow, name)
}
