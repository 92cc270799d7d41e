// Package mcptool offers the tools of MCP servers (modelcontextprotocol.io): child processes over
// stdio, and remote servers over streamable HTTP or SSE.
//
// [Open] prepares all servers of a [Config], [Servers.Run] keeps them connected, and
// [Servers.Tools] returns what they offer right now. A tool stays usable when its server
// disconnects and comes back; while the server is gone, calls fail with an error that says so.
//
// What servers send is not trusted: names, descriptions, schemas, progress and results are limited
// and cleaned, and a child sees only the environment that its configuration gives it. Secrets of
// the configuration are removed from errors and log lines: the values of headers, the part of a URL
// after the host, and values of env that are named like secrets or are URLs with a password.
package mcptool

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"voicebridge/toolkit"
)

// Servers are the configured MCP servers. All methods are safe for concurrent use.
type Servers struct {
	families []*family // by name
	settled  chan struct{}
	folder   string // of Options, absolute
	log      *slog.Logger

	closing context.Context // done once Close was called
	close   context.CancelFunc
	closed  sync.Once
}

// Open prepares the enabled servers. [Servers.Run] connects to them; until then there are no tools.
// Its error is about the configuration. Close must be called.
func Open(config Config, options Options) (*Servers, error) {
	options.ConnectTimeout = cmp.Or(options.ConnectTimeout, 20*time.Second)
	options.CallTimeout = cmp.Or(options.CallTimeout, 30*time.Second)
	options.MinBackoff = cmp.Or(options.MinBackoff, 500*time.Millisecond)
	options.MaxBackoff = cmp.Or(options.MaxBackoff, 30*time.Second)
	options.Version = cmp.Or(options.Version, "dev")
	if options.Pins == nil {
		options.Pins = &memory{}
	}
	if options.Changed == nil {
		options.Changed = func() {}
	}
	options.Logger = cmp.Or(options.Logger, slog.New(slog.DiscardHandler))
	folder, err := filepath.Abs(cmp.Or(options.Folder, filepath.Join("data", "mcp")))
	if err != nil {
		return nil, fmt.Errorf("open MCP servers: %w", err)
	}
	options.Folder = folder
	s := &Servers{folder: folder, log: options.Logger, settled: make(chan struct{})}
	s.closing, s.close = context.WithCancel(context.Background())
	for _, name := range slices.Sorted(maps.Keys(config.Servers)) {
		c := config.Servers[name]
		if c.Disabled {
			continue
		}
		if err := c.validate(); err != nil {
			return nil, fmt.Errorf("open MCP server %q: %w", name, err)
		}
		if c.Auth == AuthOAuth && options.SignIn == nil {
			return nil, fmt.Errorf("open MCP server %q: owners cannot sign in here", name)
		}
		s.families = append(s.families, newFamily(s.closing, name, c, options))
	}
	return s, nil
}

// Run connects to all servers at once and keeps them connected: it reconnects with growing pauses,
// and lists a server's tools again when the server says that they have changed. It blocks until ctx
// ends or Close is called, closes all connections, and returns nil. It must be called once.
func (s *Servers) Run(ctx context.Context) error {
	var first, settling sync.WaitGroup
	for _, f := range s.families {
		if m := f.openTo(ctx); m != nil {
			first.Go(func() { <-m.tried })
		}
	}
	settling.Go(func() {
		first.Wait()
		close(s.settled)
	})
	if len(s.families) > 0 {
		select {
		case <-ctx.Done():
		case <-s.closing.Done():
		}
	}
	err := s.Close()
	settling.Wait()
	return err
}

// Settled is closed once Run has tried each server for the first time, or has ended.
func (s *Servers) Settled() <-chan struct{} { return s.settled }

// Close ends all connections and child processes and waits for them. It may be called more than once.
func (s *Servers) Close() error {
	s.closed.Do(func() {
		s.close()
		var wg sync.WaitGroup
		for _, f := range s.families {
			wg.Go(f.shut)
		}
		wg.Wait()
	})
	return nil
}

// Tools returns what the connected servers that serve all owners offer right now, by server and name. A later call may
// return others; earlier tools stay usable.
func (s *Servers) Tools() []toolkit.Entry {
	var entries []toolkit.Entry
	seen := map[string]bool{}
	for _, f := range s.families {
		for _, e := range f.entries(f.shared().tools()) {
			name := e.Tool.Definition().Name
			if seen[name] {
				s.log.Warn("MCP tool left out, another has its name", "server", f.name, "tool", name)
				continue
			}
			seen[name] = true
			entries = append(entries, e)
		}
	}
	return entries
}

// Status returns the state of the servers that serve all owners and are not disabled, by name.
func (s *Servers) Status() []Status {
	all := []Status{}
	for _, f := range s.families {
		if !f.config.owned() {
			all = append(all, f.shared().status())
		}
	}
	return all
}
