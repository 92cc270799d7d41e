package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

const (
	// draftEvery is how often the text so far is told to the thread's watchers.
	draftEvery = 120 * time.Millisecond
	// flushEvery is how often it is saved.
	flushEvery = time.Second
	// keepEvery is how often a turn with nothing to save renews its lease.
	keepEvery = 2 * time.Second
	// maxAnswer bounds the text of a turn, in bytes, and maxResults the outputs of
	// its tools: a message has room for both.
	maxAnswer  = 1 << 20
	maxResults = 2 << 20
)

// Keys of the metadata of a message that only text turns write.
const (
	extraProvider = "provider"
	extraFinish   = "finish_reason"
	extraError    = "error" // {"kind","message"} of a failure
	extraNotice   = persistence.MetadataNotice
)

// FinishReason says why a turn ended.
type FinishReason string

// The reasons for which a turn ends.
const (
	FinishStop        FinishReason = "stop"
	FinishToolCalls   FinishReason = "tool_calls" // the caller must run Result.ToolCalls
	FinishLength      FinishReason = "length"
	FinishFilter      FinishReason = "filter"
	FinishToolRounds  FinishReason = "tool_rounds" // the model wanted more rounds than it has
	FinishInterrupted FinishReason = "interrupted"
	FinishError       FinishReason = "error"
)

// Result is what came of a turn.
type Result struct {
	TurnID    string
	MessageID string
	// Text is all that the message says.
	Text string
	// ToolCalls are calls that the caller has to run now.
	ToolCalls []llm.ToolCall
	// Usage is that of all requests together.
	Usage  llm.Usage
	Status persistence.Status
	Finish FinishReason
	// Err is why the turn failed.
	Err *llm.Error
	// Shutdown says that it was interrupted because the server stops.
	Shutdown bool
	Provider string
	Model    string
	// Message is the message as it was saved; its Parts are nil when it could not be.
	Message persistence.Message
}

// Turn is one input of a user and all that the assistant does to answer it. Its
// methods may be called concurrently.
type Turn struct {
	c        *Coordinator
	req      TurnRequest
	id       string
	log      *slog.Logger
	provider llm.Provider
	model    string
	system   string
	// maxTokens limits each answer.
	maxTokens int
	registry  *toolkit.Registry
	router    *toolkit.Router
	caller    *caller

	ctx  context.Context // of the turn, not of the request that began it
	stop context.CancelCauseFunc
	done chan struct{}
	// decision is signalled when a user has answered a question of this turn.
	decision chan struct{}
	// result and endedAt are read after done.
	result  Result
	endedAt time.Time
	events  eventLog
	user    persistence.Message

	// What follows belongs to run.

	side    sync.WaitGroup // goroutines that run starts
	begun   time.Time
	msg     persistence.Message // the assistant's
	request []llm.Message       // history, and what this turn adds
	calls   []*callRun
	asking  []*callRun      // calls that wait for the user's word
	round   int             // of the step that runs
	text    strings.Builder // of the text part that grows
	textID  string          // of that part; empty while none grows
	texts   int
	said    int // bytes of text so far
	results int // bytes of outputs so far
	usage   llm.Usage
	latency map[string]int64
	flushAt time.Time // zero: nothing to save
	draftAt time.Time // zero: nothing to tell
	drafted time.Time
	keptAt  time.Time
	inStep  bool
	failing bool // what is said now says why the turn failed
}

// ID is the turn's id.
func (t *Turn) ID() string { return t.id }

// MessageID is the id of the assistant's message.
func (t *Turn) MessageID() string { return t.msg.ID }

// User is the user's message as it was saved; zero when there was none, or it
// was saved before.
func (t *Turn) User() persistence.Message { return t.user }

// Done is closed when the turn has ended and is saved.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Interrupt ends the turn; what was said so far is kept.
func (t *Turn) Interrupt() { t.stop(errInterrupted) }

// Wait waits for the end of the turn. The error is that of ctx.
func (t *Turn) Wait(ctx context.Context) (Result, error) {
	select {
	case <-t.done:
		return t.result, nil
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// Events yields what happens in the turn, from the event with that index on, and
// ends after EventFinish. Any number of readers may follow a turn, also after
// its end; none slows it down. The error is that of ctx, or ErrReplayGone when
// the turn was so long that its beginning is not kept any more.
func (t *Turn) Events(ctx context.Context, from int) iter.Seq2[Event, error] {
	return t.events.follow(ctx, from)
}

// open begins the turn in the database.
func (t *Turn) open(ctx context.Context) error {
	t.msg = persistence.Message{ID: persistence.NewID(), Role: persistence.RoleAssistant, Parts: []persistence.Part{persistence.StepStart()}}
	t.msg.Metadata = persistence.Metadata{
		Source: persistence.SourceText, Status: persistence.StatusInProgress, Model: t.model,
		Extra: map[string]json.RawMessage{extraProvider: toolkit.Encode(t.provider.Name())},
	}
	if t.req.AskedBy != "" {
		t.msg.Metadata.Extra[persistence.MetadataAskedBy] = toolkit.Encode(t.req.AskedBy)
	}
	busy := false
	err := t.c.cfg.Store.Batch(ctx, t.req.Key, func(b *persistence.Batch) error {
		if err := b.ClaimTurn(t.id, lease); err != nil {
			busy = errors.Is(err, persistence.ErrConflict)
			return err
		}
		if err := closeWaiting(b); err != nil {
			return err
		}
		if t.req.Opening != nil {
			if err := t.req.Opening(b); err != nil {
				return err
			}
		}
		return t.openMessages(b)
	})
	if busy {
		return ErrBusy
	}
	return err
}

// openMessages saves what the user writes, and the beginning of the answer.
func (t *Turn) openMessages(b *persistence.Batch) (err error) {
	for _, text := range t.req.Instructions {
		m := persistence.Message{Role: persistence.RoleSystem, Parts: []persistence.Part{persistence.TextPart(text)}}
		if _, err := b.AppendMessage(m); err != nil {
			return err
		}
	}
	if t.req.Text != "" {
		m := persistence.Message{ID: t.req.MessageID, Role: persistence.RoleUser, Parts: []persistence.Part{persistence.TextPart(t.req.Text)}}
		m.Metadata.Extra = t.req.Extra
		if t.user, err = b.AppendMessage(m); err != nil {
			return err
		}
	}
	saved, err := b.AppendMessage(t.msg)
	t.msg.Metadata.CreatedAt = saved.Metadata.CreatedAt
	return err
}

// run is the turn, from its first request to its end.
func (t *Turn) run() {
	t.latency, t.keptAt = map[string]int64{}, t.begun
	t.emit(Event{Type: EventStart})
	t.publish("turn_started", turnEvent{TurnID: t.id, MessageID: t.msg.ID})
	if t.user.ID != "" {
		t.c.titles.words(t.req.Key, t.req.Text)
	}
	finish, err := t.rounds()
	t.conclude(finish, err)
	t.stop(errors.New("the turn is over")) // what a step has left running
	t.c.leave(t, true)
	t.events.add(Event{Type: EventFinish, MessageID: t.msg.ID, Result: &t.result})
	t.publish("turn_finished", turnEvent{TurnID: t.id, MessageID: t.msg.ID, Status: t.result.Status})
	close(t.done)
	t.side.Wait()
	t.report()
}

// turnEvent is the data of turn_started and turn_finished.
type turnEvent struct {
	TurnID    string             `json:"turn_id"`
	MessageID string             `json:"message_id"`
	Status    persistence.Status `json:"status,omitempty"`
}

// rounds asks the model and runs its tools, in turns, until there is an answer.
func (t *Turn) rounds() (FinishReason, error) {
	thread, err := t.thread()
	if err != nil {
		return FinishError, &llm.Error{Kind: llm.KindUnavailable, Provider: t.provider.Name(), Message: "The conversation could not be read.", Err: err}
	}
	t.request = t.c.cfg.History.Messages(thread, t.provider.Name())
	t.addContext(t.request)
	for round := 0; ; round++ {
		calls, stop, err := t.step(round)
		if err != nil {
			return FinishError, err
		}
		if len(calls) == 0 {
			return t.answered(stop), nil
		}
		if round == t.c.cfg.MaxToolRounds {
			t.refuse(calls)
			t.notice(fmt.Sprintf("I stopped after %d rounds of tool calls without coming to an end. Tell me to go on, or ask for less at a time.", round))
			return FinishToolRounds, nil
		}
		open, err := t.runCalls(calls)
		if err != nil {
			return FinishError, err
		}
		t.finishStep()
		if len(open) > 0 {
			t.result.ToolCalls = open
			return FinishToolCalls, nil
		}
		t.remember(calls)
	}
}

// thread reads what was said, with what is to be answered at its end.
func (t *Turn) thread() ([]persistence.Message, error) {
	store, key := t.c.cfg.Store, t.req.Key
	thread, err := store.Replay(t.ctx, key, maxReplay)
	if err != nil {
		return nil, err
	}
	if len(thread) == maxReplay {
		thread = anchored(thread)
	}
	thread = persistence.WithoutEchoes(thread)
	switch {
	case t.req.Saved:
		asked, err := store.Message(t.ctx, key, t.req.MessageID)
		if err != nil {
			return nil, err
		}
		thread = append(withoutAnswers(thread, asked.ID), asked)
	case t.req.Question != "":
		thread = append(withoutOpenCalls(thread), persistence.Message{
			Role: persistence.RoleUser, Parts: []persistence.Part{persistence.TextPart(t.req.Question)},
		})
	}
	return thread, nil
}

// answered says how an answer without calls ended.
func (t *Turn) answered(stop llm.StopReason) FinishReason {
	reason := map[llm.StopReason]FinishReason{llm.StopLength: FinishLength, llm.StopFilter: FinishFilter}[stop]
	if t.said == 0 {
		text := "The model gave no answer. Please try again."
		switch reason {
		case FinishFilter:
			text = "The provider's content filter stopped the answer."
		case FinishLength:
			text = "The limit of tokens was reached before the answer began."
		}
		t.notice(text)
	}
	return cmp.Or(reason, FinishStop)
}

// remember adds a step with calls to the request, as later turns will read it
// but with all secrets: the model needs them to go on.
func (t *Turn) remember(calls []*callRun) {
	first := calls[0].part
	for first > 0 && t.msg.Parts[first].Type != "step-start" {
		first--
	}
	step := persistence.Message{Role: persistence.RoleAssistant, Parts: slices.Clone(t.msg.Parts[first:])}
	for _, run := range calls {
		step.Parts[run.part-first] = savedPart(run.WholePart())
	}
	h := HistoryConfig{MaxTokens: 1 << 30} // the last message is never cut anyway
	messages := h.Messages([]persistence.Message{step}, t.provider.Name())
	// The ids are those of the provider, which it may want to see again.
	for i := range messages[0].ToolCalls {
		messages[0].ToolCalls[i].ID = calls[i].Call.ID
		messages[i+1].ToolCallID = calls[i].Call.ID
	}
	t.request = append(t.request, messages...)
}

// finishStep tells that a step is over, if one is not.
func (t *Turn) finishStep() {
	if t.inStep {
		t.inStep = false
		t.emit(Event{Type: EventStepFinish})
	}
}

// emit tells those who follow the turn.
func (t *Turn) emit(e Event) {
	e.MessageID = t.msg.ID
	e.Notice = t.failing && e.TextID != ""
	t.events.add(e)
}

// publish tells the thread's watchers.
func (t *Turn) publish(kind persistence.EventType, data any) {
	t.c.cfg.Store.Publish(t.ctx, t.req.Key, persistence.Event{Type: kind, Data: toolkit.Encode(data)})
}

// report tells the observers, and asks for a title.
func (t *Turn) report() {
	t.c.titles.ask(t.req.Key)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), observerTimeout)
	defer cancel()
	report := TurnReport{Key: t.req.Key, User: t.req.Text, Result: t.result, Closed: t.req.Closing != nil}
	for _, o := range t.c.cfg.Observers {
		func() {
			defer func() {
				if p := recover(); p != nil {
					t.log.Error("observer of turns panicked", "panic", fmt.Sprint(p))
				}
			}()
			o.TurnFinished(ctx, report)
		}()
	}
}

const observerTimeout = 30 * time.Second
