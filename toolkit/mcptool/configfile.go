package mcptool

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"voicebridge/toolkit"
)

// serverFile is a server as written in the file.
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
	Enabled      *bool             `json:"enabled"`
	AllowedTools []string          `json:"allowedTools"`
	DeniedTools  []string          `json:"deniedTools"`
	TrustChanges bool              `json:"trustChanges"`
	EnvFile      string            `json:"envFile"`
	PerOwner     bool              `json:"perOwner"`
	MaxOwners    int               `json:"maxOwners"`
	Auth         authFile          `json:"auth"`
	OAuth        oauthFile         `json:"oauth"`
}

// authFile says whether owners sign in: "oauth", or, as Cursor writes it, an object that says how.
type authFile struct {
	kind string
	how  oauthFile
}

func (a *authFile) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, &a.kind) == nil {
		return nil
	}
	var how struct {
		ID     string   `json:"CLIENT_ID"`
		Secret string   `json:"CLIENT_SECRET"`
		Scopes []string `json:"scopes"`
	}
	if json.Unmarshal(data, &how) != nil {
		return errors.New(`auth must be "oauth"`)
	}
	*a = authFile{AuthOAuth, oauthFile{how.ID, how.Secret, how.Scopes}}
	return nil
}

// oauthFile says how owners sign in, as written in the file.
type oauthFile struct {
	ClientID     string   `json:"clientId"`
	ClientSecret string   `json:"clientSecret"`
	Scopes       []string `json:"scopes"`
}

// serverKeys are a server's keys, matched exactly: encoding/json alone would also accept "Command".
// Equivalent keys of other clients are mapped to ours.
var serverKeys = map[string]string{
	"type": "type", "command": "command", "args": "args", "env": "env", "cwd": "cwd", "url": "url", "headers": "headers",
	"envFile": "envFile", "timeout": "timeout", "disabled": "disabled", "enabled": "enabled", "trustChanges": "trustChanges",
	"allowedTools": "allowedTools", "includeTools": "allowedTools", "deniedTools": "deniedTools", "excludeTools": "deniedTools",
	"perOwner": "perOwner", "maxOwners": "maxOwners", "auth": "auth", "oauth": "oauth",
	"disabledTools": "deniedTools", "transport": "type", "httpUrl": "url", "serverUrl": "url",
}

// serverTypes maps other clients' names of types to ours.
var serverTypes = map[string]string{
	"streamable-http": TypeHTTP, "streamableHttp": TypeHTTP, "streamable_http": TypeHTTP, "streamable": TypeHTTP, "local": TypeStdio, "remote": TypeHTTP,
}

// harmless are keys that do not affect what a server may do.
var harmless = []string{"$schema", "description", "name", "icon", "version"}

// LoadConfig reads the file at path. In the texts of servers that are not disabled ${VAR},
// ${env:VAR}, ${VAR:-default} and ${input:id} are replaced from the environment, as is $VAR where it is a word
// of env or headers (Gemini); ${workspaceFolder} is the file's folder, or the one above its .vscode or .cursor, and
// ${userHome} the user's. Errors name the file and what is wrong: an unset variable, a bad value. Several are joined.
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
	here, err := placeOf(path)
	if err != nil {
		return Config{}, fmt.Errorf("read MCP configuration: %w", err)
	}
	config, err := parseConfig(data, here)
	if err != nil {
		return Config{}, fmt.Errorf("read MCP configuration %s: %w", path, err)
	}
	return config, nil
}

func parseConfig(data []byte, here place) (Config, error) {
	if len(data) > maxConfigBytes {
		return Config{}, fmt.Errorf("it is larger than %d bytes", maxConfigBytes)
	}
	data = withoutComments(data)
	top, err := objectOf(data)
	if err != nil {
		return Config{}, err
	}
	// Of two, encoding/json would silently take the last.
	if key, twice := toolkit.KeyTwice(json.NewDecoder(bytes.NewReader(data))); twice {
		return Config{}, fmt.Errorf("the key %q occurs twice", key)
	}
	var raw map[string]json.RawMessage
	var warnings []string
	for _, key := range slices.Sorted(maps.Keys(top)) {
		switch {
		case key != "mcpServers" && key != "servers":
			if key == "inputs" {
				warnings = append(warnings, `"inputs": there are no prompts here; ${input:some-id} is the environment variable SOME_ID`)
			} else if !slices.Contains(harmless, key) {
				warnings = append(warnings, fmt.Sprintf("the key %q is unknown and has no effect", key))
			}
		case raw != nil:
			return Config{}, errors.New(`it needs exactly one of "mcpServers" and "servers"`)
		default:
			if raw, err = objectOf(top[key]); err != nil {
				return Config{}, fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	if raw == nil {
		return Config{}, errors.New(`it needs exactly one of "mcpServers" and "servers"`)
	}
	if len(raw) > maxServers {
		return Config{}, fmt.Errorf("it has %d servers, the limit is %d", len(raw), maxServers)
	}
	config := Config{Servers: make(map[string]Server, len(raw)), Warnings: warnings}
	var problems []error
	prefixes := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		server, warnings, err := parseServer(name, raw[name], here)
		for _, w := range warnings {
			config.Warnings = append(config.Warnings, fmt.Sprintf("server %q: %s", name, w))
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("server %q: %w", name, err))
		}
		if other, ok := prefixes[toolkit.CleanName(name)]; ok {
			problems = append(problems, fmt.Errorf("servers %q and %q: their tools would have the same names", other, name))
		}
		prefixes[toolkit.CleanName(name)] = name
		config.Servers[name] = server
	}
	if len(problems) > 0 {
		return Config{}, errors.Join(problems...)
	}
	return config, nil
}

func parseServer(name string, data []byte, here place) (Server, []string, error) {
	if name == "" || len(name) > maxServerName {
		return Server{}, nil, fmt.Errorf("the name must have 1 to %d bytes", maxServerName)
	}
	file, warnings, err := readServer(data)
	if err != nil {
		return Server{}, nil, err
	}
	if len(file.Args) > maxArgs || len(file.Env) > maxEntries || len(file.Headers) > maxEntries || len(file.AllowedTools)+len(file.DeniedTools) > maxEntries || len(file.OAuth.Scopes) > maxEntries {
		return Server{}, nil, fmt.Errorf("args, env, headers and lists of tools have %d entries at most", maxEntries)
	}
	timeout, err := parseTimeout(file.Timeout)
	if err != nil {
		return Server{}, nil, err
	}
	how := file.OAuth
	switch {
	case file.Auth.how.ClientID != "":
		how = file.Auth.how
	case file.Auth.kind == "" && how.ClientID != "":
		warnings, how = append(warnings, `the key "oauth" has no effect without "auth": "oauth"`), oauthFile{}
	case file.Auth.kind == "":
		how = oauthFile{}
	}
	server := Server{
		Type: cmp.Or(serverTypes[file.Type], file.Type), Command: file.Command, Args: file.Args, Env: file.Env, Cwd: file.Cwd, URL: file.URL,
		Headers: file.Headers, Timeout: timeout, Disabled: file.Disabled || file.Enabled != nil && !*file.Enabled,
		AllowedTools: file.AllowedTools, DeniedTools: file.DeniedTools, TrustChanges: file.TrustChanges,
		PerOwner: file.PerOwner, MaxOwners: file.MaxOwners, Auth: file.Auth.kind,
		ClientID: how.ClientID, ClientSecret: how.ClientSecret, Scopes: how.Scopes,
	}
	if server.Disabled {
		return server, warnings, nil // what it needs may well be missing here
	}
	if file.EnvFile != "" && file.URL != "" {
		return Server{}, nil, errors.New("env and envFile are for the type stdio, url for http and sse")
	}
	unset, err := server.expand(file.EnvFile, here)
	if err != nil {
		return Server{}, nil, err
	}
	return server, append(warnings, unset...), server.validate()
}

// readServer reads the known keys.
func readServer(data []byte) (file serverFile, warnings []string, err error) {
	keys, err := objectOf(data)
	if err != nil {
		return file, nil, err
	}
	known := map[string]json.RawMessage{}
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		ours := serverKeys[key]
		switch {
		case ours == "" && slices.Contains(harmless, key):
		case ours == "":
			warnings = append(warnings, fmt.Sprintf("the key %q is unknown and has no effect", key))
		case known[ours] != nil && ours == "deniedTools":
			return file, nil, fmt.Errorf("%q occurs under two names", ours)
		case known[ours] != nil:
			warnings = append(warnings, fmt.Sprintf("the key %q occurs under two names; %q counts", ours, ours))
			if key == ours {
				known[ours] = keys[key]
			}
		default:
			known[ours] = keys[key]
		}
	}
	exact, err := json.Marshal(known)
	if err != nil {
		return file, nil, err
	}
	return file, warnings, json.Unmarshal(exact, &file)
}

// parseTimeout reads a number of seconds, or a text such as "1m30s". A number too large for seconds
// is taken as milliseconds, as in several clients.
func parseTimeout(raw json.RawMessage) (time.Duration, error) {
	if raw == nil {
		return 0, nil
	}
	var number float64
	var text string
	var timeout time.Duration
	if err := json.Unmarshal(raw, &number); err == nil {
		unit := time.Second
		if number > maxTimeout.Seconds() {
			unit = time.Millisecond
		}
		timeout = time.Duration(min(number, 1e9) * float64(unit))
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

// withoutComments replaces with blanks what editors accept in JSON with Comments, which is comments
// and commas before a closing bracket, and a byte order mark. Nothing moves, so that errors give the
// right position.
func withoutComments(data []byte) []byte {
	out := bytes.Clone(data)
	blank := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	if bytes.HasPrefix(out, []byte("\xef\xbb\xbf")) {
		blank(0, 3)
	}
	comma := -1 // the last comma, if only blanks and comments have followed it
	for i := 0; i < len(out); i++ {
		rest := out[i:]
		switch c := out[i]; {
		case c == '"':
			comma = -1
			for i++; i < len(out) && out[i] != '"'; i++ {
				if out[i] == '\\' {
					i++
				}
			}
		case bytes.HasPrefix(rest, []byte("//")):
			end := bytes.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			blank(i, i+end)
		case bytes.HasPrefix(rest, []byte("/*")):
			if end := bytes.Index(rest[2:], []byte("*/")); end >= 0 {
				blank(i, i+end+4)
				i += end + 3
			}
		case c == ',':
			comma = i
		case c == '}' || c == ']':
			if comma >= 0 {
				out[comma] = ' '
			}
			comma = -1
		case c != ' ' && c != '\t' && c != '\r' && c != '\n':
			comma = -1
		}
	}
	return out
}
