package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"voicebridge/assistant/schema"
	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

var must = testkit.Must

// write writes a settings file into a folder of the test.
func write(t *testing.T, yaml string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.yaml")
	must(t, os.WriteFile(path, []byte(yaml), 0o600))
	return path
}

// noFile returns an empty settings file, so that a test does not read one from the working
// directory.
func noFile(t *testing.T) string { return write(t, "") }

func TestDefaults(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Sources{File: noFile(t)})
	must(t, err)
	if cfg.Listen != "127.0.0.1:8080" || cfg.Secrets.DatabaseURL.Reveal() != "sqlite:data/voicebridge.db" || cfg.Driver() != UpstreamSimulator || !cfg.Loopback() || cfg.Auth().Required() {
		t.Errorf("defaults %+v", cfg)
	}
	if q, h := cfg.Conversations.Queue, cfg.Conversations.History; !q.Enabled || q.Delay != 0 || q.MaxSize != 10 || !q.AutoGenerateTitles || h != (History{20, chat.HistoryConfig{MaxTurns: 20, MaxTokens: 8000, TrimChunkTokens: 1000}, 8}) {
		t.Errorf("conversations %+v", cfg.Conversations)
	}
	if cfg.Realtime.Model == "" || cfg.Realtime.Voice == "" || cfg.Realtime.TranscriptionModel == "" || len(cfg.Realtime.Instructions) < 200 {
		t.Errorf("realtime %+v", cfg.Realtime)
	}
}

func TestExampleFileHoldsTheDefaults(t *testing.T) {
	t.Parallel()
	want, err := Load(Sources{File: noFile(t)})
	must(t, err)
	got, err := Load(Sources{File: "../../../../voicebridge.example.yaml"})
	must(t, err)
	// Compared as text, because empty lists from a file are not nil as in the defaults.
	if g, w := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); g != w || got.Secrets.DatabaseURL.Reveal() != want.Secrets.DatabaseURL.Reveal() {
		t.Errorf("the example gives\n%s\nwant\n%s", g, w)
	}
}

func TestEveryVariableOfTheEnvironment(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, value string
		got         func(Config) any
		want        any
	}{
		{"VOICEBRIDGE_LISTEN", "localhost:9", func(c Config) any { return c.Listen }, "localhost:9"},
		{"DATABASE_URL", "postgres://u:p@h/db", func(c Config) any { return c.Secrets.DatabaseURL.Reveal() }, "postgres://u:p@h/db"},
		{"OPENAI_API_KEY", "sk-1", func(c Config) any { return c.Secrets.OpenAIKey.Reveal() + c.Driver() }, "sk-1openai"},
		{"OPENAI_BASE_URL", "http://127.0.0.1:1/v1", func(c Config) any { return c.OpenAIBaseURL }, "http://127.0.0.1:1/v1"},
		{"VOICEBRIDGE_REALTIME_MODEL", "m", func(c Config) any { return c.Realtime.Model }, "m"},
		{"VOICEBRIDGE_REALTIME_VOICE", "v", func(c Config) any { return c.Realtime.Voice }, "v"},
		{"VOICEBRIDGE_REALTIME_TRANSCRIPTION_MODEL", "t", func(c Config) any { return c.Realtime.TranscriptionModel }, "t"},
		{"VOICEBRIDGE_VOICE", "v", func(c Config) any { return c.Realtime.Voice }, "v"},
		{"VOICEBRIDGE_TRANSCRIPTION_MODEL", " t ", func(c Config) any { return c.Realtime.TranscriptionModel }, "t"},
		{"VOICEBRIDGE_UPSTREAM", "simulator", func(c Config) any { return c.Driver() }, "simulator"},
		{"VOICEBRIDGE_TEXT_PROVIDER", "ollama", func(c Config) any { return c.Text.Provider }, "ollama"},
		{"VOICEBRIDGE_TEXT_MODEL", "x", func(c Config) any { return c.Text.Model }, "x"},
		{"ANTHROPIC_API_KEY", "k", func(c Config) any { return c.Secrets.AnthropicKey.Reveal() }, "k"},
		{"ANTHROPIC_BASE_URL", "https://a.example", func(c Config) any { return c.AnthropicBaseURL }, "https://a.example"},
		{"GEMINI_API_KEY", "k", func(c Config) any { return c.Secrets.GeminiKey.Reveal() }, "k"},
		{"OLLAMA_API_KEY", "k", func(c Config) any { return c.Secrets.OllamaKey.Reveal() }, "k"},
		{"GEMINI_BASE_URL", "https://g.example", func(c Config) any { return c.GeminiBaseURL }, "https://g.example"},
		{"OLLAMA_HOST", "127.0.0.1:11434", func(c Config) any { return c.OllamaHost }, "127.0.0.1:11434"},
		{"VOICEBRIDGE_API_TOKENS", "alice:a:1-and-long-enough, bob:b-and-long-enough", func(c Config) any {
			return fmt.Sprint(len(c.Secrets.Tokens), c.Secrets.Tokens[0].Owner, c.Secrets.Tokens[0].Token.Reveal(), c.Secrets.Tokens[1].Owner)
		}, "2alicea:1-and-long-enoughbob"},
		{"VOICEBRIDGE_JWT_ISSUER", "https://i.example", func(c Config) any { return c.Auth().JWTIssuer }, "https://i.example"},
		{"VOICEBRIDGE_JWT_AUDIENCE", "bridge", func(c Config) any { return c.Auth().JWTAudience }, "bridge"},
		{"VOICEBRIDGE_JWT_SECRET", "a secret of thirty-two bytes or so", func(c Config) any { return c.Secrets.JWTSecret.Reveal() }, "a secret of thirty-two bytes or so"},
		{"VOICEBRIDGE_ALLOWED_ORIGINS", "https://a.example, http://b.example:1,", func(c Config) any { return fmt.Sprint(c.AllowedOrigins) }, "[https://a.example http://b.example:1]"},
		{"VOICEBRIDGE_UDP_PORT", "40000", func(c Config) any { return c.Media.UDPPort }, 40000},
		{"VOICEBRIDGE_PUBLIC_IPS", "1.2.3.4,2001:db8::1", func(c Config) any { return fmt.Sprint(c.Media.PublicIPs) }, "[1.2.3.4 2001:db8::1]"},
		{"VOICEBRIDGE_ICE_SERVERS", "stun:a:1,stun:b:2", func(c Config) any { return fmt.Sprint(c.Secrets.ICEServers[1].URLs) }, "[stun:b:2]"},
		{"VOICEBRIDGE_ICE_SERVERS", `[{"urls":["turn:a:1"],"username":"u","credential":"p"},{"urls":"stun:b:2"}]`, func(c Config) any {
			i := c.Secrets.ICEServers
			return fmt.Sprint(len(i), i[0].Username, i[0].Credential.Reveal(), i[1].URLs)
		}, "2up[stun:b:2]"},
		{"VOICEBRIDGE_MCP_CONFIG", "x.json", func(c Config) any { return c.MCPConfig }, "x.json"},
		{"VOICEBRIDGE_METRICS_LISTEN", ":9090", func(c Config) any { return c.MetricsAddress() }, "127.0.0.1:9090"},
		{"VOICEBRIDGE_METRICS__LISTEN", "0.0.0.0:9090", func(c Config) any { return c.MetricsAddress() }, "0.0.0.0:9090"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318", func(c Config) any { return fmt.Sprint(c.Traces.Endpoint, c.Traces.Sample) }, "http://collector:43181"},
		{"OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b%3D, X-B=c", func(c Config) any {
			return fmt.Sprint(len(c.Secrets.TraceHeaders), c.Secrets.TraceHeaders["api-key"].Reveal(), c.Secrets.TraceHeaders["X-B"].Reveal())
		}, "2a b=c"},
		{"VOICEBRIDGE_UDP_PORT", "", func(c Config) any { return c.Media.UDPPort }, 0},
		{"VOICEBRIDGE_REALTIME_URL", "https://x.example/openai/v1/realtime/calls?a=b", func(c Config) any { return c.Realtime.URL }, "https://x.example/openai/v1/realtime/calls?a=b"},
		{"VOICEBRIDGE_REALTIME_API_KEY", "k", func(c Config) any { return c.VoiceKey().Reveal() + c.Driver() }, "kopenai"},
		{"VOICEBRIDGE_REALTIME_API_KEY_HEADER", "api-key", func(c Config) any { return c.Realtime.APIKeyHeader }, "api-key"},
		{"VOICEBRIDGE_SECRET", strings.Repeat("s", 32), func(c Config) any { return len(c.Secrets.Signing.Reveal()) }, 32},
		{"VOICEBRIDGE_DATABASE_URL", "postgres://u:p@h/db", func(c Config) any { return c.Secrets.DatabaseURL.Reveal() }, "postgres://u:p@h/db"},
		{"VOICEBRIDGE_CALLS__IDLE_MINUTES", "5", func(c Config) any { return c.Calls.Idle }, 5 * time.Minute},
		{"VOICEBRIDGE_BUDGET__CALL_USD", "0.25", func(c Config) any { return c.Budget.CallUSD }, 0.25},
		{"VOICEBRIDGE_CONVERSATIONS__QUEUE__ENABLED", "false", func(c Config) any { return c.Conversations.Queue.Enabled }, false},
		{"VOICEBRIDGE_CONVERSATIONS__QUEUE", `{"max_size":3}`, func(c Config) any {
			q := c.Conversations.Queue
			return fmt.Sprint(q.Enabled, q.MaxSize, q.AutoGenerateTitles)
		}, "true 3 true"},
		{"VOICEBRIDGE_CALLS", `{"max_minutes":3,"grace_seconds":4}`, func(c Config) any { return c.Calls }, bridge.Limits{Answer: "at_once", RenewBefore: 10 * time.Minute, LossGrace: 4 * time.Second, CloseGrace: 8 * time.Second, Idle: 10 * time.Minute, MaxDuration: 3 * time.Minute, Setup: 20 * time.Second, FirstWord: 20 * time.Second, ToolRounds: 20}},
		{"VOICEBRIDGE_TOOLS__APPROVE", "a, b__*", func(c Config) any { return fmt.Sprint(c.Tools.Approve) }, "[a b__*]"},
		{"VOICEBRIDGE_LIMITS__ALLOWED_MODELS", `["openai/*","ollama/x"]`, func(c Config) any { return fmt.Sprint(c.Limits.AllowedModels) }, "[openai/* ollama/x]"},
		{"VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS", "[81,82]", func(c Config) any { return fmt.Sprint(c.Tools.Web.AllowPorts) }, "[81 82]"},
		{"VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS", "81,82", func(c Config) any { return fmt.Sprint(c.Tools.Web.AllowPorts) }, "[81 82]"},
		{"VOICEBRIDGE_REALTIME__TURN_DETECTION__TYPE", "none", func(c Config) any { return c.Realtime.TurnDetection.Type }, "none"},
		{"VOICEBRIDGE_REALTIME__TURN_DETECTION", `{"silence_duration_ms":700,"threshold":0.5}`, func(c Config) any {
			return fmt.Sprint(c.Realtime.TurnDetection.Type, *c.Realtime.TurnDetection.SilenceDurationMS, *c.Realtime.TurnDetection.Threshold)
		}, "server_vad700 0.5"},
		{"VOICEBRIDGE_REALTIME__TURN_DETECTION__THRESHOLD", "0.5", func(c Config) any { return *c.Realtime.TurnDetection.Threshold }, 0.5},
		{"VOICEBRIDGE_PRICES", `[{"model":"m","input":1,"output":2.5}]`, func(c Config) any { return c.Prices[0] }, Price{Model: "m", Input: 1, Output: 2.5}},
		{"VOICEBRIDGE_LOG__LEVEL", "debug", func(c Config) any { return c.Log.Level }, "debug"},
		{"VOICEBRIDGE_PORT", "tcp://10.0.0.1:80", func(Config) any { return nil }, nil}, // of Kubernetes
		{"VOICEBRIDGE_PORT_80_TCP_ADDR", "10.0.0.1", func(Config) any { return nil }, nil},
		{"VOICEBRIDGE_SERVICE_HOST", "10.0.0.1", func(Config) any { return nil }, nil},
		{"PATH", "/bin", func(Config) any { return nil }, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg, err := Load(Sources{File: noFile(t), Environ: []string{c.name + "=" + c.value}})
			must(t, err)
			if got := c.got(cfg); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestWebToolsEndBeforeTheirTime(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[int]time.Duration{
		1: time.Second - time.Second/6, 6: 5 * time.Second, 30: 25 * time.Second, 60: 55 * time.Second, 600: 595 * time.Second,
	} {
		c := Config{Tools: Tools{Settings: toolkit.Settings{Timeout: time.Duration(seconds) * time.Second}}}
		testkit.Equal(t, c.WebTools().Timeout, want, "%d seconds", seconds)
	}
}

func TestOrderOfSources(t *testing.T) {
	t.Parallel()
	file := write(t, "realtime: {model: file, voice: file, transcription_model: file}\npublic_ips: [1.1.1.1, 2.2.2.2]\nconversations: {history: {max_turns: 3}}\n")
	src := Sources{
		Environ: []string{"VOICEBRIDGE_CONFIG=" + file, "VOICEBRIDGE_REALTIME_MODEL=environment", "VOICEBRIDGE_REALTIME_VOICE=environment", "VOICEBRIDGE_PUBLIC_IPS=3.3.3.3"},
		Flags:   map[string]any{"realtime.model": "flag"},
	}
	cfg, err := Load(src)
	must(t, err)
	if r := cfg.Realtime; r.Model != "flag" || r.Voice != "environment" || r.TranscriptionModel != "file" || r.Instructions != defaultInstructions {
		t.Errorf("realtime %+v", r)
	}
	if fmt.Sprint(cfg.Media.PublicIPs) != "[3.3.3.3]" || cfg.Conversations.History.MaxTurns != 3 || cfg.Conversations.History.MaxTokens != 8000 {
		t.Errorf("public_ips %v, history %+v", cfg.Media.PublicIPs, cfg.Conversations.History)
	}
	src.File = write(t, "realtime: {transcription_model: other}") // the flag --config comes first
	if cfg, err = Load(src); err != nil || cfg.Realtime.TranscriptionModel != "other" {
		t.Errorf("transcription_model %q, err %v", cfg.Realtime.TranscriptionModel, err)
	}
}

func TestOneSettingUnderTwoNames(t *testing.T) {
	t.Parallel()
	for _, environ := range [][]string{
		{"VOICEBRIDGE_VOICE=v", "VOICEBRIDGE_REALTIME_VOICE=v "},
		{"VOICEBRIDGE_REALTIME_VOICE=v", "VOICEBRIDGE_VOICE="},
		{"VOICEBRIDGE_REALTIME_VOICE=", "VOICEBRIDGE_VOICE=v"},
		{"VOICEBRIDGE_VOICE=v", "VOICEBRIDGE_REALTIME_VOICE="},
	} {
		cfg, err := Load(Sources{File: write(t, "realtime: {voice: file}"), Environ: environ})
		if err != nil || cfg.Realtime.Voice != "v" {
			t.Errorf("%q: voice %q, %v", environ, cfg.Realtime.Voice, err)
		}
	}
}

func TestFileInTheWorkingDirectory(t *testing.T) {
	t.Chdir(t.TempDir())
	if _, err := Load(Sources{}); err != nil {
		t.Fatal(err)
	}
	must(t, os.WriteFile(defaultFile, []byte("udp_port: 7"), 0o600))
	if cfg, err := Load(Sources{}); err != nil || cfg.Media.UDPPort != 7 {
		t.Errorf("udp_port %d, err %v", cfg.Media.UDPPort, err)
	}
}

// TestIdleSettings starts with settings of an earlier version that have no effect, which is said.
func TestIdleSettings(t *testing.T) {
	t.Parallel()
	for name, src := range map[string]Sources{
		"file":        {File: write(t, "live: {delegate: responses, model: x}")},
		"short":       {File: write(t, "upstreams: [{name: a, profile: simulator, live: true}]")},
		"upstream":    {File: write(t, "upstreams: [{name: a, profile: simulator, live: {on: true, delegate: chat}}]")},
		"environment": {File: noFile(t), Environ: []string{"VOICEBRIDGE_LIVE__DELEGATE=chat"}},
		"group":       {File: noFile(t), Environ: []string{`VOICEBRIDGE_LIVE={"effort":"low"}`}},
	} {
		cfg, err := Load(src)
		if err != nil || len(cfg.Notices) == 0 || !strings.Contains(cfg.Notices[0], "live") || !strings.Contains(cfg.Notices[0], "Remove it") {
			t.Errorf("%s: %q, %v", name, cfg.Notices, err)
		}
	}
}

func TestBadSettingsAreNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		yaml    string
		environ []string
		want    []string
	}{
		"unknown variable":     {"", []string{"VOICEBRIDGE_LISTENN=x"}, []string{"VOICEBRIDGE_LISTENN"}},
		"unknown key":          {"listenn: x", nil, []string{"listenn: there is no such setting"}},
		"key with a dot":       {"calls.idle_minutes: 5\ncalls.idle: 5", nil, []string{"calls.idle: there is no such setting", "calls.idle_minutes: write it as a group"}},
		"unknown inner key":    {"conversations: {queue: {max: 1}}", nil, []string{"conversations.queue.max: there"}},
		"unknown key in list":  {"ice_servers: [{urls: ['stun:a:1'], name: x}]", nil, []string{"ice_servers[0].name (VOICEBRIDGE_ICE_SERVERS): there"}},
		"all of them":          {"a: 1\nb: 2\nudp_port: x\nlog: {level: loud}", []string{"VOICEBRIDGE_UPSTREAM=gpt", "VOICEBRIDGE_C=3"}, []string{"a: there", "b: there", "udp_port (VOICEBRIDGE_UDP_PORT)", "log.level", "upstream (VOICEBRIDGE_UPSTREAM)", "VOICEBRIDGE_C"}},
		"not YAML":             {"listen: [", nil, []string{"settings.yaml", "yaml"}},
		"two documents":        {"udp_port: 1\n---\nlog: {level: debug}", nil, []string{"settings.yaml", "second document"}},
		"a broken end":         {"udp_port: 1\n---\n[", nil, []string{"settings.yaml", "yaml"}},
		"a list":               {"- a", nil, []string{"settings.yaml", "into a group of settings"}},
		"a key twice":          {"udp_port: 1\nudp_port: 2", nil, []string{"udp_port", "already defined"}},
		"text for a number":    {"udp_port: many", nil, []string{"udp_port", "whole number"}},
		"text for a fraction":  {"budget: {call_usd: many}", nil, []string{"budget.call_usd: it must be a number"}},
		"text in a list":       {"tools: {web: {allow_ports: [81, many]}}", nil, []string{"tools.web.allow_ports[1]: it must be a whole number"}},
		"a part of a number":   {"udp_port: 1.5", nil, []string{"udp_port", "whole number"}},
		"number for text":      {"listen: 8080", nil, []string{"listen (VOICEBRIDGE_LISTEN)", "text"}},
		"number for a switch":  {"conversations: {queue: {enabled: 1}}", nil, []string{"conversations.queue.enabled", "true or false"}},
		"text for a list":      {"public_ips: 1.2.3.4", nil, []string{"public_ips (VOICEBRIDGE_PUBLIC_IPS): it must be a list"}},
		"text for a group":     {"conversations: x", nil, []string{"conversations (VOICEBRIDGE_CONVERSATIONS): it must be a group of settings"}},
		"number out of range":  {"", []string{"VOICEBRIDGE_UDP_PORT=70000"}, []string{"VOICEBRIDGE_UDP_PORT", "70000", "65535"}},
		"no number":            {"", []string{"VOICEBRIDGE_UDP_PORT=1e3"}, []string{"VOICEBRIDGE_UDP_PORT", "whole number"}},
		"no port":              {"", []string{"VOICEBRIDGE_LISTEN=localhost"}, []string{"VOICEBRIDGE_LISTEN", "host:port"}},
		"bad port":             {"", []string{"VOICEBRIDGE_LISTEN=localhost:x"}, []string{"VOICEBRIDGE_LISTEN", "port"}},
		"bad database":         {"", []string{"DATABASE_URL=mysql://x"}, []string{"DATABASE_URL", "sqlite:PATH"}},
		"no path":              {"", []string{"DATABASE_URL=sqlite:"}, []string{"DATABASE_URL", "missing"}},
		"path like a host":     {"", []string{"DATABASE_URL=sqlite://data/voicebridge.db"}, []string{"DATABASE_URL", "without //"}},
		"bad base":             {"", []string{"OPENAI_BASE_URL=api.openai.com"}, []string{"OPENAI_BASE_URL"}},
		"openai without a key": {"", []string{"VOICEBRIDGE_UPSTREAM=openai"}, []string{"VOICEBRIDGE_UPSTREAM", "OPENAI_API_KEY"}},
		"bad provider":         {"", []string{"VOICEBRIDGE_TEXT_PROVIDER=x"}, []string{"VOICEBRIDGE_TEXT_PROVIDER"}},
		"two voices":           {"", []string{"VOICEBRIDGE_REALTIME_VOICE=a", "VOICEBRIDGE_VOICE=b"}, []string{"VOICEBRIDGE_VOICE", "VOICEBRIDGE_REALTIME_VOICE"}},
		"two transcribers":     {"", []string{"VOICEBRIDGE_TRANSCRIPTION_MODEL=b", "VOICEBRIDGE_REALTIME_TRANSCRIPTION_MODEL=a"}, []string{"VOICEBRIDGE_TRANSCRIPTION_MODEL:", "VOICEBRIDGE_REALTIME_TRANSCRIPTION_MODEL"}},
		"bad key":              {"", []string{"OPENAI_API_KEY=sk-1\nsk-2"}, []string{"OPENAI_API_KEY"}},
		"bad origin":           {"", []string{"VOICEBRIDGE_ALLOWED_ORIGINS=*"}, []string{"VOICEBRIDGE_ALLOWED_ORIGINS", `"*"`}},
		"bad address":          {"", []string{"VOICEBRIDGE_PUBLIC_IPS=1.2.3"}, []string{"VOICEBRIDGE_PUBLIC_IPS", "1.2.3"}},
		"bad STUN":             {"", []string{"VOICEBRIDGE_ICE_SERVERS=stun.example:1"}, []string{"VOICEBRIDGE_ICE_SERVERS"}},
		"bad port of STUN":     {"", []string{"VOICEBRIDGE_ICE_SERVERS=stun:a:port"}, []string{"VOICEBRIDGE_ICE_SERVERS: server 1: a URL must be"}},
		"bad owner":            {"", []string{"VOICEBRIDGE_API_TOKENS=a\tb:x-and-long-enough"}, []string{"api_tokens (VOICEBRIDGE_API_TOKENS): the owner \"a\\tb\" of a token is not valid"}},
		"bad ICE JSON":         {"", []string{"VOICEBRIDGE_ICE_SERVERS=[{]"}, []string{"VOICEBRIDGE_ICE_SERVERS", "JSON"}},
		"TURN without a user":  {"", []string{`VOICEBRIDGE_ICE_SERVERS=[{"urls":["turn:a"]}]`}, []string{"VOICEBRIDGE_ICE_SERVERS", "TURN"}},
		"bad JWKS":             {"", []string{"VOICEBRIDGE_JWT_JWKS_URL=http://k.example"}, []string{"VOICEBRIDGE_JWT_JWKS_URL", "https"}},
		"token without owner":  {"", []string{"VOICEBRIDGE_API_TOKENS=a:b-and-long-enough,c"}, []string{"VOICEBRIDGE_API_TOKENS", "entry 2"}},
		"token twice":          {"", []string{"VOICEBRIDGE_API_TOKENS=a:x-and-long-enough,b:x-and-long-enough"}, []string{"VOICEBRIDGE_API_TOKENS", "entry 2"}},
		"short token":          {"", []string{"VOICEBRIDGE_API_TOKENS=a:fifteen-letters"}, []string{"VOICEBRIDGE_API_TOKENS", "16 characters"}},
		"short JWT secret":     {"", []string{"VOICEBRIDGE_JWT_SECRET=short"}, []string{"VOICEBRIDGE_JWT_SECRET", "32 bytes"}},
		"JWKS without issuer":  {"", []string{"VOICEBRIDGE_JWT_JWKS_URL=https://k.example", "VOICEBRIDGE_JWT_AUDIENCE=a"}, []string{"VOICEBRIDGE_JWT_ISSUER"}},
		"JWKS for anybody":     {"", []string{"VOICEBRIDGE_JWT_JWKS_URL=https://k.example", "VOICEBRIDGE_JWT_ISSUER=i"}, []string{"VOICEBRIDGE_JWT_AUDIENCE"}},
		"client secret":        {"", []string{"VOICEBRIDGE_API_TOKENS=a:ek_x"}, []string{"VOICEBRIDGE_API_TOKENS", "entry 1"}},
		"bad proxy":            {"trusted_proxies: [x]", nil, []string{"trusted_proxies", `"x"`}},
		"tool both ways":       {"tools: {allow: [a], deny: [a]}", nil, []string{"tools.deny", `"a"`}},
		"empty model":          {"realtime: {model: ''}", nil, []string{"realtime.model (VOICEBRIDGE_REALTIME_MODEL)"}},
		"no programs":          {"tools: {code: {max_parallel: 0, memory_mb: 0, timeout_seconds: 0}}", nil, []string{"tools.code.max_parallel: 0 is not between", "tools.code.memory_mb: 0 is not", "tools.code.timeout_seconds: 0 is not"}},
		"too many programs":    {"tools: {code: {max_parallel: 100000}}", nil, []string{"tools.code.max_parallel: 100000 is not between 1 and 256"}},
		"no number of a path":  {"", []string{"VOICEBRIDGE_CALLS__IDLE_MINUTES=many"}, []string{"VOICEBRIDGE_CALLS__IDLE_MINUTES: it must be a whole number"}},
		"no switch of a path":  {"", []string{"VOICEBRIDGE_CONVERSATIONS__QUEUE__ENABLED=yes"}, []string{"VOICEBRIDGE_CONVERSATIONS__QUEUE__ENABLED: it must be true or false"}},
		"no such path":         {"", []string{"VOICEBRIDGE_CALLS__IDLE=1", "VOICEBRIDGE_CALLS_IDLE_MINUTES=1", "VOICEBRIDGE_LISTEN__X=1", "VOICEBRIDGE_SECRETS=1"}, []string{"VOICEBRIDGE_CALLS__IDLE: there", "VOICEBRIDGE_CALLS_IDLE_MINUTES: there is no such setting: did you mean VOICEBRIDGE_CALLS__IDLE_MINUTES?", "VOICEBRIDGE_LISTEN__X: there", "VOICEBRIDGE_SECRETS: there"}},
		"a path with bad JSON": {"", []string{"VOICEBRIDGE_CALLS={", "VOICEBRIDGE_PRICES={}", "VOICEBRIDGE_BUDGET=null"}, []string{"VOICEBRIDGE_CALLS: it must be a group", "VOICEBRIDGE_PRICES: it must be a list", "VOICEBRIDGE_BUDGET: it must be a group"}},
		"unknown key in JSON":  {"", []string{`VOICEBRIDGE_CALLS={"idle":1}`, `VOICEBRIDGE_PRICES=[{"mod":1}]`}, []string{"calls.idle: there is no such setting", "prices[0].mod: there"}},
		"a broken list":        {"", []string{`VOICEBRIDGE_LIMITS__ALLOWED_MODELS=["openai/x"`, `VOICEBRIDGE_TOOLS__DENY=[1]`}, []string{"VOICEBRIDGE_LIMITS__ALLOWED_MODELS: it must be a list", "tools.deny[0]: it must be text"}},
		"two ports of JSON":    {"", []string{`VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS=81,x`}, []string{`VOICEBRIDGE_TOOLS__WEB__ALLOW_PORTS: "x"`}},
		"two names of a path":  {"", []string{"VOICEBRIDGE_REALTIME_VOICE=a", "VOICEBRIDGE_REALTIME__VOICE=b"}, []string{"VOICEBRIDGE_REALTIME__VOICE: its value differs from that of VOICEBRIDGE_REALTIME_VOICE"}},
		"two databases":        {"", []string{"DATABASE_URL=sqlite:a", "VOICEBRIDGE_DATABASE_URL=sqlite:b"}, []string{"VOICEBRIDGE_DATABASE_URL: its value differs from that of DATABASE_URL"}},
		"bad turn detection":   {"realtime: {turn_detection: {type: vad, eagerness: eager, idle_timeout_ms: 1}}", nil, []string{"realtime.turn_detection.type", "realtime.turn_detection.eagerness", "realtime.turn_detection.idle_timeout_ms"}},
		"turns of other types": {"realtime: {turn_detection: {type: semantic_vad, silence_duration_ms: 500}}", nil, []string{"realtime.turn_detection.silence_duration_ms: it belongs to the type server_vad"}},
		"no threshold":         {"realtime: {turn_detection: {type: server_vad, threshold: .nan}}", nil, []string{"realtime.turn_detection.threshold"}},
		"bad voice settings":   {"realtime: {url: 'x', api_key_header: 'a b', call_body: xml, instructions: 'You talk to {{nme}}.', noise_reduction: loud, language: English}", nil, []string{"realtime.url (VOICEBRIDGE_REALTIME_URL)", "realtime.api_key_header", "realtime.call_body", "realtime.instructions: {{nme}} is unknown", "realtime.noise_reduction", "realtime.language"}},
		"bad calls":            {"calls: {renew_before_minutes: 1441, setup_seconds: 0, first_word_seconds: 601, grace_seconds: -1, close_grace_seconds: 1000, idle_minutes: -1, max_minutes: -1, max_tool_rounds: 0}", nil, []string{"calls.renew_before_minutes", "calls.setup_seconds", "calls.first_word_seconds", "calls.grace_seconds", "calls.close_grace_seconds", "calls.idle_minutes", "calls.max_minutes", "calls.max_tool_rounds"}},
		"bad budget":           {"budget: {call_usd: -1, owner_day_usd: .nan, warn_percent: 0}", nil, []string{"budget.call_usd", "budget.owner_day_usd", "budget.warn_percent"}},
		"bad metrics":          {"listen: 127.0.0.1:9090\nmetrics: {listen: \":9090\"}", nil, []string{"metrics.listen (VOICEBRIDGE_METRICS_LISTEN): the page and the API already use this address"}},
		"metrics without port": {"", []string{"VOICEBRIDGE_METRICS_LISTEN=9090"}, []string{"metrics.listen (VOICEBRIDGE_METRICS_LISTEN): it must be host:port"}},
		"bad traces":           {"traces: {endpoint: 'collector:4318', sample: 2}", nil, []string{"traces.endpoint (OTEL_EXPORTER_OTLP_ENDPOINT): it must be an address", "traces.sample: 2 is not between 0 and 1"}},
		"bad trace headers":    {"", []string{"OTEL_EXPORTER_OTLP_HEADERS=a=b,canary"}, []string{"OTEL_EXPORTER_OTLP_HEADERS: entry 2 must be name=value"}},
		"half of TLS":          {"tls: {cert_file: x}", nil, []string{"tls.cert_file: it and tls.key_file belong together"}},
		"web tools": {"tools: {web: {search: exa, searxng_url: 'http://u:p@x', allow_networks: ['::ffff:10.0.0.0/104'], allow_ports: [0]}}", nil,
			[]string{`tools.web.search: "exa" is not one of searxng, brave`, "tools.web.searxng_url (VOICEBRIDGE_SEARXNG_URL): it must not contain a user",
				"tools.web.allow_networks[0]: \"::ffff:10.0.0.0/104\": write it as an IPv4 network", "tools.web.allow_ports[0]: 0 is not between 1 and 65535"}},
		"a search without its key": {"tools: {web: {search: brave}}", nil, []string{"tools.web.search: brave needs BRAVE_API_KEY"}},
		"ACME":                     {"tls: {acme: {domains: [voice.example.org]}}", nil, []string{"tls.acme: certificates are no longer requested by this program: remove this"}},
		"ACME by the environment":  {"", []string{"VOICEBRIDGE_TLS__ACME__DOMAINS=voice.example.org"}, []string{"VOICEBRIDGE_TLS__ACME__DOMAINS: certificates are no longer requested by this program: remove this"}},
		"TURN, no secret":          {"turn: {urls: ['turn:a:1', 'stun:b', 'turn:b/c', 'turns:[::1]:5349?transport=tcp']}", nil, []string{"turn.urls: they need VOICEBRIDGE_TURN_SECRET", `turn.urls[1]: "stun:b"`, `turn.urls[2]: "turn:b/c"`}},
		"TURN, no server":          {"", []string{"VOICEBRIDGE_TURN_SECRET=s"}, []string{"turn.urls"}},
		"short secret":             {"", []string{"VOICEBRIDGE_SECRET=short"}, []string{"VOICEBRIDGE_SECRET: it has fewer than 32 bytes"}},
		"a price of NaN":           {"prices: [{model: m, input: .nan}]", nil, []string{"prices[0].input: NaN is not between 0 and 1000000"}},
		"no queue":                 {"conversations: {queue: {max_size: -1}}", nil, []string{"conversations.queue.max_size"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(Sources{File: write(t, c.yaml), Environ: c.environ})
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not hold %q: %v", want, err)
				}
			}
		})
	}
	if _, err := Load(Sources{File: "/does/not/exist.yaml"}); err == nil || !strings.Contains(err.Error(), "/does/not/exist.yaml") {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := Load(Sources{Environ: []string{"VOICEBRIDGE_CONFIG=/does/not/exist.yaml"}}); err == nil || !strings.Contains(err.Error(), "/does/not/exist.yaml") {
		t.Errorf("a missing file: %v", err)
	}
}

func TestSecretsInTheFileAreRefused(t *testing.T) {
	t.Parallel()
	for yaml, want := range map[string]string{
		"openai_api_key: sk-canary":                                          "openai_api_key: secrets do not belong in the file: use OPENAI_API_KEY",
		"api_tokens: 'a:canary'":                                             "use VOICEBRIDGE_API_TOKENS",
		"jwt_secret: canary":                                                 "use VOICEBRIDGE_JWT_SECRET",
		"realtime: {api_key: canary}":                                        "realtime.api_key: secrets",
		"database_url: postgres://u:canary@h/db":                             "database_url: secrets do not belong in the file: use DATABASE_URL",
		"database_url: 'postgres://u@h/db?sslmode=require&password=canary'":  "database_url: secrets do not belong in the file: use DATABASE_URL",
		"openai_base_url: https://u:canary@h/v1":                             "openai_base_url: secrets",
		"realtime: {url: 'https://h/calls?api-version=1&api-key=canary'}":    "realtime.url: secrets",
		"ice_servers: [{urls: ['turn:a'], username: u, credential: canary}]": "ice_servers[0].credential: secrets do not belong in the file: use VOICEBRIDGE_ICE_SERVERS",
	} {
		_, err := Load(Sources{File: write(t, yaml)})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: error %v", yaml, err)
		}
	}
	if _, err := Load(Sources{File: write(t, `
text: {accepts: [{model: "qwen*", context_tokens: 8192}]}
assistants:
  - {id: a, name: A, variables: {key: D major, queue_token: A 17, page: "https://h/?token=1"}, extract: {type: object, properties: {song_key: {type: string, secret: 1}}},
     http_tools: [{name: t, url: "https://h/", parameters: {type: object, properties: {total_tokens: {type: integer}}}}]}`)}); err != nil {
		t.Errorf("what is called as secrets are: %v", err)
	}
	if cfg, err := Load(Sources{File: write(t, "conversations: {history: {max_tokens: 100, trim_chunk_tokens: 7}}\ndatabase_url: postgres://u@h/db\n"+
		"realtime: {url: 'https://h/calls?api-version=1', instructions: 'Which is it: this?token=1'}")}); err != nil {
		t.Errorf("settings that are no secrets: %v", err)
	} else if cfg.Secrets.DatabaseURL.Reveal() != "postgres://u@h/db" {
		t.Error("the file's database is not taken")
	}
}

// TestSecretsInFiles gives secrets by files that variables name, as Docker and systemd do.
func TestSecretsInFiles(t *testing.T) {
	t.Parallel()
	file := write(t, "canary-of-16-bytes\n")
	tokens, hook, headers := write(t, "a:canary-of-16-bytes\n"), write(t, "whsec_"+strings.Repeat("AAAA", 8)), write(t, "x-a=b")
	settings := write(t, `upstreams: [{name: a, profile: realtime, url: "ws://h/", api_key_env: MINE, headers_env: HEADERS}]
hooks: {endpoints: [{url: "https://h/", secret_env: HOOK, events: [call.ended]}]}`)
	cfg, err := Load(Sources{File: settings, Environ: []string{
		"OPENAI_API_KEY_FILE=" + file, "VOICEBRIDGE_API_TOKENS_FILE=" + tokens, "DATABASE_URL_FILE=" + write(t, "postgres://u:p@h/db"),
		"AWS_SESSION_TOKEN_FILE=" + file, "MINE_FILE=" + file, "HOOK_FILE=" + hook, "HEADERS_FILE=" + headers, "AWS_CONFIG_FILE=/x", "SSL_CERT_FILE=/x",
	}})
	must(t, err)
	for name, got := range map[string]string{
		"OPENAI_API_KEY": cfg.Secrets.OpenAIKey.Reveal(), "VOICEBRIDGE_API_TOKENS": cfg.Secrets.Tokens[0].Token.Reveal(),
		"AWS_SESSION_TOKEN": cfg.Secrets.S3Session.Reveal(), "api_key_env": cfg.Upstreams[0].Key.Reveal(),
	} {
		testkit.Equal(t, got, "canary-of-16-bytes", "%s", name)
	}
	if cfg.Secrets.DatabaseURL.Reveal() != "postgres://u:p@h/db" || len(cfg.Upstreams[0].Headers) != 1 {
		t.Errorf("database and headers: %+v", cfg.Upstreams[0])
	}
	if cfg, err := Load(Sources{Environ: []string{"VOICEBRIDGE_UPSTREAM=xai", "XAI_API_KEY_FILE=" + file}}); err != nil || cfg.Upstreams[0].Key.Reveal() != "canary-of-16-bytes" {
		t.Errorf("the usual key of a profile: %v", err)
	}
	for _, environ := range [][]string{
		{"DATABASE_URL_FILE=/does/not/exist"}, {"DATABASE_URL_FILE=" + write(t, " \n")}, {"OPENAI_API_KEY_FILE=" + write(t, "a\x00b")},
		{"DATABASE_URI_FILE=" + file}, {"OPENAI_BASE_URL_FILE=" + file}, {"VOICEBRIDGE_API_TOKEN_FILE=" + file}, {"VOICEBRIDGE_LISTEN_FILE=" + file},
		{"OPENAI_API_KEY_FILE=" + file, "OPENAI_API_KEY=another"}, {"GEMINI_API_KEY_FILE=" + write(t, strings.Repeat("x", 64<<10+1))},
	} {
		name, _, _ := strings.Cut(environ[0], "=")
		if _, err := Load(Sources{Environ: environ}); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsAreNotPrinted(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Sources{File: noFile(t), Environ: []string{
		"OPENAI_API_KEY=canary1", "ANTHROPIC_API_KEY=canary2", "GEMINI_API_KEY=canary3", "VOICEBRIDGE_JWT_SECRET=canary4-of-thirty-two-bytes-or-more", "VOICEBRIDGE_API_TOKENS=a:canary5-long-enough",
		"DATABASE_URL=postgres://u:canary6@h/db", `VOICEBRIDGE_ICE_SERVERS=[{"urls":"turn:a","username":"u","credential":"canary7"}]`, "OTEL_EXPORTER_OTLP_HEADERS=key=canary8",
	}})
	must(t, err)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%x"} {
		if out := fmt.Sprintf(verb, cfg) + fmt.Sprintf(verb, &cfg); strings.Contains(out, "canary") || strings.Contains(out, fmt.Sprintf("%x", "canary")) {
			t.Errorf("%s prints %s", verb, out)
		}
	}
	// Nor do messages about them repeat them.
	_, err = Load(Sources{File: noFile(t), Environ: []string{
		"OPENAI_API_KEY=canary 1", "VOICEBRIDGE_API_TOKENS=canary5", "DATABASE_URL=mysql://u:canary6@h/db",
		`VOICEBRIDGE_ICE_SERVERS=[{"urls":"turn:a","username":"u","credential":["canary7"]}]`, "OTEL_EXPORTER_OTLP_HEADERS=canary8",
	}})
	if err == nil || strings.Contains(err.Error(), "canary") {
		t.Errorf("the error is %v", err)
	}
}

func TestOffLoopbackNeedsAuthentication(t *testing.T) {
	t.Parallel()
	for listen, loopback := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "localhost:1": true, "LocalHost:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.168.1.1:80": false, "example.org:80": false, "localhost.example.org:80": false,
	} {
		_, err := Load(Sources{File: noFile(t), Environ: []string{"VOICEBRIDGE_LISTEN=" + listen}})
		if (err == nil) != loopback {
			t.Errorf("%s without authentication: %v", listen, err)
		}
		if _, err := Load(Sources{File: noFile(t), Environ: []string{"VOICEBRIDGE_LISTEN=" + listen}, Offline: true}); err != nil {
			t.Errorf("%s for a command that serves nobody: %v", listen, err)
		}
		if !loopback && (err == nil || !strings.Contains(err.Error(), "VOICEBRIDGE_API_TOKENS")) {
			t.Errorf("%s: the error does not say what to do: %v", listen, err)
		}
		for _, auth := range []string{"VOICEBRIDGE_API_TOKENS=a:b-and-long-enough", "VOICEBRIDGE_JWT_SECRET=" + strings.Repeat("s", 32), "VOICEBRIDGE_JWT_JWKS_URL=https://k.example VOICEBRIDGE_JWT_ISSUER=i VOICEBRIDGE_JWT_AUDIENCE=a"} {
			if _, err := Load(Sources{File: noFile(t), Environ: append(strings.Fields(auth), "VOICEBRIDGE_LISTEN="+listen)}); err != nil {
				t.Errorf("%s with %s: %v", listen, auth, err)
			}
		}
	}
}

func TestDriver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		environ []string
		want    string
	}{
		{nil, UpstreamSimulator},
		{[]string{"OPENAI_API_KEY=k"}, UpstreamOpenAI},
		{[]string{"OPENAI_API_KEY=k", "VOICEBRIDGE_UPSTREAM=simulator"}, UpstreamSimulator},
		{[]string{"OPENAI_API_KEY=k", "VOICEBRIDGE_UPSTREAM=openai"}, UpstreamOpenAI},
		{[]string{"OPENAI_BASE_URL=http://127.0.0.1:1/v1", "VOICEBRIDGE_UPSTREAM=openai"}, UpstreamOpenAI}, // a server that needs no key
		{[]string{"OPENAI_BASE_URL=http://127.0.0.1:1/v1"}, UpstreamSimulator},
	} {
		cfg, err := Load(Sources{File: noFile(t), Environ: c.environ})
		if err != nil || cfg.Driver() != c.want {
			t.Errorf("%v: driver %q, err %v", c.environ, cfg.Driver(), err)
		}
	}
}

// TestUpstreams reads a list of upstreams, with what their variables hold, and says what is wrong with others.
func TestUpstreams(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Sources{File: noFile(t), Environ: []string{
		`VOICEBRIDGE_UPSTREAMS=[{"name":"first","profile":"xai","api_key_env":"XAI_KEY","voice":"Ara","history":"items","headers_env":"MORE"},
			{"name":"second","profile":"openai"},{"name":"here","profile":"simulator","transport":"websocket"},
			{"name":"mine","profile":"realtime","url":"http://127.0.0.1:1/v1/realtime","rate_in":16000,"shape":"beta"}]`,
		"XAI_KEY=xai-1", "OPENAI_API_KEY=sk-1", "MORE=X-A=b%20c",
	}})
	must(t, err)
	first, second, here, mine := &cfg.Upstreams[0], &cfg.Upstreams[1], &cfg.Upstreams[2], &cfg.Upstreams[3]
	if first.By() != TransportWebSocket || first.Key.Reveal() != "xai-1" || first.Headers["X-A"].Reveal() != "b c" || first.Address() != "wss://api.x.ai/v1/realtime" {
		t.Errorf("first: %s, %q, %q, %q", first.By(), first.Key.Reveal(), first.Headers["X-A"].Reveal(), first.Address())
	}
	if p := first.Settled(); p.History != "items" || !p.KeepsAudio || p.RateIn != 24000 {
		t.Errorf("first: %+v", p)
	}
	if second.By() != TransportWebRTC || second.Key.Reveal() != "sk-1" || second.Address() != "https://api.openai.com/v1/realtime/calls" {
		t.Errorf("second: %s, %q, %q", second.By(), second.Key.Reveal(), second.Address())
	}
	if !here.BuiltIn() || here.By() != TransportWebSocket || cfg.Driver() != UpstreamOpenAI {
		t.Errorf("here: %t, %s; the driver is %s", here.BuiltIn(), here.By(), cfg.Driver())
	}
	if p := mine.Settled(); p.RateIn != 16000 || p.RateOut != 24000 || !p.Shape.Beta {
		t.Errorf("mine: %+v", p)
	}
	for list, want := range map[string]string{
		`{"name":"A b","profile":"openai"}`: `"A b" is not made of a-z, 0-9 and -`,
		`{"name":"a"}`:                      "upstreams[0].profile: it is missing",
		`{"name":"a","profile":"openai"},{"name":"a","profile":"openai"}`:       `"a" is the name of another`,
		`{"name":"a","profile":"realtime"}`:                                     "an upstream of the profile realtime needs it",
		`{"name":"a","profile":"xai","transport":"webrtc"}`:                     "an upstream of the profile xai needs it with the transport webrtc",
		`{"name":"a","profile":"realtime","url":"nowhere"}`:                     "it must be an address of the form wss://host/path",
		`{"name":"a","profile":"azure","transport":"webrtc","url":"wss://x/y"}`: "it must be an address of the form https://host/path",
		`{"name":"a","profile":"openai","rate_in":11025}`:                       "11025 is not one of [8000 16000 24000 48000]",
		`{"name":"a","profile":"openai","api_key_env":"NO_SUCH_KEY"}`:           "NO_SUCH_KEY is not set",
		`{"name":"a","profile":"openai","headers_env":"BAD"}`:                   "BAD: entry 1 must be name=value",
		`{"name":"a","profile":"openai","api_key_env":"not a name"}`:            `"not a name" is not the name of a variable`,
	} {
		_, err := Load(Sources{File: noFile(t), Environ: []string{"VOICEBRIDGE_UPSTREAMS=[" + list + "]", "BAD=nonsense"}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", list, err, want)
		}
	}
}

// TestTURNServers compares with a password computed in the same way by another program.
func TestTURNServers(t *testing.T) {
	t.Parallel()
	cfg, err := Load(Sources{File: noFile(t), Environ: []string{"VOICEBRIDGE_TURN__URLS=turn:t.example:3478,turns:t.example:5349", "VOICEBRIDGE_TURN_SECRET=shared", "VOICEBRIDGE_TURN__TTL_MINUTES=60"}})
	must(t, err)
	got := cfg.TURNServers("anna", time.Unix(1767225600, 0))
	if len(got) != 1 || len(got[0].URLs) != 2 || got[0].Username != "1767229200:55579b557896" || got[0].Credential.Reveal() != "XIellKeBR9p689yFR13/AHJGYUo=" {
		t.Errorf("got %+v with %q", got, got[0].Credential.Reveal())
	}
	if none := (&Config{}).TURNServers("anna", time.Now()); none != nil {
		t.Errorf("without a server: %+v", none)
	}
}

// TestDeclarations checks the tags of all settings.
func TestDeclarations(t *testing.T) {
	t.Parallel()
	for _, s := range Settings() {
		tag := s.Field.Tag
		if text, ok := tag.Lookup("default"); ok {
			if _, err := parse(s.Field.Type, text); err != nil {
				t.Errorf("%s: the default %q: %v", s.Key, text, err)
			}
		}
		for _, name := range []string{"min", "max"} {
			if text, ok := tag.Lookup(name); ok {
				if _, err := strconv.ParseFloat(text, 64); err != nil {
					t.Errorf("%s: %s is %q", s.Key, name, text)
				}
			}
		}
		if _, ok := formats[tag.Get("format")]; !ok && tag.Get("format") != "" {
			t.Errorf("%s: there is no format %s", s.Key, tag.Get("format"))
		}
		_, byDefault := tag.Lookup("default")
		if enum, ok := tag.Lookup("enum"); ok && !byDefault && tag.Get("min") == "" && !strings.HasPrefix(enum, ",") {
			t.Errorf("%s: it may be missing, so its enum begins with a comma", s.Key)
		}
		for f := range s.Group.Fields() {
			if f.Tag.Get("yaml") == "" && strings.Contains(string(f.Tag), "koanf") {
				t.Errorf("%s: its key stands in the tag yaml", f.Name)
			}
		}
		switch s.Field.Type.Kind() {
		case reflect.Int, reflect.Int64, reflect.Float64:
			if s.Field.Type.Kind() == reflect.Int64 && schema.Unit(s.Key, s.Field.Type) == 1 {
				t.Errorf("%s: its key names no unit", s.Key)
			}
			if tag.Get("min") == "" || tag.Get("max") == "" {
				t.Errorf("%s: a number needs bounds", s.Key)
			}
		}
	}
}

// TestListsOfGroups declares a list of groups, whose entries have defaults and bounds like other settings.
func TestListsOfGroups(t *testing.T) {
	t.Parallel()
	type entry struct {
		Name  string `yaml:"name" min:"1"`
		Kind  string `yaml:"kind" default:"a" enum:"a,b"`
		Ports []int  `yaml:"ports" default:"80,443" min:"1" max:"65535"`
	}
	type list struct {
		Entries []entry `yaml:"entries"`
	}
	var got list
	values := map[string]any{"entries": []any{map[string]any{"name": "x"}, map[string]any{"name": "", "kind": "c", "ports": []any{0}}}}
	problems := rules().Read(&got, values)
	if fmt.Sprint(got) != "{[{x a [80 443]} { c [0]}]}" {
		t.Errorf("got %+v", got)
	}
	var text strings.Builder
	for _, p := range problems {
		text.WriteString(p.Path + ": " + p.Reason.Error() + "\n")
	}
	testkit.Equal(t, text.String(), "entries[1].name: it must not be empty\nentries[1].kind: \"c\" is not one of a, b\nentries[1].ports[0]: 0 is not between 1 and 65535\n", "text.String()")
}
