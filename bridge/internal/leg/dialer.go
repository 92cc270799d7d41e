package leg

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge/internal/session"
	"voicebridge/bridge/internal/task"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// Timeouts of an upstream session.
const (
	// HangUpTimeout is how long the upstream may take to end a session.
	HangUpTimeout = 5 * time.Second
	// DialTimeout is how long a dial may take: less than browsers wait for an answer.
	DialTimeout   = 8 * time.Second
	senderTimeout = 500 * time.Millisecond // for the last events to an upstream
	// hangUpWait is how long the end of a call, and with it whoever wants the thread next, waits for the hang-up.
	hangUpWait = time.Second
)

// ErrDialTimeout is the cause that ends a dial after [DialTimeout].
var ErrDialTimeout = errors.New("the upstream did not answer in time")

// Dialer makes the upstream sessions of a call.
type Dialer struct {
	Upstream Upstream
	CallID   string
	Owner    string // of the call
	// Creation is the session object with which sessions are created.
	Creation []byte
	// Interruption is that of [Dial].
	Interruption assistant.Interruption
	ItemPrefix   string
	// ClientPlays is that of Dial.
	ClientPlays  func() bool
	ClientSounds media.Format                            // as in Dial
	Later        func(work func(ending <-chan struct{})) // see Dial
	// Ended records how long a session was that is billed by its length, see Dial.
	Ended func(rec records.Leg, route session.Route, length time.Duration, reported bool)
	// HungUp records a session that was hung up after its record was saved.
	HungUp func(callID string, generation int64)
	// Refusal returns what a client is told about a dial that failed; nil tells nothing.
	Refusal func(error) realtime.Error
	Post    Post
	// Reached gets the steps of the first session's connection.
	Reached func(media.Step)
	Log     *slog.Logger
}

// Session is one upstream session of a call, with its goroutines.
type Session struct {
	Gen    int
	Leg    UpstreamLeg
	Record records.Leg
	// Route is what the session has because of its upstream, see Dial.Use.
	Route session.Route

	upstream Upstream
	dialer   *Dialer
	out      *outbox
	flow     media.Flow // for the model's audio
	cancel   context.CancelFunc
	sent     <-chan struct{} // closed when the outbox has ended
	pumped   <-chan struct{} // closed when audio is no longer forwarded
}

// Whole provides the session that a dial creates: see Dial.
type Whole func(ctx context.Context) (session.Whole, error)

// Dial makes a session. It calls created with the session's record before media flows, and fails if created does. The
// history is read after that. refused is that of Dial.
func (d *Dialer) Dial(
	ctx context.Context, gen int, whole Whole, history History, refused string, created func(records.Leg) error,
) (*Session, error) {
	l := d.newSession(gen, nil)
	handlers := upstreamHandlers(gen, d.Post)
	if gen == 1 {
		handlers.Reached = d.Reached
	}
	leg, err := d.Upstream.Dial(ctx, Dial{
		Session: d.Creation, Owner: d.Owner, Handlers: handlers, History: history,
		ItemPrefix: session.Config{ItemPrefix: d.ItemPrefix}.SeedPrefix(gen), ClientPlays: d.ClientPlays,
		ClientSounds: d.ClientSounds, Interruption: d.Interruption,
		Later: d.Later, Refused: refused,
		Whole: func(ctx context.Context, route session.Route) (realtime.Settings, error) {
			w, err := whole(ctx)
			return w.Of(route), err
		},
		Ended: func(length time.Duration, reported bool) { d.Ended(l.Record, l.Route, length, reported) },
		Use: func(upstream Upstream, route session.Route) {
			l.upstream, l.Route = upstream, route
			l.Record.Upstream = upstream.Name()
		},
		Created: func(id string) error {
			l.Record.UpstreamID = id
			return created(l.Record)
		},
	})
	if err != nil {
		return nil, errors.Join(err, context.Cause(ctx))
	}
	l.Leg = leg
	return l, nil
}

// Dialing is a dial in the background.
type Dialing struct {
	gen    int
	cancel context.CancelFunc
	result chan Dialed
}

// Dialed is the result of a dial.
type Dialed struct {
	gen     int
	session *Session
	err     error
}

// Begin is Dial in the background, within DialTimeout. ended gets the record of a session that was created although the
// dial failed.
func (d *Dialer) Begin(
	ctx context.Context, gen int, whole Whole, history History, refused string,
	created func(context.Context, records.Leg) error, ended func(records.Leg),
) *Dialing {
	ctx, cancel := context.WithTimeoutCause(ctx, DialTimeout, ErrDialTimeout)
	dialing := &Dialing{gen, cancel, make(chan Dialed, 1)}
	go func() {
		defer cancel()
		var made records.Leg
		l, err := d.Dial(ctx, gen, whole, history, refused, func(rec records.Leg) error {
			made = rec
			return created(ctx, rec)
		})
		if err != nil && made.UpstreamID != "" { // so that it is hung up while the call goes on
			made.EndedAt, made.Reason = new(time.Now()), string(session.EndUpstreamSetup)
			ended(made)
		}
		dialing.result <- Dialed{gen, l, err}
	}()
	return dialing
}

// Cancel ends the dial, and returns the session if there is one after all. It joins the dial.
func (d *Dialing) Cancel() *Session {
	d.cancel()
	return (<-d.result).session
}

func (d *Dialer) newSession(gen int, leg UpstreamLeg) *Session {
	return &Session{Gen: gen, Leg: leg, upstream: d.Upstream, dialer: d,
		out: newOutbox("upstream", d.Log, func(int) {}), Record: records.Leg{
			CallID: d.CallID, Generation: int64(gen), Upstream: d.Upstream.Name(), StartedAt: time.Now(),
		}}
}

// start runs the goroutines. The model's audio goes to dst, as far as l.flow lets it through.
func (l *Session) start(ctx context.Context, dst media.Sink) {
	ctx, l.cancel = context.WithCancel(ctx)
	l.sent = task.Go(func() { l.out.run(ctx, l.Leg) })
	l.pumped = task.Go(func() { logPumpEnd(l.dialer.Log, "upstream", l.Leg.Forward(ctx, dst, &l.flow)) })
}

// end ends a started session and joins its goroutines. It hangs up first, whatever the state of the connection, because
// a session costs money. saved gets the final record.
func (l *Session) end(reason session.EndReason, saved func(records.Leg)) {
	l.flow.Shut()
	l.out.close()
	task.Await(l.sent, senderTimeout)
	l.Record.EndedAt, l.Record.Reason = new(time.Now()), string(reason)
	late := l.hangUp()
	saved(l.Record)
	closePeer(l.dialer.Log, "upstream", l.Leg)
	l.cancel()
	<-l.sent
	<-l.pumped
	late()
}

// Drop ends a session that was never started.
func (l *Session) Drop() {
	late := l.hangUp()
	closePeer(l.dialer.Log, "upstream", l.Leg)
	late()
}

// hangUp ends the session at the upstream. If that takes long it goes on in the background, and late, which must be
// called once the record has been handed on, has its success recorded.
func (l *Session) hangUp() (late func()) {
	hungUp := make(chan error, 1)
	done := task.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), HangUpTimeout)
		defer cancel()
		err := l.upstream.HangUp(ctx, l.Leg.ID())
		if err != nil {
			l.dialer.Log.Warn("upstream session not hung up", "upstream_call_id", l.Leg.ID(), "error", err)
		}
		hungUp <- err
	})
	task.Await(done, hangUpWait)
	select {
	case err := <-hungUp:
		if err == nil {
			l.Record.HungUpAt = new(time.Now())
		}
		return func() {}
	default:
		return func() {
			l.dialer.Later(func(<-chan struct{}) {
				if <-hungUp == nil {
					l.dialer.HungUp(l.dialer.CallID, int64(l.Gen))
				}
			})
		}
	}
}

// failed returns the input for a dial that failed. It is fatal if the upstream will refuse further sessions, too.
func (d *Dialer) failed(gen int, err error) session.UpstreamDialFailed {
	in := session.UpstreamDialFailed{Gen: gen, Err: err}
	if d.Refusal != nil {
		in.Refusal = d.Refusal(err)
	}
	if e, ok := errors.AsType[*realtime.APIError](err); ok {
		refusal := realtime.Error{Type: e.Type, Code: e.Code}
		in.Fatal = refusal.Fatal() ||
			e.Status >= 400 && e.Status < 500 && e.Status != 408 && e.Status != 409 && e.Status != 429
		in.RetryAfter = e.RetryAfter
	}
	return in
}
