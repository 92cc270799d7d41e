package chat

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

const (
	// retryFirst is the pause before the second attempt; it doubles.
	retryFirst = 500 * time.Millisecond
	// maxRetryAfter is the longest wait that a provider may request within a turn.
	maxRetryAfter = 20 * time.Second
	// thinkingPauses is how much longer a provider may pause when it is not in the middle of its text.
	thinkingPauses = 4
	// maxQuiet is how long a provider may show that it is at work, without any piece of its answer.
	maxQuiet = 10 * time.Minute
)

// steps makes the requests of a turn, and puts the answers into its message. It belongs to the
// turn's goroutine.
type steps struct {
	ctx      context.Context // of the turn
	log      *slog.Logger
	provider llm.Provider
	request  llm.Request   // what all requests of the turn have in common
	attempts int           // for a request that fails before anything came
	first    time.Duration // how long an answer may take to begin
	silence  time.Duration // Config.Silence
	cost     func(provider, model string, usage llm.Usage) *float64
	draft    *draft
	saver    *saver
	tools    *tools
	side     *sync.WaitGroup

	begun   time.Time // of the turn
	usage   llm.Usage // of all requests
	records []records.Response
	firstMS int64 // from the beginning of the turn to the first piece, 0 for none
	came    bool  // something of the last answer came
}

// step makes one request, with retries if necessary. last means that calls in its answer will not
// be run.
func (s *steps) step(messages []llm.Message, last bool) ([]*call, llm.StopReason, error) {
	request := s.request
	request.Messages = messages
	for attempt := 1; ; attempt++ {
		a := &answer{s: s, last: last, begun: time.Now()}
		err := a.run(request)
		s.came = a.came
		if err == nil && attempt == 1 && s.attempts > 1 && a.empty() {
			s.log.Warn("language model gave no answer, trying again")
			continue
		}
		if err == nil {
			return a.calls, a.stop, nil
		}
		failure := asError(s.provider.Name(), err)
		if failure.Kind == llm.KindRefused {
			s.log.Warn("language model refused what was asked", "error", failure, "cause", failure.Err)
			return nil, llm.StopRefusal, nil
		}
		final := !failure.Transient() || attempt >= s.attempts || failure.RetryAfter > maxRetryAfter
		switch {
		case s.ctx.Err() != nil:
			return nil, "", context.Cause(s.ctx)
		case final && !a.came && blind(failure) && len(extraImages(request.Messages)) > 0:
			s.log.Warn("language model refused the request, trying without the earlier images", "error", failure,
				"cause", failure.Err)
			request.Messages = withoutImages(request.Messages)
			continue
		case a.came || final:
			return nil, "", failure
		}
		pause := max(failure.RetryAfter, retryFirst<<(attempt-1)+rand.N(retryFirst/2))
		s.log.Warn("language model failed, trying again", "error", failure, "attempt", attempt, "pause", pause)
		select {
		case <-time.After(pause):
		case <-s.ctx.Done():
			return nil, "", context.Cause(s.ctx)
		}
	}
}

// answer is one attempt of a request.
type answer struct {
	s     *steps
	last  bool
	begun time.Time
	// came means that something came: a second attempt would repeat it.
	came   bool
	calls  []*call
	stop   llm.StopReason
	usage  llm.Usage
	record records.Response
}

// run makes the request and keeps a record of it.
func (a *answer) run(request llm.Request) error {
	a.record = records.Response{
		ID: persistence.NewID(), MessageID: a.s.draft.msg.ID, Model: a.s.request.Model, Status: "in_progress",
		CreatedAt: a.begun,
	}
	a.save()
	err := a.stream(request)
	a.s.draft.endBlock()
	a.close(err)
	return err
}

// save saves the current record.
func (a *answer) save() {
	a.s.saver.put(persistence.PutResponse{Response: a.record})
}

// close completes the record.
func (a *answer) close(err error) {
	s, r := a.s, &a.record
	r.Status = "completed"
	switch {
	case err != nil && s.ctx.Err() != nil:
		r.Status, r.StatusReason = "cancelled", context.Cause(s.ctx).Error()
	case err != nil:
		r.Status, r.StatusReason = "failed", string(asError(s.provider.Name(), err).Kind)
	case a.stop != llm.StopEnd && a.stop != llm.StopToolCalls:
		r.Status, r.StatusReason = "incomplete", string(a.stop)
	}
	r.FinishedAt = new(time.Now())
	r.RawUsage = a.usage.Raw
	r.Usage = thread.Usage{
		InputTokens: a.usage.InputTokens, OutputTokens: a.usage.OutputTokens, CachedTokens: a.usage.CachedTokens,
	}
	if s.cost != nil {
		r.CostUSD = s.cost(s.provider.Name(), s.request.Model, a.usage)
	}
	s.usage.InputTokens += a.usage.InputTokens
	s.usage.OutputTokens += a.usage.OutputTokens
	s.usage.CachedTokens += a.usage.CachedTokens
	s.records = append(s.records, a.record)
	a.save()
}

// received is what a provider's sequence yields.
type received struct {
	delta llm.Delta
	err   error
}

// stream takes the answer as it comes.
func (a *answer) stream(request llm.Request) error {
	s := a.s
	ctx, cancel := context.WithCancel(s.ctx)
	defer cancel()
	deltas := make(chan received)
	s.side.Go(func() { s.pull(ctx, request, deltas) })
	limit := time.NewTimer(s.first)
	defer limit.Stop()
	piece := time.Now()
	for a.stop == "" {
		in, open := received{}, true
		select {
		case in, open = <-deltas:
		case news := <-s.tools.asks.news:
			s.tools.asks.take(news)
			continue
		case <-limit.C:
			in.err = a.late()
		case <-s.ctx.Done():
			in.err = context.Cause(s.ctx)
		}
		switch {
		case !open:
			return &llm.Error{
				Kind: llm.KindUnavailable, Provider: s.provider.Name(), Message: "The answer was cut off.",
			}
		case in.err != nil:
			return in.err
		}
		if in.delta != (llm.Delta{}) {
			piece = time.Now()
		}
		pause := s.silence
		if in.delta.Text == "" {
			pause *= thinkingPauses
		}
		limit.Reset(min(pause, time.Until(piece.Add(maxQuiet))))
		if err := a.take(in.delta); err != nil {
			return err
		}
	}
	return nil
}

// late returns the failure of a provider that is silent for too long.
func (a *answer) late() error {
	text := "The language model did not answer in time."
	if a.came {
		text = "The language model stopped in the middle of its answer."
	}
	return &llm.Error{Kind: llm.KindTimeout, Provider: a.s.provider.Name(), Message: text}
}

// pull ranges over the provider's sequence.
func (s *steps) pull(ctx context.Context, req llm.Request, deltas chan<- received) {
	defer close(deltas)
	send := func(r received) bool {
		select {
		case deltas <- r:
			return r.err == nil
		case <-ctx.Done():
			return false
		}
	}
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("provider panicked", "provider", s.provider.Name(), "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			send(received{err: &llm.Error{
				Kind: llm.KindBadRequest, Provider: s.provider.Name(),
				Message: "The server made a mistake with this request.", Err: errors.New("panic"),
			}})
		}
	}()
	for d, err := range s.provider.Stream(ctx, req) {
		if !send(received{delta: d, err: err}) {
			return
		}
	}
}

// take puts a piece of the answer into the message.
func (a *answer) take(d llm.Delta) error {
	if d.Usage != nil {
		a.usage = *d.Usage
	}
	if d.Without != "" {
		a.s.log.Warn(
			"the model has refused a part of the request, which it no longer gets until this server is restarted",
			"model", a.s.request.Model, "without", d.Without)
		a.s.draft.note(extraWithout, d.Without)
	}
	if d.Text != "" || d.Reasoning != "" || d.ToolCall != nil {
		a.arrived()
	}
	if d.Unsaid {
		a.s.draft.unsay()
	}
	if d.Reasoning != "" {
		a.s.draft.think(d.Reasoning)
	}
	if d.Text != "" && !a.s.draft.say(d.Text) {
		a.stop = llm.StopLength
		return nil
	}
	if d.ToolCall != nil {
		if len(a.calls) >= toolkit.MaxCalls {
			return &llm.Error{
				Kind: llm.KindBadRequest, Provider: a.s.provider.Name(),
				Message: fmt.Sprintf("The language model asked for more than %d tools at once.", toolkit.MaxCalls),
			}
		}
		a.calls = append(a.calls, a.s.tools.invoke(*d.ToolCall, a.last))
	}
	a.stop = d.Stop
	return nil
}

// empty reports whether the model had nothing to say to the user at all, which some do now and then. After its tools a
// model may have said everything.
func (a *answer) empty() bool {
	return !a.came && a.stop == llm.StopEnd && a.s.draft.size == 0 && len(a.s.tools.all) == 0
}

// arrived records when the answer began.
func (a *answer) arrived() {
	if a.came {
		return
	}
	a.came = true
	a.record.FirstTokenMS = new(time.Since(a.begun).Milliseconds())
	if s := a.s; s.firstMS == 0 {
		s.firstMS = max(1, time.Since(s.begun).Milliseconds())
	}
}
