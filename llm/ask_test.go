package llm_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/llm"
)

// scripted is a provider that answers each request as the next of its functions does.
type scripted struct {
	answers  []func(ctx context.Context, yield func(llm.Delta, error) bool)
	requests []llm.Request
}

func (*scripted) Name() string { return "scripted" }

func (p *scripted) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Delta, error] {
	p.requests = append(p.requests, req)
	answer := p.answers[min(len(p.requests), len(p.answers))-1]
	return func(yield func(llm.Delta, error) bool) { answer(ctx, yield) }
}

type answer = func(context.Context, func(llm.Delta, error) bool)

// says yields text in these pieces, and the end.
func says(pieces ...string) answer {
	return func(_ context.Context, yield func(llm.Delta, error) bool) {
		for _, p := range pieces {
			if !yield(llm.Delta{Text: p}, nil) {
				return
			}
		}
		yield(llm.Delta{Stop: llm.StopEnd}, nil)
	}
}

func fails(kind llm.ErrorKind, status int) answer {
	return func(_ context.Context, yield func(llm.Delta, error) bool) {
		yield(llm.Delta{}, &llm.Error{Kind: kind, Provider: "scripted", Message: "no", Status: status})
	}
}

// hangs yields text, and then nothing until the request is ended.
func hangs(ctx context.Context, yield func(llm.Delta, error) bool) {
	if yield(llm.Delta{Text: "half"}, nil) {
		<-ctx.Done()
		yield(llm.Delta{}, ctx.Err())
	}
}

// thenFails yields text before its failure.
func thenFails(ctx context.Context, yield func(llm.Delta, error) bool) {
	if yield(llm.Delta{Text: "a"}, nil) {
		fails(llm.KindTooLong, 400)(ctx, yield)
	}
}

// thinks is silent for three seconds in the middle of its thoughts.
func thinks(ctx context.Context, yield func(llm.Delta, error) bool) {
	if !yield(llm.Delta{Reasoning: "Hm."}, nil) {
		return
	}
	select {
	case <-time.After(3 * time.Second):
		says("a")(ctx, yield)
	case <-ctx.Done():
	}
}

// TestAsk sees answers through: what is yielded, how each attempt ends, and how long the last request is.
func TestAsk(t *testing.T) {
	t.Parallel()
	picture := []llm.Image{{MediaType: "image/png", Data: []byte("x")}}
	for name, c := range map[string]struct {
		answers    []answer
		ask        llm.Ask
		want       string
		ends       string
		left, seen int // messages of the last request, and images of its first message
	}{
		"at once":           {answers: []answer{says("a", "b")}, want: "a|b|stop", ends: "ok", left: 3, seen: 1},
		"again":             {answers: []answer{fails(llm.KindRate, 429), says("a")}, want: "a|stop", ends: "rate ok", left: 3, seen: 1},
		"three times":       {answers: []answer{fails(llm.KindOverloaded, 529)}, want: "overloaded", ends: "overloaded overloaded overloaded", left: 3, seen: 1},
		"empty":             {answers: []answer{says(), says("a")}, want: "|a|stop", ends: "ok ok", left: 3, seen: 1},
		"empty twice":       {answers: []answer{says()}, want: "|stop", ends: "ok ok", left: 3, seen: 1},
		"rightly empty":     {answers: []answer{says()}, ask: llm.Ask{MayBeEmpty: true}, want: "stop", ends: "ok", left: 3, seen: 1},
		"silence":           {answers: []answer{hangs}, want: "half|timeout", ends: "timeout", left: 3, seen: 1},
		"cut off":           {answers: []answer{func(_ context.Context, yield func(llm.Delta, error) bool) { yield(llm.Delta{Text: "a"}, nil) }}, want: "a|unavailable", ends: "unavailable", left: 3, seen: 1},
		"panic":             {answers: []answer{func(context.Context, func(llm.Delta, error) bool) { panic("oh") }}, want: "bad_request", ends: "bad_request", left: 3, seen: 1},
		"refused":           {answers: []answer{fails(llm.KindRefused, 400)}, want: "refused", ends: "refused", left: 3, seen: 1},
		"blind":             {answers: []answer{fails(llm.KindBadRequest, 400), says("a")}, want: "a|stop", ends: "bad_request ok", left: 3},
		"too long":          {answers: []answer{fails(llm.KindTooLong, 400), fails(llm.KindTooLong, 400), says("a")}, want: "a|stop", ends: "too_long too_long ok", left: 1},
		"too long midway":   {answers: []answer{thenFails}, want: "a|too_long", ends: "too_long", left: 3, seen: 1},
		"thinking":          {answers: []answer{thinks}, want: "|a|stop", ends: "ok", left: 3, seen: 1},
		"too long for ever": {answers: []answer{fails(llm.KindTooLong, 400)}, want: "too_long", ends: "too_long too_long too_long", left: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				provider := &scripted{answers: c.answers}
				ask, ends := c.ask, []string(nil)
				messages := []llm.Message{{Role: llm.RoleUser, Content: "Look", Images: picture}, {Role: llm.RoleAssistant, Content: "Yes?"}, {Role: llm.RoleUser, Content: "Go"}}
				ask.Provider, ask.Request.Messages, ask.Silence = provider, messages, time.Second
				ask.Shorter = func() ([]llm.Message, bool) {
					ok := len(messages) > 1
					messages = messages[len(messages)-max(1, len(messages)-1):]
					return messages, ok
				}
				ask.Attempt = func() func(error) {
					return func(err error) {
						end := "ok"
						if err != nil {
							end = string(llm.AsError(provider, err).Kind)
						}
						ends = append(ends, end)
					}
				}
				var got []string
				for d, err := range ask.Stream(t.Context()) {
					switch e, ok := errors.AsType[*llm.Error](err); {
					case ok:
						got = append(got, string(e.Kind))
					case err != nil:
						got = append(got, err.Error())
					default:
						got = append(got, d.Text+string(d.Stop))
					}
				}
				last := provider.requests[len(provider.requests)-1].Messages
				if text := strings.Join(got, "|"); text != c.want || fmt.Sprint(ends) != "["+c.ends+"]" || len(last) != c.left || len(last[0].Images) != c.seen {
					t.Errorf("%s, attempts %v, the last request has %d messages, the first with %d images", text, ends, len(last), len(last[0].Images))
				}
			})
		})
	}
}

// TestAskTakes has providers tried again after a pause, or as late as they ask for, and given up when they are silent for
// too long: longer before their answer if they are patient, and while they think, or show that they are at work.
func TestAskTakes(t *testing.T) {
	t.Parallel()
	limited := func(after time.Duration) answer {
		return func(_ context.Context, yield func(llm.Delta, error) bool) {
			yield(llm.Delta{}, &llm.Error{Kind: llm.KindRate, RetryAfter: after})
		}
	}
	stops := func(deltas ...llm.Delta) answer {
		return func(ctx context.Context, yield func(llm.Delta, error) bool) {
			for _, d := range deltas {
				yield(d, nil)
			}
			<-ctx.Done()
		}
	}
	signs := func(n int, every time.Duration) answer {
		return func(ctx context.Context, yield func(llm.Delta, error) bool) {
			for range n {
				select {
				case <-time.After(every):
				case <-ctx.Done():
					return
				}
				yield(llm.Delta{}, nil)
			}
			says("a")(ctx, yield)
		}
	}
	text := llm.Delta{Text: "Half an"}
	for name, c := range map[string]struct {
		answers  []answer
		patience time.Duration
		kind     llm.ErrorKind
		requests int
		takes    time.Duration // and at most as long as the pauses vary
	}{
		"twice":                 {[]answer{fails(llm.KindOverloaded, 529), fails(llm.KindUnavailable, 0), says("a")}, 0, "", 3, 1500 * time.Millisecond},
		"as it asks":            {[]answer{limited(7 * time.Second), says("a")}, 0, "", 2, 7 * time.Second},
		"not that long":         {[]answer{limited(time.Hour)}, 0, llm.KindRate, 1, 0},
		"a permanent failure":   {[]answer{fails(llm.KindAuth, 401)}, 0, llm.KindAuth, 1, 0},
		"nothing comes":         {[]answer{stops()}, 0, llm.KindTimeout, 3, 61500 * time.Millisecond},
		"a pause in the text":   {[]answer{stops(text)}, 0, llm.KindTimeout, 1, 20 * time.Second},
		"a pause after it":      {[]answer{stops(text, llm.Delta{})}, 0, llm.KindTimeout, 1, 80 * time.Second},
		"a pause of thought":    {[]answer{stops(llm.Delta{Reasoning: "Well"})}, 0, llm.KindTimeout, 1, 80 * time.Second},
		"a model that is slow":  {[]answer{signs(1, 50*time.Second)}, time.Minute, "", 1, 50 * time.Second},
		"at work":               {[]answer{signs(10, 15*time.Second)}, 0, "", 1, 150 * time.Second},
		"at work, for too long": {[]answer{signs(41, 15*time.Second), fails(llm.KindAuth, 401)}, 0, llm.KindAuth, 2, 600*time.Second + 500*time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				provider := patient{&scripted{answers: c.answers}, c.patience}
				begun := time.Now()
				var failed *llm.Error
				for _, err := range (llm.Ask{Provider: provider, Silence: 20 * time.Second}).Stream(t.Context()) {
					errors.As(err, &failed)
				}
				took := time.Since(begun)
				if n := len(provider.requests); n != c.requests || took < c.takes || took > c.takes+time.Second || (failed == nil) != (c.kind == "") || failed != nil && failed.Kind != c.kind {
					t.Errorf("%d requests in %v: %v", n, took, failed)
				}
			})
		})
	}
}

// patient is a provider that may take longer to begin an answer.
type patient struct {
	*scripted

	patience time.Duration
}

func (p patient) Patience() time.Duration { return p.patience }

// TestAskLong makes a long request shorter, as often as it takes, if the model says that it is too long, and once if that
// refuses it for reasons that nobody knows.
func TestAskLong(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusal           answer
		refused, requests int
		fails             bool
	}{
		"much too long":            {fails(llm.KindTooLong, 400), 2, 3, false},
		"no reason":                {fails(llm.KindBadRequest, 400), 1, 2, false},
		"no reason, of status 422": {fails(llm.KindBadRequest, 422), 1, 2, false},
		"trouble":                  {fails(llm.KindOverloaded, 500), 1, 2, false},
		"no reason, and no help":   {fails(llm.KindBadRequest, 400), 9, 2, true},
		"no such model":            {fails(llm.KindBadRequest, 404), 9, 1, true},
		"no key":                   {fails(llm.KindAuth, 401), 9, 1, true},
	} {
		provider := &scripted{answers: append(slices.Repeat([]answer{c.refusal}, c.refused), says("a"))}
		ask := llm.Ask{Provider: provider, Attempts: 1, Request: llm.Request{
			Messages: []llm.Message{{Role: llm.RoleUser, Content: strings.Repeat("word ", 2000)}},
		}}
		ask.Shorter = func() ([]llm.Message, bool) { return ask.Request.Messages, true }
		var failed error
		for _, err := range ask.Stream(t.Context()) {
			failed = err
		}
		if n := len(provider.requests); n != c.requests || (failed != nil) != c.fails {
			t.Errorf("%s: %v after %d requests", name, failed, n)
		}
	}
}

// TestAskEnds ends requests from outside: the provider has left when the sequence is over.
func TestAskEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(context.CancelCauseFunc) bool{
		"nobody reads on":  func(context.CancelCauseFunc) bool { return false },
		"the context ends": func(cancel context.CancelCauseFunc) bool { cancel(errors.New("the user said stop")); return true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				left, meanwhile, calls := false, false, make(chan func())
				provider := &scripted{answers: []answer{func(ctx context.Context, yield func(llm.Delta, error) bool) {
					calls <- func() { meanwhile = true }
					hangs(ctx, yield)
					left = true
				}}}
				begun := time.Now()
				var last error
				for _, err := range (llm.Ask{Provider: provider, Meanwhile: calls}).Stream(ctx) {
					if last = err; err == nil {
						synctest.Wait()
						if !end(cancel) {
							break
						}
					}
				}
				if !left || !meanwhile || time.Since(begun) > 0 {
					t.Errorf("the provider has left: %v, after %v; the call was made: %v", left, time.Since(begun), meanwhile)
				}
				if ctx.Err() != nil && fmt.Sprint(last) != fmt.Sprint(context.Cause(ctx)) {
					t.Errorf("Stream() = %v", last)
				}
			})
		})
	}
}
