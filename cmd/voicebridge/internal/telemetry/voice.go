package telemetry

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

const (
	// quiet is how long a turn of a call must be idle to count as over; longest is that of one in which something
	// runs, whose end should come.
	quiet   = 10 * time.Second
	longest = 15 * time.Minute
	// maxParts bounds how many parts of each kind are kept for a turn.
	maxParts = 64
)

// conversations groups what calls save into turns: their responses, tool calls and messages. It is
// safe for concurrent use.
type conversations struct {
	newID func(parent trace.SpanContext) traceID
	ended func(thread.Key, *voiceTurn)

	mu   sync.Mutex
	open map[thread.Key]*voiceTurn
	// next are the turns that have a trace before the user's message is saved.
	next map[thread.Key]nextTurn
	// parents are the spans that asked for the calls, by the calls' threads.
	parents map[thread.Key]parent
}

// parent is the span that asked for a call.
type parent struct {
	call string
	span trace.SpanContext
}

// nextTurn is a turn in which a tool runs before the message that it answers is saved.
type nextTurn struct {
	question string
	trace    traceID
}

// asked records which span asked for a call.
func (c *conversations) asked(key thread.Key, call string, span trace.SpanContext) {
	if !span.IsValid() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.parents[key] = parent{call, span}
}

// asker returns the span that asked for a call; it may be invalid.
func (c *conversations) asker(key thread.Key, call string) trace.SpanContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.parents[key]; p.call == call {
		return p.span
	}
	return trace.SpanContext{}
}

// setUp makes the trace of how a call was set up.
func (t *Traces) setUp(parent trace.SpanContext, s bridge.SetUp) {
	if t == nil || len(s.Steps) == 0 {
		return
	}
	about := []attribute.KeyValue{attribute.String("voicebridge.thread_id", s.Key.Thread), attribute.String("voicebridge.call_id", s.CallID)}
	t.span(t.newID(parent).context(), "call set-up", s.Began, s.Ended(), trace.SpanKindInternal, "", about, func(ctx context.Context) {
		for _, step := range s.Steps {
			t.span(ctx, step.Name, step.Began, step.Ended, trace.SpanKindInternal, "", nil, nil)
		}
	})
}

// voiceTurn is a turn of a call: the user's speech, and everything done to answer it.
type voiceTurn struct {
	trace     traceID
	question  string // the id of the user's message
	asked     time.Time
	previous  string // the question of the previous turn, whose tools may still begin
	call      string
	message   string                      // the id of the first answer that has stages
	stages    map[string]int64            // of the answer, in milliseconds
	responses map[string]records.Response // ended ones
	tools     map[string]thread.ToolCall  // ended ones
	running   map[string]bool             // responses and tools that have begun and not ended
	saves     []interval
	timer     *time.Timer
}

// run records that a part of the turn runs, or no longer does.
func (s *voiceTurn) run(id string, runs bool) {
	if runs {
		s.running[id] = true
	} else {
		delete(s.running, id)
	}
	s.wait()
}

// wait lets the turn end unless something happens.
func (s *voiceTurn) wait() {
	if len(s.running) > 0 {
		s.timer.Reset(longest)
	} else {
		s.timer.Reset(quiet)
	}
}

type interval struct{ begun, ended time.Time }

// additions are what a save adds to the turn with that trace.
type additions struct {
	trace     string
	responses []records.Response
	stages    map[string]time.Duration
}

// saved takes what was saved, and returns what that adds to the current turn.
func (c *conversations) saved(key thread.Key, took interval, changes []persistence.Change) (n additions) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, change := range changes {
		switch change := change.(type) {
		case persistence.PutMessage:
			c.message(key, change.Message, &n)
		case persistence.PutResponse:
			c.response(key, change.Response, &n)
		case persistence.PutToolCall:
			t := c.turn(key)
			t.run(change.ToolCall.ID, change.ToolCall.FinishedAt == nil)
			if change.ToolCall.FinishedAt != nil && len(t.tools) < maxParts {
				t.tools[change.ToolCall.ID] = change.ToolCall
			}
		case persistence.PutCall:
			if change.Call.EndedAt != nil {
				c.end(key)
				delete(c.next, key)
				if c.parents[key].call == change.Call.ID {
					delete(c.parents, key)
				}
			}
		}
	}
	if t := c.open[key]; t != nil && len(t.saves) < maxParts {
		t.saves = append(t.saves, took)
	}
	return n
}

// span returns the span of the turn that answers a message of the user. The turn's first tool may run
// before anything of the turn is saved.
func (c *conversations) span(key thread.Key, question string) trace.SpanContext {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.open[key]; question == "" || t == nil || question == t.question || question == t.previous || len(t.responses) == 0 {
		return c.turn(key).trace.spanContext()
	}
	if c.next[key].question != question {
		c.next[key] = nextTurn{question, c.newID(c.parents[key].span)}
	}
	return c.next[key].trace.spanContext()
}

// turn returns the current turn; the caller holds mu.
func (c *conversations) turn(key thread.Key) *voiceTurn {
	t := c.open[key]
	if t == nil {
		t = &voiceTurn{trace: c.newID(c.parents[key].span),
			responses: map[string]records.Response{}, tools: map[string]thread.ToolCall{}, stages: map[string]int64{}, running: map[string]bool{}}
		t.timer = time.AfterFunc(quiet, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			if c.open[key] == t {
				c.end(key)
			}
		})
		c.open[key] = t
	}
	t.wait()
	return t
}

// end ends the current turn, if any; the caller holds mu.
func (c *conversations) end(key thread.Key) {
	t := c.open[key]
	if t == nil {
		return
	}
	t.timer.Stop()
	delete(c.open, key)
	c.ended(key, t)
}

// endAll ends all turns.
func (c *conversations) endAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Collect(maps.Keys(c.open)) {
		c.end(key)
	}
}

// message takes a message: a user's begins a new turn, an answer has stages.
func (c *conversations) message(key thread.Key, m thread.Message, n *additions) {
	t := c.open[key]
	if t != nil && m.Metadata.CreatedAt.Before(t.asked) {
		return // of an earlier turn: a question that has got its transcription, or an answer that was interrupted
	}
	if m.Role == thread.RoleUser {
		if t == nil || t.question != m.ID && len(t.responses) > 0 {
			c.end(key)
			previous := t
			t = c.turn(key)
			if previous != nil {
				t.previous = previous.question
			}
			if next := c.next[key]; next.question == m.ID {
				t.trace = next.trace
			}
			delete(c.next, key)
		}
		t.question, t.asked = m.ID, m.Metadata.CreatedAt
		return
	}
	if len(m.Metadata.LatencyMS) == 0 || m.Metadata.CallID == "" || t == nil {
		return
	}
	// An answer that begins with tools has its first stages in the message of their calls,
	// and the others in that of the first words.
	t.message = cmp.Or(t.message, m.ID)
	for stage, ms := range m.Metadata.LatencyMS {
		if _, known := t.stages[stage]; !known && slices.Contains(stages, stage) {
			t.stages[stage] = ms
			if n.stages == nil {
				n.stages = map[string]time.Duration{}
			}
			n.trace = t.trace.exemplar()
			n.stages[stage] = time.Duration(ms) * time.Millisecond
		}
	}
}

// response takes a response, which is counted once, when it has ended.
func (c *conversations) response(key thread.Key, r records.Response, n *additions) {
	if r.FinishedAt == nil {
		c.turn(key).run(r.ID, true)
		return
	}
	if t := c.open[key]; t != nil {
		t.run(r.ID, false)
	}
	if r.CreatedAt.Equal(*r.FinishedAt) { // a transcription, which is reported at its end
		n.responses = append(n.responses, r)
		return
	}
	t := c.turn(key)
	if _, known := t.responses[r.ID]; !known {
		n.responses = append(n.responses, r)
	}
	if t.call = r.CallID; len(t.responses) < maxParts {
		t.responses[r.ID] = r
	}
}

// stages are the stages of a spoken answer, in their usual order.
var stages = []string{"commit", "response", "first_audio", "first_packet"}

// begun returns when the user stopped speaking, as far as that is known.
func (s *voiceTurn) begun(responses []records.Response) time.Time {
	at := responses[0].CreatedAt
	for _, r := range responses {
		if ms, ok := s.stages["response"]; ok && r.MessageID == s.message {
			at = r.CreatedAt.Add(-time.Duration(ms) * time.Millisecond)
			break
		}
	}
	return at
}

// voice makes the trace of a turn of a call.
func (t *Traces) voice(key thread.Key, upstream string, s *voiceTurn) {
	if t == nil || len(s.responses) == 0 {
		return
	}
	responses := slices.SortedFunc(maps.Values(s.responses), func(a, b records.Response) int { return a.CreatedAt.Compare(b.CreatedAt) })
	tools := slices.SortedFunc(maps.Values(s.tools), func(a, b thread.ToolCall) int { return a.StartedAt.Compare(b.StartedAt) })
	begun := s.begun(responses)
	ended, failure := begun, ""
	later := func(at time.Time) {
		if at.After(ended) {
			ended = at
		}
	}
	for _, r := range responses {
		later(*r.FinishedAt)
		if r.Status == "failed" {
			failure = reason(r.StatusReason)
		}
	}
	for _, tool := range tools {
		later(*tool.FinishedAt)
	}
	at := func(stage string) time.Time { return begun.Add(time.Duration(s.stages[stage]) * time.Millisecond) }
	for stage := range s.stages {
		later(at(stage))
	}
	t.span(s.trace.context(), "voice turn", begun, ended, trace.SpanKindServer, failure, []attribute.KeyValue{
		attribute.String("voicebridge.thread_id", key.Thread), attribute.String("voicebridge.call_id", s.call),
		attribute.String("voicebridge.message_id", cmp.Or(s.message, responses[len(responses)-1].MessageID)), attribute.String("gen_ai.provider.name", upstream),
	}, func(ctx context.Context) {
		// Audio may come before the event that announces it.
		reached := slices.SortedStableFunc(slices.Values(stages), func(a, b string) int { return cmp.Compare(s.stages[a], s.stages[b]) })
		from := begun
		for _, stage := range reached {
			if _, known := s.stages[stage]; known {
				t.span(ctx, stage, from, at(stage), trace.SpanKindInternal, "", nil, nil)
				from = at(stage)
			}
		}
		for _, r := range responses {
			t.request(ctx, upstream, r)
		}
		for _, tool := range tools {
			t.tool(ctx, thread.ToolCall{
				ToolCallID: tool.ToolCallID, Name: tool.Name, Executor: tool.Executor, Server: tool.Server,
				Status: tool.Status, StartedAt: tool.StartedAt, FinishedAt: tool.FinishedAt,
			})
		}
		for _, save := range s.saves {
			t.span(ctx, "database", save.begun, save.ended, trace.SpanKindClient, "", nil, nil)
		}
	})
}
