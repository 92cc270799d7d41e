package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"voicebridge/assistant"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/persistence/spool"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// Defaults of [Config].
const (
	defaultMaxToolRounds = 8
	defaultClientTimeout = 30 * time.Second
)

// readSilence is how long a provider may take to read a call or a thread, at least.
const readSilence = 90 * time.Second

// Settings are what an operator sets for all turns. The tags are those of cmd/voicebridge/internal/config.
type Settings struct {
	// What the assistant is told. Leave it out for the built-in text.
	Instructions string `yaml:"instructions" max:"32768"`
	// Of an answer; 0 leaves it to the provider.
	//
	// A session may set another. If tools may be called, the limit is multiplied by four, up to 4096.
	MaxTokens int `yaml:"max_tokens" min:"0" max:"1000000"`
	// How long a provider may take to begin its answer (Ollama, which loads models, at least 300) and pause in its
	// text; four times as long while it thinks.
	//
	// A provider says in a method Patience() time.Duration that it needs longer. 0 means 30 s.
	Silence time.Duration `yaml:"timeout_seconds" default:"30" min:"1" max:"600"`
	// Whether the model is shown what the owner's other threads say on the same subject.
	Memories bool `yaml:"memories"`
}

// Config configures turns. Store, Writer and Providers are required.
type Config struct {
	Store *persistence.Store
	// Writer saves what happens in turns. It must run until Run has returned.
	Writer *spool.Writer
	// Providers can be chosen by name.
	Providers []llm.Provider
	// Provider is the name of the default provider; empty means the first.
	Provider string
	// Models are the models to use, by provider name.
	Models map[string]string
	// Tools returns the server's tools for a turn with an assistant; nil for none.
	Tools func(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error)
	// UserName returns an owner's name for turns that do not say it, empty if it is not known; nil knows none.
	UserName func(owner string) string
	// ApproveTools are the server's tools, or calls of them, that need the user's approval each
	// time.
	ApproveTools toolkit.Names
	// ToolLimits are the limits of every tool call.
	ToolLimits toolkit.RouterConfig
	// ImageQuota limits the bytes of all images of one owner; 0 means no limit.
	ImageQuota int64
	// TurnsPerOwner limits one owner's simultaneous turns, in all processes; 0 means no limit. It
	// holds even if turns begin at the same moment.
	TurnsPerOwner int
	Settings
	// SpokenInstructions is the system prompt of turns whose answers are spoken; empty means Instructions. How to write
	// for a voice follows in any case.
	SpokenInstructions string
	History            HistoryConfig
	// MaxToolRounds limits how often tools may run in a turn; 0 means 8.
	MaxToolRounds int
	// Attempts is how often a request to a model is tried if the failure is transient and nothing has come yet; 0 means
	// 3.
	Attempts int
	// ClientTimeout is how long a client may take for a tool while the turn waits; 0 means 30 s.
	ClientTimeout time.Duration
	// Context adds what varies from turn to turn; nil means the date and time, and memories if they are set.
	Context ContextBuilder
	// Observers are notified of every finished turn.
	Observers []TurnObserver
	// Cost returns the cost of a request in US dollars; nil, or a nil result, means unknown.
	Cost func(provider, model string, usage llm.Usage) *float64
	// NoTitles leaves threads without titles.
	NoTitles bool
	Logger   *slog.Logger // nil discards the log

	// assistant is the thread's, and temperature its; nil leaves it to the provider.
	assistant   assistant.Assistant
	temperature *float64
}

// forVoice tells a model that its answers are spoken.
const forVoice = "Your answers are spoken aloud by a voice, and the user hears them without seeing them. Write " +
	"what a person would say: short sentences, plain words, and no markup, lists, tables, code or emoji, whatever " +
	"was said before. One or two sentences are usually enough; say more when you are asked for more."

func (c Config) withDefaults() (Config, error) {
	c.Provider = cmp.Or(c.Provider, c.Providers[0].Name())
	if _, err := c.provider(c.Provider); err != nil {
		return c, fmt.Errorf("chat: Config.Provider: %w", err)
	}
	c.History = c.History.withDefaults()
	c.MaxToolRounds = cmp.Or(c.MaxToolRounds, defaultMaxToolRounds)
	c.ClientTimeout = cmp.Or(c.ClientTimeout, defaultClientTimeout)
	if c.Context == nil {
		builder := &DefaultContext{}
		if c.Memories {
			builder.Memories = c.Store
		}
		c.Context = builder
	}
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	return c, nil
}

// provider finds a provider by its name.
func (c Config) provider(name string) (llm.Provider, error) {
	names := make([]string, len(c.Providers))
	for i, p := range c.Providers {
		if names[i] = p.Name(); names[i] == name {
			return p, nil
		}
	}
	return nil, fmt.Errorf("%w: %q is not set up; there is %s", ErrProvider, name, strings.Join(names, ", "))
}

// model is a language model with what all requests of a turn have in common.
type model struct {
	provider llm.Provider
	request  llm.Request
	accepts  llm.Accepts
	tools    []toolkit.Definition // of the thread's session
}

// model chooses the model for a turn: by the request, else by the thread's session, else by its assistant or the
// settings.
func (c *Config) model(ctx context.Context, req *TurnRequest) (model, error) {
	session, err := c.Store.TextSession(ctx, req.Key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return model{}, err
	}
	name := cmp.Or(req.Provider, session.Provider, c.Provider)
	provider, err := c.provider(name)
	if err != nil {
		return model{}, err
	}
	asked := req.Model
	if asked == "" && (req.Provider == "" || req.Provider == session.Provider) {
		asked = session.Model
	}
	system := c.Instructions
	if req.Spoken {
		system = cmp.Or(c.SpokenInstructions, system) + "\n\n" + forVoice
	}
	var defaults defaults
	var tools []toolkit.Definition
	_ = json.Unmarshal([]byte(session.Defaults), &defaults) // validated when they were saved
	_ = json.Unmarshal([]byte(session.Tools), &tools)
	if defaults.Temperature == nil {
		defaults.Temperature = c.temperature
	}
	return model{provider: provider, tools: tools, request: llm.Request{
		Model:       cmp.Or(asked, c.Models[name]),
		System:      strings.TrimSpace(system + "\n\n" + req.System),
		MaxTokens:   defaults.MaxTokens,
		Temperature: defaults.Temperature, TopP: defaults.TopP,
	}}, nil
}

// defaults are the defaults of a text session.
type defaults struct {
	MaxTokens   int      `json:"max_tokens"`
	Temperature *float64 `json:"temperature"`
	TopP        *float64 `json:"top_p"`
}

// checkDefaults returns why the defaults of a session are not valid (persistence.ErrInvalid).
func checkDefaults(raw json.RawMessage) error {
	if len(raw) == 0 {
		return nil
	}
	var d defaults
	var fields map[string]json.RawMessage // whose names, unlike those of d, must be exact
	err := json.Unmarshal(raw, &fields)
	for name := range fields {
		if !slices.Contains([]string{"max_tokens", "temperature", "top_p"}, name) {
			err = fmt.Errorf("there is no %.50q", name)
		}
	}
	if fields == nil && err == nil {
		err = errors.New("they are null")
	}
	if err = cmp.Or(err, json.Unmarshal(raw, &d)); err != nil {
		return persistence.Invalid("defaults: they must be a JSON object with max_tokens, temperature and top_p: %v",
			err)
	}
	limit, limited := fields["max_tokens"]
	switch {
	case limited && string(limit) != "null" && (d.MaxTokens < 1 || d.MaxTokens > 1<<20):
		return persistence.Invalid("defaults: max_tokens is %d, it must be from 1 to %d", d.MaxTokens, 1<<20)
	case d.Temperature != nil && (*d.Temperature < 0 || *d.Temperature > 2):
		return persistence.Invalid("defaults: temperature is %v, it must be from 0 to 2", *d.Temperature)
	case d.TopP != nil && (*d.TopP < 0 || *d.TopP > 1):
		return persistence.Invalid("defaults: top_p is %v, it must be from 0 to 1", *d.TopP)
	}
	return nil
}

// ask sends a request that belongs to no turn of the thread, records what it used, and returns the answer's first
// bytes, up to limit of them. record says what it was for.
func (c *Config) ask(
	ctx context.Context, key thread.Key, provider llm.Provider, record records.Response, req llm.Request, limit int,
) (string, error) {
	record.ID, record.Model = persistence.NewID(), req.Model
	record.Status, record.CreatedAt = "completed", time.Now()
	var answer strings.Builder
	var usage llm.Usage
	ask := llm.Ask{
		Provider: provider, Request: req, Log: c.Logger,
		Attempts: 1, // whoever needs the answer asks again later
		Silence:  max(c.Silence, readSilence),
	}
	for d, err := range ask.Stream(ctx) {
		if err != nil {
			return "", err
		}
		if d.Unsaid {
			answer.Reset()
		}
		if answer.Len() < limit {
			answer.WriteString(d.Text)
		}
		if d.Usage != nil {
			usage = *d.Usage
		}
	}
	record.Usage = thread.Usage{
		InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens, CachedTokens: usage.CachedTokens,
	}
	record.RawUsage, record.FinishedAt = usage.Raw, new(time.Now())
	if c.Cost != nil {
		record.CostUSD = c.Cost(provider.Name(), req.Model, usage)
	}
	err := c.Store.Records.SaveResponse(ctx, key, record)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) { // the thread may have been deleted meanwhile
		c.Logger.Warn("response not saved", "thread_id", key.Thread, "error", err)
	}
	for _, o := range c.Observers {
		if o, ok := o.(RequestObserver); ok {
			o.RequestFinished(provider.Name(), record)
		}
	}
	return answer.String(), nil
}

// of returns the configuration of turns on a thread, which that of its assistant is. user is the user's name, empty if
// the turn does not say it.
func (c *Config) of(ctx context.Context, key thread.Key, user string) (*Config, error) {
	a, err := c.Store.Assistants.Of(ctx, key)
	if err != nil || a.ID == "" {
		return c, err
	}
	if user == "" && c.UserName != nil {
		user = c.UserName(key.Owner)
	}
	return c.with(a.Filled(time.Now(), user)), nil
}

// with returns the configuration of turns that an assistant has: what it leaves out stays.
func (c *Config) with(a assistant.Assistant) *Config {
	out := *c
	out.assistant = a
	if a.Instructions != "" {
		out.Instructions, out.SpokenInstructions = a.Instructions, a.Instructions
	}
	if _, err := c.provider(a.Text.Provider); err == nil { // else it is gone from the settings
		out.Provider = a.Text.Provider
	}
	if a.Text.Model != "" && (a.Text.Provider == "" || a.Text.Provider == out.Provider) {
		out.Models = map[string]string{}
		maps.Copy(out.Models, c.Models)
		out.Models[out.Provider] = a.Text.Model
	}
	out.temperature = a.Text.Temperature
	for _, n := range []struct {
		to  *int
		own *int
	}{
		{&out.History.MaxTurns, a.History.MaxTurns}, {&out.History.MaxTokens, a.History.MaxTokens},
		{&out.History.TrimChunkTokens, a.History.TrimChunkTokens}, {&out.MaxToolRounds, a.History.MaxToolRounds},
	} {
		a.Set(n.to, n.own)
	}
	out.History = out.History.withDefaults()
	out.ApproveTools = out.ApproveTools.With(a.Tools.Approve)
	return &out
}
