// Package config is what an operator can set: its names, its defaults, where it is
// read from, and what is wrong with it.
package config

import (
	"voicebridge/web"
	"voicebridge/web/access"
)

// Config is what an operator can set, by flag, environment, voicebridge.yaml or
// not at all, in this order. The keys of the file are the koanf names.
type Config struct {
	// Address of the page and the API, host:port. Off loopback the start is refused without authentication.
	Listen string `koanf:"listen"`
	// `sqlite:PATH` or `postgres://…`; with a password only as DATABASE_URL.
	DatabaseURL    string   `koanf:"database_url"`
	Database       Database `koanf:"database"`
	Upstream       string   `koanf:"upstream"`        // `openai`, `simulator`, or empty: by whether there is a key
	OpenAIBaseURL  string   `koanf:"openai_base_url"` // Base of text and, unless realtime.url is set, of voice calls
	AllowedOrigins []string `koanf:"allowed_origins"` // Origins beside our own whose pages may use the API
	// Addresses or networks of proxies whose X-Forwarded-For is believed.
	TrustedProxies []string `koanf:"trusted_proxies"`
	JWTJWKSURL     string   `koanf:"jwt_jwks_url"` // Public keys that verify JWTs (RFC 7517)
	JWTIssuer      string   `koanf:"jwt_issuer"`   // What `iss` of a JWT must be; needed with jwt_jwks_url
	JWTAudience    string   `koanf:"jwt_audience"` // What `aud` of a JWT must be; needed with jwt_jwks_url
	// Owners that a JWT may be of although they have a static token, or are `local`.
	JWTMayClaim []string `koanf:"jwt_may_claim"`

	UDPPort    int         `koanf:"udp_port"`    // One UDP port for all media; 0: any
	PublicIPs  []string    `koanf:"public_ips"`  // Addresses that browsers reach this machine by, behind NAT
	ICEServers []ICEServer `koanf:"ice_servers"` // STUN servers for browsers, `{urls: […]}`

	MCPConfig string `koanf:"mcp_config"` // File with MCP servers; empty: mcp.json if it is there

	// Text turns: which provider answers a typed message outside a call.
	Text             Text   `koanf:"text"`
	AnthropicBaseURL string `koanf:"anthropic_base_url"` // Empty: the vendor's
	GeminiBaseURL    string `koanf:"gemini_base_url"`    // Empty: the vendor's
	OllamaHost       string `koanf:"ollama_host"`        // Such as http://127.0.0.1:11434

	// TLS serves https without a proxy.
	TLS TLS `koanf:"tls"`
	// TURN servers that share a secret with us, VOICEBRIDGE_TURN_SECRET.
	TURN TURN `koanf:"turn"`

	Realtime      Realtime      `koanf:"realtime"`
	Calls         Calls         `koanf:"calls"`
	Budget        Budget        `koanf:"budget"`
	Conversations Conversations `koanf:"conversations"`
	Tools         Tools         `koanf:"tools"`
	Limits        Limits        `koanf:"limits"`
	Log           Log           `koanf:"log"`
	Metrics       Metrics       `koanf:"metrics"`
	Traces        Traces        `koanf:"traces"`
	// What models cost, in US dollars: for a million tokens (input, output, cached_input, audio_input, cached_audio_input, audio_output) or, of a transcription, for a minute of audio (minute). These come before those of the program.
	Prices []Price `koanf:"prices"`
	// How long calls and requests may take to end when the process is told to stop.
	ShutdownSeconds int `koanf:"shutdown_seconds"`

	// Secrets come from the environment only.
	Secrets Secrets `koanf:"-"`
}

// Secrets are what only the environment may hold.
type Secrets struct {
	OpenAIKey, AnthropicKey, GeminiKey access.Secret
	OllamaKey                          access.Secret
	ExaKey, TavilyKey, BraveKey        access.Secret
	JWTSecret                          access.Secret
	// RealtimeKey is for voice calls that go elsewhere than text; else OpenAIKey is.
	RealtimeKey access.Secret
	// Signing is what signs page sessions and client secrets on all instances of a
	// database; unset, one is made at random and kept there.
	Signing    access.Secret
	TURNSecret access.Secret
	Tokens     []access.StaticToken
	// TraceHeaders go to the receiver of traces with every request.
	TraceHeaders map[string]access.Secret
	// DatabaseURL takes the place of the key when it holds a password.
	DatabaseURL access.Secret
	ICEServers  []web.ICEServer
	// badTokens says that tokens were given and could not be read: the start fails
	// for that and not for want of authentication.
	badTokens bool
}

// ICEServer is a STUN server for browsers, or a TURN server without a password.
type ICEServer struct {
	URLs     []string `koanf:"urls"`
	Username string   `koanf:"username"`
}

// Text is who answers typed messages, and how.
type Text struct {
	// `openai`, `anthropic`, `google`, `ollama`, `simulator`; empty: the first that is configured.
	Provider       string `koanf:"provider"`
	Model          string `koanf:"model"`           // Empty: one that suits the provider
	Instructions   string `koanf:"instructions"`    // What the model is told
	MaxTokens      int    `koanf:"max_tokens"`      // Of an answer; 0: the provider decides
	TimeoutSeconds int    `koanf:"timeout_seconds"` // How long a provider may take to begin to answer
	// Whether the model is told what the owner's other threads say of the same.
	Memories bool `koanf:"memories"`
}

// Realtime is the voice model and what it is told.
type Realtime struct {
	Model              string `koanf:"model"`               // Of voice calls
	Voice              string `koanf:"voice"`               // Of the assistant
	TranscriptionModel string `koanf:"transcription_model"` // Writes down what the user says
	// What the model is told. {{date}}, {{time}} and {{user}} stand for when the call began and for what the user is called.
	Instructions            string `koanf:"instructions"`
	AllowClientInstructions bool   `koanf:"allow_client_instructions"` // Whether a client may set the instructions of its own calls
	// The whole address of the calls route, where that is not below openai_base_url.
	URL string `koanf:"url"`
	// Where the key goes: Authorization, with Bearer before it, or another, such as api-key for Azure.
	APIKeyHeader string `koanf:"api_key_header"`
	// How a call is created: form, as OpenAI and Azure have it, or json, as older versions of LocalAI have it.
	CallBody       string        `koanf:"call_body"`
	TurnDetection  TurnDetection `koanf:"turn_detection"`
	NoiseReduction string        `koanf:"noise_reduction"` // near_field, far_field, or empty: off
	Language       string        `koanf:"language"`        // of the transcription, ISO 639-1; empty: any
}

// TurnDetection is when the caller's turn is over. The fields are those of the Realtime
// API; what is nil or empty is left to it.
type TurnDetection struct {
	Type              string   `koanf:"type"`                // server_vad, semantic_vad, none: push to talk
	Threshold         *float64 `koanf:"threshold"`           // server_vad, 0 to 1
	PrefixPaddingMS   *int     `koanf:"prefix_padding_ms"`   // server_vad
	SilenceDurationMS *int     `koanf:"silence_duration_ms"` // server_vad
	IdleTimeoutMS     *int     `koanf:"idle_timeout_ms"`     // server_vad
	Eagerness         string   `koanf:"eagerness"`           // semantic_vad: low, medium, high, auto
	CreateResponse    *bool    `koanf:"create_response"`
	InterruptResponse *bool    `koanf:"interrupt_response"`
}

// The types of turn detection.
const (
	ServerVAD   = "server_vad"
	SemanticVAD = "semantic_vad"
	PushToTalk  = "none"
)

// Calls is how long calls live and wait.
type Calls struct {
	// How long before the end of an upstream session another takes its place, up to 1440; 0: off, a session is replaced when it has ended.
	RenewBeforeMinutes int `koanf:"renew_before_minutes"`
	GraceSeconds       int `koanf:"grace_seconds"` // How long a call waits for a browser that was lost
	// How long it waits for one that closed its connection, as a page that is reloaded does.
	CloseGraceSeconds int `koanf:"close_grace_seconds"`
	// A call ends after so long without speech, answer or tool; 0: never.
	IdleMinutes   int `koanf:"idle_minutes"`
	MaxMinutes    int `koanf:"max_minutes"`     // Of a call; 0: no limit
	MaxToolRounds int `koanf:"max_tool_rounds"` // Of one spoken turn
}

// Budget is what may be spent, in US dollars; 0 is no limit.
type Budget struct {
	CallUSD     float64 `koanf:"call_usd"`      // Of one call
	OwnerDayUSD float64 `koanf:"owner_day_usd"` // Of one owner on one day
	WarnPercent int     `koanf:"warn_percent"`  // The caller is told when so much of a limit is spent
}

// TLS serves https without a proxy, with a certificate in files or one from an authority. The
// files are PEM, and belong together.
type TLS struct {
	CertFile string `koanf:"cert_file"` // The certificate with its chain
	KeyFile  string `koanf:"key_file"`  // Its key
	ACME     ACME   `koanf:"acme"`
}

// ACME is an authority that gives certificates by itself, such as Let's Encrypt (RFC 8555). It
// must reach this server by the name: on port 443, or on port 80 with http_listen.
type ACME struct {
	Domains []string `koanf:"domains"` // Names to get a certificate for, which is to agree to the authority's terms; empty: off
	Email   string   `koanf:"email"`   // Where the authority writes to
	// The authority's directory.
	Directory string `koanf:"directory"`
	Folder    string `koanf:"folder"` // Where the account's key and the certificates are kept
	// host:port that answers the authority by HTTP and sends browsers to https, such as :80; empty: the main port answers alone.
	HTTPListen string `koanf:"http_listen"`
}

// TURN are servers whose passwords are made for each call from a shared secret
// (static-auth-secret of coturn) and last for TTLMinutes.
type TURN struct {
	URLs       []string `koanf:"urls"`        // Such as turn:turn.example.org:3478
	TTLMinutes int      `koanf:"ttl_minutes"` // How long a password lasts; at least as long as a call
}

// Database is how the database is used.
type Database struct {
	// Connections to PostgreSQL, beside the one that listens: a half for reading, a half for writing; 0: by its address or the processors.
	MaxConnections int `koanf:"max_connections"`
}

// Conversations are the rules of threads.
type Conversations struct {
	// AutoGenerateTitles gives threads titles, by their first words and then by the model.
	AutoGenerateTitles bool `koanf:"auto_generate_titles"`
	// RetentionDays is how long a thread is kept after the last change of it; 0: for good.
	RetentionDays int     `koanf:"retention_days"`
	Queue         Queue   `koanf:"queue"`
	History       History `koanf:"history"`
}

// Queue is what happens to messages that are typed while the assistant is busy.
type Queue struct {
	Enabled            bool `koanf:"enabled"`              // Whether what waits is sent by itself
	DelaySeconds       int  `koanf:"delay_seconds"`        // How long a message waits at least
	MaxSize            int  `koanf:"max_size"`             // 0: no limit
	AutoGenerateTitles bool `koanf:"auto_generate_titles"` // Whether messages that wait get titles
}

// History is how much of a thread models are told.
type History struct {
	ReplayMessages  int `koanf:"replay_messages"`   // How many messages a new call is told
	MaxTurns        int `koanf:"max_turns"`         // How many turns a text model is told
	MaxTokens       int `koanf:"max_tokens"`        // And how many tokens, roughly
	TrimChunkTokens int `koanf:"trim_chunk_tokens"` // What is cut off at once, so that prompts stay cached
	MaxToolRounds   int `koanf:"max_tool_rounds"`   // Of one turn
}

// Tools are the tools that models may call.
type Tools struct {
	Toolkits       []string `koanf:"toolkits"`        // artifacts, code, web, http, agent
	TimeoutSeconds int      `koanf:"timeout_seconds"` // Of one tool call
	FillerSeconds  int      `koanf:"filler_seconds"`  // When the voice says that a tool still runs; 0: never
	Allow          []string `koanf:"allow"`           // Only these, where there are any: names, or patterns with a *
	Deny           []string `koanf:"deny"`            // Never these
	Approve        []string `koanf:"approve"`         // Only after the user has said yes
	Code           Code     `koanf:"code"`
	Web            WebTools `koanf:"web"`
}

// Code is how programs of the model run.
type Code struct {
	TimeoutSeconds int  `koanf:"timeout_seconds"` // Of one program
	MemoryMB       int  `koanf:"memory_mb"`       // Of one program
	MaxParallel    int  `koanf:"max_parallel"`    // Programs at once
	Python         bool `koanf:"python"`          // in bubblewrap, where the host can do it
	Unconfined     bool `koanf:"unconfined"`      // JavaScript also where the kernel cannot confine its process
}

// WebTools is what tools may reach.
type WebTools struct {
	Search       string   `koanf:"search"`         // searxng, exa, tavily, brave; empty: the first that is configured
	SearXNGURL   string   `koanf:"searxng_url"`    // A SearXNG server
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

// Limits protect the process.
type Limits struct {
	MaxCalls         int `koanf:"max_calls"`                  // Live calls of this process
	MaxCallsPerOwner int `koanf:"max_calls_per_owner"`        // In all processes of the database together; not applied to the one local user
	SetupsPerMinute  int `koanf:"setups_per_minute_per_ip"`   // Calls that are set up, in all processes together
	SignInsPerMinute int `koanf:"sign_ins_per_minute_per_ip"` // Wrong ones, and tokens
	MaxSockets       int `koanf:"max_sockets"`                // WebSockets of this process
	SocketsPerOwner  int `koanf:"max_sockets_per_owner"`      // WebSockets of one owner
	TextsPerMinute   int `koanf:"texts_per_minute_per_owner"` // Messages, queued messages, images and threads, in all processes together
	TurnsPerOwner    int `koanf:"max_turns_per_owner"`        // Text turns at once, in all processes together
	ImageMBPerOwner  int `koanf:"image_mb_per_owner"`         // All images together
	ThreadsPerOwner  int `koanf:"max_threads_per_owner"`      // Conversations of one owner
	StoredMBPerOwner int `koanf:"stored_mb_per_owner"`        // Messages and images of one owner together, added up once a minute
	// Models that callers may name: provider/model or provider/*; empty allows all
	AllowedModels []string `koanf:"allowed_models"`
}

// Price is what a model costs, in US dollars for a million tokens. Audio and
// cached tokens that have no price of their own cost as much as the others.
type Price struct {
	Model       string   `koanf:"model"`
	Input       float64  `koanf:"input"`
	Output      float64  `koanf:"output"`
	CachedInput *float64 `koanf:"cached_input"`
	AudioInput  *float64 `koanf:"audio_input"`
	CachedAudio *float64 `koanf:"cached_audio_input"`
	AudioOutput *float64 `koanf:"audio_output"`
	Minute      *float64 `koanf:"minute"` // of audio, where a transcription is billed by its duration
}

// Log is what is logged, and how.
type Log struct {
	Level  string `koanf:"level"`  // debug, info, warn, error
	Format string `koanf:"format"` // text, json
}

// Metrics is a port for operators, with figures for Prometheus and Go's profiles. It asks
// for no token, so nobody else should reach it.
type Metrics struct {
	// host:port of /metrics and /debug/pprof; without a host only this machine reaches it. Empty: off; /metrics of the main port asks for a token.
	Listen string `koanf:"listen"`
}

// Traces are the traces of OpenTelemetry: what each turn spent its time on.
type Traces struct {
	// Base URL of a receiver of OTLP by HTTP, such as http://127.0.0.1:4318; empty: off. Headers: OTEL_EXPORTER_OTLP_HEADERS.
	Endpoint string  `koanf:"endpoint"`
	Sample   float64 `koanf:"sample"` // The share of the turns that is traced, 0 to 1
}

// The names of the upstreams, and the address of the first.
const (
	UpstreamOpenAI    = "openai"
	UpstreamSimulator = "simulator"
	OpenAIURL         = "https://api.openai.com/v1"
)

// LetsEncrypt is the directory of the authority that is asked for certificates.
const LetsEncrypt = "https://acme-v02.api.letsencrypt.org/directory"

// Defaults are the settings of an empty environment. The names of realtime models
// and voices stand here and nowhere else; those of text models in textModels.
func Defaults() Config {
	return Config{
		Listen:        "127.0.0.1:8080",
		DatabaseURL:   "sqlite:data/voicebridge.db",
		OpenAIBaseURL: OpenAIURL,
		Realtime: Realtime{
			Model: "gpt-realtime-2.1", Voice: "marin", TranscriptionModel: "gpt-transcribe", Instructions: defaultInstructions,
			APIKeyHeader: "Authorization", CallBody: "form", TurnDetection: TurnDetection{Type: ServerVAD},
		},
		Calls:  Calls{RenewBeforeMinutes: 10, GraceSeconds: 30, CloseGraceSeconds: 8, IdleMinutes: 10, MaxToolRounds: 20},
		Budget: Budget{WarnPercent: 80},
		TURN:   TURN{TTLMinutes: 120},
		TLS:    TLS{ACME: ACME{Directory: LetsEncrypt, Folder: "data/certificates"}},
		Text:   Text{Instructions: defaultTextInstructions, TimeoutSeconds: 30},
		Conversations: Conversations{
			AutoGenerateTitles: true,

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
			TextsPerMinute: 120, TurnsPerOwner: 16, ImageMBPerOwner: 1024, ThreadsPerOwner: 10_000, StoredMBPerOwner: 4096, AllowedModels: []string{},
		},
		Log:             Log{Level: "info", Format: "text"},
		Traces:          Traces{Sample: 1},
		ShutdownSeconds: 10,
	}
}
