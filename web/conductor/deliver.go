package conductor

import (
	"context"
	"errors"
	"slices"
	"time"
	"voicebridge/chat"
)

// partialEvery is the least time between partials. Each contains all the text so far, so long texts
// wait longer: about a megabyte per second goes to one app.
const partialEvery = 80 * time.Millisecond

// deliver delivers the turns of the session as they come.
func (a *app) deliver(ctx context.Context) error {
	a.sessions.resume(a.session)
	for ctx.Err() == nil { // it may have been taken over before it began
		t := a.sessions.next(a.session)
		if t == nil {
			select {
			case <-a.more:
			case <-ctx.Done():
			}
			continue
		}
		if err := a.deliverRest(ctx, t); err != nil {
			return err
		}
		a.sessions.finish(t)
		a.socket.Side.Go(func() {
			if a.socket.Ping() {
				a.sessions.confirm(a.session, t)
			}
		})
	}
	return context.Cause(ctx)
}

// deliverRest delivers what is left of a turn, until it ends.
func (a *app) deliverRest(ctx context.Context, t *turn) error {
	if err := a.pickUp(t); err != nil {
		return err
	}
	watching, cancel := context.WithCancel(ctx)
	events := make(chan turnStep)
	a.socket.Side.Go(func() { watchTurn(watching, t.turn, t.next, events) })
	defer cancel()
	pace := time.NewTimer(time.Hour)
	defer pace.Stop()
	for {
		if err := a.sendFacts(t); err != nil || t.end > 0 {
			return err
		}
		select {
		case step := <-events:
			waiting := t.grown
			if err := a.apply(ctx, t, step); err != nil {
				return err
			}
			if t.grown && !waiting {
				pace.Reset(partialEvery + time.Duration(t.text.Len())*time.Microsecond)
			}
		case <-pace.C:
			if err := a.partial(t); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// turnStep is an element of a turn's event sequence.
type turnStep struct {
	event chat.Event
	err   error
}

// watchTurn passes on the events of a turn until it or ctx ends.
func watchTurn(ctx context.Context, turn *chat.Turn, from int, events chan<- turnStep) {
	for e, err := range turn.Events(ctx, from) {
		select {
		case events <- turnStep{e, err}:
		case <-ctx.Done():
			return
		}
	}
}

// pickUp gives a returning app its turn where it stands: the state, the text so far, and the calls
// that wait for it.
func (a *app) pickUp(t *turn) error {
	again := t.done > 0 && t.end == 0
	if !again {
		return nil
	}
	if err := a.socket.Write(a.state("thinking")); err != nil {
		return err
	}
	if t.text.Len() > 0 {
		t.grown = true
		if err := a.partial(t); err != nil {
			return err
		}
	}
	for _, call := range t.turn.Waiting() {
		if err := a.sendCall(t, call); err != nil {
			return err
		}
	}
	return nil
}

// sendCall tells the app to run one of its tools, with the same id each time.
func (a *app) sendCall(t *turn, call chat.EventCall) error {
	e, asked := t.calls[call.ID]
	if !asked {
		e = a.envelope(typeToolCall, callPayload{
			CallID: call.ID, Name: a.tools.wireName(call.Name), Arguments: call.Arguments,
		})
		t.calls[call.ID] = e
	}
	return a.socket.Write(e)
}

// sendFacts delivers facts that were not yet delivered.
func (a *app) sendFacts(t *turn) error {
	for ; t.done < len(t.facts); t.done++ {
		if err := a.socket.Write(t.facts[t.done]); err != nil {
			return err
		}
	}
	return nil
}

// partial delivers the text so far, if it has grown.
func (a *app) partial(t *turn) error {
	if !t.grown {
		return nil
	}
	t.grown = false
	return a.socket.Write(a.envelope(typePartial, textPayload{t.text.String()}))
}

// apply processes one event of the turn. The resulting facts are delivered later.
func (a *app) apply(ctx context.Context, t *turn, step turnStep) error {
	if errors.Is(step.err, chat.ErrReplayGone) {
		// So much happened while nobody was connected that only the end matters.
		result, err := t.turn.Wait(ctx)
		if err != nil {
			return err
		}
		a.conclude(t, result)
		return nil
	}
	if step.err != nil {
		return step.err
	}
	e := step.event
	t.next = e.Index + 1
	switch e.Type {
	case chat.EventTextStart:
		if !e.Notice && t.text.Len() > 0 {
			t.text.WriteByte('\n') // as the message joins its parts
		}
	case chat.EventTextDelta:
		if !e.Notice { // a failure is sent as an error instead
			t.text.WriteString(e.Delta)
			t.grown = true
		}
	case chat.EventToolAsked:
		return a.asked(t, *e.Call)
	case chat.EventFinish:
		a.conclude(t, *e.Result)
	}
	return nil
}

// asked tells the app about a call, unless it already knows or, after a long absence, nobody waits
// for the call any more.
func (a *app) asked(t *turn, call chat.EventCall) error {
	if err := a.partial(t); err != nil {
		return err
	}
	if _, known := t.calls[call.ID]; known {
		return nil
	}
	if !slices.ContainsFunc(t.turn.Waiting(), func(w chat.EventCall) bool { return w.ID == call.ID }) {
		return nil
	}
	return a.sendCall(t, call)
}

// conclude adds the facts that end a turn. The last partial is one of them, so that it is delivered
// even if the connection changes. However the turn ends, the state goes back to idle; what the user
// interrupted is not spoken.
func (a *app) conclude(t *turn, result chat.Result) {
	final := a.envelope(typeFinal, textPayload{result.Text})
	spoken := result.Err == nil && result.Finish != chat.FinishInterrupted
	if spoken && t.grown {
		t.grown = false
		t.facts = append(t.facts, a.envelope(typePartial, textPayload{t.text.String()}))
	}
	t.end = len(t.facts)
	switch {
	case result.Err != nil:
		e := a.cfg.Explain(result.Err)
		t.facts = append(t.facts, a.envelope(typeError, errorPayload{Code: e.Code, Message: e.Message}))
	case spoken:
		t.facts = append(t.facts, final, a.message("assistant", result.Text), a.state("speaking"),
			a.note("tts.speak", map[string]any{"text": result.Text}))
	default:
		t.facts = append(t.facts, final)
		if result.Text != "" {
			t.facts = append(t.facts, a.message("assistant", result.Text))
		}
	}
	t.facts = append(t.facts, a.state("idle"))
}
