// Package config is what an operator can set: its names, its defaults, where it is
// read from, and what is wrong with it.
package config

import (
	"github.com/knadh/koanf/v2"

	"voicebridge/web"
	"voicebridge/web/access"
)

// Config is what an operator can set, by flag, environment, voicebridge.yaml or
// not at all, in this order. The keys of the file are the koanf names.
type Config struct {
	Listen         string   `koanf:"listen"`
	DatabaseURL    string   `koanf:"database_url"`
	Upstream       string   `koanf:"upstream"` // openai, simulator, or empty: by whether there is a key
	OpenAIBaseURL  string   `koanf:"openai_base_url"`
	AllowedOrigins []string `koanf:"allowed_origins"`
	TrustedProxies []string `koanf:"trusted_proxies"` // addresses or networks
	JWTJWKSURL     string   `koanf:"jwt_jwks_url"`
	JWTIssuer      string   `koanf:"jwt_issuer"`
	JWTAudience    string   `koanf:"jwt_audience"`
	JWTMayClaim    []string `koanf:"jwt_may_claim"` // owners, beside those that only JWTs have

	UDPPort    int         `koanf:"udp_port"`
	PublicIPs  []string    `koanf:"public_ips"`
	ICEServers []ICEServer `koanf:"ice_servers"`

	MCPConfig string `koanf:"mcp_config"`

	// Text turns: which provider answers a typed message outside a call.
	Text             Text   `koanf:"text"`
	AnthropicBaseURL string `koanf:"anthropic_base_url"`
	GeminiBaseURL    string `koanf:"gemini_base_url"`
	OllamaHost       string `koanf:"ollama_host"`

	Realtime        Realtime      `koanf:"realtime"`
	Conversations   Conversations `koanf:"conversations"`
	Tools           Tools         `koanf:"tools"`
	Limits          Limits        `koanf:"limits"`
	Log             Log           `koanf:"log"`
	Prices          []Price       `koanf:"prices"`
	ShutdownSeconds int           `koanf:"shutdown_seconds"`

	// Secrets come from the environment only.
	Secrets Secrets `koanf:"-"`
}

type Secrets struct {
	OpenAIKey, AnthropicKey, GeminiKey access.Secret
	OllamaKey                          access.Secret
	ExaKey, TavilyKey, BraveKey        access.Secret
	JWTSecret                          access.Secret
	// Signing signs page sessions and client secrets; unset, one is kept in the database.
	Signing access.Secret
	Tokens  []access.StaticToken
	// DatabaseURL takes the place of the key when it holds a password.
	DatabaseURL access.Secret
	ICEServers  []web.ICEServer
	// badTokens says that tokens were given and could not be read: the start fails
	// for that and not for want of authentication.
	badTokens bool
}

type ICEServer struct {
	URLs     []string `koanf:"urls"`
	Username string   `koanf:"username"`
}

type Text struct {
	Provider     string `koanf:"provider"`
	Model        string `koanf:"model"`
	Instructions string `koanf:"instructions"`
	// MaxTokens limits an answer; 0 leaves it to the provider.
	MaxTokens int `koanf:"max_tokens"`
	// TimeoutSeconds is how long a provider may take to begin to answer.
	TimeoutSeconds int `koanf:"timeout_seconds"`
	// Memories tells the model what the owner's other threads say of the same.
	Memories bool `koanf:"memories"`
}

type Realtime struct {
	Model                   string `koanf:"model"`
	Voice                   string `koanf:"voice"`
	TranscriptionModel      string `koanf:"transcription_model"`
	Instructions            string `koanf:"instructions"`
	AllowClientInstructions bool   `koanf:"allow_client_instructions"`
}

type Conversations struct {
	Queue   Queue   `koanf:"queue"`
	History History `koanf:"history"`
}

type Queue struct {
	Enabled            bool `koanf:"enabled"`
	DelaySeconds       int  `koanf:"delay_seconds"`
	MaxSize            int  `koanf:"max_size"`
	AutoGenerateTitles bool `koanf:"auto_generate_titles"`
}

type History struct {
	ReplayMessages  int `koanf:"replay_messages"`
	MaxTurns        int `koanf:"max_turns"`
	MaxTokens       int `koanf:"max_tokens"`
	TrimChunkTokens int `koanf:"trim_chunk_tokens"`
	MaxToolRounds   int `koanf:"max_tool_rounds"`
}

type Tools struct {
	Toolkits       []string `koanf:"toolkits"` // artifacts, code, web, http, agent
	TimeoutSeconds int      `koanf:"timeout_seconds"`
	FillerSeconds  int      `koanf:"filler_seconds"` // the voice says that a tool still runs; 0: never
	// Allow, Deny and Approve are names and patterns as in toolkit.Names: only these, where
	// there are any; never these; only after the user has said yes.
	Allow   []string `koanf:"allow"`
	Deny    []string `koanf:"deny"`
	Approve []string `koanf:"approve"`
	Code    Code     `koanf:"code"`
	Web     WebTools `koanf:"web"`
}

type Code struct {
	TimeoutSeconds int  `koanf:"timeout_seconds"`
	MemoryMB       int  `koanf:"memory_mb"`
	MaxParallel    int  `koanf:"max_parallel"`
	Python         bool `koanf:"python"`     // in bubblewrap, where the host can do it
	Unconfined     bool `koanf:"unconfined"` // JavaScript also where the kernel cannot confine its process
	// PreferBrowser lets a caller's browser run the programs; one that cannot leaves
	// them to the server.
	PreferBrowser bool `koanf:"prefer_browser"`
	// Pyodide is a folder or an https address with a Pyodide distribution: with one
	// the page offers Python. Empty: it offers none.
	Pyodide string `koanf:"pyodide"`
}

type WebTools struct {
	Search       string   `koanf:"search"` // searxng, exa, tavily, brave; empty: the first that is configured
	SearXNGURL   string   `koanf:"searxng_url"`
	AllowNetwork []string `koanf:"allow_networks"` // addresses or networks that are open although they are not public
	DenyNetwork  []string `koanf:"deny_networks"`  // those that are closed although they are public
	AllowPorts   []int    `koanf:"allow_ports"`    // besides 80 and 443
}

// The names of the toolkits.
const (
	ToolkitArtifacts = "artifacts"
	ToolkitCode      = "code"
	ToolkitWeb       = "web"
	ToolkitHTTP      = "http"
	ToolkitAgent     = "agent"
)

type Limits struct {
	MaxCalls         int `koanf:"max_calls"`
	MaxCallsPerOwner int `koanf:"max_calls_per_owner"`
	MaxCallMinutes   int `koanf:"max_call_minutes"` // 0: the upstream's own limit
	SetupsPerMinute  int `koanf:"setups_per_minute_per_ip"`
	SignInsPerMinute int `koanf:"sign_ins_per_minute_per_ip"`
	MaxSockets       int `koanf:"max_sockets"`
	SocketsPerOwner  int `koanf:"max_sockets_per_owner"`
}

type Log struct {
	Level  string `koanf:"level"`  // debug, info, warn, error
	Format string `koanf:"format"` // text, json
}

const (
	UpstreamOpenAI    = "openai"
	UpstreamSimulator = "simulator"
	OpenAIURL         = "https://api.openai.com/v1"
)

const defaultInstructions = `You are a warm, quick and helpful assistant in a spoken conversation.

Speak as people do: short sentences, plain words, no lists, no markup, no emoji, nothing that only works on a screen. One or two sentences are usually enough; give more when you are asked for more. Use the language that the user speaks, and change with the user. Say numbers, dates and units the way they are spoken.

If you did not hear something clearly, say so and ask; never guess names, numbers or addresses. If you do not know something, say that you do not know. When the user interrupts you, stop and listen.

You have tools. Use one when it answers better than words: draw a chart or a table when the user asks to see figures, and then say the main point of it in one sentence instead of reading the data aloud. Before a tool that may take a while, say in a few words what you are doing. If a tool fails, say plainly what went wrong and what can be done. Never claim to have done something that you have not done.

Messages from earlier calls on this conversation may come first. Use what you know from them without repeating it.`

const defaultTextInstructions = `You are a warm, quick and helpful assistant in a written conversation. The user may also call you on the same thread and speak: what was said there stands in the history like everything else.

Write plainly and to the point, in the language that the user writes. Use Markdown where it helps to read, and not otherwise. If you do not know something, say that you do not know; never guess names, numbers or addresses.

You have tools. Use one when it answers better than words: draw a chart or a table when the user asks to see figures, and then say the main point of it instead of repeating the data. If a tool fails, say plainly what went wrong and what can be done. Never claim to have done something that you have not done.`

// Defaults are the settings of an empty environment. The names of realtime models
// and voices stand here and nowhere else; those of text models in textModels.
func Defaults() Config {
	return Config{
		Listen:        "127.0.0.1:8080",
		DatabaseURL:   "sqlite:data/voicebridge.db",
		OpenAIBaseURL: OpenAIURL,
		Realtime: Realtime{
			Model: "gpt-realtime-2.1", Voice: "marin", TranscriptionModel: "gpt-transcribe", Instructions: defaultInstructions,
		},
		Text: Text{Instructions: defaultTextInstructions, TimeoutSeconds: 30},
		Conversations: Conversations{
			Queue:   Queue{Enabled: true, MaxSize: 10, AutoGenerateTitles: true},
			History: History{ReplayMessages: 20, MaxTurns: 20, MaxTokens: 8000, TrimChunkTokens: 1000, MaxToolRounds: 8},
		},
		Tools: Tools{
			Toolkits: []string{ToolkitArtifacts, ToolkitCode, ToolkitWeb, ToolkitHTTP, ToolkitAgent}, TimeoutSeconds: 30,
			Approve: []string{"http:write"},
			Code:    Code{TimeoutSeconds: 10, MemoryMB: 64, MaxParallel: 4},
		},
		Limits: Limits{
			MaxCalls: 200, MaxCallsPerOwner: 20, SetupsPerMinute: 60, SignInsPerMinute: 10, MaxSockets: 2000, SocketsPerOwner: 200,
		},
		Log:             Log{Level: "info", Format: "text"},
		ShutdownSeconds: 10,
	}
}

// Sources are where settings come from.
type Sources struct {
	// File is the path of the YAML file that was asked for; empty takes
	// VOICEBRIDGE_CONFIG, else voicebridge.yaml if it is there.
	File string
	// Environ is the environment as os.Environ returns it.
	Environ []string
	// Flags are the flags that were given, by their keys.
	Flags map[string]any
}

const defaultFile = "voicebridge.yaml"

// Load reads and checks the settings. The error names everything that is
// wrong, not only the first.
func Load(src Sources) (Config, error) {
	l := loader{k: koanf.New("."), cfg: Defaults(), refused: map[string]bool{}}
	l.readFile(src)
	l.readEnvironment(src.Environ)
	for key, value := range src.Flags {
		l.note(l.k.Set(key, value))
		if key == "database_url" {
			l.cfg.Secrets.DatabaseURL = access.Secret{} // the flag comes before the environment
		}
	}
	l.decode()
	l.problems = append(l.problems, l.cfg.validate()...)
	if len(l.problems) > 0 {
		return Config{}, &Error{l.problems}
	}
	return l.cfg, nil
}
