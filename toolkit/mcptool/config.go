package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Limits on a configuration.
const (
	maxConfigBytes = 1 << 20
	maxServers     = 32
	maxServerName  = 64
	maxArgs        = 256
	maxEntries     = 256      // of env, headers, allowedTools
	maxValue       = 32 << 10 // bytes of one text
	maxTimeout     = 10 * time.Minute
)

// The transports of a server.
const (
	TypeStdio = "stdio" // a child process, JSON lines on stdin and stdout
	TypeHTTP  = "http"  // streamable HTTP (MCP specification 2025-03-26 and later)
	TypeSSE   = "sse"   // HTTP with SSE (MCP specification 2024-11-05)
)

// Config is the file mcp.json in the form that desktop clients use:
//
//	{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "${TOKEN}"}},
//	                "search": {"type": "http", "url": "https://…/mcp", "headers": {"Authorization": "Bearer ${KEY:-none}"}}}}
//
// It also accepts "servers" for "mcpServers", comments, trailing commas, and keys of other clients:
// see [Config.Warnings].
type Config struct {
	// Servers are the servers by their names.
	Servers map[string]Server
	// Warnings say what in the file has no effect, or another effect than in the client that the file
	// was written for.
	Warnings []string
}

// Server is one MCP server. In its texts, each ${…} has been replaced.
type Server struct {
	// Type is TypeStdio, TypeHTTP or TypeSSE.
	Type string
	// Command, Args, Env and Cwd start a server of TypeStdio. The child gets PATH, HOME, LANG and
	// TMPDIR of this process and Env, nothing else.
	Command string
	Args    []string
	Env     map[string]string
	Cwd     string
	// URL and Headers are for a server of TypeHTTP or TypeSSE. The headers go only to the URL's
	// host.
	URL     string
	Headers map[string]string
	// Timeout limits one tool call; zero means the router's limit.
	Timeout time.Duration
	// Disabled servers are not started.
	Disabled bool
	// AllowedTools are the names, as the server gives them, of the tools to offer; nil means all.
	// DeniedTools are not offered.
	AllowedTools []string
	DeniedTools  []string
	// TrustChanges offers tools even if the server has changed them since they were first seen.
	TrustChanges bool
}

// objectOf reads a JSON object.
func objectOf(data []byte) (object map[string]json.RawMessage, err error) {
	err = json.Unmarshal(data, &object)
	if _, other := errors.AsType[*json.UnmarshalTypeError](err); other || err == nil && object == nil {
		err = errors.New("it must be a JSON object")
	}
	return object, err
}

// validate checks what one server needs and sets its type. No error contains a value of env or
// headers, which may be secret.
func (s *Server) validate() error {
	if s.Type == "" {
		s.Type = TypeStdio
		if s.Command == "" && s.URL != "" {
			s.Type = TypeHTTP
		}
	}
	for _, text := range append([]string{s.Command, s.Cwd, s.URL}, s.Args...) {
		if len(text) > maxValue || strings.ContainsRune(text, 0) {
			return fmt.Errorf("a text is longer than %d bytes or contains a NUL", maxValue)
		}
	}
	for _, entries := range []map[string]string{s.Env, s.Headers} {
		for key, value := range entries {
			if key == "" || strings.ContainsAny(key, "=\x00\r\n") || len(value) > maxValue || strings.ContainsRune(value, 0) {
				return fmt.Errorf("the entry %q of env or headers has a bad name or a value that is too long", key)
			}
		}
	}
	switch s.Type {
	case TypeStdio:
		if s.Command == "" {
			return errors.New("it needs a command (or a url)")
		}
		if s.URL != "" || len(s.Headers) > 0 {
			return errors.New("url and headers are for the types http and sse, command for stdio")
		}
		return nil
	case TypeHTTP, TypeSSE:
		if s.Command != "" || len(s.Args) > 0 || len(s.Env) > 0 || s.Cwd != "" {
			return errors.New("command, args, env and cwd are for the type stdio, url for http and sse")
		}
		for key, value := range s.Headers {
			if strings.ContainsAny(value, "\r\n") {
				return fmt.Errorf("the header %q contains a line break", key)
			}
		}
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return errors.New("url must be of the form http://… or https://…")
		}
		return nil
	default:
		return fmt.Errorf("unknown type %q, it must be stdio, http or sse", s.Type)
	}
}
