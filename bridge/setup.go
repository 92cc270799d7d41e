package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// Start is a client's request to start a call.
type Start struct {
	Owner string
	// User is the user's name, for the instructions; empty if unknown.
	User string
	// ThreadID is empty for a new thread.
	ThreadID string
	// Assistant is the one that the thread has from now on, and Variables are values of its variables; without an id
	// and nil they leave those that it has.
	Assistant assistant.Ref
	Variables map[string]string
	// Offer is the browser's SDP.
	Offer string
	// Socket is the client's connection instead, which is served, or abandoned, after Start.
	Socket *wsserver.Conn
	// Server means that the client of Socket is an application's server: it may ask for responses with instructions and
	// tools, create texts of the system and the assistant, and delete items.
	Server bool
	// Session is the client's session object, merged like a session.update; may be nil.
	Session json.RawMessage
	// Fixed means that the session comes from the application's server and not from its page: its instructions,
	// max_output_tokens and output_modalities are also used, and clients cannot change what it names, except for those
	// of "instructions", "tools" and "voice" that MayChange lists.
	Fixed     bool
	MayChange []string
	// Upstream is the name of one of Config.Upstreams; empty means that of the thread's assistant, or the first.
	Upstream string
	// Phone is set for a call by telephone; its client is its Socket.
	Phone *Phone
	// Record has the call recorded, if Config.Record is set.
	Record bool
	// Takeover ends a live call on the thread.
	Takeover bool
	// OwnerCalls limits the owner's live calls in all processes, and Calls all calls of this one; 0 means no limit. They
	// hold even if calls start at the same time.
	OwnerCalls, Calls int
}

// Phone says how a call by telephone came. Its thread has the values of the variables caller and called.
type Phone struct {
	// Line is the name of the line, Caller who has called, empty if that is withheld, and Called the number that was
	// dialled.
	Line, Caller, Called string
	// AskAfter is how long nobody speaks until the caller is asked whether they are there, and HangUpAfter until the call
	// ends; 0: never.
	AskAfter, HangUpAfter time.Duration
	// CallID is the call's id if it is one out; Called is then who is not the assistant.
	CallID string
	// Transfer has the caller connected with another number. It returns once that has answered, or why it has not: then
	// the call is as before. nil if the line has no way to. Dials reports whether a number may be called that an owner has
	// given.
	Transfer func(ctx context.Context, number string) error
	Dials    func(number string) bool
}

// setup makes the parts of a call in parallel: it dials the upstream while it answers the browser
// and lists the tools. If nothing is known against the upstream, the call begins before that has answered.
type setup struct {
	calls *Calls
	call  *call
	start Start
	patch session.Patch // start's session
	cfg   *Config       // that of the thread's assistant
	route Route

	own     Settings // with what the route has
	record  records.Call
	created bool          // the record may be in the database
	claimed bool          // it is
	listed  chan struct{} // closed when the registry is there
	dialer  *leg.Dialer
	browser leg.Peer
	answer  string
	up      *leg.Session
	// dialing is the dial that nobody waits for, nil if there is none. What it needs is there once prepared is closed,
	// unless that has failed, for the reason unprepared.
	dialing    *leg.Dialing
	prepared   chan struct{}
	unprepared error
	history    []thread.Message
	spent      float64 // by the owner today, in US dollars
	last       string  // the id of the thread's last message
	unheard    string  // an answer to an earlier call
	registry   *toolkit.Registry
}

// run makes everything and returns the call's state and the SDP answer; with an error, nothing is left of it.
func (s *setup) run(ctx context.Context) (*session.State, string, error) {
	cfg := s.cfg
	now := time.Now()
	s.listed = make(chan struct{})
	s.call.images.store, s.call.images.quota = cfg.Store, cfg.ImageQuota
	s.own = cfg.Settings
	s.own.Session = cfg.Session.With(s.route.settled(cfg.Session))
	upstreams := cfg.chain(s.route, &s.calls.health)
	s.dialer = &leg.Dialer{
		Upstream: upstreams, Creation: s.own.Session.Creation(), Interruption: cfg.Session.Interruption,
		Refusal: refusal, CallID: s.call.id, Owner: s.call.key.Owner, ItemPrefix: itemPrefix(),
		ClientPlays: s.call.clientPlays, Later: s.calls.later, HungUp: s.calls.hungUp,
		Ended: s.calls.sessionEnded(s.call, cfg), Post: s.call.post, Reached: s.call.trail.upstream, Log: s.call.log,
	}
	if socket := s.start.Socket; socket != nil {
		s.dialer.ClientSounds = socket.Format()
	}
	s.record = records.Call{
		ID: s.call.id, Owner: s.call.key.Owner, ThreadID: s.call.key.Thread, Upstream: s.route.Name(),
		Model: s.own.Session.Model, Voice: s.own.Session.Voice, StartedAt: now,
		AssistantID: s.call.assistant.ID, AssistantOwner: s.call.assistant.Owner,
	}
	if p := s.start.Phone; p != nil {
		s.record.Client, s.record.Direction = records.ClientPhone, records.Inbound
		s.record.Line, s.record.Caller = p.Line, p.Caller
		if p.CallID != "" {
			s.record.Direction, s.record.Caller = records.Outbound, p.Called
		}
	}
	if len(s.call.assistant.Extract) > 0 {
		s.record.Extraction = records.ExtractionWaiting
	}
	s.call.trail.reach(trailDial)
	parts := []func(context.Context) error{s.answerBrowser, s.read, s.dial}
	if cfg.Answer == session.AnswerAtOnce && upstreams.known() {
		parts[2] = s.prepare
		s.beginDial(ctx)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, leg.DialTimeout, leg.ErrDialTimeout)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx)
	for _, part := range parts {
		g.Go(func() error { return part(ctx) })
	}
	if err := g.Wait(); err != nil {
		s.undo()
		return nil, "", err
	}
	return s.state(now), s.answer, nil
}

func (s *setup) answerBrowser(ctx context.Context) error {
	post := s.call.postBrowser
	if s.start.Socket != nil {
		post = s.call.postSocket(s.start.Socket, s.start.Server)
	}
	handlers := leg.BrowserHandlers(1, post)
	handlers.Reached = s.call.trail.browser
	if s.start.Socket != nil {
		s.start.Socket.Handle(handlers, func() { s.call.stop(EndBrowserStalled) })
		s.browser = s.start.Socket
		return nil
	}
	var err error
	s.browser, s.answer, err = s.calls.answer(ctx, s.start.Offer, handlers)
	return err
}

// dial creates the first upstream session, and reads the history.
func (s *setup) dial(ctx context.Context) error {
	c := s.call
	l, err := s.dialer.Dial(ctx, 1, s.whole, s.claimHistory, "", func(rec records.Leg) error {
		s.answeredBy(rec.Upstream)
		s.record.UpstreamCallID = rec.UpstreamID
		return s.save(ctx, &rec)
	})
	if err != nil {
		c.log.Warn("call without an upstream session", "error", err)
		return dialError(err)
	}
	s.up = l
	return nil
}

// whole returns the first session, once the tools are there.
func (s *setup) whole(ctx context.Context) (session.Whole, error) {
	select {
	case <-s.listed:
		return session.NewWhole(s.cfg.Session, s.patch, s.registry), nil
	case <-ctx.Done():
		return session.Whole{}, fmt.Errorf("await tools: %w", context.Cause(ctx))
	}
}

// claimHistory saves the call, unless it is, and reads the history.
func (s *setup) claimHistory(ctx context.Context) ([]thread.Message, error) {
	if !s.claimed {
		if err := s.save(ctx, nil); err != nil {
			return nil, err
		}
	}
	return s.readHistory(ctx)
}

// sessionEnded returns what records how long a session of a call was that is billed by its length. It outlives the
// set-up.
func (c *Calls) sessionEnded(one *call, cfg *Config) func(records.Leg, session.Route, time.Duration, bool) {
	return func(rec records.Leg, route session.Route, length time.Duration, reported bool) {
		done := endedSession(cfg, rec, cmp.Or(route.Model, cfg.Session.Model), length, reported)
		c.cfg.Writer.PushLast(one.key, persistence.PutResponse{Response: done})
		one.observer.TurnOver(Turn{Charges: []records.Response{done}})
		one.post(session.SessionEnded{Gen: int(rec.Generation), CostUSD: done.CostUSD})
	}
}

// beginDial begins to create the first upstream session. The call takes it over, and outlives the request.
func (s *setup) beginDial(ctx context.Context) {
	s.prepared = make(chan struct{})
	await := func(ctx context.Context) error {
		select {
		case <-s.prepared:
			return s.unprepared
		case <-ctx.Done():
			return fmt.Errorf("await call: %w", context.Cause(ctx))
		}
	}
	history := func(ctx context.Context) ([]thread.Message, error) {
		if err := await(ctx); err != nil {
			return nil, err
		}
		return s.call.images.replayed(ctx, s.history), nil
	}
	writer, key := s.calls.cfg.Writer, s.call.key
	s.dialing = s.dialer.Begin(context.WithoutCancel(ctx), 1, s.whole, history, "",
		func(ctx context.Context, rec records.Leg) error {
			if err := await(ctx); err != nil {
				return err
			}
			return writer.Save(ctx, key, persistence.PutLeg{Leg: rec})
		}, func(rec records.Leg) { writer.PushLast(key, persistence.PutLeg{Leg: rec}) })
}

// prepare saves a call that does not wait for its upstream session, and reads the history.
func (s *setup) prepare(ctx context.Context) error {
	defer close(s.prepared)
	err := s.save(ctx, nil)
	if err == nil {
		err = s.readThread(ctx)
	}
	s.unprepared = err
	if err != nil {
		return dialError(err)
	}
	return nil
}

// answeredBy adopts what sessions of an upstream have, if that is not the one that was asked first.
func (s *setup) answeredBy(name string) {
	route, _ := s.cfg.route(name) // it is one of them
	s.own.Session = s.own.Session.With(route.settled(s.cfg.Session))
	s.record.Upstream, s.record.Model = name, s.own.Session.Model
	s.record.Voice = s.own.Session.Voice
}

// save saves the new call, if the owner may have one more, with the session if there is one.
func (s *setup) save(ctx context.Context, rec *records.Leg) error {
	key, unsaved := s.call.key, &s.calls.unsaved
	ended, _ := unsaved.of(key)
	s.created = true
	err := s.calls.cfg.Store.Batch(ctx, key, func(b *persistence.Batch) error {
		if !s.claimed {
			if err := b.Records.RoomForCall(s.start.OwnerCalls, unsaved.callsOf(key.Owner)...); err != nil {
				return err
			}
		}
		for _, call := range append(ended.calls[:len(ended.calls):len(ended.calls)], s.record) {
			if err := b.Records.SaveCall(call); err != nil {
				return err
			}
		}
		if rec == nil {
			return nil
		}
		return b.Records.SaveLeg(*rec)
	})
	s.claimed = s.claimed || err == nil
	if errors.Is(err, persistence.ErrQuota) || errors.Is(err, persistence.ErrConflict) { // the database has no record
		s.created = false
	}
	return err
}

// readHistory reads the end of the thread. It runs once the call's record is saved, which is not possible before the
// end of the previous call is; and that end is the last thing a call saves, even if it had to wait for the database.
// Read earlier, the thread might lack what the previous call said last, and the new call would be placed before that.
// If the previous call was one of this process, its end may still be waiting, but is known; what was typed since is
// behind it.
func (s *setup) readHistory(ctx context.Context) ([]thread.Message, error) {
	if err := s.readThread(ctx); err != nil {
		return nil, err
	}
	return s.call.images.replayed(ctx, s.history), nil
}

// readThread is readHistory without the images.
func (s *setup) readThread(ctx context.Context) error {
	defer s.call.trail.reach(trailHistory)
	if s.start.ThreadID == "" { // the thread is new
		return nil
	}
	cfg := s.cfg
	if end, ok := s.calls.unsaved.of(s.call.key); ok && end.known {
		saved, err := lastMessages(ctx, cfg.Store, s.call.key, max(cfg.ReplayMessages, 1))
		if err != nil {
			return err
		}
		since := end.since(saved)
		s.history, s.last = replayable(append(slices.Clone(end.history), since...)), end.last
		if len(since) > 0 {
			s.last = since[len(since)-1].ID
		}
		return nil
	}
	last, err := cfg.Store.LastMessage(ctx, s.call.key)
	if err != nil && !errors.Is(err, persistence.ErrNotFound) {
		return err
	}
	s.last = last.ID
	if cfg.ReplayMessages > 0 {
		history, err := lastMessages(ctx, cfg.Store, s.call.key, cfg.ReplayMessages)
		if err != nil {
			return err
		}
		s.history, s.unheard = replayable(history), unheard(history)
	}
	return nil
}

// readSpent reads what the owner has spent today, if there is a budget, and rejects the call if it is used up.
func (s *setup) readSpent(ctx context.Context) error {
	limit := s.calls.cfg.OwnerDayUSD
	if limit <= 0 {
		return nil
	}
	today, err := spentToday(ctx, s.calls.cfg.Store.Records, s.call.key.Owner)
	if err != nil {
		return err
	}
	if s.spent = today.USD; s.spent >= limit {
		return &Error{Code: CodeBudget, Message: fmt.Sprintf("Today's budget of %.2f US dollars is spent.", limit)}
	}
	return nil
}

// read reads what the owner has spent and which tools the call has.
func (s *setup) read(ctx context.Context) error {
	err := s.list(ctx)
	if err == nil {
		close(s.listed)
	}
	return err
}

func (s *setup) list(ctx context.Context) error {
	cfg := s.cfg
	if err := s.readSpent(ctx); err != nil {
		return err
	}
	tools, err := cfg.Tools(ctx, s.call.key.Owner, s.call.assistant)
	if err != nil {
		return fmt.Errorf("list tools: %w", err)
	}
	s.registry = tools.Clone()
	if s.call.assistant.EndCall {
		if err := s.registry.Replace([]string{session.EndCallName}, endCallTool()); err != nil {
			return fmt.Errorf("add tool: %w", err)
		}
	}
	if to := s.transfers(); len(to) > 0 {
		tool := transferTool{to: to, transfer: s.start.Phone.Transfer, post: s.call.post}
		if err := s.registry.Replace([]string{session.TransferName}, checked(tool)); err != nil {
			return fmt.Errorf("add tool: %w", err)
		}
	}
	allow := s.call.assistant.Tools.Allow
	if s.call.assistant.ID != "" &&
		(tools.Len() == 0 || allow != nil && !toolkit.Names(nil).With(allow).Has(session.CancelToolName)) {
		return nil // nothing runs that could be cancelled, or the assistant is not to have it
	}
	err = s.registry.Replace(nil, cancelTool())
	if err != nil && !errors.Is(err, toolkit.ErrDuplicate) {
		return fmt.Errorf("add tool: %w", err)
	}
	return nil
}

// state assembles the parts.
func (s *setup) state(now time.Time) *session.State {
	c, cfg := s.call, s.cfg
	var limit int
	var can Capabilities
	if s.up != nil {
		limit, can = s.up.Leg.MaxMessageSize(), s.up.Leg.Can()
		c.images.limit.Store(int64(limit))
	}
	c.dialer, c.first = s.dialer, s.up
	c.dialing = s.dialing
	c.newest = leg.NewBrowser(1, s.browser, c.log, cfg.OnDraftsDropped)
	c.thread, c.tools.approvals = cfg.Store, cfg.Store
	c.onTurn, c.onCount = cfg.OnTurn, cfg.OnCount
	c.writer = cfg.Writer
	c.tools.router = toolkit.NewRouter(s.registry,
		toolkit.RouterConfig{Timeout: cfg.ToolTimeout, Observe: cfg.OnTool, Logger: s.calls.log})
	if n := cfg.ReplayMessages; n > 0 && s.start.ThreadID != "" {
		c.follow = &follower{store: cfg.Store, key: c.key, messages: n, log: c.log}
	}
	s.beginRecording()
	c.tools.registry = s.registry
	c.tools.client = clienttool.New(s.registry, clienttool.Config{Timeout: cfg.ToolTimeout})
	greeting := s.call.assistant.Greeting
	if s.last != "" && s.start.Phone == nil { // somebody has spoken before; on the telephone it is a call all the same
		greeting = s.unheard
	}
	var ask, hangUp time.Duration
	if p := s.start.Phone; p != nil {
		ask, hangUp = p.AskAfter, p.HangUpAfter
	}
	announcement := ""
	if c.recording != nil {
		announcement = cmp.Or(s.call.assistant.RecordingNotice, cfg.Announcement)
	}
	return session.New(session.Config{
		Settings: s.own, Greeting: greeting, Announcement: announcement, OwnerSpentUSD: s.spent,
		CallID: c.id, Key: c.key, Patch: s.patch, Fixed: s.start.Fixed, MayChange: s.start.MayChange,
		History: s.history, LastMessage: s.last, KeepSound: c.recording != nil, UpstreamLimit: limit, UpstreamCan: can,
		BrowserLimit: s.browser.MaxMessageSize(), BrowserPlays: s.start.Socket != nil,
		TranscriptionCost: cfg.TranscriptionCost, Cost: cfg.Cost, Others: len(cfg.Upstreams) - 1,
		ItemPrefix: s.dialer.ItemPrefix, NewID: callIDs(), EndCall: s.call.assistant.EndCall,
		Transfers:   len(s.transfers()) > 0,
		NoticeFirst: announcement != "" && s.call.assistant.RecordingNotice != "", MaskKeys: s.call.assistant.MaskKeys,
		AskAfter: ask, HangUpAfter: hangUp,
	}, s.record, s.registry, now)
}

// beginRecording prepares the recording of the call. If that is not possible the call goes on without one, and does not
// claim to have one.
func (s *setup) beginRecording() {
	c := s.call
	wanted := s.start.Record || c.assistant.Records()
	if !wanted || s.calls.cfg.Record == nil {
		return
	}
	r, err := s.calls.cfg.Record(c.key.Owner, c.id, func() { c.post(session.RecordingFailed{}) })
	if err != nil {
		c.log.Error("call not recorded", "error", err)
		return
	}
	c.recording = r
}

// undo takes back what was made of a call whose set-up failed.
func (s *setup) undo() {
	close(s.call.quit)
	s.call.acks.close()
	if r := s.call.recording; r != nil {
		r.End()
	}
	if s.dialing != nil {
		s.up = s.dialing.Cancel()
	}
	if s.up != nil {
		s.up.Drop()
	}
	if s.browser != nil && s.start.Socket == nil { // which may be of use to another try
		_ = s.browser.Close()
	}
	if !s.created {
		return
	}
	// The record may exist although saving it failed: the reply can be lost.
	s.record.EndedAt, s.record.EndReason = new(time.Now()), string(EndNeverConnected)
	var ends []persistence.Change
	if s.up != nil {
		s.up.Record.EndedAt, s.up.Record.Reason = s.record.EndedAt, s.record.EndReason
		ends = append(ends, persistence.PutLeg{Leg: s.up.Record})
	}
	s.calls.saveEnd(s.call.key, s.record, ends...)
}

// transfers are those with whom the caller may be connected. Another owner's assistant does not say what is paid for.
func (s *setup) transfers() map[string]assistant.Transfer {
	p, a := s.start.Phone, s.call.assistant
	if p == nil || p.Transfer == nil || a.Lent() {
		return nil
	}
	to := maps.Clone(a.Transfers)
	maps.DeleteFunc(to, func(_ string, t assistant.Transfer) bool { return !a.Fixed() && !p.Dials(t.Number) })
	return to
}
