package mcptool

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"voicebridge/toolkit/mcptool/signin"
)

// Limits on a configuration.
const (
	maxConfigBytes = 1 << 20
	maxServers     = 32
	maxServerName  = 64
	maxEntries     = 256      // of env, headers, allowedTools
	maxValue       = 32 << 10 // bytes of one text
	maxTimeout     = 10 * time.Minute
	maxOwners      = 1000 // of whom each has a process at once
	usualOwners    = 16
)

// AuthOAuth lets each owner sign in to a server.
const AuthOAuth = "oauth"

// The transports of a server.
const (
	TypeStdio = "stdio" // a child process, JSON lines on stdin and stdout
	TypeHTTP  = "http"  // streamable HTTP (MCP specification 2025-03-26 and later)
	TypeSSE   = "sse"   // HTTP with SSE (MCP specification 2024-11-05)
)

// Config is the file mcp.json in the form that desktop clients use:
//
//	{"mcpServers": {"files": {"command": "npx", "args": ["-y", "server"], "env": {"TOKEN": "${TOKEN}"}},
//	                "search": {"type": "http", "url": "https://…/mcp",
//	                           "headers": {"Authorization": "Bearer ${KEY:-none}"}}}}
//
// It also accepts "servers" for "mcpServers".
type Config struct {
	// Servers are the servers by their names.
	Servers map[string]Server
	// Warnings say what in the file has no effect.
	Warnings []string
}

// Server is one MCP server. In its texts, each ${…} has been replaced.
type Server struct {
	// Type is TypeStdio, TypeHTTP or TypeSSE.
	Type string `json:"type"`
	// Command, Args, Env and Cwd start a server of TypeStdio. The child gets PATH, HOME, LANG and
	// TMPDIR of this process, VOICEBRIDGE_PROCESS and Env, nothing else.
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	Cwd     string            `json:"cwd"`
	// URL and Headers are for a server of TypeHTTP or TypeSSE. The headers go only to the URL's
	// host.
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	// Timeout limits one tool call; zero means the router's limit.
	Timeout time.Duration `json:"-"`
	// Disabled servers are not started.
	Disabled bool `json:"disabled"`
	// AllowedTools are the names, as the server gives them, of the tools to offer; nil means all.
	// DeniedTools are not offered.
	AllowedTools []string `json:"allowedTools"`
	DeniedTools  []string `json:"deniedTools"`
	// TrustChanges offers tools even if the server has changed them since they were first seen.
	TrustChanges bool `json:"trustChanges"`
	// PerOwner starts a server of TypeStdio for each owner, in a folder of its own, of whom up to MaxOwners have one at
	// once.
	PerOwner  bool `json:"perOwner"`
	MaxOwners int  `json:"maxOwners"`
	// Auth is AuthOAuth for a server of TypeHTTP to which each owner signs in, or empty.
	Auth string `json:"auth"`
	// ClientID and ClientSecret are what its authorization server knows voicebridge as; without them, voicebridge
	// registers itself. Scopes are what to ask for; nil means what the server names.
	ClientID     string   `json:"-"`
	ClientSecret string   `json:"-"`
	Scopes       []string `json:"-"`
}

// SignIn returns the server as owners sign in to it.
func (s *Server) SignIn(name string) signin.Server {
	return signin.Server{
		Name: name, URL: s.URL, Headers: s.Headers, ClientID: s.ClientID, ClientSecret: s.ClientSecret,
		Scopes: s.Scopes,
	}
}

// owned reports whether each owner has a connection of their own.
func (s *Server) owned() bool { return s.PerOwner || s.Auth == AuthOAuth }

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
	if s.Type == "streamable-http" { // as the specification and its registry call it
		s.Type = TypeHTTP
	}
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
			if key == "" || strings.ContainsAny(key, "=\x00\r\n") || len(value) > maxValue ||
				strings.ContainsRune(value, 0) {
				return fmt.Errorf("the entry %q of env or headers has a bad name or a value that is too long", key)
			}
		}
	}
	if err := s.validateOwners(); err != nil {
		return err
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

// validateOwners checks what is about servers of which each owner has one.
func (s *Server) validateOwners() error {
	_, authorized := s.Headers["Authorization"]
	switch {
	case s.Auth != "" && s.Auth != AuthOAuth:
		return fmt.Errorf("unknown auth %q, it must be oauth", s.Auth)
	case s.Auth == AuthOAuth && s.Type != TypeHTTP:
		return errors.New("auth is for the type http")
	case s.Auth == AuthOAuth && authorized:
		return errors.New("with auth, each owner has a token of their own: it must have no header Authorization")
	case s.Auth == "" && (s.ClientID != "" || s.ClientSecret != "" || s.Scopes != nil):
		return errors.New(`oauth says how to sign in, which needs "auth": "oauth"`)
	case s.ClientSecret != "" && s.ClientID == "":
		return errors.New("oauth has a clientSecret but no clientId")
	case s.PerOwner && s.Type != TypeStdio:
		return errors.New("perOwner is for the type stdio")
	case s.PerOwner && s.Cwd != "":
		return errors.New("with perOwner, each owner has a folder of their own: it must have no cwd")
	case s.MaxOwners != 0 && !s.PerOwner, s.MaxOwners < 0, s.MaxOwners > maxOwners:
		return fmt.Errorf("maxOwners is for perOwner, and 1 to %d", maxOwners)
	}
	return nil
}
