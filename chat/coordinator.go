package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"voicebridge/assistant"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// keepFinished is how long a turn can at least be followed after its end.
const keepFinished = time.Minute

// Coordinator runs text turns, one at a time on each thread. It is safe for concurrent use.
type Coordinator struct {
	cfg    Config
	log    *slog.Logger
	titles *titles
	// extractor reads calls that have ended.
	extractor *extractor
	// ending is done when the server stops; end ends it.
	ending context.Context
	end    context.CancelFunc

	mu      sync.Mutex
	closing bool
	turns   map[thread.Key]*Turn // running ones
	// finished are turns that ended recently.
	finished map[thread.Key]*Turn
	running  sync.WaitGroup

	fitted fitted
}

// New makes a coordinator, whose Run must also be called.
func New(cfg Config) (*Coordinator, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Coordinator{cfg: cfg, log: cfg.Logger, turns: map[thread.Key]*Turn{}, finished: map[thread.Key]*Turn{}}
	c.ending, c.end = context.WithCancel(context.Background())
	c.titles, c.extractor = newTitles(&c.cfg), newExtractor(&c.cfg)
	return c, nil
}

// CallEnded has a call of this process that has ended read, if its assistant asks for that.
func (c *Coordinator) CallEnded() { c.extractor.look() }

// Run gives titles to threads, and reads ended calls, until ctx ends. Then it accepts no more turns, interrupts the
// running ones, and returns when all are saved.
func (c *Coordinator) Run(ctx context.Context) error {
	var beside sync.WaitGroup
	beside.Go(func() { c.titles.run(ctx) })
	beside.Go(func() { c.extractor.run(ctx) })
	tick := time.Tick(keepFinished)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-tick:
			c.forget(time.Now().Add(-keepFinished))
		}
	}
	c.mu.Lock()
	c.closing = true
	for _, t := range c.turns {
		t.stop(errShutdown)
	}
	c.mu.Unlock()
	c.end()
	c.running.Wait()
	beside.Wait()
	return nil
}

// forget drops the turns that ended before a time.
func (c *Coordinator) forget(before time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.finished, func(_ thread.Key, t *Turn) bool { return t.endedAt.Before(before) })
}

// Count returns how many turns are running here.
func (c *Coordinator) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.turns)
}

// Running returns the turn that is running on a thread in this process, or the last one if it ended a minute ago or
// less; nil if there is none.
func (c *Coordinator) Running(key thread.Key) *Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.turns[key]; t != nil {
		return t
	}
	return c.finished[key]
}

// here returns the turn that is running on a thread in this process.
func (c *Coordinator) here(key thread.Key) *Turn {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.turns[key]
}

// Busy reports whether a turn is running on the thread, on any instance. It returns the store's
// errors, except ErrNotFound: nothing runs on a thread that does not exist.
func (c *Coordinator) Busy(ctx context.Context, key thread.Key) (bool, error) {
	if c.here(key) != nil {
		return true, nil
	}
	_, err := c.cfg.Store.RunningTurn(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Interrupt stops the turn that is running on a thread. The text so far is kept. The turn of another instance finds out
// a little later. ErrIdle means that none is running.
func (c *Coordinator) Interrupt(ctx context.Context, key thread.Key) error {
	if t := c.here(key); t != nil {
		t.Interrupt()
		return nil
	}
	err := c.cfg.Store.StopTurn(ctx, key)
	if errors.Is(err, persistence.ErrNotFound) {
		return ErrIdle
	}
	return err
}

// InterruptAll stops every turn of this process, as Interrupt does, and returns at
// once.
func (c *Coordinator) InterruptAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, t := range c.turns {
		t.Interrupt()
	}
}

// Turn begins a turn: it saves the user's message and returns. The turn goes on when ctx ends, and always ends with an
// assistant message. The errors are ErrBusy, ErrInCall, ErrTooMany, ErrEmpty, ErrTooLarge, ErrImages, ErrProvider,
// ErrTools, ErrUnclaimed, ErrClosed, and the store's; in these cases nothing is saved.
func (c *Coordinator) Turn(ctx context.Context, req TurnRequest) (*Turn, error) {
	if err := req.validate(); err != nil {
		return nil, fmt.Errorf("begin turn: %w", err)
	}
	t := &Turn{
		cfg: &c.cfg, req: req, id: persistence.NewID(), begun: time.Now(), ending: c.ending, done: make(chan struct{}),
		log: c.log.With("thread_id", req.Key.Thread), fitted: &c.fitted,
	}
	t.ctx, t.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	if err := c.enter(t); err != nil {
		t.stop(err)
		return nil, fmt.Errorf("begin turn: %w", err)
	}
	err := t.prepare(ctx)
	if err == nil {
		err = t.open(ctx)
	}
	if err != nil {
		c.failed(t, err)
		return nil, fmt.Errorf("begin turn: %w", err)
	}
	if t.user.ID != "" {
		c.running.Go(func() { c.titles.fromWords(req.Key, req.Text) })
	}
	t.side.Go(t.look)
	go func() {
		defer c.running.Done()
		t.run(func() { c.leave(t, true) })
		c.titles.ask(req.Key)
	}()
	return t, nil
}

// failed ends a turn that could not begin.
func (c *Coordinator) failed(t *Turn, err error) {
	t.stop(err)
	if t.draft != nil && !refusal(err) { // it was prepared, and may have begun in the database
		t.abandon()
	}
	c.leave(t, false)
	t.neverBegan()
	c.running.Done()
}

// refusal reports whether the store has refused to begin a turn. After any other error, the turn may have begun in the
// database all the same.
func refusal(err error) bool {
	return slices.ContainsFunc([]error{
		ErrBusy, ErrInCall, ErrTooMany, ErrUnclaimed, persistence.ErrNotFound, persistence.ErrInvalid,
		persistence.ErrConflict,
	}, func(known error) bool { return errors.Is(err, known) })
}

// enter makes t the thread's turn in this process.
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

// Decision is a user's decision on whether a tool may run.
type Decision struct {
	// ToolCallID and Nonce identify the approval.
	ToolCallID string
	Nonce      string
	Approved   bool
	// By is who decided, for the record.
	By string
}

// Decide passes a user's decision to the turn that waits for it, on any instance. ErrNotAsked means
// that no approval with this nonce is open for the call.
func (c *Coordinator) Decide(ctx context.Context, key thread.Key, d Decision) error {
	err := c.cfg.Store.AnswerApproval(ctx, key, d.ToolCallID, d.Nonce, d.By, d.Approved)
	if errors.Is(err, persistence.ErrNotFound) {
		return &CallError{d.ToolCallID, ErrNotAsked}
	}
	if err != nil {
		return fmt.Errorf("decide on tool call: %w", err)
	}
	return nil
}

// Talked reports that something was said on a thread in a voice call: the thread gets a title if it
// has none. It returns at once.
func (c *Coordinator) Talked(key thread.Key) { c.titles.ask(key) }

// Ask returns how a text model is asked: that of the settings, but for what these say, of which the last counts.
func (c *Coordinator) Ask(texts ...assistant.Text) llm.Ask {
	cfg := &c.cfg
	for _, t := range texts {
		if t != (assistant.Text{}) {
			cfg = cfg.with(assistant.Assistant{Text: t})
		}
	}
	provider, _ := cfg.provider(cfg.Provider) // there is one
	most := answerTokens(cfg.MaxTokens, true)
	if own := cfg.assistant.Text.MaxTokens; own > 0 && (most == 0 || own < most) {
		most = own
	}
	return llm.Ask{
		Provider: provider, Attempts: cfg.Attempts, Silence: cfg.Silence, Log: cfg.Logger, Request: llm.Request{
			Model: cfg.Models[cfg.Provider], Temperature: cfg.temperature, MaxTokens: most,
		},
	}
}

// Title asks the thread's model for a title of a text, following the instructions, and returns it
// cleaned and shortened. The cost is recorded with the thread.
func (c *Coordinator) Title(ctx context.Context, key thread.Key, instructions, text string) (string, error) {
	return c.cfg.title(ctx, key, instructions, text)
}
