package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Limits of a configuration.
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
// "servers" is accepted in place of "mcpServers".
type Config struct {
	// Servers are the servers by their names.
	Servers map[string]Server
}

// Server is one MCP server. Its texts hold no ${…} any more.
type Server struct {
	// Type is TypeStdio, TypeHTTP or TypeSSE.
	Type string
	// Command, Args, Env and Cwd start a server of TypeStdio. The child has PATH, HOME, LANG
	// and TMPDIR of this process and Env, nothing else.
	Command string
	Args    []string
	Env     map[string]string
	Cwd     string
	// URL and Headers lead to a server of TypeHTTP or TypeSSE. The headers go to the host of the
	// URL only.
	URL     string
	Headers map[string]string
	// Timeout is the limit of one tool call; zero means the router's.
	Timeout time.Duration
	// Disabled servers are not started.
	Disabled bool
	// AllowedTools are the names, as the server gives them, of the tools to offer; nil offers all.
	AllowedTools []string
}

// serverFile is a server as it stands in the file.
type serverFile struct {
	Type         string            `json:"type"`
	Command      string            `json:"command"`
	Args         []string          `json:"args"`
	Env          map[string]string `json:"env"`
	Cwd          string            `json:"cwd"`
	URL          string            `json:"url"`
	Headers      map[string]string `json:"headers"`
	Timeout      json.RawMessage   `json:"timeout"`
	Disabled     bool              `json:"disabled"`
	AllowedTools []string          `json:"allowedTools"`
}

// serverKeys are the keys of a server, exactly: encoding/json alone would also take "Command".
var serverKeys = []string{"type", "command", "args", "env", "cwd", "url", "headers", "timeout", "disabled", "allowedTools"}

// LoadConfig reads the file at path. In the texts of servers that are not disabled ${VAR} and
// ${VAR:-default} are replaced from the environment. Errors name the file, and what
// is wrong: an unknown key, a variable that is not set, a bad value. Several are joined.
func LoadConfig(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, fmt.Errorf("read MCP configuration: %w", err)
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return Config{}, fmt.Errorf("read MCP configuration: %w", err)
	}
	config, err := parseConfig(data, os.LookupEnv)
	if err != nil {
		return Config{}, fmt.Errorf("read MCP configuration %s: %w", path, err)
	}
	return config, nil
}

func parseConfig(data []byte, lookup func(string) (string, bool)) (Config, error) {
	if len(data) > maxConfigBytes {
		return Config{}, fmt.Errorf("it is larger than %d bytes", maxConfigBytes)
	}
	top, err := uniqueObject(data)
	if err != nil {
		return Config{}, err
	}
	for key := range top {
		if key != "mcpServers" && key != "servers" {
			return Config{}, fmt.Errorf("unknown key %q, only \"mcpServers\" (or \"servers\") stands at the top", key)
		}
	}
	if len(top) != 1 {
		return Config{}, errors.New(`it needs exactly one of "mcpServers" and "servers"`)
	}
	var raw map[string]json.RawMessage
	for key, value := range top {
		if raw, err = uniqueObject(value); err != nil {
			return Config{}, fmt.Errorf("%s: %w", key, err)
		}
	}
	if len(raw) > maxServers {
		return Config{}, fmt.Errorf("it has %d servers, the limit is %d", len(raw), maxServers)
	}
	config := Config{Servers: make(map[string]Server, len(raw))}
	var problems []error
	prefixes := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		server, err := parseServer(name, raw[name], lookup)
		if err != nil {
			problems = append(problems, fmt.Errorf("server %q: %w", name, err))
		}
		if other, ok := prefixes[sanitize(name)]; ok {
			problems = append(problems, fmt.Errorf("servers %q and %q: their tools would have the same names", other, name))
		}
		prefixes[sanitize(name)] = name
		config.Servers[name] = server
	}
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	return config, nil
}

// uniqueObject reads a JSON object and refuses a key that stands there twice: encoding/json
// would silently take the last.
func uniqueObject(data []byte) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if t, err := decoder.Token(); err != nil || t != json.Delim('{') {
		if err == nil || errors.Is(err, io.EOF) {
			err = errors.New("it must be a JSON object")
		}
		return nil, err
	}
	object := map[string]json.RawMessage{}
	for decoder.More() {
		t, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		key, _ := t.(string)
		if _, ok := object[key]; ok {
			return nil, fmt.Errorf("the key %q stands there twice", key)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		object[key] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is text after the JSON object")
	}
	return object, nil
}

func parseServer(name string, data []byte, lookup func(string) (string, bool)) (Server, error) {
	if name == "" || len(name) > maxServerName {
		return Server{}, fmt.Errorf("the name must have 1 to %d bytes", maxServerName)
	}
	keys, err := uniqueObject(data)
	if err != nil {
		return Server{}, err
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !slices.Contains(serverKeys, key) {
			return Server{}, fmt.Errorf("unknown key %q", key)
		}
	}
	var file serverFile
	if err := json.Unmarshal(data, &file); err != nil {
		return Server{}, err
	}
	if len(file.Args) > maxArgs || len(file.Env) > maxEntries || len(file.Headers) > maxEntries || len(file.AllowedTools) > maxEntries {
		return Server{}, fmt.Errorf("args, env, headers and allowedTools hold %d entries at most", maxEntries)
	}
	timeout, err := parseTimeout(file.Timeout)
	if err != nil {
		return Server{}, err
	}
	server := Server{
		Type: file.Type, Command: file.Command, Args: file.Args, Env: file.Env, Cwd: file.Cwd, URL: file.URL,
		Headers: file.Headers, Timeout: timeout, Disabled: file.Disabled, AllowedTools: file.AllowedTools,
	}
	if server.Disabled {
		return server, nil // what it needs may well be missing here
	}
	if err := server.expand(lookup); err != nil {
		return Server{}, err
	}
	return server, server.validate()
}

// parseTimeout reads a number of seconds, or a text such as "1m30s".
func parseTimeout(raw json.RawMessage) (time.Duration, error) {
	if raw == nil {
		return 0, nil
	}
	var seconds float64
	var text string
	var timeout time.Duration
	if err := json.Unmarshal(raw, &seconds); err == nil {
		timeout = time.Duration(min(seconds, 1e6) * float64(time.Second))
	} else if err := json.Unmarshal(raw, &text); err != nil {
		return 0, errors.New(`timeout must be a number of seconds or a text such as "30s"`)
	} else if timeout, err = time.ParseDuration(text); err != nil {
		return 0, fmt.Errorf("timeout: %w", err)
	}
	if timeout <= 0 || timeout > maxTimeout {
		return 0, fmt.Errorf("timeout must be more than 0 and %v at most", maxTimeout)
	}
	return timeout, nil
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)(:-([^}]*))?\}`)

func (s *Server) expand(lookup func(string) (string, bool)) error {
	var missing []string
	expand := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(match string) string {
			parts := variable.FindStringSubmatch(match)
			value, ok := lookup(parts[1])
			switch {
			case parts[2] != "" && value == "":
				return parts[3]
			case !ok && !slices.Contains(missing, parts[1]):
				missing = append(missing, parts[1])
			}
			return value
		})
	}
	s.Command, s.Cwd, s.URL = expand(s.Command), expand(s.Cwd), expand(s.URL)
	for i := range s.Args {
		s.Args[i] = expand(s.Args[i])
	}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		s.Env[key] = expand(s.Env[key])
	}
	for _, key := range slices.Sorted(maps.Keys(s.Headers)) {
		s.Headers[key] = expand(s.Headers[key])
	}
	if len(missing) > 0 {
		return fmt.Errorf("the environment has no %s (write ${%s:-default} for a default)", strings.Join(missing, ", "), missing[0])
	}
	return nil
}

// validate checks what one server needs and sets its type. No error holds a value of env or headers:
// they may be secrets.
func (s *Server) validate() error {
	if s.Type == "" {
		s.Type = TypeStdio
		if s.Command == "" && s.URL != "" {
			s.Type = TypeHTTP
		}
	}
	for _, text := range append([]string{s.Command, s.Cwd, s.URL}, s.Args...) {
		if len(text) > maxValue || strings.ContainsRune(text, 0) {
			return fmt.Errorf("a text is longer than %d bytes or holds a NUL", maxValue)
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
				return fmt.Errorf("the header %q holds a line break", key)
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
