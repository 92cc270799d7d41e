package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

// Defaults of [Config].
const (
	DefaultMaxToolRounds = 8
	DefaultFirstByte     = 30 * time.Second
	DefaultIdle          = 60 * time.Second
	DefaultAttempts      = 3
	DefaultCallerTimeout = 30 * time.Second
)

const (
	// maxTokensWithTools bounds the limit of an answer that may call tools.
	maxTokensWithTools = 4096
	// lease is how long a turn that is not heard of holds its thread.
	lease = 30 * time.Second
	// keepFinished is how long a turn can be followed after its end.
	keepFinished = time.Minute
)

// Config says how turns are made. Store and Providers are needed.
type Config struct {
	Store *persistence.Store
	// Providers can be chosen by their names.
	Providers []llm.Provider
	// Provider is the name of the one that answers unless told otherwise; empty
	// means the first.
	Provider string
	// Models are the models to use, by the name of the provider.
	Models map[string]string
	// Tools returns the server's tools for a turn on a thread; nil for none.
	Tools func(ctx context.Context, owner, threadID string) (*toolkit.Registry, error)
	// ApproveTools are the server's tools, or calls of them, that ask the user before each run.
	ApproveTools toolkit.Names
	// ToolLimits are those of every tool call.
	ToolLimits toolkit.RouterConfig
	// Instructions is the system prompt.
	Instructions string
	// MaxTokens limits an answer; 0 leaves it to the provider. Where tools may be
	// called it is raised to four times as much, up to 4096.
	MaxTokens int
	History   HistoryConfig
	// MaxToolRounds is how often in a turn tools may run; 0 means 8.
	MaxToolRounds int
	// FirstByte is how long a provider may take to begin to answer, Idle how long
	// it may pause later; 0 means 30 s and 60 s.
	FirstByte, Idle time.Duration
	// Attempts is how often a request is tried when the failure is transient and
	// nothing came yet; 0 means 3.
	Attempts int
	// CallerTimeout is how long a caller may take for a tool that it runs while
	// the turn waits; 0 means 30 s.
	CallerTimeout time.Duration
	// Context says what varies from turn to turn; nil means the date and time.
	Context ContextBuilder
	// Observers are told of every finished turn.
	Observers []TurnObserver
	// Cost is what a request took, in US dollars; nil, or a nil result, is unknown.
	Cost func(provider, model string, usage llm.Usage) *float64
	// NoTitles leaves threads without titles.
	NoTitles bool
	Logger   *slog.Logger
}

func (c Config) withDefaults() (Config, error) {
	var errs []error
	if c.Store == nil {
		errs = append(errs, errors.New("chat: Config.Store is missing"))
	}
	if len(c.Providers) == 0 {
		errs = append(errs, errors.New("chat: Config.Providers is empty"))
	} else {
		c.Provider = cmp.Or(c.Provider, c.Providers[0].Name())
		if _, err := c.provider(c.Provider); err != nil {
			errs = append(errs, fmt.Errorf("chat: Config.Provider: %w", err))
		}
	}
	for name, n := range map[string]int{
		"MaxTokens": c.MaxTokens, "MaxToolRounds": c.MaxToolRounds, "Attempts": c.Attempts, "FirstByte": int(c.FirstByte),
		"Idle": int(c.Idle), "CallerTimeout": int(c.CallerTimeout), "History.MaxTurns": c.History.MaxTurns,
		"History.MaxTokens": c.History.MaxTokens, "History.TrimChunkTokens": c.History.TrimChunkTokens,
	} {
		if n < 0 {
			errs = append(errs, fmt.Errorf("chat: Config.%s is negative", name))
		}
	}
	c.History = c.History.withDefaults()
	c.MaxToolRounds = cmp.Or(c.MaxToolRounds, DefaultMaxToolRounds)
	c.FirstByte, c.Idle = cmp.Or(c.FirstByte, DefaultFirstByte), cmp.Or(c.Idle, DefaultIdle)
	c.Attempts = cmp.Or(c.Attempts, DefaultAttempts)
	c.CallerTimeout = cmp.Or(c.CallerTimeout, DefaultCallerTimeout)
	if c.Context == nil {
		c.Context = &Clock{}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, errors.Join(errs...)
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

// Coordinator runs text turns, one at a time on each thread. Its methods may be
// called concurrently.
type Coordinator struct {
	cfg    Config
	log    *slog.Logger
	titles *titles

	mu      sync.Mutex
	closing bool
	turns   map[persistence.Key]*Turn // that run
	// finished are turns that ended not long ago.
	finished map[persistence.Key]*Turn
	running  sync.WaitGroup
}

// New makes a coordinator. Its Run must be called too.
func New(cfg Config) (*Coordinator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, log: cfg.Logger, turns: map[persistence.Key]*Turn{}, finished: map[persistence.Key]*Turn{}}
	c.titles = newTitles(c)
	return c, nil
}

// Run gives titles to threads until ctx ends. Then it takes no more turns,
// interrupts those that run, and returns when all are saved.
func (c *Coordinator) Run(ctx context.Context) error {
	var titling sync.WaitGroup
	titling.Go(func() { c.titles.run(ctx) })
	tick := time.NewTicker(keepFinished)
	defer tick.Stop()
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick.C:
			c.forget(time.Now().Add(-keepFinished))
		}
	}
	c.mu.Lock()
	c.closing = true
	for _, t := range c.turns {
		t.stop(errShutdown)
	}
	c.mu.Unlock()
	c.running.Wait()
	titling.Wait()
	return nil
}

// forget drops the turns that ended before a time.
func (c *Coordinator) forget(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, t := range c.finished {
		if t.endedAt.Before(before) {
			delete(c.finished, key)
		}
	}
}

// Count is how many turns run here.
func (c *Coordinator) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns)
}

// Running gives the turn that runs on a thread in this process, or the last one
// if it ended within the last minute; nil for none.
func (c *Coordinator) Running(key persistence.Key) *Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.turns[key]; t != nil {
		return t
	}
	return c.finished[key]
}

// Busy says whether a turn runs on the thread, on any instance. The error is the
// store's, ErrNotFound for no such thread excluded: nothing runs on it.
func (c *Coordinator) Busy(ctx context.Context, key persistence.Key) (bool, error) {
	c.mu.Lock()
	t := c.turns[key]
	c.mu.Unlock()
	if t != nil {
		return true, nil
	}
	_, err := c.cfg.Store.RunningTurn(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Interrupt stops the turn that runs on a thread, on whatever instance: here at
// once, elsewhere within a few seconds. What was said so far is kept. ErrIdle
// says that none runs.
func (c *Coordinator) Interrupt(ctx context.Context, key persistence.Key) error {
	c.mu.Lock()
	t := c.turns[key]
	c.mu.Unlock()
	if t != nil {
		t.Interrupt()
		return nil
	}
	err := c.cfg.Store.StopTurn(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return ErrIdle
	}
	return err
}

// Turn begins a turn: it saves the user's message and returns. The turn goes on
// when ctx ends, and always ends with a message of the assistant. The errors
// are ErrBusy, ErrEmpty, ErrTooLarge, ErrProvider, ErrTools, ErrClosed, those of
// Opening, and the store's; nothing is saved then.
func (c *Coordinator) Turn(ctx context.Context, req TurnRequest) (*Turn, error) {
	if err := req.validate(); err != nil {
		return nil, fmt.Errorf("begin turn: %w", err)
	}
	t := &Turn{
		c: c, req: req, id: persistence.NewID(), begun: time.Now(), done: make(chan struct{}), decision: make(chan struct{}, 1),
		log: c.log.With("thread_id", req.Key.Thread),
	}
	t.ctx, t.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := c.enter(t); err != nil {
		t.stop(err)
		return nil, fmt.Errorf("begin turn: %w", err)
	}
	err := t.prepare(ctx)
	if err == nil {
		if err = t.open(ctx); err != nil && !refusal(err) {
			t.abandon()
		}
	}
	if err != nil {
		t.stop(err)
		c.leave(t, false)
		c.running.Done()
		return nil, fmt.Errorf("begin turn: %w", err)
	}
	go func() {
		defer c.running.Done()
		t.run()
	}()
	return t, nil
}

// refusal says whether an error is the store's answer. After any other one, the
// turn may have begun in the database all the same.
func refusal(err error) bool {
	for _, known := range []error{ErrBusy, persistence.ErrNotFound, persistence.ErrInvalid, persistence.ErrConflict} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// enter gives the thread to a turn, as far as this process is concerned.
func (c *Coordinator) enter(t *Turn) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closing:
		return ErrClosed
	case c.turns[t.req.Key] != nil:
		return ErrBusy
	}
	c.turns[t.req.Key] = t
	c.running.Add(1)
	return nil
}

func (c *Coordinator) leave(t *Turn, finished bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.turns, t.req.Key)
	if finished {
		t.endedAt = time.Now()
		c.finished[t.req.Key] = t
	}
}

// prepare finds what the turn needs: provider, model, tools.
func (t *Turn) prepare(ctx context.Context) error {
	c, req := t.c, t.req
	session, err := c.cfg.Store.TextSession(ctx, req.Key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	name := cmp.Or(req.Provider, session.Provider, c.cfg.Provider)
	if t.provider, err = c.cfg.provider(name); err != nil {
		return err
	}
	t.model = req.Model
	if t.model == "" && (req.Provider == "" || req.Provider == session.Provider) {
		t.model = session.Model
	}
	t.model = cmp.Or(t.model, c.cfg.Models[name])
	t.system = strings.TrimSpace(c.cfg.Instructions + "\n\n" + req.System)

	registry := toolkit.NewRegistry()
	if c.cfg.Tools != nil && !req.NoServerTools {
		if registry, err = c.cfg.Tools(ctx, req.Key.Owner, req.Key.Thread); err != nil {
			return fmt.Errorf("list tools: %w", err)
		}
		registry = registry.Clone()
	}
	if req.Caller != nil {
		t.caller = newCaller(t, req.Caller.Wait, c.cfg.CallerTimeout)
		if err := t.caller.declare(registry, req.Caller.Tools); err != nil {
			return err
		}
	}
	limits := c.cfg.ToolLimits
	if limits.Logger == nil {
		limits.Logger = c.log
	}
	t.registry, t.router = registry, toolkit.NewRouter(registry, limits)
	ofSession, err := readDefaults(json.RawMessage(session.Defaults))
	if err != nil {
		return err
	}
	t.maxTokens = answerTokens(cmp.Or(req.MaxTokens, ofSession, c.cfg.MaxTokens), registry.Len() > 0)
	return nil
}

// answerTokens is the limit of an answer: calls of tools need room.
func answerTokens(configured int, tools bool) int {
	if configured == 0 || !tools {
		return configured
	}
	return max(configured, min(4*configured, maxTokensWithTools))
}

// newID gives a UUIDv7. It panics only when the system has no random numbers.
