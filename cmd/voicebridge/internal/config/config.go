// Package config holds what an operator can configure: names, defaults, sources and validation. Each setting is
// declared once, as a field; declared.go says how.
package config

import (
	"net/netip"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/cmd/voicebridge/internal/telemetry"
	"voicebridge/persistence"
	"voicebridge/phone"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
	"voicebridge/toolkit/code"
	"voicebridge/toolkit/webhook"
	"voicebridge/toolkit/webtools"
	"voicebridge/web"
	"voicebridge/web/access"
)

// Config is what an operator can set, by flags, environment, voicebridge.yaml and defaults, in this order.
type Config struct {
	// Address of the page and the API, host:port. Any address but loopback is refused unless VOICEBRIDGE_API_TOKENS,
	// VOICEBRIDGE_JWT_SECRET or jwt_jwks_url is set.
	Listen string `yaml:"listen" default:"127.0.0.1:8080" format:"address"`

	// The address by which the world reaches this server, https://host, which carriers of telephone calls sign:
	// docs/phone.md.
	PublicURL string `yaml:"public_url" format:"url"`
	// Where the other processes on the same database reach this one, such as http://10.0.0.5:8080, so that each of them
	// can pass on requests about its calls and answers. Empty: the address that it listens on; if that is every address,
	// the one by which this machine reaches the database, or else its first private one.
	PrivateURL string `yaml:"private_url" format:"url"`

	// `sqlite:PATH` or `postgres://user@host/name`; one with a password only as DATABASE_URL.
	DatabaseURL string `yaml:"database_url" default:"sqlite:data/voicebridge.db"`
	// How the database is used.
	Database persistence.Options `yaml:"database"`

	// Origins besides our own whose pages may use the API, such as https://app.example.org. Behind a proxy: the address
	// that browsers use.
	AllowedOrigins []string `yaml:"allowed_origins" format:"origin"`
	// Addresses or networks of proxies whose X-Forwarded-For is trusted, besides this machine.
	TrustedProxies []netip.Prefix `yaml:"trusted_proxies"`
	// JWT is how JWTs are verified; Auth adds the secrets.
	JWT access.Auth `yaml:",inline"`

	// What calls talk to first: the name of one of upstreams, or a profile with its usual key, such as xai with
	// XAI_API_KEY. Empty: openai if OPENAI_API_KEY is set, else the built-in simulator.
	Upstream string `yaml:"upstream" max:"32"`
	// Calls go to {base}/realtime/calls unless realtime.url is set, text requests to the same base.
	OpenAIBaseURL string   `yaml:"openai_base_url" min:"1" format:"url" env:"OPENAI_BASE_URL"`
	Realtime      Realtime `yaml:"realtime"`
	// What calls may talk to, in place of the one above: a call takes the one that `?upstream=NAME` names, else the first.
	// The settings of realtime hold for all, but where an entry has its own. docs/upstreams.md has examples.
	Upstreams []Upstream `yaml:"upstreams"`
	// A voice for a text model, as the upstream named cascade. docs/upstreams.md has examples.
	Cascade Cascade `yaml:"cascade"`
	// Named sets of settings, as assistants that all owners may use and none may change, in the form of the API, such as
	// `{id: support, name: Support, instructions: "You help {{user}}.", voice: {voice: cedar}}`. With http_tools also
	// secret_env, the variable that holds the secret (whsec_…) that signs their requests. docs/assistants.md has the
	// fields.
	Assistants []map[string]any `yaml:"assistants"`
	Calls      bridge.Limits    `yaml:"calls"`
	Budget     bridge.Budget    `yaml:"budget,flow"`
	// Keeping the sound of calls; docs/recording.md.
	Recording Recording `yaml:"recording"`

	Media rtc.Config `yaml:",inline"`
	// STUN servers for browsers, such as `{urls: ["stun:stun.example.org:3478"]}`. TURN with a fixed password:
	// VOICEBRIDGE_ICE_SERVERS.
	ICEServers []web.ICEServer `yaml:"ice_servers"`
	TURN       TURN            `yaml:"turn,flow"`
	TLS        TLS             `yaml:"tls"`

	// File that lists MCP servers in the form that desktop clients use; each serves all owners, unless it says otherwise.
	// Empty: mcp.json if it exists.
	MCPConfig     string        `yaml:"mcp_config"`
	Tools         Tools         `yaml:"tools"`
	Conversations Conversations `yaml:"conversations"`
	Hooks         Hooks         `yaml:"hooks"`

	// Calls by telephone; docs/phone.md.
	Phone phone.Settings `yaml:"phone"`

	Text Text `yaml:"text"`
	// Where Anthropic's API is. Empty: the vendor's address.
	AnthropicBaseURL string `yaml:"anthropic_base_url" format:"url" env:"ANTHROPIC_BASE_URL"`
	// Where Google's API is. Empty: the vendor's address.
	GeminiBaseURL string `yaml:"gemini_base_url" format:"url" env:"GEMINI_BASE_URL"`
	// Where Ollama is, such as http://127.0.0.1:11434.
	OllamaHost string `yaml:"ollama_host" format:"ollama" env:"OLLAMA_HOST"`

	Limits  access.Limits `yaml:"limits"`
	Metrics Metrics       `yaml:"metrics,flow"`
	// OpenTelemetry traces, which show how calls were set up.
	Traces telemetry.TraceConfig `yaml:"traces"`
	Log    Log                   `yaml:"log,flow"`
	// How long running calls and requests may take to end when the process is stopped.
	Shutdown time.Duration `yaml:"shutdown_seconds" default:"10" min:"1" max:"600"`
	// What models cost, in US dollars. The program knows the list prices of common models; entries here override them.
	// Without a price, the cost is unknown and budgets have no effect. Entries look like this:
	//
	//	{model: gpt-realtime-2.1, input: 4, cached_input: 0.4, audio_input: 32, cached_audio_input: 0.4, output: 16, audio_output: 64}
	//	{model: gpt-transcribe, minute: 0.0045}
	Prices []Price `yaml:"prices"`

	// Notices are about settings that have no effect.
	Notices []string `yaml:"-"`
	// Fixed are the Assistants as they were read.
	Fixed []assistant.Assistant `yaml:"-"`
	// Secrets come from the environment only.
	Secrets Secrets `yaml:"-"`
}

// Recording is how the sound of calls is kept.
type Recording struct {
	// Whether calls may be recorded. A call is if its client asks for it, by `?record=true` or in a client secret.
	Enabled bool `yaml:"enabled"`
	// What the model says first in a recorded call, such as that it is recorded. Empty: nothing.
	Announce string `yaml:"announce" max:"4096"`
	// How long recordings are kept; 0: as long as their threads.
	Days int `yaml:"days" default:"30" min:"0" max:"36500"`
	// Where: a folder, which all processes share, or s3://BUCKET/PREFIX.
	Store string `yaml:"store" default:"data/recordings" min:"1"`
	// Address of an S3 server that is not Amazon's.
	S3Endpoint string `yaml:"s3_endpoint" format:"url" env:"AWS_ENDPOINT_URL"`
	// Region of the bucket. Empty: it is asked for.
	S3Region string `yaml:"s3_region" env:"AWS_REGION"`
}

// Secrets are what only the environment may hold: each field is the value of a variable.
type Secrets struct {
	// For text and, unless there is another, for voice calls.
	OpenAIKey access.Secret `env:"OPENAI_API_KEY" format:"key"`
	// For text by Anthropic.
	AnthropicKey access.Secret `env:"ANTHROPIC_API_KEY" format:"key"`
	// For text by Google.
	GeminiKey access.Secret `env:"GEMINI_API_KEY" format:"key"`
	// For text by an Ollama that requires one.
	OllamaKey access.Secret `env:"OLLAMA_API_KEY" format:"key"`
	// For voice calls that go elsewhere than text.
	RealtimeKey access.Secret `env:"VOICEBRIDGE_REALTIME_API_KEY" format:"key"`
	// Of recording.store in S3: an access key. Without it the role of the machine counts.
	S3KeyID  access.Secret `env:"AWS_ACCESS_KEY_ID" format:"key"`
	S3Secret access.Secret `env:"AWS_SECRET_ACCESS_KEY" format:"key"`
	// Of an access key that is temporary.
	S3Session access.Secret `env:"AWS_SESSION_TOKEN" format:"key"`
	// To search with Brave.
	BraveKey access.Secret `env:"BRAVE_API_KEY" format:"key"`
	// Who may use the API: owner:token[,owner:token…], tokens of at least 16 characters.
	Tokens []access.StaticToken `env:"VOICEBRIDGE_API_TOKENS"`
	// Verifies JWTs signed with HS256.
	JWTSecret access.Secret `env:"VOICEBRIDGE_JWT_SECRET" min:"32"`
	// Signs page sessions and client secrets. Unset: a random one is kept in the database.
	Signing access.Secret `env:"VOICEBRIDGE_SECRET" min:"32"`
	// Shared with the TURN servers of turn.urls.
	TURNSecret access.Secret `env:"VOICEBRIDGE_TURN_SECRET"`
	// STUN and TURN servers for browsers, with passwords.
	ICEServers []web.ICEServer `env:"VOICEBRIDGE_ICE_SERVERS"`
	// Headers for the receiver of traces.
	TraceHeaders map[string]access.Secret `env:"OTEL_EXPORTER_OTLP_HEADERS"`
	// The setting database_url, if it contains a password.
	DatabaseURL access.Secret `env:"DATABASE_URL,VOICEBRIDGE_DATABASE_URL"`
	// badTokens is set if tokens were given but could not be read: then that is reported, and not missing authentication.
	badTokens bool
}

// Text is what answers typed messages outside a call.
type Text struct {
	// Whose model answers. Empty: the first that is configured.
	Provider string `yaml:"provider" enum:",openai,anthropic,google,ollama,simulator" env:"VOICEBRIDGE_TEXT_PROVIDER"`
	// Empty: a default for the provider.
	Model string `yaml:"model" env:"VOICEBRIDGE_TEXT_MODEL"`
	// OpenAI's API for text: `responses`, or `chat` for Chat Completions. Empty: `responses` for OpenAI itself, `chat` for
	// a compatible server at openai_base_url. By Chat Completions, gpt-5.6 and later models call tools only without
	// reasoning.
	OpenAIAPI     string `yaml:"openai_api" enum:",responses,chat"`
	chat.Settings `yaml:",inline"`
	// What models accept, where the program does not know it, such as those of a compatible server. It knows common models
	// by their names; the first entry here that fits a name comes before that. What a model refuses beyond that is left
	// out of the next requests, until the server is restarted; the log and the answer's metadata.without say so once.
	// Entries look like this:
	//
	//	{model: "qwen*", no_images: true, context_tokens: 8192}
	Accepts []TextAccepts `yaml:"accepts"`
}

// TextAccepts is what requests to models of some names leave out, because these refuse it.
type TextAccepts struct {
	// Their name; `*` stands for any letters. What a gateway puts before a slash is not part of it.
	Model string `yaml:"model" min:"1" max:"200"`
	// It calls no functions.
	NoTools bool `yaml:"no_tools"`
	// It reads no images.
	NoImages bool `yaml:"no_images"`
	// It refuses temperature.
	NoTemperature bool `yaml:"no_temperature"`
	// It refuses top_p.
	NoTopP bool `yaml:"no_top_p"`
	// The server refuses stream_options.
	NoStreamOptions bool `yaml:"no_stream_options"`
	// It does not think, and refuses a request for its thoughts by OpenAI's Responses API.
	NoReasoning bool `yaml:"no_reasoning"`
	// By Chat Completions, it calls functions only with reasoning_effort none.
	QuietWithTools bool `yaml:"quiet_with_tools"`
	// Its answers begin within its thoughts, without <think>, and its server does not separate them.
	ThinksUnasked bool `yaml:"thinks_unasked"`
	// It knows the limit of an answer as max_completion_tokens, not as max_tokens.
	NewLimit bool `yaml:"new_limit"`
	// How long a conversation may be; 0: not known.
	ContextTokens int `yaml:"context_tokens" min:"0" max:"100000000"`
}

// Spoken returns the instructions for answers that are spoken: those that the operator wrote, or else the default.
func (t Text) Spoken() string {
	if t.Instructions == defaultTextInstructions {
		return spokenTextInstructions
	}
	return t.Instructions
}

// Realtime is the voice model and its instructions, and where it is.
type Realtime struct {
	bridge.SessionConfig `yaml:",inline"`

	// Where calls go if not to openai_base_url: the whole address of the calls route. The key is
	// VOICEBRIDGE_REALTIME_API_KEY, or else OPENAI_API_KEY. One that begins with ws is the address of a WebSocket of the
	// profile realtime, and holds whatever upstream says, but for simulator.
	URL string `yaml:"url" env:"VOICEBRIDGE_REALTIME_URL"`
	// Header that carries the key: Authorization, with Bearer before the key, or another, such as api-key for Azure.
	APIKeyHeader string `yaml:"api_key_header" default:"Authorization" min:"1" format:"header" env:"VOICEBRIDGE_REALTIME_API_KEY_HEADER"`
	// Body of the request that creates a call: form for OpenAI and Azure, json for older versions of LocalAI.
	CallBody string `yaml:"call_body" default:"form" enum:"form,json"`
}

// TLS is https without a proxy, with a certificate from files, which are PEM and must match. Renewed files are picked
// up.
type TLS struct {
	// The certificate with its chain.
	CertFile string `yaml:"cert_file"`
	// Its key.
	KeyFile string `yaml:"key_file"`
}

// TURN are servers that share VOICEBRIDGE_TURN_SECRET with us (static-auth-secret of coturn): browsers get a password
// that is valid for ttl_minutes.
type TURN struct {
	// Such as turn:turn.example.org:3478.
	URLs []string `yaml:"urls" format:"turn"`
	// How long a password is valid; at least as long as a call.
	TTL time.Duration `yaml:"ttl_minutes" default:"120" min:"1" max:"1440"`
}

// Conversations are the rules for threads.
type Conversations struct {
	// Whether threads get titles, first from their first words and then by the model.
	AutoGenerateTitles bool `yaml:"auto_generate_titles" default:"true"`
	// How long a thread is kept after its last change; 0: forever.
	RetentionDays int `yaml:"retention_days" min:"0" max:"36500"`
	// Whether a turn of `useChat` ends when its client goes away: `stop()` then ends it without `POST …/interrupt`, and
	// after a reload there is nothing to resume. Otherwise the turn goes on, and gives way to the next message.
	StopWithReader bool `yaml:"stop_with_reader"`
	// What happens to messages typed while the assistant is busy. Without enabled they wait until the user sends them.
	Queue   queue.Config `yaml:"queue,flow"`
	History History      `yaml:"history,flow"`
}

// History is how much of a thread models see.
type History struct {
	// How many messages a new call gets.
	ReplayMessages     int `yaml:"replay_messages" default:"20" min:"0" max:"200"`
	chat.HistoryConfig `yaml:",inline"`

	// Per turn.
	MaxToolRounds int `yaml:"max_tool_rounds" default:"8" min:"1" max:"100"`
}

// Tools are the tools that models may call. In lists of them a pattern such as files__* means all tools of the MCP
// server "files"; an entry that matches no tool is reported at the start.
type Tools struct {
	// artifacts: charts and tables; code: programs in a sandbox; web: search and pages; http: any request to public
	// addresses; agent: ask_agent, by which a call asks the text model, which has all these tools.
	Toolkits []string `yaml:"toolkits" default:"artifacts,code,web,http,agent" enum:"artifacts,code,web,http,agent"`
	// After this long the voice says in a call that a tool is still running, once, unless something was said since the
	// tool was called; 0: never. 1.5 is usual on the telephone.
	FillerAfter float64 `yaml:"filler_seconds" min:"0" max:"600"`
	// What it says, word for word, one line after the other. Empty: what the model likes.
	FillerLines []string `yaml:"filler_lines" items:"20" min:"1" max:"500" format:"line"`
	// Whether a soft tone sounds then, whenever nothing is said, until the tool is done. A client over WebSocket gets it
	// as the sound of an item tone_…, of which no other event tells.
	FillerTone       bool `yaml:"filler_tone"`
	toolkit.Settings `yaml:",inline"`

	// How the model's programs run. JavaScript runs in a child process without files and network, under a Linux seccomp
	// filter; where that is impossible it is not offered unless unconfined is true. Python needs bubblewrap and is off.
	// One user's programs leave one of the max_parallel slots to others.
	Code code.Config `yaml:"code,flow"`
	// What tools may reach on the network.
	Web webtools.Config `yaml:"web"`
}

// The names of the toolkits.
const (
	ToolkitArtifacts = "artifacts"
	ToolkitCode      = "code"
	ToolkitWeb       = "web"
	ToolkitHTTP      = "http"
	ToolkitAgent     = "agent"
)

// Price is what a model costs, in US dollars per million tokens. Audio and cached tokens without a
// price of their own cost the same as others.
type Price struct {
	// Its name; a dated version costs as much as its model.
	Model       string   `yaml:"model" min:"1"`
	Input       float64  `yaml:"input" min:"0" max:"1000000"`
	Output      float64  `yaml:"output" min:"0" max:"1000000"`
	CachedInput *float64 `yaml:"cached_input" min:"0" max:"1000000"`
	AudioInput  *float64 `yaml:"audio_input" min:"0" max:"1000000"`
	CachedAudio *float64 `yaml:"cached_audio_input" min:"0" max:"1000000"`
	AudioOutput *float64 `yaml:"audio_output" min:"0" max:"1000000"`
	// Per minute of audio, for transcriptions billed by duration.
	Minute *float64 `yaml:"minute" min:"0" max:"1000000"`
	// Per million characters, for speech that a cascade makes.
	Characters *float64 `yaml:"characters" min:"0" max:"1000000"`
}

// Log is what is logged, and how.
type Log struct {
	// The least severe that is logged.
	Level string `yaml:"level" default:"info" enum:"debug,info,warn,error"`
	// How a line is written.
	Format string `yaml:"format" default:"text" enum:"text,json"`
}

// Metrics is a port for operators: /metrics for Prometheus and Go's profiles below /debug/pprof. It requires no token,
// so nobody else should be able to reach it. Without a host, such as :9090, only this machine can. Empty: off; /metrics
// on the main port requires a token.
type Metrics struct {
	// host:port.
	Listen string `yaml:"listen" format:"address" env:"VOICEBRIDGE_METRICS_LISTEN"`
}

// OpenAI's address.
const (
	openAIHost = "api.openai.com"
	openAIURL  = "https://" + openAIHost + "/v1"
)

// defaults are those that are too long for a tag, or that the program also uses.
var defaults = map[string]string{
	"openai_base_url": openAIURL, "realtime.instructions": defaultInstructions,
	"text.instructions": defaultTextInstructions,
}

// Hooks are where events are posted.
type Hooks struct {
	// Addresses that get the events of all owners, signed as Standard Webhooks says; owners add their own by the API.
	// Entries look like this:
	//
	//	{url: "https://example.org/hook", events: ["call.*"], secret_env: HOOK_SECRET}
	Endpoints []Endpoint `yaml:"endpoints"`
	// Hosts, as host or host:port, that hooks may call although they are private, or by http. All others must be public
	// and have https.
	Allow []string `yaml:"allow" min:"1" max:"300"`
}

// Endpoint is a hook of the operator.
type Endpoint struct {
	// Where events are posted.
	URL string `yaml:"url" min:"1" max:"2048"`
	// Types of events, or patterns such as `call.*`; `*` means all.
	Events []string `yaml:"events" min:"1" max:"60"`
	// The variable that holds the secret: whsec_ and 24 to 64 bytes in base64.
	SecretEnv string `yaml:"secret_env" min:"1" format:"variable"`

	// Secret is what the variable holds.
	Secret webhook.Secret `yaml:"-"`
}

// The models' default instructions.

const defaultInstructions = `You are a warm, quick and helpful assistant in a spoken conversation.

Speak as people do: short sentences, plain words, no lists, no markup, no emoji, nothing that only works on a screen. One or two sentences are usually enough; give more when you are asked for more. Use the language that the user speaks, and change with the user. Say numbers, dates and units the way they are spoken.

If you did not hear something clearly, say so and ask; never guess names, numbers or addresses. If you do not know something, say that you do not know. When the user interrupts you, stop and listen.

You have tools. Use one when it answers better than words: draw a chart or a table when the user asks to see figures, and then say the main point of it in one sentence instead of reading the data aloud. Before a tool that may take a while, say in a few words what you are doing. If a tool fails, say plainly what went wrong and what can be done. Never claim to have done something that you have not done.

Messages from earlier calls on this conversation may come first. Use what you know from them without repeating it.

This call began on {{date}} at {{time}}. The name of the user: {{user}}.`

const defaultTextInstructions = `You are a warm, quick and helpful assistant in a written conversation. The user may also call you on the same thread and speak: what was said there stands in the history like everything else.

Write plainly and to the point, in the language that the user writes. Use Markdown where it helps to read, and not otherwise. If you do not know something, say that you do not know; never guess names, numbers or addresses.

You have tools. Use one when it answers better than words: draw a chart or a table when the user asks to see figures, and then say the main point of it instead of repeating the data. If a tool fails, say plainly what went wrong and what can be done. Never claim to have done something that you have not done.`

// spokenTextInstructions are the default of text turns whose answers an app speaks.
const spokenTextInstructions = `You are a warm, quick and helpful assistant in a spoken conversation, in the language that the user speaks. The user may also write on the same thread: what was written stands in the history like everything else.

If you do not know something, say that you do not know; never guess names, numbers or addresses. If a tool fails, say plainly what went wrong and what can be done. Never claim to have done something that you have not done.`
