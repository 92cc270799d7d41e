package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/rtc"
)

const (
	maxBody = 1 << 20 // bytes of a request
	// maxInbox is how many events a call may leave unanswered.
	maxInbox = 1024
	// connectTimeout bounds how long a call may take to stand.
	connectTimeout = 30 * time.Second
	// closeTimeout bounds how long running requests may take at the end.
	closeTimeout = 10 * time.Second
)

// upstream is the least that a Realtime API can be: it takes calls over HTTP,
// answers their settings and items, and leaves the speaking to the measurement.
type upstream struct {
	api *rtc.API
	m   *measurement
	// trickle, when set, lets each call speak by itself from the moment that it
	// is connected, a packet each trickle.
	trickle time.Duration

	url   string // base URL, to which /realtime/calls is added
	srv   *http.Server
	ended context.Context // when it does, so do all calls
	end   context.CancelFunc
	all   sync.WaitGroup

	mu    sync.Mutex
	calls map[string]*upstreamCall
	made  int
}

// startUpstream serves on a port of loopback until close.
func startUpstream(ctx context.Context, api *rtc.API, m *measurement, trickle time.Duration, log *slog.Logger) (*upstream, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for the upstream: %w", err)
	}
	u := &upstream{api: api, m: m, trickle: trickle, url: "http://" + ln.Addr().String() + "/v1", calls: map[string]*upstreamCall{}}
	u.ended, u.end = context.WithCancel(context.WithoutCancel(ctx))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/realtime/calls", u.create)
	mux.HandleFunc("POST /v1/realtime/calls/{id}/hangup", u.hangUp)
	u.srv = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	u.all.Go(func() { _ = u.srv.Serve(ln) }) // it ends by close, with an error that says so
	return u, nil
}

// close ends all calls and joins everything.
func (u *upstream) close() error {
	u.end()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	err := u.srv.Shutdown(ctx)
	if err != nil {
		err = errors.Join(fmt.Errorf("stop the upstream: %w", err), u.srv.Close())
	}
	u.all.Wait()
	return err
}

// standing returns the calls whose data channel is open.
func (u *upstream) standing() []*upstreamCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	var out []*upstreamCall
	for _, c := range u.calls {
		select {
		case <-c.opened.done:
			out = append(out, c)
		default:
		}
	}
	return out
}

// create is POST /realtime/calls in its form with the parts sdp and session.
func (u *upstream) create(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseMultipartForm(maxBody); err != nil {
		writeError(w, http.StatusBadRequest, realtime.Error{Code: "invalid_request", Message: "The body must be a form with sdp and session: " + err.Error()})
		return
	}
	session, err := readObject([]byte(r.PostFormValue("session")))
	if err != nil || session["model"] == nil {
		writeError(w, http.StatusBadRequest, realtime.Error{Code: "missing_required_parameter", Param: "session.model", Message: "You must provide a model parameter."})
		return
	}
	call := u.newCall(session)
	peer, answer, err := u.api.Answer(r.Context(), r.PostFormValue("sdp"), call.handlers())
	if err != nil {
		writeError(w, http.StatusBadRequest, realtime.Error{Code: "invalid_offer", Param: "sdp", Message: err.Error()})
		return
	}
	u.start(call, peer)
	w.Header().Set("Content-Type", "application/sdp")
	w.Header().Set("Location", "/v1/realtime/calls/"+call.id)
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, answer) // a caller that has gone leaves a call that never connects
}

func (u *upstream) newCall(session object) *upstreamCall {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.made++
	c := &upstreamCall{
		id: fmt.Sprintf("rtc_%d", u.made), number: uint32(u.made), // far below 2^32
		inbox: make(chan []byte, maxInbox), orders: make(chan order), ear: ear{m: u.m, way: upward},
	}
	c.conversation = newConversation(c.id, session)
	c.opened.init()
	c.connected.init()
	c.ear.heard.init()
	return c
}

func (u *upstream) start(c *upstreamCall, peer *rtc.Peer) {
	c.peer = peer
	c.voice = newVoice(u.m, downward, c.number, peer)
	ctx, end := context.WithCancelCause(u.ended)
	c.end = end
	u.mu.Lock()
	u.calls[c.id] = c
	u.mu.Unlock()
	u.all.Go(func() {
		c.run(ctx, u.trickle)
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.calls, c.id)
	})
}

var errHungUp = errors.New("hung up")

func (u *upstream) hangUp(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	c := u.calls[r.PathValue("id")]
	u.mu.Unlock()
	if c == nil {
		writeError(w, http.StatusNotFound, realtime.Error{Code: "call_id_not_found", Message: "No call with this id is active."})
		return
	}
	c.end(errHungUp)
	w.WriteHeader(http.StatusOK)
}

func writeError(w http.ResponseWriter, status int, e realtime.Error) {
	if e.Type == "" {
		e.Type = "invalid_request_error"
	}
	body, err := e.MarshalJSON()
	if err != nil {
		http.Error(w, e.Message, status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, `{"error":%s}`, body)
}

// upstreamCall is one call at the upstream's end.
type upstreamCall struct {
	id        string
	number    uint32
	peer      *rtc.Peer
	voice     *voice
	ear       ear
	end       context.CancelCauseFunc
	opened    moment
	connected moment
	inbox     chan []byte
	orders    chan order

	conversation *conversation // of run
}

func (c *upstreamCall) handlers() rtc.Handlers {
	return rtc.Handlers{
		Open: func() {
			c.connected.mark()
			c.opened.mark()
		},
		Message: func(raw []byte) {
			select {
			case c.inbox <- raw:
			default: // run answers slower than the client asks: the client will miss an answer and say so
			}
		},
		State: func(s rtc.State) {
			if s == rtc.StateConnected {
				c.connected.mark()
			}
		},
	}
}

// run serves the call until ctx or the peer ends.
func (c *upstreamCall) run(ctx context.Context, trickle time.Duration) {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() { _ = c.peer.Close() }() // a remote that is gone cannot be told goodbye
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var flow rtc.Flow
	flow.Open()
	wg.Go(func() { _ = c.peer.Forward(ctx, &c.ear, &flow) }) // it ends with the call
	if trickle > 0 {
		wg.Go(func() { c.trickle(ctx, trickle) })
	}
	limit := time.NewTimer(connectTimeout)
	defer limit.Stop()
	select {
	case <-c.opened.done:
	case <-limit.C:
		return
	case <-ctx.Done():
		return
	case <-c.peer.Done():
		return
	}
	if c.peer.Send(ctx, c.conversation.created()) != nil {
		return
	}
	c.converse(ctx)
}

// converse answers events and follows orders until ctx or the peer ends.
func (c *upstreamCall) converse(ctx context.Context) {
	var held <-chan time.Time
	for {
		var events [][]byte
		select {
		case raw := <-c.inbox:
			events = c.conversation.receive(raw)
		case o := <-c.orders:
			events = o.give(c.conversation)
			close(o.given)
		case <-held:
			held = nil
			events = [][]byte{c.conversation.batches.done()}
		case <-ctx.Done():
			return
		case <-c.peer.Done():
			return
		}
		for _, event := range events {
			if c.peer.Send(ctx, event) != nil {
				return
			}
		}
		if b := c.conversation.batches; b != nil && b.held() && held == nil {
			held = time.After(holding)
		}
	}
}

// order is what is to be done in the goroutine of a conversation.
type order struct {
	give  func(*conversation) [][]byte // returns what is to be sent
	given chan struct{}                // closed when it has been called
}

// order has give called by the goroutine of the conversation, which sends what it
// returns, and waits for it, or until ctx ends.
func (c *upstreamCall) order(ctx context.Context, give func(*conversation) [][]byte) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	o := order{give, make(chan struct{})}
	select {
	case c.orders <- o:
		<-o.given
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// trickle speaks from the first moment that it can.
func (c *upstreamCall) trickle(ctx context.Context, every time.Duration) {
	select {
	case <-c.connected.done:
	case <-ctx.Done():
		return
	case <-c.peer.Done():
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		c.voice.send()
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
