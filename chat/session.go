package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"voicebridge/assistant"
	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// maxSnapshot is how many of the last messages a session's snapshot shows.
const maxSnapshot = 1000

// SessionRequest is a request for a text session. The zero value is useful.
type SessionRequest struct {
	Provider string
	Model    string
	// Instructions are the session's first system messages.
	Instructions []string
	// Tools are run by the client.
	Tools []toolkit.Definition
	// Assistant is the thread's assistant, and Variables are values of its variables; both may be empty.
	Assistant assistant.Ref
	Variables map[string]string
	// Defaults is a JSON object with max_tokens, temperature and top_p, or some of them.
	Defaults json.RawMessage
}

// Session is a text session: a thread as text.
type Session struct {
	ID        string               `json:"id" openapi:"$ref: '#/components/schemas/ID'"`
	Title     string               `json:"title"`
	Provider  string               `json:"provider"`
	Model     string               `json:"model"`
	Tools     []toolkit.Definition `json:"tools"`
	Defaults  json.RawMessage      `json:"defaults"`
	CreatedAt time.Time            `json:"created_at"`
	UpdatedAt time.Time            `json:"updated_at"`
	Messages  []SessionMessage     `json:"messages"`
}

// SessionMessage is a message of a session. Instructions are system messages, tool outputs are tool messages.
type SessionMessage struct {
	Role       llm.Role      `json:"role"`
	Content    string        `json:"content"`
	ToolCallID string        `json:"tool_call_id,omitempty"`
	ToolCalls  []SessionCall `json:"tool_calls,omitempty"`
}

// SessionCall is a call that the client runs. Arguments is as the model wrote it, without spaces if it is JSON.
type SessionCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, as the model wrote it
}

// SessionResult is the answer to a message of a session.
type SessionResult struct {
	Text      string        `json:"text"`
	ToolCalls []SessionCall `json:"toolCalls"`
	Usage     SessionUsage  `json:"usage"`
}

// SessionUsage counts the tokens of an answer.
type SessionUsage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	CachedTokens int64 `json:"cachedTokens"`
	TotalTokens  int64 `json:"totalTokens"`
}

// CreateSession makes a session on a new thread. The errors are ErrProvider, ErrTools, ErrEmpty, ErrTooLarge,
// persistence.ErrInvalid, and the store's.
func (c *Coordinator) CreateSession(ctx context.Context, owner string, req SessionRequest) (Session, error) {
	key, err := c.createSession(ctx, owner, req)
	if err != nil {
		return Session{}, fmt.Errorf("create session: %w", err)
	}
	return c.Session(ctx, key)
}

func (c *Coordinator) createSession(
	ctx context.Context, owner string, req SessionRequest,
) (key thread.Key, err error) {
	if req.Provider != "" {
		if _, err := c.cfg.provider(req.Provider); err != nil {
			return key, err
		}
	}
	first := TurnRequest{Text: "x", Instructions: req.Instructions, Client: &ClientTools{Tools: req.Tools}}
	if err := cmp.Or(first.validate(), checkDefaults(req.Defaults)); err != nil {
		return key, err
	}
	saved := persistence.TextSession{Provider: req.Provider, Model: req.Model, Defaults: string(req.Defaults)}
	if len(req.Tools) > 0 {
		saved.Tools = string(toolkit.Encode(req.Tools))
	}
	row, err := c.cfg.Store.CreateThread(ctx, owner, "")
	if err != nil {
		return key, err
	}
	key = thread.Key{Owner: owner, Thread: row.ID}
	if req.Assistant.ID != "" || req.Variables != nil {
		if _, err := c.cfg.Store.SetAssistant(ctx, key, req.Assistant, req.Variables); err != nil {
			return key, err
		}
	}
	err = c.cfg.Store.Batch(ctx, key, func(b *persistence.Batch) error {
		if err := appendInstructions(b, req.Instructions, ""); err != nil {
			return err
		}
		return b.SaveTextSession(saved)
	})
	if err != nil {
		// A thread without its session is no use to anybody.
		err = errors.Join(err, c.cfg.Store.DeleteThread(context.WithoutCancel(ctx), key))
	}
	return key, err
}

// Session returns the snapshot of a session, which any thread can be.
func (c *Coordinator) Session(ctx context.Context, key thread.Key) (Session, error) {
	s, err := c.session(ctx, key)
	if err != nil {
		return Session{}, fmt.Errorf("read session: %w", err)
	}
	return s, nil
}

func (c *Coordinator) session(ctx context.Context, key thread.Key) (s Session, err error) {
	thread, err := c.cfg.Store.Thread(ctx, key)
	if err != nil {
		return s, err
	}
	saved, err := c.cfg.Store.TextSession(ctx, key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return s, err
	}
	cfg, err := c.cfg.of(ctx, key, "")
	if err != nil {
		return s, err
	}
	messages, err := c.cfg.Store.Replay(ctx, key, maxSnapshot)
	if err != nil {
		return s, err
	}
	provider := cmp.Or(saved.Provider, cfg.Provider)
	s = Session{
		ID: thread.ID, Title: thread.Title, Provider: provider, Model: cmp.Or(saved.Model, cfg.Models[provider]),
		Defaults: json.RawMessage(cmp.Or(saved.Defaults, "{}")), CreatedAt: thread.CreatedAt,
		UpdatedAt: thread.UpdatedAt, Messages: []SessionMessage{},
	}
	for i := range messages {
		s.Messages = append(s.Messages, snapshot(&messages[i])...)
	}
	if err := json.Unmarshal([]byte(cmp.Or(saved.Tools, "[]")), &s.Tools); err != nil {
		return s, fmt.Errorf("its tools: %w", err)
	}
	return s, nil
}

// DeleteSession interrupts a turn that is running on the thread, on any instance, and deletes the thread with
// everything in it.
func (c *Coordinator) DeleteSession(ctx context.Context, key thread.Key) error {
	if _, err := c.cfg.Store.Thread(ctx, key); err != nil {
		return fmt.Errorf("delete session: %w", err)
	}
	occupant := persistence.NewID()
	err := c.occupy(ctx, key, occupant)
	if err == nil {
		err = c.cfg.Store.DeleteThread(ctx, key)
	}
	if err != nil {
		c.cfg.Writer.PushLast(key, persistence.PutTurn{ID: occupant}) // it may have begun
		return fmt.Errorf("delete session: %w", err)
	}
	return nil
}

// occupy interrupts the thread's turn and takes its place, so that no other turn begins,
// as that of the next queued message would. If another process does not give up the place, its turn
// runs on: it notices later that the thread is gone.
func (c *Coordinator) occupy(ctx context.Context, key thread.Key, occupant string) error {
	for range 2 {
		t := c.here(key)
		if err := c.Interrupt(ctx, key); err != nil && !errors.Is(err, ErrIdle) {
			return err
		}
		if t != nil {
			if _, err := t.Wait(ctx); err != nil {
				return err
			}
		}
		err := c.cfg.Store.Batch(ctx, key, func(b *persistence.Batch) error { return b.ClaimTurn(occupant) })
		if !errors.Is(err, persistence.ErrConflict) {
			return err
		}
	}
	return nil
}

// SessionAnswer returns the result of an ended turn as a session has it, and the session. The error is an *llm.Error if
// the model failed: then nothing of the assistant was appended.
func (c *Coordinator) SessionAnswer(ctx context.Context, key thread.Key, r Result) (SessionResult, Session, error) {
	result := SessionResult{Text: r.Text, ToolCalls: []SessionCall{}, Usage: SessionUsage{
		InputTokens: r.Usage.InputTokens, OutputTokens: r.Usage.OutputTokens, CachedTokens: r.Usage.CachedTokens,
		TotalTokens: r.Usage.InputTokens + r.Usage.OutputTokens,
	}}
	for _, call := range r.ToolCalls {
		result.ToolCalls = append(result.ToolCalls,
			SessionCall{ID: call.ID, Name: call.Name, Arguments: written(json.RawMessage(call.Arguments))})
	}
	s, err := c.Session(ctx, key)
	if err == nil && r.Err != nil {
		err = r.Err
	}
	return result, s, err
}

// SessionToolOutput appends the outputs of calls that the client ran: all of them or, on error,
// none. The errors are a [CallError] with ErrUnknownCall, ErrAnswered or ErrTooLarge, ErrEmpty
// without outputs, and the store's.
func (c *Coordinator) SessionToolOutput(ctx context.Context, key thread.Key, outputs []ToolResult) (Session, error) {
	if _, err := c.cfg.Store.Thread(ctx, key); err != nil {
		return Session{}, fmt.Errorf("take tool output: %w", err)
	}
	if len(outputs) == 0 {
		return Session{}, fmt.Errorf("take tool output: %w", ErrEmpty)
	}
	err := c.keepResults(ctx, key, outputs, func(call thread.ToolCall) error {
		if call.Status != thread.ToolCallWaiting {
			return ErrAnswered
		}
		return nil
	})
	if err != nil {
		return Session{}, err
	}
	return c.Session(ctx, key)
}

// KeepResult saves the result of a call that an ended turn has given up: later turns read it. The errors are a
// [CallError] with ErrUnknownCall, ErrAnswered or ErrTooLarge, and the store's.
func (c *Coordinator) KeepResult(ctx context.Context, key thread.Key, r ToolResult) error {
	return c.keepResults(ctx, key, []ToolResult{r}, func(call thread.ToolCall) error {
		switch {
		case call.Status == thread.ToolCallRunning:
			return ErrUnknownCall
		case call.Status != thread.ToolCallCancelled &&
			(call.Status != thread.ToolCallFailed || call.Error != noClientResult):
			return ErrAnswered
		}
		return nil
	})
}

// keepResults saves the results of calls that the client ran. refuse says why one of a call is not taken, if so.
func (c *Coordinator) keepResults(
	ctx context.Context, key thread.Key, results []ToolResult, refuse func(thread.ToolCall) error,
) error {
	for _, r := range results {
		if err := r.tooLarge(); err != nil {
			return err
		}
	}
	err := c.cfg.Store.Batch(ctx, key, func(b *persistence.Batch) error {
		for _, r := range results {
			call, found, err := b.Records.ToolCall(r.CallID)
			if err != nil {
				return err
			}
			refused := ErrUnknownCall
			if found && call.CallID == "" && call.Executor == string(toolkit.ExecutorClient) {
				refused = refuse(call)
			}
			if refused != nil {
				return &CallError{r.CallID, refused}
			}
			if err := resolveSaved(b, call, r.result()); err != nil {
				return err
			}
		}
		return nil
	})
	if refused, ok := errors.AsType[*CallError](err); ok {
		return refused
	}
	if err != nil {
		return fmt.Errorf("keep results of tool calls: %w", err)
	}
	return nil
}

// snapshot returns a message of a thread as text.
func snapshot(m *thread.Message) []SessionMessage {
	if m.IsDiscarded() {
		return nil
	}
	if m.Role != thread.RoleAssistant {
		return []SessionMessage{{Role: llm.Role(m.Role), Content: m.Text()}}
	}
	var all []SessionMessage
	for _, s := range stepsOf(m) {
		if len(s.texts)+len(s.tools) == 0 {
			continue
		}
		said := SessionMessage{Role: llm.RoleAssistant, Content: strings.Join(s.texts, "\n")}
		var outputs []SessionMessage
		for _, p := range s.tools {
			call := SessionCall{ID: p.ToolCallID, Name: p.ToolName, Arguments: written(p.Input)}
			said.ToolCalls = append(said.ToolCalls, call)
			if p.State == thread.ToolOutputAvailable || p.State == thread.ToolOutputError {
				outputs = append(outputs,
					SessionMessage{Role: llm.RoleTool, Content: resultText(p), ToolCallID: p.ToolCallID})
			}
		}
		all = append(append(all, said), outputs...)
	}
	return all
}

// written returns a call's arguments as the model wrote them, without spaces. What was not JSON is saved as a string.
func written(input json.RawMessage) string {
	var text string
	if json.Unmarshal(input, &text) == nil && text != "" {
		return text
	}
	return toolkit.Compact(input)
}
