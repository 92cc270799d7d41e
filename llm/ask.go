package llm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Defaults of [Ask].
const (
	defaultAttempts = 3
	defaultSilence  = 30 * time.Second
)

const (
	// retryFirst is the pause before the second attempt; it doubles.
	retryFirst = 500 * time.Millisecond
	// maxRetryAfter is the longest wait that a provider may request.
	maxRetryAfter = 20 * time.Second
	// thinkingPauses is how much longer a provider may pause when it is not in the middle of its text.
	thinkingPauses = 4
	// maxQuiet is how long a provider may show that it is at work, without any piece of its answer.
	maxQuiet = 10 * time.Minute
	// maxCuts is how often a request that is too long is made shorter.
	maxCuts = 3
	// longRequest is from how many tokens on a request that is refused for no known reason may be too long.
	longRequest = 2000
)

// Ask asks a provider for one answer. What fails before anything has come is tried again if it may pass, or without
// the images and the earlier messages that the model may have refused; a provider that falls silent is given up.
// Provider and Request are required.
type Ask struct {
	Provider Provider
	Request  Request
	// Attempts is how often a request is tried whose failure is transient; 0 means 3.
	Attempts int
	// Silence is how long the provider may take to begin its answer, unless its Patience is longer, and pause in its
	// text; four times as long while it thinks. 0 means 30 s.
	Silence time.Duration
	// MayBeEmpty means that an empty answer is one. Otherwise it is asked for once more.
	MayBeEmpty bool
	// Shorter returns the messages without a part of them, when they are too long for the model; ok is false if all
	// must stay. nil leaves out nothing.
	Shorter func() (messages []Message, ok bool)
	// Attempt is called as an attempt begins, and its result with the failure as it ends; may be nil.
	Attempt func() (end func(error))
	// Meanwhile are calls to make on the goroutine of whoever reads the answer, while they wait for it; may be nil.
	Meanwhile <-chan func()
	Log       *slog.Logger // nil discards the log
}

// Stream yields the answer as [Provider.Stream] does. The error is an *Error, or the cause of the end of ctx. When the
// sequence ends, so has the request.
func (a Ask) Stream(ctx context.Context) iter.Seq2[Delta, error] {
	a.Attempts, a.Silence = cmp.Or(a.Attempts, defaultAttempts), cmp.Or(a.Silence, defaultSilence)
	a.Log = cmp.Or(a.Log, slog.New(slog.DiscardHandler))
	return func(yield func(Delta, error) bool) {
		r := &asked{Ask: a, ctx: ctx, yield: yield}
		err := r.step()
		for cuts := 0; cuts < maxCuts && r.tooLong(err, cuts); cuts++ {
			messages, ok := r.Shorter()
			if !ok {
				break
			}
			r.Request.Messages = messages
			err = r.step()
		}
		if err != nil {
			yield(Delta{}, err)
		}
	}
}

// asked is an answer that is asked for.
type asked struct {
	Ask

	ctx   context.Context //nolint:containedctx // of the sequence
	yield func(Delta, error) bool

	// Of an attempt:

	came bool // something came: another attempt would repeat it
	over bool // nobody reads on, or the answer is complete
}

// step makes the request, as often as it takes. The error is an *Error, or the cause of the context's end.
func (r *asked) step() error {
	request := r.Request
	for attempt := 1; ; attempt++ {
		err := r.attempt(request, attempt == 1 && r.Attempts > 1 && !r.MayBeEmpty)
		if err == nil && !r.over {
			r.Log.Warn("language model gave no answer, trying again")
			continue
		}
		if err == nil {
			return nil
		}
		failure := AsError(r.Provider, err)
		final := !failure.Transient() || attempt >= r.Attempts || failure.RetryAfter > maxRetryAfter
		switch {
		case failure.Kind == KindRefused:
			return failure
		case r.ctx.Err() != nil:
			return context.Cause(r.ctx)
		case final && !r.came && blind(failure) && len(extraImages(request.Messages)) > 0:
			r.Log.Warn("language model refused the request, trying without the earlier images", "error", failure,
				"cause", failure.Err)
			request.Messages = withoutImages(request.Messages)
			continue
		case r.came || final:
			return failure
		}
		pause := max(failure.RetryAfter, retryFirst<<(attempt-1)+rand.N(retryFirst/2))
		r.Log.Warn("language model failed, trying again", "error", failure, "attempt", attempt, "pause", pause)
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
			return context.Cause(r.ctx)
		}
	}
}

// received is what a provider's sequence yields.
type received struct {
	delta Delta
	err   error
}

// attempt makes the request once. again means that an empty answer is not over.
func (r *asked) attempt(request Request, again bool) (err error) {
	r.came, r.over = false, false
	ctx, cancel := context.WithCancel(r.ctx)
	deltas := make(chan received)
	var pulling sync.WaitGroup
	if r.Attempt != nil {
		end := r.Attempt()
		defer func() { end(err) }()
	}
	defer pulling.Wait()
	defer cancel()
	pulling.Go(func() { r.pull(ctx, request, deltas) })
	first := r.Silence
	if slow, ok := r.Provider.(interface{ Patience() time.Duration }); ok {
		first = max(first, slow.Patience())
	}
	limit := time.NewTimer(first)
	defer limit.Stop()
	piece := time.Now()
	for {
		in, open := received{}, true
		select {
		case in, open = <-deltas:
		case f := <-r.Meanwhile:
			f()
			continue
		case <-limit.C:
			in.err = r.late()
		case <-r.ctx.Done():
			in.err = context.Cause(r.ctx)
		}
		switch {
		case !open:
			return &Error{Kind: KindUnavailable, Provider: r.Provider.Name(), Message: "The answer was cut off."}
		case in.err != nil:
			return in.err
		}
		done := r.take(in.delta, again)
		if done || r.over {
			return nil
		}
		if in.delta != (Delta{}) {
			piece = time.Now()
		}
		pause := r.Silence
		if in.delta.Text == "" {
			pause *= thinkingPauses
		}
		limit.Reset(min(pause, time.Until(piece.Add(maxQuiet))))
	}
}

// take passes on a piece of the answer, and reports whether it is the last.
func (r *asked) take(d Delta, again bool) (done bool) {
	if d.Without != "" {
		r.Log.Warn(
			"the model has refused a part of the request, which it no longer gets until this server is restarted",
			"model", r.Request.Model, "without", d.Without)
	}
	r.came = r.came || d.Text != "" || d.Reasoning != "" || d.ToolCall != nil
	done = d.Stop != ""
	r.over = done
	if again && !r.came && d.Stop == StopEnd {
		r.over, d.Stop = false, ""
	}
	r.over = !r.yield(d, nil) || r.over
	return done
}

// late returns the failure of a provider that is silent for too long.
func (r *asked) late() error {
	text := "The language model did not answer in time."
	if r.came {
		text = "The language model stopped in the middle of its answer."
	}
	return &Error{Kind: KindTimeout, Provider: r.Provider.Name(), Message: text}
}

// pull ranges over the provider's sequence.
func (r *asked) pull(ctx context.Context, request Request, deltas chan<- received) {
	defer close(deltas)
	send := func(in received) bool {
		select {
		case deltas <- in:
			return in.err == nil
		case <-ctx.Done():
			return false
		}
	}
	defer func() {
		if p := recover(); p != nil {
			r.Log.Error("provider panicked", "provider", r.Provider.Name(), "panic", fmt.Sprint(p),
				"stack", string(debug.Stack()))
			send(received{err: &Error{
				Kind: KindBadRequest, Provider: r.Provider.Name(),
				Message: "The server made a mistake with this request.", Err: errors.New("panic"),
			}})
		}
	}()
	for d, err := range r.Provider.Stream(ctx, request) {
		if !send(received{d, err}) {
			return
		}
	}
}

// tooLong reports whether the model has refused a request because the conversation is too long for it. Some servers say
// that in words that nobody knows, or not at all: a long request that is refused is made shorter once.
func (r *asked) tooLong(err error, cuts int) bool {
	failure, ok := errors.AsType[*Error](err)
	if !ok || r.Shorter == nil || r.came || r.ctx.Err() != nil {
		return false
	}
	unclear := blind(failure) && failure.Status != http.StatusNotFound && Tokens(r.Request.Messages...) >= longRequest
	if failure.Kind != KindTooLong && (cuts > 0 || !unclear) {
		return false
	}
	r.Log.Warn("conversation too long for the language model, leaving out a part", "error", failure,
		"cause", failure.Err)
	return true
}

// AsError describes a provider's failure for a user.
func AsError(p Provider, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{
		Kind: KindUnavailable, Provider: p.Name(), Message: "The language model cannot be reached.", Err: err,
	}
}

// Tokens estimates how long messages are, at four characters each.
func Tokens(messages ...Message) (n int) {
	for _, m := range messages {
		runes := utf8.RuneCountInString(m.Content)
		for _, c := range m.ToolCalls {
			runes += utf8.RuneCountInString(c.Name) + utf8.RuneCountInString(c.Arguments)
		}
		n += (runes + 3) / 4
	}
	return n
}

// blind reports whether a refusal may be one of images.
func blind(refused *Error) bool {
	return refused.Kind == KindBadRequest && refused.Status != 0 || refused.Status == http.StatusInternalServerError
}

// extraImages returns the indexes of the messages whose images do not belong to the user's last words.
func extraImages(messages []Message) (at []int) {
	asked := false
	for i, m := range slices.Backward(messages) {
		last := m.Role == RoleUser && !asked
		asked = asked || last
		if len(m.Images) > 0 && !last {
			at = append(at, i)
		}
	}
	return at
}

// withoutImages removes the images that do not belong to the user's last words. The texts of tools mention theirs.
func withoutImages(messages []Message) []Message {
	kept := slices.Clone(messages)
	for _, i := range extraImages(messages) {
		if kept[i].Images = nil; kept[i].Role == RoleUser {
			kept[i].Content = strings.TrimSpace(LostImage + "\n" + kept[i].Content)
		}
	}
	return kept
}
