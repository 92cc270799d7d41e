package chat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"strings"
	"time"

	"voicebridge/llm"
	"voicebridge/persistence"
	"voicebridge/toolkit"
)

const (
	// retryFirst is the pause before the second attempt; it doubles.
	retryFirst = 500 * time.Millisecond
	// maxRetryAfter is how long a provider may ask to wait within a turn.
	maxRetryAfter = 20 * time.Second
	// maxCalls is how many calls one answer may hold.
	maxCalls = 64
	// maxArguments is the size of a call's arguments that a message keeps, in bytes.
	maxArguments = 64 << 10
)

// received is what a provider's sequence yields.
type received struct {
	delta llm.Delta
	err   error
}

// step makes one request, several times if it has to, and takes the answer into
// the message.
func (t *Turn) step(round int) ([]*callRun, llm.StopReason, error) {
	if round > 0 {
		t.msg.Parts = append(t.msg.Parts, persistence.StepStart())
	}
	t.inStep, t.round = true, round
	t.emit(Event{Type: EventStepStart})
	for attempt := 1; ; attempt++ {
		a := &answer{t: t, begun: time.Now()}
		err := a.run()
		if err == nil {
			return a.calls, a.stop, nil
		}
		failure := asError(t.provider.Name(), err)
		switch {
		case t.ctx.Err() != nil:
			return nil, "", context.Cause(t.ctx)
		case a.came || !failure.Transient() || attempt >= t.c.cfg.Attempts || failure.RetryAfter > maxRetryAfter:
			return nil, "", failure
		}
		pause := max(failure.RetryAfter, retryFirst<<(attempt-1)+rand.N(retryFirst/2))
		t.log.Warn("language model failed, trying again", "error", failure, "attempt", attempt, "pause", pause)
		if err := t.pause(pause); err != nil {
			return nil, "", err
		}
	}
}

// answer is one attempt of a request.
type answer struct {
	t     *Turn
	begun time.Time
	// came says that something came: a second attempt would say it again.
	came   bool
	calls  []*callRun
	stop   llm.StopReason
	usage  llm.Usage
	record persistence.ResponseRecord
}

// run makes the request and keeps a record of it.
func (a *answer) run() error {
	t := a.t
	a.record = persistence.ResponseRecord{
		ID: persistence.NewID(), MessageID: t.msg.ID, Model: t.model, Status: "in_progress", CreatedAt: a.begun,
	}
	if err := t.save(func(b *persistence.Batch) error { return b.SaveResponse(a.record) }); err != nil {
		return err
	}
	err := a.stream()
	t.endText()
	a.close(err)
	return err
}

// close completes the record.
func (a *answer) close(err error) {
	t, r := a.t, &a.record
	r.Status = "completed"
	switch {
	case err != nil && t.ctx.Err() != nil:
		r.Status, r.StatusReason = "cancelled", context.Cause(t.ctx).Error()
	case err != nil:
		r.Status, r.StatusReason = "failed", string(asError(t.provider.Name(), err).Kind)
	case a.stop == llm.StopLength || a.stop == llm.StopFilter:
		r.Status, r.StatusReason = "incomplete", string(a.stop)
	}
	r.FinishedAt = new(time.Now())
	r.RawUsage = a.usage.Raw
	r.Usage = persistence.Usage{InputTokens: a.usage.InputTokens, OutputTokens: a.usage.OutputTokens, CachedTokens: a.usage.CachedTokens}
	if t.c.cfg.Cost != nil {
		r.CostUSD = t.c.cfg.Cost(t.provider.Name(), t.model, a.usage)
	}
	t.usage.InputTokens += a.usage.InputTokens
	t.usage.OutputTokens += a.usage.OutputTokens
	t.usage.CachedTokens += a.usage.CachedTokens
	if err := t.saveFinal(func(b *persistence.Batch) error { return b.SaveResponse(*r) }); err != nil {
		t.log.Error("response not saved", "error", err)
	}
}

// offered are the tools of a registry as a language model is told about them.
func offered(r *toolkit.Registry) []llm.Tool {
	definitions := r.Definitions()
	all := make([]llm.Tool, len(definitions))
	for i, d := range definitions {
		all[i] = llm.Tool(d)
	}
	return all
}

// stream takes the answer as it comes.
func (a *answer) stream() error {
	t := a.t
	ctx, cancel := context.WithCancel(t.ctx)
	defer cancel()
	deltas := make(chan received)
	request := llm.Request{
		Model: t.model, System: t.system, Messages: t.request, Tools: offered(t.registry), MaxTokens: t.maxTokens,
	}
	t.side.Go(func() { t.pull(ctx, request, deltas) })
	limit := time.NewTimer(t.c.cfg.FirstByte)
	defer limit.Stop()
	var in received
	open := true
	for a.stop == "" {
		err := t.waitFor(func(clock <-chan time.Time) bool {
			select {
			case in, open = <-deltas:
			case <-limit.C:
				in, open = received{err: a.late()}, true
			case <-clock:
				return false
			case <-t.ctx.Done():
				in = received{err: context.Cause(t.ctx)}
			}
			return true
		})
		switch {
		case err != nil:
			return err
		case !open:
			return &llm.Error{Kind: llm.KindUnavailable, Provider: t.provider.Name(), Message: "The answer broke off."}
		case in.err != nil:
			return in.err
		}
		limit.Reset(t.c.cfg.Idle)
		if err := a.take(in.delta); err != nil {
			return err
		}
	}
	return nil
}

// late is the failure of a provider that is silent for too long.
func (a *answer) late() error {
	text := "The language model did not answer in time."
	if a.came {
		text = "The language model stopped in the middle of its answer."
	}
	return &llm.Error{Kind: llm.KindTimeout, Provider: a.t.provider.Name(), Message: text}
}

// pull ranges over the provider's sequence.
func (t *Turn) pull(ctx context.Context, req llm.Request, deltas chan<- received) {
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
			t.log.Error("provider panicked", "provider", t.provider.Name(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
			send(received{err: &llm.Error{Kind: llm.KindBadRequest, Provider: t.provider.Name(), Message: "The program made a mistake with this request.", Err: errors.New("panic")}})
		}
	}()
	for d, err := range t.provider.Stream(ctx, req) {
		if !send(received{delta: d, err: err}) {
			return
		}
	}
}

// take puts a piece of the answer into the message.
func (a *answer) take(d llm.Delta) error {
	t := a.t
	if d.Usage != nil {
		a.usage = *d.Usage
	}
	if d.Text != "" || d.ToolCall != nil {
		a.arrived()
	}
	if d.Text != "" && !t.say(d.Text) {
		a.stop = llm.StopLength
		return nil
	}
	if d.ToolCall != nil {
		t.endText()
		if len(a.calls) >= maxCalls {
			return &llm.Error{Kind: llm.KindBadRequest, Provider: t.provider.Name(), Message: fmt.Sprintf("The language model asked for more than %d tools at once.", maxCalls)}
		}
		run, err := t.invoke(*d.ToolCall)
		if err != nil {
			return err
		}
		a.calls = append(a.calls, run)
	}
	a.stop = d.Stop
	return nil
}

// arrived notes when the answer began.
func (a *answer) arrived() {
	if a.came {
		return
	}
	a.came = true
	took := time.Since(a.begun).Milliseconds()
	a.record.FirstTokenMS = &took
	if _, ok := a.t.latency["first_token"]; !ok {
		a.t.latency["first_token"] = time.Since(a.t.begun).Milliseconds()
	}
}

// say adds words to the message. It reports false when there is no more room.
func (t *Turn) say(text string) bool {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if t.said+len(text) > maxAnswer {
		return false
	}
	t.said += len(text)
	if t.textID == "" {
		t.texts++
		t.textID = fmt.Sprintf("text-%d", t.texts)
		t.text.Reset()
		t.msg.Parts = append(t.msg.Parts, persistence.TextPart(""))
		t.emit(Event{Type: EventTextStart, TextID: t.textID})
	}
	t.text.WriteString(text)
	t.msg.Parts[len(t.msg.Parts)-1].Text = t.text.String()
	t.emit(Event{Type: EventTextDelta, TextID: t.textID, Delta: text})
	t.changed()
	return true
}

// endText ends the text that grows.
func (t *Turn) endText() {
	if t.textID != "" {
		t.emit(Event{Type: EventTextEnd, TextID: t.textID})
		t.textID = ""
	}
}

// notice says something in our own words.
func (t *Turn) notice(text string) {
	if t.said == 0 {
		t.msg.Metadata.Extra[extraNotice] = json.RawMessage("true")
	}
	t.endText()
	t.say(text)
	t.endText()
}
