package ws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"time"

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

// Dial connects and waits for the session, with another model than the client's unless that is empty. Start must follow, or
// Close. Errors: *realtime.APIError when the upstream
// refused, ErrNoSession, the context's, or the network's.
func (c *Client) Dial(ctx context.Context, model, safetyIdentifier string) (*Conn, error) {
	p, model := c.Profile.withDefaults(), cmp.Or(model, c.Model)
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
	s, err := connect(ctx, address, header, p.Protocols, c.APIKey, c.HTTP)
	if err != nil {
		return nil, err
	}
	secrets := []string{c.APIKey}
	for name, values := range c.Header {
		if name != "User-Agent" {
			secrets = append(secrets, values...)
		}
	}
	conn := newConn(discreet{s, secrets}, p, model, &c.shared, cmp.Or(c.Log, slog.New(slog.DiscardHandler)))
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
	empty := realtime.Event{Type: realtime.TypeSessionUpdate, Raw: realtime.SessionUpdate(ownEvent+"session", []byte(`{"type":"realtime"}`))}
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
			return fmt.Errorf("await session: %w", &realtime.APIError{Status: http.StatusBadRequest, Type: ev.Error.Type, Code: ev.Error.Code, Message: ev.Error.Message})
		}
		if t := read(ev.Raw); ev.Type == realtime.TypeSessionUpdated && t != nil {
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
