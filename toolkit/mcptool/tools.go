package mcptool

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"voicebridge/toolkit"
)

// Limits on what one server may offer.
const (
	maxDescription = 1024     // runes
	maxSchema      = 32 << 10 // bytes
	// maxReceived is how many tools are read of a list: some servers name a next page without end.
	maxReceived = 16 * maxTools
)

// list asks the server for its tools and returns those that are allowed and valid.
func (s *server) list(ctx context.Context, l *link) ([]*tool, error) {
	var listed []*mcp.Tool
	var barred []*tool
	seen := map[string]bool{}
	received, times := 0, map[string]int{}
	for t, err := range l.session.Tools(ctx, nil) {
		if err != nil {
			return nil, fmt.Errorf("list tools: %w", err)
		}
		if received++; received > maxReceived {
			s.log.Warn("MCP tools left out, the server lists more and more", "limit", maxReceived)
			break
		}
		if times[t.Name]++; times[t.Name] > 1 {
			if times[t.Name] == 2 {
				s.log.Warn("MCP tool left out, the server lists it twice", "tool", t.Name)
			}
			continue
		}
		if !s.allows(t.Name) {
			if made, err := s.tool(t, t.Name); err == nil && len(barred) < maxTools {
				barred = append(barred, made)
			}
			continue
		}
		if s.tasks.has(t.Name) {
			s.log.Warn("MCP tool left out, it runs only as a task", "tool", t.Name)
			continue
		}
		if len(listed) == maxTools {
			s.log.Warn("MCP tools left out, there are too many", "limit", maxTools)
			break
		}
		seen[t.Name] = true
		listed = append(listed, t)
	}
	for _, name := range s.config.AllowedTools {
		if !seen[name] {
			s.log.Warn("allowedTools names a tool that the MCP server does not offer", "tool", name)
		}
	}
	slices.SortFunc(listed, func(a, b *mcp.Tool) int { return strings.Compare(a.Name, b.Name) })
	remotes := make([]string, len(listed))
	for i, t := range listed {
		remotes[i] = t.Name
	}
	names := exposedNames(s.name, remotes)
	var offer []*tool
	for _, t := range listed {
		made, err := s.tool(t, names[t.Name])
		if err != nil {
			s.log.Warn("MCP tool left out", "tool", t.Name, "error", err)
			continue
		}
		offer = append(offer, made)
	}
	return s.hold(ctx, offer, barred)
}

// allows reports whether the configuration lets a tool be offered.
func (s *server) allows(name string) bool {
	return (s.config.AllowedTools == nil || slices.Contains(s.config.AllowedTools, name)) && !slices.Contains(s.config.DeniedTools, name)
}

func (s *server) tool(t *mcp.Tool, name string) (*tool, error) {
	parameters, err := json.Marshal(t.InputSchema)
	if err != nil {
		return nil, fmt.Errorf("read its schema: %w", err)
	}
	if t.InputSchema == nil {
		parameters = json.RawMessage(`{"type":"object","properties":{}}`)
	}
	if len(parameters) > maxSchema {
		return nil, fmt.Errorf("its schema is %d bytes long, the limit is %d", len(parameters), maxSchema)
	}
	var top struct {
		Type any `json:"type"`
	}
	if err := json.Unmarshal(parameters, &top); err != nil || top.Type != "object" {
		return nil, fmt.Errorf("its schema is not of type object")
	}
	made := &tool{server: s, remote: t.Name, def: toolkit.Definition{
		Name: name, Description: toolkit.Cut(strings.ToValidUTF8(cmp.Or(t.Description, t.Title), "\uFFFD"), maxDescription), Parameters: parameters,
	}}
	if err := toolkit.CheckParameters(parameters); err != nil {
		s.log.Warn("arguments of an MCP tool are checked only by its server", "tool", t.Name, "error", err)
		made.unchecked = true
	}
	return made, nil
}
