package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/ws"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
)

// WebSocket is the driver for upstreams that speak the Realtime API over WebSocket.
type WebSocket struct {
	name   string
	client *ws.Client
}

// NewWebSocket returns a driver that connects to sessions with client.
func NewWebSocket(name string, client *ws.Client) *WebSocket { return &WebSocket{name, client} }

func (w *WebSocket) Name() string { return w.name }

// HangUp has nothing to do: a session ends with its socket, also when the process that had it is gone.
func (w *WebSocket) HangUp(context.Context, string) error { return nil }

func (w *WebSocket) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	var session struct{ Model string } // which a thread's assistant may have chosen
	if err := json.Unmarshal(d.Session, &session); err != nil {
		return nil, fmt.Errorf("read session: %w", err)
	}
	conn, err := w.client.Dial(ctx, session.Model, safetyIdentifier(d.Owner))
	if err != nil {
		return nil, err
	}
	d.Handlers.Reach(media.StepChannel)
	l := &socketLeg{
		Conn: conn, profile: conn.Profile(), replayer: replayer{prefix: d.ItemPrefix, limit: conn.MaxMessageSize},
	}
	if err = d.Created(conn.ID()); err == nil {
		l.history, err = d.History(ctx)
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	conn.ClientPlays(d.ClientPlays)
	conn.ClientSounds(d.ClientSounds)
	conn.Start(d.Handlers)
	return l, nil
}

type socketLeg struct {
	*ws.Conn
	replayer

	profile ws.Profile
}

func (l *socketLeg) Can() Capabilities {
	p := &l.profile
	return Capabilities{
		OutputBuffer: true, Truncation: true, TruncatesItself: true, // all by ws.Conn
		Deletion: !p.NoDeletion, Images: !p.NoImages, ResponseSettings: !p.NoResponseSettings,
		CallItems: p.History == ws.HistoryItems,
	}
}

func (l *socketLeg) Opening() [][]byte {
	if words := inWords(l.history); l.profile.History == ws.HistoryInstructions && words != "" {
		l.Instruct("\n\n" + before + words)
		return nil
	}
	return l.Append(l.history)
}

func (l *socketLeg) Append(messages []thread.Message) [][]byte {
	if l.profile.History == ws.HistoryItems {
		return l.replayer.Append(messages)
	}
	words := inWords(messages)
	if words == "" {
		return nil
	}
	item := realtime.Item{ID: l.newID(), Type: realtime.ItemMessage, Role: string(thread.RoleUser),
		Content: []realtime.Content{
			{Type: realtime.ContentInputText, Text: before + words},
		}}
	return [][]byte{realtime.ItemCreate(session.ReplayPrefix+item.ID, item, "")}
}

// before introduces what was said, where it is one text.
const before = "This was said before in this conversation. It needs no answer.\n\n"

// speakers are how those who say something are called in such a text.
var speakers = map[string]string{
	string(thread.RoleUser): "User", string(thread.RoleAssistant): "You", string(thread.RoleSystem): "System",
}

// inWords writes messages as one text, of which it drops the beginning if there is too much of it.
func inWords(messages []thread.Message) string {
	var lines []string
	length, id := 0, 0
	for _, item := range replayItems(messages, maxItemBytes, func() string { id++; return strconv.Itoa(id) }) {
		var line string
		switch item.Type {
		case realtime.ItemFunctionCall:
			line = "You called " + item.Name + " with " + item.Arguments
		case realtime.ItemFunctionCallOutput:
			line = "It returned " + item.Output
		default:
			line = speakers[item.Role] + ": " + cmp.Or(item.Text(), "(an image)")
		}
		lines = append(lines, line)
		length += jsonLen(line) + 2
	}
	for len(lines) > 0 && length > maxItemBytes {
		length -= jsonLen(lines[0]) + 2
		lines = lines[1:]
	}
	return strings.Join(lines, "\n")
}

// JoinSideband connects an application's server to a live call of this process, beside its browser and without sound.
// The socket is served, or abandoned, afterwards; it ends with the call. It returns the call's thread. server is
// Start.Server. Errors: as those of Reconnect, and an *Error with CodeTooManySidebands.
func (c *Calls) JoinSideband(
	ctx context.Context, owner, callID string, socket *wsserver.Conn, server bool,
) (threadID string, err error) {
	live := c.ofOwner(owner, callID)
	if live == nil || live.ends.Load() {
		return "", fmt.Errorf("join call: %w", persistence.ErrNotFound)
	}
	a := &aside{
		leg: leg.NewSideband(socket, live.log, c.cfg.OnDraftsDropped), conn: socket, server: server,
		err: make(chan error, 1),
	}
	select {
	case live.joinAside <- a:
		err = <-a.err
	case <-live.quit:
		err = fmt.Errorf("join call: %w", persistence.ErrNotFound)
	case <-ctx.Done():
		err = fmt.Errorf("join call: %w", context.Cause(ctx))
	}
	if err != nil {
		return "", errors.Join(err, socket.Close())
	}
	return live.key.Thread, nil
}
