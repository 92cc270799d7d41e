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
	"voicebridge/toolkit"
)

// lookEvery is how often a turn looks whether it still has its thread, and whether somebody has asked it to stop.
const lookEvery = 2 * time.Second

// run is the turn, from its first request to its end; leave releases its place.
func (t *Turn) run(leave func()) {
	t.draft.emit(Event{Type: EventStart})
	finish, err := t.rounds()
	t.conclude(finish, err)
	saved := t.saveEnd()
	t.stop(errors.New("the turn is over")) // ends what a step has left running
	if saved {
		leave()
	}
	t.ended = time.Now()
	t.events.add(Event{Type: EventFinish, MessageID: t.message, Result: &t.result})
	close(t.done)
	t.side.Wait()
	if !saved {
		t.awaitEnd()
		leave()
	}
	t.report()
}

// look ends the turn if it has lost its thread, or if somebody has asked for that.
func (t *Turn) look() {
	tick := time.Tick(lookEvery)
	for {
		select {
		case <-t.ctx.Done():
			return
		case <-tick:
		}
		turn, err := t.cfg.Store.RunningTurn(t.ctx, t.req.Key)
		switch {
		case errors.Is(err, persistence.ErrNotFound), err == nil && turn.ID != t.id:
			t.stop(errLost)
		case turn.StopAsked:
			t.stop(errInterrupted)
		}
	}
}

// rounds alternates between asking the model and running its tools, until there is an answer.
func (t *Turn) rounds() (FinishReason, error) {
	if err := t.prompt.load(t.ctx, &t.req, t.user, t.note); err != nil {
		return FinishError, &llm.Error{
			Kind: llm.KindUnavailable, Provider: t.prompt.provider, Message: "The conversation could not be read.",
			Err: err,
		}
	}
	defer func() { t.prompt.thread = nil }() // the turn itself is kept for a while
	before := t.prompt.messages(t.ctx, t.req.Key)
	for _, m := range before {
		for _, c := range m.ToolCalls {
			t.tools.taken[c.ID] = true
		}
	}
	var since []llm.Message // the steps of this turn
	for round := 0; ; round++ {
		last := round >= t.cfg.MaxToolRounds
		t.draft.startStep(round == 0)
		calls, stop, err := t.steps.step(slices.Concat(before, since), last, func() ([]llm.Message, bool) {
			if !(largeResults(before, since) && cutResults(since) || t.prompt.shorten() || cutResults(since)) {
				return nil, false
			}
			before = t.prompt.messages(t.ctx, t.req.Key)
			return slices.Concat(before, since), true
		})
		switch {
		case err != nil:
			return FinishError, err
		case len(calls) == 0:
			return t.answered(stop), nil
		case last:
			t.tools.refuse(calls)
			t.draft.notice(fmt.Sprintf("I stopped after %d rounds of tool calls without finishing. Tell me to go "+
				"on, or ask for less at a time.", round))
			return FinishToolRounds, nil
		}
		open, err := t.tools.run(calls)
		if err != nil {
			return FinishError, err
		}
		t.draft.finishStep()
		if len(open) > 0 {
			t.result.ToolCalls = open
			return FinishToolCalls, nil
		}
		since = append(since, t.prompt.remember(t.ctx, t.req.Key, t.draft, calls)...)
	}
}

// minResult is how much of a tool's result, or of its input, is left when a request is too long, in characters.
const minResult = 2000

// largeResults reports whether a result in this turn is larger than all that was said before.
func largeResults(before, since []llm.Message) bool {
	size := llm.Tokens(before...)
	return slices.ContainsFunc(since, func(m llm.Message) bool { return llm.Tokens(m) > size })
}

// cutResults cuts the long results of tools, and their long inputs. It returns false if none is long.
func cutResults(messages []llm.Message) (cut bool) {
	shorter := func(text *string) {
		before := *text
		*text = cutRunes(before, minResult)
		cut = cut || *text != before
	}
	for i, m := range messages {
		if m.Role == llm.RoleTool {
			shorter(&messages[i].Content)
		}
		for c := range m.ToolCalls { // they are not shared with what is saved
			shorter(&m.ToolCalls[c].Arguments)
		}
	}
	return cut
}

// answered explains how an answer without calls ended.
func (t *Turn) answered(stop llm.StopReason) FinishReason {
	reason := map[llm.StopReason]FinishReason{
		llm.StopLength: FinishLength, llm.StopFilter: FinishFilter, llm.StopRefusal: FinishFilter,
	}[stop]
	if stop == llm.StopRefusal {
		t.draft.note(extraRefused, true)
		t.draft.notice("The provider's content filter stopped the answer. Later requests leave out what was asked.")
	} else if t.draft.size == 0 {
		text := "The model gave no answer. Please try again."
		switch reason {
		case FinishFilter:
			text = "The provider's content filter stopped the answer."
		case FinishLength:
			text = "The token limit was reached before the answer began."
		}
		t.draft.notice(text)
	}
	return cmp.Or(reason, FinishStop)
}

// publish sends an event to the thread's watchers.
func (t *Turn) publish(kind persistence.EventType, data any) {
	t.cfg.Store.Publish(t.ctx, t.req.Key, persistence.Event{Type: kind, Data: toolkit.Encode(data)})
}

// report notifies the observers.
func (t *Turn) report() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), observerTimeout)
	defer cancel()
	report := TurnReport{
		Key: t.req.Key, Result: t.result, Closed: t.req.Closing != nil, Settled: t.settled,
		Course: Course{
			Begun: t.begun, Ended: t.ended, FirstToken: time.Duration(t.steps.firstMS) * time.Millisecond,
			Requests: t.steps.records,
		},
	}
	for _, o := range t.cfg.Observers {
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
