// Package live is the client of OpenAI's GPT-Live API: a voice model that listens and speaks at once, decides itself
// when, and delegates what it cannot do. A [Conn] carries one session over WebRTC and behaves as a connection to the
// Realtime API does, of which clients need not know that it is none:
//
//	client.go  a session is created, and ended, even one of an earlier process
//	conn.go    the connection: what comes, what is sent, what is due
//	session.go what is known of a session, and its rules, by
//	captions.go  fragments of transcripts → items and answers
//	work.go    delegations and typed texts → a function; its results → lines
//	lines.go   what the model is to say, one line after the other
//	core.go    what these share
//	sound.go   the caller's sound without holes, the model's without what nobody should hear
//	config.go  a session of the Realtime API → one of this
//	wire.go    events and limits
//
// One mutex guards what a connection knows; captions, work and lines are parts of that. Sources: OpenAI's guides and
// API reference about Live, and what developers have measured.
package live

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/ws"
)

// endingGrace is how long a process that wants to end waits for the end of a session.
const endingGrace = 5 * time.Second

// requestTimeout limits the creation of a session.
const requestTimeout = 20 * time.Second

// Client makes sessions. Its fields must not change while it is in use. Its methods are safe for concurrent use.
type Client struct {
	URL    string // the whole address of the sessions, such as https://api.openai.com/v1/live/sessions
	APIKey string
	// Rounds limits how often work is delegated after the user's last words; zero means no limit.
	Rounds int

	// Offer makes a peer and its offer.
	Offer func(ctx context.Context, h media.Handlers) (Peer, string, error)
	// HTTP is used for the requests; nil means http.DefaultTransport. Redirects are never followed.
	HTTP *http.Client
	Log  *slog.Logger // nil discards the log

	mu    sync.Mutex
	conns map[string]*Conn
}

func (c *Client) log() *slog.Logger { return cmp.Or(c.Log, slog.New(slog.DiscardHandler)) }

// Session describes a session to be created.
type Session struct {
	Model string // empty means Model
	// Config is the session as an object of the Realtime API.
	Config json.RawMessage
	// History is what was said before.
	History []Message
	// SafetyIdentifier is a stable hash of the user; empty for none.
	SafetyIdentifier string
	Handlers         media.Handlers
	// Created is called with the upstream's id of the session, once there is one; if it fails, so does the dial. It
	// is called again for a session in the place of one that was refused because of its history.
	Created func(id string) error
	// Dropped gets a session that was created and cannot be used. It must be ended.
	Dropped func(*Conn)
}

// Dial creates a session and waits until it has started. Errors: *realtime.APIError when the upstream refused,
// ErrNotStarted, ErrEnded, the context's, Created's, or the network's. End must follow, and Close.
func (c *Client) Dial(ctx context.Context, s Session) (*Conn, error) {
	conn, err := c.dial(ctx, s)
	if e, ok := errors.AsType[*realtime.APIError](err); ok && len(s.History) > 0 && strings.Contains(e.Param, "input") {
		c.log().Warn("history refused by the upstream", "code", e.Code, "error", e.Message)
		s.History = nil
		conn, err = c.dial(ctx, s)
	}
	return conn, err
}

func (c *Client) dial(ctx context.Context, s Session) (*Conn, error) {
	conn := newConn(c.Rounds, c.log(), s.Handlers, newConfig(cmp.Or(s.Model, Model), s.Config, s.History))
	peer, offer, err := c.Offer(ctx, conn.handlers())
	if err != nil {
		return nil, err
	}
	conn.peer, conn.sound.peer = peer, peer
	conn.run()
	var answer string
	conn.session.id, answer, err = c.create(ctx, offer, s, conn)
	if conn.created = time.Now(); err != nil {
		if conn.session.id != "" {
			c.add(conn)
			s.Dropped(conn)
		} else {
			_ = conn.shut()
		}
		return nil, err
	}
	c.add(conn)
	s.Handlers.Reach(media.StepAnswer)
	if err = s.Created(conn.session.id); err == nil {
		err = peer.Accept(ctx, answer)
	}
	if err == nil {
		err = conn.await(ctx)
	}
	if err != nil {
		s.Dropped(conn)
		return nil, err
	}
	s.Handlers.Reach(media.StepChannel)
	return conn, nil
}

// await waits until the session has started.
func (c *Conn) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, ErrNotStarted)
	defer cancel()
	select {
	case <-c.begun:
	case <-ctx.Done():
		return fmt.Errorf("start session: %w", context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session.failed
}

func (c *Client) add(conn *Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil {
		c.conns = make(map[string]*Conn)
	}
	c.conns[conn.session.id] = conn
}

// create asks for a session, once: each request that arrives begins one. An id beside an error is that of a session
// that cannot be used.
func (c *Client) create(ctx context.Context, offer string, s Session, conn *Conn) (id, answer string, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	body := realtime.Encode(tree{
		"session":   conn.session.config.creation(),
		"transport": tree{"type": "webrtc", "sdp": offer},
	})
	res, err := c.post(ctx, c.URL, body, s.SafetyIdentifier)
	if err != nil {
		return "", "", fmt.Errorf("create session: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return "", "", fmt.Errorf("create session: %w", realtime.ReadAPIError(res, c.APIKey))
	}
	var made struct {
		Session   struct{ ID string }
		Transport struct{ SDP string }
	}
	data, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err == nil {
		err = readLoosely(data, &made)
	}
	if err == nil && (made.Session.ID == "" || !strings.HasPrefix(made.Transport.SDP, "v=0")) {
		err = realtime.ErrBadAnswer
	}
	if err != nil {
		return made.Session.ID, "", fmt.Errorf("read answer: %w", errors.Join(realtime.ErrBadAnswer, err))
	}
	return made.Session.ID, made.Transport.SDP, nil
}

func (c *Client) post(ctx context.Context, address string, body []byte, user string) (*http.Response, error) {
	api := realtime.Client{APIKey: c.APIKey, HTTP: c.HTTP, SafetyIdentifier: user}
	return api.Post(ctx, address, "application/json", body)
}

// Finish ends the session of a connection and then closes that, within closeTimeout or until ending is closed, and
// returns how long the session is billed.
func (c *Client) Finish(conn *Conn, ending <-chan struct{}) Usage {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	go func() {
		select {
		case <-ending:
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(endingGrace):
			cancel()
		case <-ctx.Done():
		}
	}()
	u, err := c.endOf(ctx, conn)
	if err != nil {
		c.log().Warn("end of a session not confirmed", "upstream_call_id", conn.session.id, "error", err)
	}
	c.mu.Lock()
	delete(c.conns, conn.session.id)
	c.mu.Unlock()
	if err := conn.shut(); err != nil {
		c.log().Warn("connection not closed in time", "upstream_call_id", conn.session.id, "error", err)
	}
	return u
}

// endOf ends a session: by its own channel or, if that is of no use, by another.
func (c *Client) endOf(ctx context.Context, conn *Conn) (Usage, error) {
	conn.mu.Lock()
	usable := conn.session.started
	conn.mu.Unlock()
	select {
	case <-conn.ended:
		usable = false
	default:
	}
	u, err := conn.finish(ctx, usable)
	if u.Reported || ctx.Err() != nil {
		return u, err
	}
	// The connection is lost, which need not end the session.
	last, err := c.endByID(ctx, conn.session.id)
	if last.Reported {
		return last, nil
	}
	return u, err
}

// HangUp ends a session by its id, even one of an earlier process, and returns how long it is billed if it has said
// so. A session that is already gone is not an error.
func (c *Client) HangUp(ctx context.Context, id string) (Usage, error) {
	c.mu.Lock()
	conn := c.conns[id]
	c.mu.Unlock()
	if conn != nil {
		return c.endOf(ctx, conn)
	}
	return c.endByID(ctx, id)
}

func (c *Client) endByID(ctx context.Context, id string) (Usage, error) {
	u, err := c.attach(ctx, id)
	if err != nil && ctx.Err() == nil {
		err = c.hangUp(ctx, id, err)
	}
	return u, err
}

// hangUp ends a session to which nothing can be attached, for the reason why. Source: POST /live/sessions/{id}/hangup.
func (c *Client) hangUp(ctx context.Context, id string, why error) error {
	res, err := c.post(ctx, strings.TrimSuffix(c.URL, "/")+"/"+url.PathEscape(id)+"/hangup", nil, "")
	if err != nil {
		return errors.Join(why, err)
	}
	defer res.Body.Close()
	if res.StatusCode/100 == 2 || res.StatusCode == http.StatusNotFound {
		return nil
	}
	return why
}

// attach ends a session by a channel beside its own. Source: "Server controls" in OpenAI's guides.
func (c *Client) attach(ctx context.Context, id string) (u Usage, err error) {
	address := "ws" + strings.TrimPrefix(strings.TrimSuffix(c.URL, "/"), "http") + "/" + url.PathEscape(id) + "/attach"
	header := http.Header{}
	if c.APIKey != "" {
		header.Set("Authorization", "Bearer "+c.APIKey)
	}
	socket, err := ws.Connect(ctx, address, c.APIKey, websocket.DialOptions{HTTPClient: c.HTTP, HTTPHeader: header})
	if e, ok := errors.AsType[*realtime.APIError](err); ok &&
		(e.Status == http.StatusNotFound || e.Status == http.StatusGone) {
		return u, nil
	}
	if err != nil {
		return u, fmt.Errorf("attach to session: %w", err)
	}
	defer func() { _ = socket.CloseNow() }() // it answers no close
	socket.SetReadLimit(1 << 20)
	closing := realtime.Encode(tree{"type": typeClose, "event_id": newID(ownPrefix)})
	if err := socket.Write(ctx, websocket.MessageText, closing); err != nil {
		return u, fmt.Errorf("end session: %w", err)
	}
	for {
		_, data, err := socket.Read(ctx)
		if err != nil {
			return u, fmt.Errorf("end session: %w", err)
		}
		var ev event
		if readLoosely(data, &ev) == nil && ev.Type == typeClosed {
			return Usage{Length: time.Duration(ev.Usage.Seconds * float64(time.Second)), Reported: true}, nil
		}
	}
}
