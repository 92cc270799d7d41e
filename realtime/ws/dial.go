package ws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// maxBefore is how many events may come before session.created.
const maxBefore = 16

// ErrNoSession means that the upstream began with something else than a session.
var ErrNoSession = errors.New("the upstream has not announced a session")

// Client dials an upstream.
type Client struct {
	Profile Profile
	// URL is its address; empty means the profile's.
	URL    string
	APIKey string
	Model  string
	// Header has further headers.
	Header http.Header
	// HTTP is used to connect; nil means http.DefaultTransport.
	HTTP *http.Client
	Log  *slog.Logger // nil discards the log

	shared shared // by its sessions
}

// discreet is the socket of an upstream that says no secret that it was sent.
type discreet struct {
	socket

	secrets []string
}

func (d discreet) Read(ctx context.Context) ([]byte, error) {
	data, err := d.socket.Read(ctx)
	return realtime.HideSecrets(data, d.secrets...), err
}

// Dial connects and waits for the session, with another model than the client's unless that is empty. Start must
// follow, or Close. Errors: *realtime.APIError when the upstream refused, ErrNoSession, the context's, or the
// network's.
func (c *Client) Dial(ctx context.Context, model, safetyIdentifier string) (*Conn, error) {
	model = cmp.Or(model, c.Model)
	p := c.Profile.of(model)
	address, err := p.address(c.URL, model, newID("session_"))
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	maps.Copy(header, c.Header)
	if c.APIKey != "" {
		header.Set(p.KeyHeader, p.KeyPrefix+c.APIKey)
	}
	if safetyIdentifier != "" && p.Name == "openai" {
		header.Set("OpenAI-Safety-Identifier", safetyIdentifier)
	}
	s, err := Connect(ctx, address, c.APIKey, websocket.DialOptions{
		HTTPClient: c.HTTP, HTTPHeader: header, Subprotocols: p.Protocols,
	})
	if err != nil {
		return nil, err
	}
	secrets := []string{c.APIKey}
	for name, values := range c.Header {
		if name != "User-Agent" {
			secrets = append(secrets, values...)
		}
	}
	conn := newConn(discreet{plain{s}, secrets}, p, model, &c.shared, cmp.Or(c.Log, slog.New(slog.DiscardHandler)))
	if err := conn.awaitSession(ctx); err != nil {
		_ = s.CloseNow()
		conn.play.close()
		return nil, err
	}
	return conn, nil
}

// announced is how long to wait until a session announces itself. One that does not may still accept settings.
const announced = 2 * time.Second

// awaitSession reads until the session is announced, or has accepted a session.update that changes nothing.
func (c *Conn) awaitSession(ctx context.Context) error {
	update := realtime.SessionUpdate(ownEvent+"session", []byte(`{"type":"realtime"}`))
	empty := realtime.Event{Type: realtime.TypeSessionUpdate, Raw: update}
	asks := time.AfterFunc(announced, func() {
		_ = c.socket.Write(ctx, c.profile.sent(empty, true, "", c.model)) // Read has the error
	})
	defer asks.Stop()
	for range maxBefore {
		data, err := c.socket.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			return fmt.Errorf("await session: %w", err)
		}
		ev, err := realtime.Decode(data)
		if err != nil {
			continue
		}
		if ev.Type == realtime.TypeError && ev.Error != nil {
			refused := &realtime.APIError{Status: http.StatusBadRequest, Type: ev.Error.Type}
			refused.Code, refused.Message = ev.Error.Code, ev.Error.Message
			return fmt.Errorf("await session: %w", refused)
		}
		if t := realtime.Tree(ev.Raw); ev.Type == realtime.TypeSessionUpdated && t != nil {
			t["type"] = realtime.TypeSessionCreated
			ev = again(t)[0]
		}
		c.take(ev)
		if ev.Type == realtime.TypeSessionCreated {
			c.id = cmp.Or(text(realtime.Member(ev.Session, "id")), newID("ws_"))
			return nil
		}
	}
	return fmt.Errorf("await session: %w", ErrNoSession)
}

// Start begins to hand on what has come and comes.
func (c *Conn) Start(h media.Handlers) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.h, c.started = h, true
	written := make(chan struct{})
	c.writer = written
	c.all.Go(c.handOn)
	c.all.Go(c.read)
	c.all.Go(c.keepAlive)
	c.all.Go(func() { defer close(written); c.write() })
}

// maxRead is the largest event that is read: 15 MiB of base64, as much as OpenAI takes itself, and what is around it.
const maxRead = 16 << 20

// plain is a socket of the library.
type plain struct{ *websocket.Conn }

func (s plain) Read(ctx context.Context) ([]byte, error) {
	_, data, err := s.Conn.Read(ctx)
	return data, err
}

func (s plain) Write(ctx context.Context, data []byte) error {
	return s.Conn.Write(ctx, websocket.MessageText, data)
}

func (s plain) Close() error { return s.Conn.Close(websocket.StatusNormalClosure, "") }

// Connect opens a socket. Errors: *realtime.APIError when the upstream refused.
func Connect(ctx context.Context, address, key string, options websocket.DialOptions) (*websocket.Conn, error) {
	options.HTTPClient = realtime.NoRedirects(options.HTTPClient)
	options.CompressionMode = websocket.CompressionDisabled
	conn, res, err := websocket.Dial(ctx, address, &options) //nolint:bodyclose // of a socket
	switch {
	case err == nil:
		conn.SetReadLimit(maxRead)
		return conn, nil
	case ctx.Err() != nil:
		return nil, fmt.Errorf("connect to upstream: %w", context.Cause(ctx))
	case res != nil && res.StatusCode != http.StatusSwitchingProtocols && res.StatusCode >= 300:
		return nil, fmt.Errorf("connect to upstream: %w", realtime.ReadAPIError(res, key))
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // the address may hold a key
	}
	return nil, fmt.Errorf("connect to upstream: %w", err)
}
