package bridge

import (
	"cmp"
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/realtime"
	"voicebridge/realtime/live"
	"voicebridge/realtime/media"
	"voicebridge/realtime/rtc"
	"voicebridge/thread"
)

// Live is the driver for OpenAI's GPT-Live API, over WebRTC.
type Live struct {
	name   string
	client *live.Client
}

// NewLive returns a driver that creates sessions through client, whose Offer it sets, and connects to them with peers
// of api.
func NewLive(name string, api *rtc.API, client *live.Client) *Live {
	return newLive(name, offeringBy(api), client)
}

func newLive(name string, offer offering, client *live.Client) *Live {
	client.Offer = func(ctx context.Context, h media.Handlers) (live.Peer, string, error) {
		return offer(ctx, hiding(h, client.APIKey))
	}
	return &Live{name, client}
}

func (l *Live) Name() string { return l.name }

func (l *Live) HangUp(ctx context.Context, id string) error {
	_, err := l.client.HangUp(ctx, id)
	return err
}

// HangUpTimed implements leg.Timed.
func (l *Live) HangUpTimed(ctx context.Context, id string) (time.Duration, error) {
	u, err := l.client.HangUp(ctx, id)
	if !u.Reported {
		u.Length = 0
	}
	return u.Length, err
}

func (l *Live) Dial(ctx context.Context, d Dial) (UpstreamLeg, error) {
	history, err := d.History(ctx) // it can be told at creation only
	if err != nil {
		return nil, err
	}
	settings, err := d.Whole(ctx, session.Route{})
	if err != nil {
		return nil, err
	}
	config, err := settings.MarshalJSON()
	if err != nil {
		return nil, err
	}
	var model struct{ Model string }
	if err := json.Unmarshal(d.Session, &model); err != nil {
		return nil, err
	}
	finish := func(conn *live.Conn) {
		d.Later(func(ending <-chan struct{}) {
			u := l.client.Finish(conn, ending)
			d.Ended(u.Length, u.Reported)
		})
	}
	conn, err := l.client.Dial(ctx, live.Session{
		Model: model.Model, Config: config, History: liveHistory(history), SafetyIdentifier: safetyIdentifier(d.Owner),
		Handlers: d.Handlers, Created: d.Created, Dropped: finish,
	})
	if err != nil {
		return nil, err
	}
	return &liveLeg{Conn: conn, finish: finish}, nil
}

type liveLeg struct {
	*live.Conn

	finish func(*live.Conn)
}

func (l *liveLeg) Can() Capabilities {
	return Capabilities{OutputBuffer: true, Truncation: true, TruncatesItself: true, ResponseSettings: true, Duplex: true}
}

// Close has the session end in the background: it confirms that only after a while, and needs its connection for that.
func (l *liveLeg) Close() error {
	l.finish(l.Conn)
	return nil
}

// Opening returns nothing: the session was created with its history.
func (l *liveLeg) Opening() [][]byte { return nil }

// Append tells the session what was said meanwhile. The results of tools are what somebody waits for.
func (l *liveLeg) Append(messages []thread.Message) [][]byte {
	for _, m := range liveHistory(messages) {
		l.Tell(speakers[cmp.Or(realtimeRoles[m.Role], m.Role)]+": "+m.Text, m.Role == "developer")
	}
	return nil
}

// realtimeRoles are the roles of the Realtime API that are called otherwise here.
var realtimeRoles = map[string]string{"developer": string(thread.RoleSystem)}

// liveHistory writes messages as a session takes them: a call of a tool with its result is one text.
func liveHistory(messages []thread.Message) (history []live.Message) {
	called, ids := map[string]string{}, 0
	for _, item := range replayItems(messages, maxItemBytes, func() string { ids++; return strconv.Itoa(ids) }) {
		switch item.Type {
		case realtime.ItemFunctionCall:
			called[item.CallID] = "The tool " + item.Name + " was called with " + item.Arguments
		case realtime.ItemFunctionCallOutput:
			text := called[item.CallID] + " and returned " + item.Output
			history = append(history, live.Message{Role: "developer", Text: text})
		default:
			role := item.Role
			if role == string(thread.RoleSystem) {
				role = "developer"
			}
			history = append(history, live.Message{Role: role, Text: cmp.Or(strings.TrimSpace(item.Text()), "(an image)")})
		}
	}
	return history
}
