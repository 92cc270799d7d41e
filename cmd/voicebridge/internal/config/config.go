// Package config holds what an operator can configure: names, defaults, sources and validation. The koanf tags are the
// keys of voicebridge.yaml.
package config

import (
	"voicebridge/web"
	"voicebridge/web/access"
)

// Config is what an operator can set, by flags, environment, voicebridge.yaml and defaults, in this
// order.
type Config struct {
	// Address of the page and the API, host:port. Any address but loopback requires authentication.
	Listen string `koanf:"listen"`
	// `sqlite:PATH` or `postgres://…`; one with a password only as DATABASE_URL.
	DatabaseURL    string   `koanf:"database_url"`
	Database       Database `koanf:"database"`
	Upstream       string   `koanf:"upstream"`        // `openai` or `simulator`; empty: openai if there is a key
	OpenAIBaseURL  string   `koanf:"openai_base_url"` // Base URL for text and, unless realtime.url is set, for voice calls
	AllowedOrigins []string `koanf:"allowed_origins"` // Other origins whose pages may use the API
	// Addresses or networks of proxies whose X-Forwarded-For is trusted.
	TrustedProxies []string `koanf:"trusted_proxies"`
	JWTJWKSURL     string   `koanf:"jwt_jwks_url"` // Public keys that verify JWTs (RFC 7517)
	JWTIssuer      string   `koanf:"jwt_issuer"`   // Required value of `iss` in a JWT; needed with jwt_jwks_url
	JWTAudience    string   `koanf:"jwt_audience"` // Required value of `aud` in a JWT; needed with jwt_jwks_url
	// Owners that a JWT may name although they have a static token, or are `local`.
	JWTMayClaim []string `koanf:"jwt_may_claim"`

	UDPPort    int         `koanf:"udp_port"`    // One UDP port for all media; 0: any
	PublicIPs  []string    `koanf:"public_ips"`  // Addresses at which browsers reach this machine, behind NAT
	ICEServers []ICEServer `koanf:"ice_servers"` // STUN servers for browsers, `{urls: […]}`

	MCPConfig string `koanf:"mcp_config"` // File that lists MCP servers, each of which serves all owners; empty: mcp.json if it exists

	// Text turns: which provider answers a typed message outside a call.
	Text             Text   `koanf:"text"`
	AnthropicBaseURL string `koanf:"anthropic_base_url"` // Empty: the vendor's address
	GeminiBaseURL    string `koanf:"gemini_base_url"`    // Empty: the vendor's address
	OllamaHost       string `koanf:"ollama_host"`        // Such as http://127.0.0.1:11434

	// TLS serves https without a proxy.
	TLS TLS `koanf:"tls"`
	// TURN servers that share the secret VOICEBRIDGE_TURN_SECRET with us.
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
	// What models cost in US dollars: per million tokens (input, output, cached_input, audio_input,
	// cached_audio_input, audio_output) or, for a transcription, per minute of audio (minute). They
	// override the built-in prices.
	Prices []Price `koanf:"prices"`
	// How long calls and requests may take to end when the process is stopped.
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
	// RealtimeKey is for voice calls that go elsewhere than text; empty means OpenAIKey.
	RealtimeKey access.Secret
	// Signing signs page sessions and client secrets on all instances of a database. If unset, a
	// random one is made and kept there.
	Signing    access.Secret
	TURNSecret access.Secret
	Tokens     []access.StaticToken
	// TraceHeaders go to the receiver of traces with every request.
	TraceHeaders map[string]access.Secret
	// DatabaseURL replaces the setting if it contains a password.
	DatabaseURL access.Secret
	ICEServers  []web.ICEServer
	// badTokens is set if tokens were given but could not be read: then that is reported, and not
	// missing authentication.
	badTokens bool
}

// ICEServer is a STUN server for browsers, or a TURN server without a password.
type ICEServer struct {
	URLs     []string `koanf:"urls"`
	Username string   `koanf:"username"`
}

// Text is the model that answers typed messages.
type Text struct {
	// `openai`, `anthropic`, `google`, `ollama`, `simulator`; empty: the first that is configured
	Provider string `koanf:"provider"`
	Model    string `koanf:"model"` // Empty: a default for the provider
	// Which API of OpenAI is used: `responses`, or `chat` for Chat Completions; empty: `responses` for OpenAI itself, `chat` for a
	// compatible server at openai_base_url. By Chat Completions, gpt-5.6 and later models call tools only without reasoning.
	OpenAIAPI    string `koanf:"openai_api"`
	Instructions string `koanf:"instructions"` // What the model is told
	MaxTokens    int    `koanf:"max_tokens"`   // Per answer; 0: the provider decides
	// How long a provider may take to begin its answer (Ollama, which loads models, at least 300) and pause in its text; four
	// times as long while it thinks
	TimeoutSeconds int `koanf:"timeout_seconds"`
	// Whether the model is shown what the owner's other threads say on the same subject
	Memories bool `koanf:"memories"`
}

// Spoken returns the instructions for answers that are spoken: those that the operator wrote, or else the default.
func (t Text) Spoken() string {
	if t.Instructions == defaultTextInstructions {
		return spokenTextInstructions
	}
	return t.Instructions
}

// Realtime is the voice model and its instructions.
type Realtime struct {
	Model              string `koanf:"model"`               // The model for voice calls
	Voice              string `koanf:"voice"`               // The assistant's voice: a name, or the id of a custom one (voice_…)
	TranscriptionModel string `koanf:"transcription_model"` // Model that transcribes what the user says
	// What the model is told. {{date}} and {{time}} stand for when the call began, {{user}} for the
	// user's name.
	Instructions            string `koanf:"instructions"`
	AllowClientInstructions bool   `koanf:"allow_client_instructions"` // Whether a client may set the instructions of its own calls
	// The whole address of the calls route, if it is not below openai_base_url.
	URL string `koanf:"url"`
	// Header that carries the key: Authorization, with Bearer before the key, or another, such as
	// api-key for Azure.
	APIKeyHeader string `koanf:"api_key_header"`
	// Body of the request that creates a call: form for OpenAI and Azure, json for older versions
	// of LocalAI.
	CallBody       string        `koanf:"call_body"`
	TurnDetection  TurnDetection `koanf:"turn_detection"`
	NoiseReduction string        `koanf:"noise_reduction"` // near_field, far_field; empty: off
	Language       string        `koanf:"language"`        // Language of the transcription, ISO 639-1; empty: any
}

// TurnDetection decides when the caller's turn is over. The fields are those of the Realtime API,
// which provides the defaults.
type TurnDetection struct {
	Type              string   `koanf:"type" json:"type"`                                         // server_vad, semantic_vad, none: push to talk
	Threshold         *float64 `koanf:"threshold" json:"threshold,omitempty"`                     // server_vad, 0 to 1
	PrefixPaddingMS   *int     `koanf:"prefix_padding_ms" json:"prefix_padding_ms,omitempty"`     // server_vad
	SilenceDurationMS *int     `koanf:"silence_duration_ms" json:"silence_duration_ms,omitempty"` // server_vad
	IdleTimeoutMS     *int     `koanf:"idle_timeout_ms" json:"idle_timeout_ms,omitempty"`         // server_vad
	Eagerness         string   `koanf:"eagerness" json:"eagerness,omitempty"`                     // semantic_vad: low, medium, high, auto
	CreateResponse    *bool    `koanf:"create_response" json:"create_response,omitempty"`
	InterruptResponse *bool    `koanf:"interrupt_response" json:"interrupt_response,omitempty"`
}

// The types of turn detection.
const (
	serverVAD   = "server_vad"
	semanticVAD = "semantic_vad"
	pushToTalk  = "none"
)

// Calls are the time limits of calls.
type Calls struct {
	// How long before an upstream session expires another replaces it, up to 1440; 0: only once it
	// has ended.
	RenewBeforeMinutes int `koanf:"renew_before_minutes"`
	GraceSeconds       int `koanf:"grace_seconds"` // How long a call waits for a lost browser
	// How long it waits for a browser that closed its connection, as a page does when it is
	// reloaded.
	CloseGraceSeconds int `koanf:"close_grace_seconds"`
	// A call ends after this long without speech, answers or tools; 0: never.
	IdleMinutes   int `koanf:"idle_minutes"`
	MaxMinutes    int `koanf:"max_minutes"`     // Longest call; 0: no limit
	MaxToolRounds int `koanf:"max_tool_rounds"` // Per spoken turn
}

// Budget limits spending, in US dollars; 0 is no limit.
type Budget struct {
	CallUSD     float64 `koanf:"call_usd"`      // Per call
	OwnerDayUSD float64 `koanf:"owner_day_usd"` // Per owner and day
	WarnPercent int     `koanf:"warn_percent"`  // The caller is warned when this share of a limit is spent
}

// TLS serves https without a proxy, with a certificate from files, which are PEM and must match.
type TLS struct {
	CertFile string `koanf:"cert_file"` // The certificate with its chain
	KeyFile  string `koanf:"key_file"`  // Its key
}

// TURN are servers whose passwords are derived for each call from a shared secret
// (static-auth-secret of coturn) and are valid for TTLMinutes.
type TURN struct {
	URLs       []string `koanf:"urls"`        // Such as turn:turn.example.org:3478
	TTLMinutes int      `koanf:"ttl_minutes"` // How long a password is valid; at least as long as a call
}

// Database is how the database is used.
type Database struct {
	// Connections to PostgreSQL, not counting those for notifications and heartbeats: half for reading, half for
	// writing; 0: from the URL or the number of processors.
	MaxConnections int `koanf:"max_connections"`
}

// Conversations are the rules for threads.
type Conversations struct {
	// AutoGenerateTitles gives threads titles, first from their first words and then by the model.
	AutoGenerateTitles bool `koanf:"auto_generate_titles"`
	// RetentionDays is how long a thread is kept after its last change; 0: forever.
	RetentionDays int `koanf:"retention_days"`
	// StopWithReader ends a turn of `useChat` when its client goes away: `stop()` ends the turn without `POST …/interrupt`, and
	// after a reload there is nothing to resume. Without it the turn goes on, and gives way to the next message.
	StopWithReader bool    `koanf:"stop_with_reader"`
	Queue          Queue   `koanf:"queue"`
	History        History `koanf:"history"`
}

// Queue is what happens to messages typed while the assistant is busy.
type Queue struct {
	Enabled            bool `koanf:"enabled"`              // Whether queued messages are sent automatically
	DelaySeconds       int  `koanf:"delay_seconds"`        // How long a message waits at least
	MaxSize            int  `koanf:"max_size"`             // 0: no limit
	AutoGenerateTitles bool `koanf:"auto_generate_titles"` // Whether queued messages get titles
}

// History is how much of a thread models see.
type History struct {
	ReplayMessages  int `koanf:"replay_messages"`   // How many messages a new call gets
	MaxTurns        int `koanf:"max_turns"`         // How many turns a text model gets
	MaxTokens       int `koanf:"max_tokens"`        // How many tokens it gets, roughly, besides its instructions
	TrimChunkTokens int `koanf:"trim_chunk_tokens"` // How much is cut off at once, so that prompts stay cached
	MaxToolRounds   int `koanf:"max_tool_rounds"`   // Per turn
}

// Tools are the tools that models may call.
type Tools struct {
	Toolkits       []string `koanf:"toolkits"`        // artifacts, code, web, http, agent
	TimeoutSeconds int      `koanf:"timeout_seconds"` // Per tool call
	FillerSeconds  int      `koanf:"filler_seconds"`  // When the voice says that a tool is still running; 0: never
	Allow          []string `koanf:"allow"`           // Only these, if any are listed: names, or patterns with *
	Deny           []string `koanf:"deny"`            // Never these
	Approve        []string `koanf:"approve"`         // Only with the user's approval
	Code           Code     `koanf:"code"`
	Web            WebTools `koanf:"web"`
}

// Code is how the model's programs run.
type Code struct {
	TimeoutSeconds int  `koanf:"timeout_seconds"` // Per program
	MemoryMB       int  `koanf:"memory_mb"`       // Per program
	MaxParallel    int  `koanf:"max_parallel"`    // Programs at a time
	Python         bool `koanf:"python"`          // In bubblewrap, if the host supports it
	Unconfined     bool `koanf:"unconfined"`      // JavaScript even if the kernel cannot confine its process
}

// WebTools is what tools may reach on the network.
type WebTools struct {
	Search       string   `koanf:"search"`         // searxng, exa, tavily, brave; empty: the first that is configured
	SearXNGURL   string   `koanf:"searxng_url"`    // A SearXNG server
	AllowNetwork []string `koanf:"allow_networks"` // Addresses or networks that are allowed although they are not public
	DenyNetwork  []string `koanf:"deny_networks"`  // Those that are denied although they are public
	AllowPorts   []int    `koanf:"allow_ports"`    // In addition to 80 and 443
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
	MaxCalls         int `koanf:"max_calls"`                  // Live calls in this process
	MaxCallsPerOwner int `koanf:"max_calls_per_owner"`        // In all processes of the database together; does not apply to the one local user
	SetupsPerMinute  int `koanf:"setups_per_minute_per_ip"`   // Call set-ups, in all processes together
	SignInsPerMinute int `koanf:"sign_ins_per_minute_per_ip"` // Wrong tokens, also to sign in, in all processes together
	MaxSockets       int `koanf:"max_sockets"`                // WebSockets in this process
	SocketsPerOwner  int `koanf:"max_sockets_per_owner"`      // WebSockets per owner
	TextsPerMinute   int `koanf:"texts_per_minute_per_owner"` // Messages, queued messages, images and threads, in all processes together
	TurnsPerOwner    int `koanf:"max_turns_per_owner"`        // Simultaneous text turns, in all processes together
	ImageMBPerOwner  int `koanf:"image_mb_per_owner"`         // All images together
	ThreadsPerOwner  int `koanf:"max_threads_per_owner"`      // Conversations per owner
	StoredMBPerOwner int `koanf:"stored_mb_per_owner"`        // Messages and images per owner
	// Models that clients may name: provider/model or provider/*; empty allows all
	AllowedModels []string `koanf:"allowed_models"`
}

// Price is what a model costs, in US dollars per million tokens. Audio and cached tokens without a
// price of their own cost the same as others.
type Price struct {
	Model       string   `koanf:"model"`
	Input       float64  `koanf:"input"`
	Output      float64  `koanf:"output"`
	CachedInput *float64 `koanf:"cached_input"`
	AudioInput  *float64 `koanf:"audio_input"`
	CachedAudio *float64 `koanf:"cached_audio_input"`
	AudioOutput *float64 `koanf:"audio_output"`
	Minute      *float64 `koanf:"minute"` // per minute of audio, for transcriptions billed by duration
}

// Log is what is logged, and how.
type Log struct {
	Level  string `koanf:"level"`  // debug, info, warn, error
	Format string `koanf:"format"` // text, json
}

// Metrics is a port for operators, with metrics for Prometheus and Go's profiles. It requires no
// token, so nobody else should be able to reach it.
type Metrics struct {
	// host:port of /metrics and /debug/pprof; without a host, only this machine can reach it.
	// Empty: off; /metrics on the main port requires a token.
	Listen string `koanf:"listen"`
}

// Traces are OpenTelemetry traces, which show what each turn spent its time on.
type Traces struct {
	// Base URL of an OTLP receiver that speaks HTTP, such as http://127.0.0.1:4318; empty: off.
	// Headers: OTEL_EXPORTER_OTLP_HEADERS.
	Endpoint string  `koanf:"endpoint"`
	Sample   float64 `koanf:"sample"` // Share of turns that are traced, 0 to 1
}

// The names of the upstreams, and OpenAI's address.
const (
	UpstreamOpenAI    = "openai"
	UpstreamSimulator = "simulator"
	openAIHost        = "api.openai.com"
	openAIURL         = "https://" + openAIHost + "/v1"
)

// Defaults returns the settings of an empty environment. Names of realtime models and voices appear
// only here; those of text models are in textModels.
func Defaults() Config {
	return Config{
		Listen:        "127.0.0.1:8080",
		DatabaseURL:   "sqlite:data/voicebridge.db",
		OpenAIBaseURL: openAIURL,
		Realtime: Realtime{
			Model: "gpt-realtime-2.1", Voice: "marin", TranscriptionModel: "gpt-transcribe", Instructions: defaultInstructions,
			APIKeyHeader: "Authorization", CallBody: "form", TurnDetection: TurnDetection{Type: serverVAD},
		},
		Calls:  Calls{RenewBeforeMinutes: 10, GraceSeconds: 30, CloseGraceSeconds: 8, IdleMinutes: 10, MaxToolRounds: 20},
		Budget: Budget{WarnPercent: 80},
		TURN:   TURN{TTLMinutes: 120},
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
