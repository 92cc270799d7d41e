package mcptool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

func vars(env map[string]string) lookup {
	return func(key string) (string, bool) { value, ok := env[key]; return value, ok }
}

func TestParseConfig(t *testing.T) {
	t.Parallel()
	env := vars(map[string]string{"TOKEN": "secret", "EMPTY": "", "HOST": "example.com"})
	got, err := parseConfig([]byte(`{"mcpServers":{
		"files":{"command":"npx","args":["-y","server","${EMPTY}","$HOME","${EMPTY:-d}"],"env":{"A":"${TOKEN}","B":"${NONE:-a:-b}","C":"${NONE:-}","D":"$TOKEN","E":"${env:TOKEN}${a b}"},"cwd":"/tmp","timeout":2.5,"allowedTools":["read"]},
		"web":{"url":"https://${HOST}/mcp","headers":{"Authorization":"Bearer ${TOKEN}"},"timeout":"1m"},
		"old":{"type":"sse","url":"http://localhost:1/sse"},
		"odd":{"command":"x","args":["-p",80,true],"env":{"A":8080,"B":false,"C":1e3,"D":null},"timeout":"90"},
		"nil":{"command":"x","args":null,"env":null,"headers":null,"timeout":null,"allowedTools":null,"oauth":null},
		"погода":{"command":"x"},"музыка":{"command":"x"},"天":{"command":"x"},"_":{"command":"x"},"`+strings.Repeat("気", 64)+`":{"command":"x"},
		"files ":{"disabled":true},"files_":{"command":"x"},
		"off":{"command":["${MISSING}"],"args":"x","timeout":{},"httpUrl":7,"type":"pigeon","env":{"A=":1},"disabled":true}}}`), env)
	must(t, err)
	plain := Server{Type: TypeStdio, Command: "x"}
	want := Config{Servers: map[string]Server{
		"files": {Type: TypeStdio, Command: "npx", Args: []string{"-y", "server", "", "$HOME", "d"},
			Env: map[string]string{"A": "secret", "B": "a:-b", "C": "", "D": "$TOKEN", "E": "secret${a b}"}, Cwd: "/tmp", Timeout: 2500 * time.Millisecond, AllowedTools: []string{"read"}},
		"web": {Type: TypeHTTP, URL: "https://example.com/mcp", Headers: map[string]string{"Authorization": "Bearer secret"}, Timeout: time.Minute},
		"old": {Type: TypeSSE, URL: "http://localhost:1/sse"},
		"odd": {Type: TypeStdio, Command: "x", Args: []string{"-p", "80", "true"}, Env: map[string]string{"A": "8080", "B": "false", "C": "1e3", "D": ""}, Timeout: 90 * time.Second},
		"nil": plain, "погода": plain, "музыка": plain, "天": plain, "_": plain, strings.Repeat("気", 64): plain,
		"files ": {Disabled: true}, "files_": plain,
		"off": {Disabled: true},
	}}
	testkit.Equal(t, got, want, "got")
}

// TestUnknownKeys reads a file with keys of other clients that change nothing, under VS Code's name for the servers.
func TestUnknownKeys(t *testing.T) {
	t.Parallel()
	got, err := parseConfig([]byte("\xef\xbb\xbf"+`{"globalShortcut":"","servers":{
		"a":{"type":"stdio","command":"npx","env":{"H":"${env:HOST}"},"dev":{"watch":"*.ts"},"alwaysAllow":[]},
		"off":{"command":"${MISSING}","disabled":true}}}`), vars(map[string]string{"HOST": "h.org"}))
	must(t, err)
	want := Config{
		Servers: map[string]Server{
			"a": {Type: TypeStdio, Command: "npx", Env: map[string]string{"H": "h.org"}}, "off": {Disabled: true},
		},
		Warnings: []string{
			`the key "globalShortcut" is unknown and has no effect`, `server "a": the key "alwaysAllow" is unknown and has no effect`,
			`server "a": the key "dev" is unknown and has no effect`,
		},
	}
	testkit.Equal(t, got, want, "got")
}

func TestParseConfigRefuses(t *testing.T) {
	t.Parallel()
	server := func(s string) string { return `{"mcpServers":{"files":` + s + `}}` }
	many := make([]string, maxServers+1)
	for i := range many {
		many[i] = fmt.Sprintf(`"s%d":{"command":"x"}`, i)
	}
	for name, tc := range map[string]struct{ text, want string }{
		"empty":                 {``, "unexpected end"},
		"not JSON":              {`{"mcpServers":`, "unexpected end"},
		"array":                 {`[]`, "must be a JSON object"},
		"text after":            {`{"servers":{}} x`, "after top-level value"},
		"neither":               {`{}`, "exactly one"},
		"both":                  {`{"mcpServers":{},"servers":{}}`, "exactly one"},
		"key in capitals":       {server(`{"Command":"x"}`), "needs a command"},
		"key twice":             {server(`{"command":"x","command":"y"}`), `"command" occurs twice`},
		"variable twice":        {server(`{"command":"x","env":{"A":"1","A":"2"}}`), `"A" occurs twice`},
		"server twice":          {`{"servers":{"a":{"command":"x"},"a":{"command":"y"}}}`, `"a" occurs twice`},
		"look alike":            {`{"servers":{"a b":{"command":"x"},"a_b":{"command":"y"}}}`, `"a b" and "a_b"`},
		"server not an object":  {server(`"npx"`), `server "files": it must be a JSON object`},
		"wrong type":            {server(`{"command":["x"]}`), "command"},
		"no command":            {server(`{}`), "needs a command"},
		"command and url":       {server(`{"command":"x","url":"http://x/"}`), "url and headers are for"},
		"http with a command":   {server(`{"type":"http","command":"x","url":"http://x/"}`), "command, args, env and cwd are for"},
		"unknown type":          {server(`{"type":"pigeon","url":"http://x/"}`), `unknown type "pigeon"`},
		"url of a file":         {server(`{"url":"file:///etc/passwd"}`), "url must be"},
		"url without host":      {server(`{"url":"http:///x"}`), "url must be"},
		"header with a break":   {server(`{"url":"http://x/","headers":{"A":"b\r\nEvil: 1"}}`), `header "A"`},
		"bad variable name":     {server(`{"command":"x","env":{"A=B":"c"}}`), `"A=B"`},
		"NUL":                   {server(`{"command":"x\u0000y"}`), "NUL"},
		"Gemini's address":      {server(`{"httpUrl":"http://x/"}`), `the key "httpUrl" is one of another client, the key here is "url"`},
		"Windsurf's address":    {server(`{"serverUrl":"http://x/"}`), `the key here is "url"`},
		"lists of tools":        {server(`{"command":"x","excludeTools":["a"]}`), `the key here is "deniedTools"`},
		"a switch":              {server(`{"command":"x","enabled":false}`), `the key here is "disabled"`},
		"another type":          {server(`{"type":"streamableHttp","url":"http://x/"}`), `it must be stdio, http or sse`},
		"comments":              {"// servers\n{}", "without comments"},
		"a comma at the end":    {`{"servers":{},}`, "without commas at the end"},
		"an input":              {server(`{"command":"x","env":{"K":"${input:my-key}"}}`), `only an editor knows ${input:my-key}: write ${NAME}`},
		"an editor's setting":   {server(`{"command":"x","args":["${config:my.path}"]}`), "only an editor knows ${config:my.path}"},
		"an editor's folder":    {server(`{"command":"x","cwd":"${workspaceFolder:other}"}`), "only an editor knows"},
		"envFile":               {server(`{"command":"x","envFile":"/dev/null"}`), `the key here is "env"`},
		"missing variable":      {server(`{"command":"x","env":{"K":"${MY_KEY}"}}`), `the environment has no MY_KEY`},
		"several problems":      {`{"servers":{"a":{"command":"${V1}"},"b":{"url":"${V2}"}}}`, "V2"},
		"timeout of zero":       {server(`{"command":"x","timeout":0}`), "timeout"},
		"timeout too long":      {server(`{"command":"x","timeout":"11m"}`), "timeout"},
		"timeout of huge":       {server(`{"command":"x","timeout":1e300}`), "timeout"},
		"timeout of nonsense":   {server(`{"command":"x","timeout":"soon"}`), "timeout"},
		"timeout of wrong kind": {server(`{"command":"x","timeout":[]}`), "timeout"},
		"empty name":            {`{"servers":{"":{"command":"x"}}}`, "1 to 64 characters"},
		"long name":             {`{"servers":{"` + strings.Repeat("n", 65) + `":{"command":"x"}}}`, "1 to 64 characters"},
		"too many servers":      {`{"servers":{` + strings.Join(many, ",") + `}}`, "33 servers"},
		"too many args":         {server(`{"command":"x","args":["` + strings.Repeat(`","`, 300) + `"]}`), "256 entries"},
		"long value":            {server(`{"command":"x","env":{"A":"` + strings.Repeat("x", maxValue+1) + `"}}`), `"A"`},
		"too large":             {strings.Repeat(" ", maxConfigBytes+1), "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config, err := parseConfig([]byte(tc.text), vars(nil))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			if len(config.Servers) != 0 {
				t.Errorf("got servers beside the error: %+v", config)
			}
		})
	}
}

func TestConfigErrorsHoldNoSecrets(t *testing.T) {
	t.Parallel()
	_, err := parseConfig([]byte(`{"servers":{"a":{"url":"http://x/","headers":{"K":"${S}\r\n"}},"b":{"command":"x","env":{"K":"${S}\u0000"}},"c":{"url":"ftp://x/?${S}"}}}`),
		vars(map[string]string{"S": "sk-secret"}))
	if err == nil || strings.Contains(err.Error(), "sk-secret") {
		t.Errorf("got %v", err)
	}
}

func TestSecretsOfServers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		server   Server
		in, want string
	}{
		"named":             {Server{Env: map[string]string{"API_KEY": "sk-secret", "DB_PWD": "hunter22", "MODE": "production"}}, "sk-secret hunter22 production", "[secret] [secret] production"},
		"address":           {Server{Env: map[string]string{"DATABASE_URL": "postgres://u:hunter22@db/x"}}, "postgres://u:hunter22@db/x: hunter22 is wrong", "[secret]: [secret] is wrong"},
		"plain address":     {Server{Env: map[string]string{"PROXY": "http://proxy:8080/a@b"}}, "http://proxy:8080/a@b", "http://proxy:8080/a@b"},
		"header":            {Server{Headers: map[string]string{"Authorization": "Bearer sk-secret", "X": "abcdef"}}, "Bearer sk-secret, sk-secret, abcdef", "[secret], [secret], [secret]"},
		"short":             {Server{Env: map[string]string{"KEY": "true"}, URL: "https://h.org/mcp"}, "true https://h.org/mcp", "true https://h.org/mcp"},
		"path":              {Server{URL: "https://h.org/s/0123456789abcdef/mcp"}, `Post "https://h.org/s/0123456789abcdef/mcp": EOF`, `Post "https://h.org/[secret]": EOF`},
		"other path":        {Server{URL: "https://h.org/s/0123456789abcdef/mcp"}, `https://h.org/s/0123456789abcdef/messages`, `https://h.org/s/[secret]/messages`},
		"query":             {Server{URL: "https://h.org/mcp?key=0123456%2F9"}, `https://h.org/mcp?key=0123456%2F9 0123456/9 /mcp?key=0123456%2F9`, `https://h.org/[secret] [secret] /[secret]`},
		"password, escaped": {Server{URL: "https://u:pass%2Fword@h.org/a%20long%20path"}, `pass/word "/a long path" a%20long%20path`, `[secret] "/[secret]" [secret]`},
		"one in another":    {Server{Headers: map[string]string{"A": "abcdef", "B": "abcdefghi"}}, "abcdefghi abcdef", "[secret] [secret]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testkit.Equal(t, secretsOf(c.server).Replace(c.in), c.want, "secretsOf(c.server).Replace(c.in)")
		})
	}
}

func TestLoadConfig(t *testing.T) {
	t.Setenv("MCPTOOL_TEST_TOKEN", "tok")
	path := filepath.Join(t.TempDir(), "mcp.json")
	must(t, os.WriteFile(path, []byte(`{"servers":{"a":{"command":"x","args":["${MCPTOOL_TEST_TOKEN}"]}}}`), 0o600))
	config, err := LoadConfig(path)
	if err != nil || config.Servers["a"].Args[0] != "tok" {
		t.Errorf("got %+v, %v", config, err)
	}
	if _, err := LoadConfig(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	must(t, os.WriteFile(path, []byte(`{}`), 0o600))
	if _, err := LoadConfig(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("%v does not name the file", err)
	}
}

func TestExposedNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("t", 80)
	for _, tc := range []struct{ server, tool, want string }{
		{"files", "read", "files__read"},
		{"my server", "get.weather", "my_server__get_weather"},
		{"files", "create_bar_chart", "files__create_bar_chart"},
		{"s", strings.Repeat("t", 61), "s__" + strings.Repeat("t", 61)},
		{"s", "日本", "s____"},
	} {
		testkit.Equal(t, exposedName(tc.server, tc.tool), tc.want, "exposedName(%q, %q)", tc.server, tc.tool)
	}
	// Pairs that would look alike if they were simply joined.
	for _, pair := range [][4]string{
		{"a", "b__c", "a__b", "c"}, {"a_", "b", "a", "_b"}, {"s", long + "1", "s", long + "2"}, {"a__", "x", "a", "__x"},
		{"погода", "x", "музыка", "x"}, {"天x", "x", "地x", "x"}, {"天", "x", "_", "x"}, {"天x", "x", "_x", "x"},
	} {
		one, two := exposedName(pair[0], pair[1]), exposedName(pair[2], pair[3])
		if one == two || toolkit.CheckName(one) != nil || toolkit.CheckName(two) != nil {
			t.Errorf("%q: got %q and %q", pair, one, two)
		}
	}
	names := exposedNames("s", []string{"a.b", "a_b", "a-b"})
	if names["a.b"] == names["a_b"] || names["a-b"] != "s__a-b" {
		t.Errorf("got %v", names)
	}
	if reversed := exposedNames("s", []string{"a-b", "a_b", "a.b"}); !cmp.Equal(names, reversed) {
		t.Errorf("the order changes the names: %v", reversed)
	}
}

func FuzzExposedName(f *testing.F) {
	f.Add("server", "tool")
	f.Add("\xff", strings.Repeat("ü", 100))
	f.Fuzz(func(t *testing.T, server, tool string) {
		if err := toolkit.CheckName(exposedName(server, tool)); err != nil {
			t.Error(err)
		}
	})
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x","args":["${A:-b}"],"timeout":3}}}`))
	f.Add([]byte(`{"servers":{"a":{"type":"http","url":"http://x/","headers":{"A":"${B}"}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		config, err := parseConfig(data, vars(nil))
		if err != nil {
			return
		}
		for name, s := range config.Servers {
			if !s.Disabled && s.validate() != nil {
				t.Errorf("server %q was accepted: %+v", name, s)
			}
		}
	})
}
