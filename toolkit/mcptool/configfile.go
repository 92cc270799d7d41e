package mcptool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"voicebridge/toolkit"
)

// entry is a server as written in the file.
type entry struct {
	Server

	Args    []scalar          `json:"args"`
	Env     map[string]scalar `json:"env"`
	Headers map[string]scalar `json:"headers"`
	Timeout json.RawMessage   `json:"timeout"`
	OAuth   struct {
		ClientID     string   `json:"clientId"`
		ClientSecret string   `json:"clientSecret"`
		Scopes       []string `json:"scopes"`
	} `json:"oauth"`
}

// scalar is a text, or a number or a boolean as it is written: files of VS Code have those in env.
type scalar string

// UnmarshalJSON implements [json.Unmarshaler].
func (t *scalar) UnmarshalJSON(raw []byte) error {
	if strings.IndexByte(`"[{n`, raw[0]) < 0 {
		*t = scalar(raw)
		return nil
	}
	return json.Unmarshal(raw, (*string)(t))
}

// serverKeys are a server's keys, matched exactly: encoding/json alone would also accept "Command".
var serverKeys = []string{
	"type", "command", "args", "env", "cwd", "url", "headers", "timeout", "disabled", "allowedTools", "deniedTools",
	"trustChanges", "perOwner", "maxOwners", "auth", "oauth",
}

// foreignKeys are those of other clients without which a server would be another one, and ours in their place.
var foreignKeys = map[string]string{
	"httpUrl": "url", "serverUrl": "url", "transport": "type", "envFile": "env", "enabled": "disabled",
	"includeTools": "allowedTools", "excludeTools": "deniedTools", "disabledTools": "deniedTools",
}

// LoadConfig reads the file at path. In the texts of servers that are not disabled, ${VAR} and ${VAR:-default} are
// replaced from the environment. Errors name the file and what is wrong: an unset variable, a bad value. Several are
// joined.
func LoadConfig(path string) (Config, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read MCP configuration: %w", err)
	}
	config, err := parseConfig(data, os.LookupEnv)
	if err != nil {
		return Config{}, fmt.Errorf("read MCP configuration %s: %w", path, err)
	}
	return config, nil
}

// lookup finds a variable of the environment.
type lookup func(name string) (value string, ok bool)

func parseConfig(data []byte, env lookup) (config Config, err error) {
	if len(data) > maxConfigBytes {
		return Config{}, fmt.Errorf("it is larger than %d bytes", maxConfigBytes)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	top, err := objectOf(data)
	if err != nil {
		return Config{}, fmt.Errorf("%w (it is JSON, without comments and without commas at the end of a list)", err)
	}
	// Of two, encoding/json would silently take the last.
	if key, twice := toolkit.KeyTwice(data); twice {
		return Config{}, fmt.Errorf("the key %q occurs twice", key)
	}
	key := "mcpServers"
	if top[key] == nil {
		key = "servers" // of VS Code
	}
	if top[key] == nil || top["mcpServers"] != nil && top["servers"] != nil {
		return Config{}, errors.New(`it needs exactly one of "mcpServers" and "servers"`)
	}
	raw, err := objectOf(top[key])
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", key, err)
	}
	if len(raw) > maxServers {
		return Config{}, fmt.Errorf("it has %d servers, the limit is %d", len(raw), maxServers)
	}
	config.Servers = make(map[string]Server, len(raw))
	for _, other := range slices.Sorted(maps.Keys(top)) {
		if other != key {
			config.Warnings = append(config.Warnings, unknownKey(other))
		}
	}
	var problems []error
	prefixes := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		server, warnings, err := parseServer(name, raw[name], env)
		for _, w := range warnings {
			config.Warnings = append(config.Warnings, fmt.Sprintf("server %q: %s", name, w))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("server %q: %w", name, err))
		}
		config.Servers[name] = server
		if server.Disabled || isForeign(name) {
			continue
		}
		if other, ok := prefixes[toolkit.CleanName(name)]; ok {
			problems = append(problems,
				fmt.Errorf("servers %q and %q: their tools would have the same names", other, name))
		}
		prefixes[toolkit.CleanName(name)] = name
	}
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	return config, nil
}

func unknownKey(key string) string {
	return fmt.Sprintf("the key %q is unknown and has no effect", key)
}

func parseServer(name string, data []byte, env lookup) (s Server, warnings []string, err error) {
	keys, err := objectOf(data)
	if err != nil {
		return s, nil, err
	}
	if string(keys["disabled"]) == "true" {
		return Server{Disabled: true}, nil, nil // the rest may be of another program, or need what is not there
	}
	if n := utf8.RuneCountInString(name); n == 0 || n > maxServerName {
		return s, nil, fmt.Errorf("the name must have 1 to %d characters", maxServerName)
	}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if ours := foreignKeys[key]; ours != "" {
			return s, nil, fmt.Errorf("the key %q is one of another client, the key here is %q", key, ours)
		}
		if !slices.Contains(serverKeys, key) {
			warnings = append(warnings, unknownKey(key))
			delete(keys, key)
		}
	}
	var e entry
	if err := json.Unmarshal(toolkit.Encode(keys), &e); err != nil {
		return s, nil, err
	}
	s = e.Server
	for _, arg := range e.Args {
		s.Args = append(s.Args, string(arg))
	}
	s.Env, s.Headers = texts(e.Env), texts(e.Headers)
	s.ClientID, s.ClientSecret = e.OAuth.ClientID, e.OAuth.ClientSecret
	s.Scopes = e.OAuth.Scopes
	for _, n := range []int{
		len(s.Args), len(s.Env), len(s.Headers), len(s.AllowedTools) + len(s.DeniedTools), len(s.Scopes),
	} {
		if n > maxEntries {
			return s, nil, fmt.Errorf("args, env, headers and lists of tools have %d entries at most", maxEntries)
		}
	}
	if s.Timeout, err = parseTimeout(e.Timeout); err != nil {
		return s, nil, err
	}
	if err := s.expand(env); err != nil {
		return s, nil, err
	}
	return s, warnings, s.validate()
}

func texts(of map[string]scalar) map[string]string {
	if of == nil {
		return nil
	}
	out := make(map[string]string, len(of))
	for key, value := range of {
		out[key] = string(value)
	}
	return out
}

// parseTimeout reads a number of seconds, which may be a text, or a text such as "1m30s".
func parseTimeout(raw json.RawMessage) (time.Duration, error) {
	if raw == nil || string(raw) == "null" {
		return 0, nil
	}
	said := strings.Trim(string(raw), `"`)
	timeout, _ := time.ParseDuration(said)
	if seconds, err := strconv.ParseFloat(said, 64); err == nil && seconds <= maxTimeout.Seconds() {
		timeout = time.Duration(seconds * float64(time.Second))
	}
	if timeout <= 0 || timeout > maxTimeout {
		return 0, fmt.Errorf(`timeout must be a number of seconds or a text such as "30s", and %v at most`, maxTimeout)
	}
	return timeout, nil
}

var (
	variable = regexp.MustCompile(`\$\{([^}]*)\}`)
	name     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	foreign  = regexp.MustCompile(`^[A-Za-z]+:`)
)

// expand replaces the variables in a server's texts: ${NAME}, ${NAME:-default}, and as editors write it, ${env:NAME}.
// What else they know, such as ${input:id}, is refused; other texts of that form stay, as they may be for a shell.
func (s *Server) expand(env lookup) error {
	var problems []error
	text := func(text string) string {
		return variable.ReplaceAllStringFunc(text, func(match string) string {
			id, fallback, hasDefault := strings.Cut(strings.TrimSuffix(match[2:], "}"), ":-")
			id = strings.TrimPrefix(id, "env:")
			value, ok := env(id)
			switch {
			case foreign.MatchString(id):
				problems = append(problems,
					fmt.Errorf("only an editor knows %s: write ${NAME}, a variable of the environment", match))
				return match
			case !name.MatchString(id):
				return match
			case hasDefault && value == "":
				return fallback
			case !ok:
				problems = append(problems,
					fmt.Errorf("the environment has no %s (write ${%s:-default} for a default)", id, id))
			}
			return value
		})
	}
	for _, one := range []*string{&s.Command, &s.Cwd, &s.URL, &s.ClientID, &s.ClientSecret} {
		*one = text(*one)
	}
	for i := range s.Args {
		s.Args[i] = text(s.Args[i])
	}
	for _, texts := range []map[string]string{s.Env, s.Headers} {
		for _, key := range slices.Sorted(maps.Keys(texts)) {
			texts[key] = text(texts[key])
		}
	}
	return errors.Join(problems...)
}
