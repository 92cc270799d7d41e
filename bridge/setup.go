package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/persistence"
	"voicebridge/realtime/rtc"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// setup makes the parts of a call side by side: the upstream is dialled while
// the browser's answer is made and the thread is read.
type setup struct {
	calls *Calls
	call  *call
	start Start
	wish  wish

	record   persistence.CallRecord
	saved    bool // the record is in the database
	browser  *rtc.Peer
	answer   string
	up       UpstreamLeg
	history  []persistence.Message
	last     string
	registry *toolkit.Registry
}

// run makes everything or, with an error, nothing.
func (s *setup) run(ctx context.Context) (*state, string, error) {
	cfg := &s.calls.cfg
	now := time.Now()
	s.record = persistence.CallRecord{
		ID: s.call.id, Owner: s.call.key.Owner, ThreadID: s.call.key.Thread, Upstream: cfg.Upstream.Name(),
		Model: cfg.Session.Model, Voice: cfg.Session.Voice, StartedAt: now,
	}
	ctx, cancel := context.WithTimeoutCause(ctx, dialTimeout, errDialTimeout)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range []func(context.Context) error{s.answerBrowser, s.dial, s.read} {
		g.Go(func() error { return part(ctx) })
	}
	if err := g.Wait(); err != nil {
		s.undo()
		return nil, "", err
	}
	return s.state(now), s.answer, nil
}

var errDialTimeout = errors.New("the upstream did not answer in time")

func (s *setup) answerBrowser(ctx context.Context) error {
	peer, answer, err := s.calls.cfg.Browser.Answer(ctx, s.start.Offer, s.call.browserHandlers())
	switch {
	case err == nil:
		s.browser, s.answer = peer, answer
		return nil
	case errors.Is(err, rtc.ErrBadSDP), errors.Is(err, rtc.ErrNoOpus):
		return offerError(err)
	case errors.Is(err, rtc.ErrClosed):
		return &Error{Code: CodeShuttingDown, Message: "The server is shutting down.", Err: err}
	default:
		return fmt.Errorf("answer browser: %w", err)
	}
}

func (s *setup) dial(ctx context.Context) error {
	cfg := &s.calls.cfg
	session, err := cfg.Session.creation()
	if err != nil {
		return fmt.Errorf("build session: %w", err)
	}
	leg, err := cfg.Upstream.Dial(ctx, Dial{
		Session: session, Handlers: s.call.upstreamHandlers(),
		Created: func(id string) error {
			s.record.UpstreamCallID = id
			err := cfg.Store.SaveCall(ctx, s.call.key, s.record)
			s.saved = err == nil
			return err
		},
	})
	if err != nil {
		err = errors.Join(err, context.Cause(ctx))
		s.call.log.Warn("upstream did not take the call", "error", err)
		return dialError(err)
	}
	s.up = leg
	return nil
}

// read reads what the call has to know of its thread.
func (s *setup) read(ctx context.Context) (err error) {
	cfg := &s.calls.cfg
	if cfg.ReplayMessages > 0 {
		history, err := cfg.Store.Replay(ctx, s.call.key, cfg.ReplayMessages)
		if err != nil {
			return err
		}
		s.history = persistence.WithoutEchoes(history)
	}
	last, err := cfg.Store.LastMessage(ctx, s.call.key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	s.last = last.ID
	tools, err := cfg.Tools(ctx, s.call.key.Owner, s.call.key.Thread)
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	s.registry = tools.Clone()
	if err := s.registry.Add(toolkit.Entry{Tool: cancelEntry{}, Executor: toolkit.ExecutorApp}); err != nil && !errors.Is(err, toolkit.ErrDuplicate) {
		return fmt.Errorf("add tool: %w", err)
	}
	return nil
}

// state puts the parts together.
func (s *setup) state(now time.Time) *state {
	c, cfg := s.call, &s.calls.cfg
	c.upstream, c.up, c.browser = cfg.Upstream, s.up, s.browser
	c.thread, c.onTurn = cfg.Store, cfg.OnTurn
	c.toModel = newOutbox("upstream", c.log, func(int) {})
	c.toBrowser = newOutbox("browser", c.log, cfg.OnDraftsDropped)
	if s.browser.MaxMessageSize() == 0 {
		c.toBrowser.close() // it has no data channel and hears only
	}
	c.journal = newJournal(storeLog{cfg.Store, c.key}, c.log, c.saved)
	c.router = toolkit.NewRouter(s.registry, toolkit.RouterConfig{Timeout: cfg.ToolTimeout, Logger: s.calls.log})
	c.client = clienttool.New(s.registry, clienttool.Config{Timeout: cfg.ToolTimeout, Places: cfg.ClientPlaces})
	prefix := itemPrefix()
	return newState(facts{
		callID: c.id, key: c.key, session: cfg.Session,
		history:  replayItems(s.history, s.up.MaxMessageSize(), seedIDs(prefix)),
		wish:     s.wish,
		replayed: len(s.history), lastMessage: s.last,
		upstreamLimit: s.up.MaxMessageSize(), browserLimit: s.browser.MaxMessageSize(),
		approve: approvals(cfg.ApproveTools), fillerAfter: cfg.FillerAfter,
		cost: cfg.Cost, maxDuration: cfg.MaxDuration, itemPrefix: prefix, newID: newID,
	}, s.record, s.registry, c.client, now)
}

func approvals(names []string) map[string]bool {
	ask := make(map[string]bool, len(names))
	for _, name := range names {
		ask[name] = true
	}
	return ask
}

// seedIDs makes the ids of the replayed items.
func seedIDs(prefix string) func() string {
	n := 0
	return func() string {
		n++
		return fmt.Sprintf("%s_h%d", prefix, n)
	}
}

// undo ends what was made of a call that will not be.
func (s *setup) undo() {
	close(s.call.quit)
	if s.up != nil {
		s.call.upstream, s.call.up = s.calls.cfg.Upstream, s.up
		s.call.hangUp()
		_ = s.up.Close()
	}
	if s.browser != nil {
		_ = s.browser.Close()
	}
	if !s.saved {
		return
	}
	s.record.EndedAt, s.record.EndReason = new(time.Now()), string(EndNeverConnected)
	s.calls.saveEnd(storeLog{s.calls.cfg.Store, s.call.key}, s.call.log, s.record)
}
