package mcptool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v5"

	"voicebridge/toolkit/mcptool/signin"
)

// connect makes one attempt. On success the connection and its tools are in place.
func (s *server) connect(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	l, err := s.connectTo(ctx)
	if err == nil {
		var offer []*tool
		if offer, err = s.list(ctx, l); err == nil {
			s.mu.Lock()
			s.offer = offer
			s.move(l, nil)
			s.mu.Unlock()
			s.log.Info("MCP server connected", "type", s.config.Type, "tools", len(offer))
			if s.closing.Err() != nil { // Close came first
				s.disconnect(errClosed)
			}
			return true
		}
		l.close(err)
	}
	if needed, ok := errors.AsType[*signin.NeededError](context.Cause(ctx)); ok { // it ended the attempt
		err = needed
	}
	// The newer handshake begins with a request that older servers may not answer.
	if errors.Is(err, context.DeadlineExceeded) {
		s.old = !s.old
	}
	s.fail(err)
	s.log.Warn("MCP server not connected", "type", s.config.Type, "error", s.explain(err))
	return false
}

// disconnect closes the connection, if there is one. If the server has only forgotten its session, the calls that run
// there may still get their answers, and so go on.
func (s *server) disconnect(why error) {
	r, _ := errors.AsType[*refusal](why)
	s.mu.Lock()
	l := s.link
	if l != nil {
		s.move(nil, why)
		if r != nil && r.forgotten && l.calls > 0 {
			s.retired, l = append(s.retired, l), nil
		}
	}
	s.mu.Unlock()
	if l != nil {
		l.close(why)
	}
}

// shut closes all connections.
func (s *server) shut(why error) {
	s.disconnect(why)
	s.mu.Lock()
	retired := s.retired
	s.retired = nil
	s.mu.Unlock()
	for _, l := range retired {
		l.close(why)
	}
}

// run connects, calls tried after each attempt, and keeps the server connected until ctx ends or all servers are
// closed.
func (s *server) run(ctx context.Context, tried func()) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(s.closing, cancel)()
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = s.options.MinBackoff, s.options.MaxBackoff
	wait.Reset()
	var connected time.Time
	for {
		if s.connect(ctx) {
			connected = time.Now()
			s.options.Changed()
		}
		tried()
		if l, _ := s.current(); l != nil {
			why := s.watch(ctx, l)
			if ctx.Err() != nil {
				return
			}
			s.log.Warn("MCP server lost", "error", s.explain(why))
			s.disconnect(why)
			// A server that dies at once each time is not restarted without a pause.
			if time.Since(connected) > s.options.MaxBackoff {
				wait.Reset()
			}
		}
		select {
		case <-time.After(wait.NextBackOff()):
		case <-ctx.Done():
			return
		}
	}
}

// refreshPause is the minimum time between two listings of a server's tools, however often they
// change.
const refreshPause = time.Second

// maxRefreshPause is the longest pause before a listing that failed is tried again.
const maxRefreshPause = time.Minute

// pollPause is the time between two questions whether a remote server's tools are still the same. What says
// so otherwise may be lost without a trace: proxies cut streams, and not all tell both sides.
const pollPause = 5 * time.Minute

// watch returns why the connection ended, or nil if ctx did.
func (s *server) watch(ctx context.Context, l *link) error {
	var listed time.Time
	pause := refreshPause
	var due <-chan time.Time // nil when the tools need not be listed
	var poll <-chan time.Time
	if s.config.Type != TypeStdio {
		poll = time.Tick(pollPause)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.gone:
			return l.why()
		case why := <-l.forgotten:
			return why
		case <-s.changed:
			if due == nil {
				due = time.After(pause - time.Since(listed))
			}
		case <-due:
			due = nil
			if err := s.refresh(ctx, l); err != nil {
				s.log.Warn("MCP tools not listed again", "error", s.explain(err))
				pause = min(2*pause, maxRefreshPause)
				notify(s.suspect)
				notify(s.changed)
			} else {
				pause = refreshPause
			}
			listed = time.Now()
		case <-poll:
			s.poll(ctx, l)
		case <-s.suspect:
			if err := s.probe(ctx, l); err != nil && ctx.Err() == nil {
				return err
			}
		}
	}
}

// poll asks whether the tools are still the same. A server that does not answer may be busy with a call, and
// is suspect only after several polls.
func (s *server) poll(ctx context.Context, l *link) {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	r, err := ask(ctx, func() (*received, error) { return s.receiveAll(ctx, l, slog.New(slog.DiscardHandler)) })
	switch {
	case errors.Is(err, context.DeadlineExceeded) && l.unanswered.Add(1) < maxUnanswered:
	case err != nil:
		notify(s.suspect)
	default:
		l.unanswered.Store(0)
		if r.sum() != l.listed.Load() {
			notify(s.changed)
		}
	}
}

// refresh lists the tools again. Unchanged lists are not reported, because a report reaches every
// call.
func (s *server) refresh(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	offer, err := ask(ctx, func() ([]*tool, error) { return s.list(ctx, l) })
	if err != nil {
		return err
	}
	s.mu.Lock()
	same := s.link != l || slices.EqualFunc(s.offer, offer, (*tool).equal)
	if !same {
		s.offer = offer
	}
	s.mu.Unlock()
	if same {
		return nil
	}
	s.options.Changed()
	s.log.Info("MCP tools changed", "tools", len(offer))
	return nil
}

// probe asks the server for a sign of life. Even an error is one.
func (s *server) probe(ctx context.Context, l *link) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.ConnectTimeout)
	defer cancel()
	_, err := ask(ctx, func() (struct{}, error) { return struct{}{}, l.session.Ping(ctx, nil) })
	if err == nil || isAnswer(err) {
		return nil
	}
	select {
	case <-l.gone:
		return l.why()
	case <-time.After(moment):
	}
	return fmt.Errorf("it does not answer: %w", err)
}

// ask waits for the result of a request, but no longer than ctx. The request itself may wait
// longer: it hangs in a write to a child that does not read, until the connection is closed.
func ask[T any](ctx context.Context, request func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	results := make(chan result, 1)
	go func() {
		value, err := request()
		results <- result{value, err}
	}()
	select {
	case r := <-results:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
