package chat

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// steps makes the requests of a turn, and puts the answers into its message. It belongs to the
// turn's goroutine.
type steps struct {
	ctx   context.Context // of the turn
	ask   llm.Ask         // what all requests of the turn have in common
	cost  func(provider, model string, usage llm.Usage) *float64
	draft *draft
	saver *saver
	tools *tools

	begun   time.Time // of the turn
	usage   llm.Usage // of all requests
	records []records.Response
	firstMS int64 // from the beginning of the turn to the first piece, 0 for none
}

// step makes one request, with retries if necessary. last means that calls in its answer will not be run; shorter is
// [llm.Ask.Shorter].
func (s *steps) step(
	messages []llm.Message, last bool, shorter func() ([]llm.Message, bool),
) ([]*call, llm.StopReason, error) {
	a := &answer{s: s, last: last}
	ask := s.ask
	ask.Request.Messages, ask.Shorter, ask.Attempt = messages, shorter, a.begin
	ask.MayBeEmpty = s.draft.size > 0 || len(s.tools.all) > 0 // after its tools a model may have said everything
	for d, err := range ask.Stream(s.ctx) {
		if failure, ok := errors.AsType[*llm.Error](err); ok && failure.Kind == llm.KindRefused {
			ask.Log.Warn("language model refused what was asked", "error", failure, "cause", failure.Err)
			return nil, llm.StopRefusal, nil
		}
		if err != nil {
			return nil, "", err
		}
		if a.take(d); a.failed != nil || a.stop != "" {
			break
		}
	}
	return a.calls, a.stop, a.failed
}

// answer is one attempt of a request.
type answer struct {
	s      *steps
	last   bool
	calls  []*call
	stop   llm.StopReason
	usage  llm.Usage
	failed error // it asks for too much
	record records.Response
}

// begin begins a record of an attempt. end completes it.
func (a *answer) begin() (end func(error)) {
	*a = answer{s: a.s, last: a.last, record: records.Response{
		ID: persistence.NewID(), MessageID: a.s.draft.msg.ID, Model: a.s.ask.Request.Model, Status: "in_progress",
		CreatedAt: time.Now(),
	}}
	a.save()
	return func(err error) {
		a.s.draft.endBlock()
		a.close(cmp.Or(err, a.failed))
	}
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
		r.Status, r.StatusReason = "failed", string(llm.AsError(s.ask.Provider, err).Kind)
	case !slices.Contains([]llm.StopReason{"", llm.StopEnd, llm.StopToolCalls}, a.stop):
		r.Status, r.StatusReason = "incomplete", string(a.stop)
	}
	r.FinishedAt = new(time.Now())
	r.RawUsage = a.usage.Raw
	r.Usage = thread.Usage{
		InputTokens: a.usage.InputTokens, OutputTokens: a.usage.OutputTokens, CachedTokens: a.usage.CachedTokens,
	}
	if s.cost != nil {
		r.CostUSD = s.cost(s.ask.Provider.Name(), s.ask.Request.Model, a.usage)
	}
	s.usage.InputTokens += a.usage.InputTokens
	s.usage.OutputTokens += a.usage.OutputTokens
	s.usage.CachedTokens += a.usage.CachedTokens
	s.records = append(s.records, a.record)
	a.save()
}

// take puts a piece of the answer into the message.
func (a *answer) take(d llm.Delta) {
	if d.Usage != nil {
		a.usage = *d.Usage
	}
	if d.Without != "" {
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
		return
	}
	if d.ToolCall != nil {
		if len(a.calls) >= toolkit.MaxCalls {
			a.failed = &llm.Error{
				Kind: llm.KindBadRequest, Provider: a.s.ask.Provider.Name(),
				Message: fmt.Sprintf("The language model asked for more than %d tools at once.", toolkit.MaxCalls),
			}
			return
		}
		a.calls = append(a.calls, a.s.tools.invoke(*d.ToolCall, a.last))
	}
	a.stop = d.Stop
}

// arrived records when the answer began.
func (a *answer) arrived() {
	if a.record.FirstTokenMS != nil {
		return
	}
	a.record.FirstTokenMS = new(time.Since(a.record.CreatedAt).Milliseconds())
	if s := a.s; s.firstMS == 0 {
		s.firstMS = max(1, time.Since(s.begun).Milliseconds())
	}
}
