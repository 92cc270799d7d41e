package web

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/coder/websocket"

	"voicebridge/bridge"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/phone"
	"voicebridge/realtime/wsserver"
	"voicebridge/thread"
	"voicebridge/web/access"
)

// phones serves the webhooks of telephone numbers, and the streams of their calls.
type phones struct{ *api }

// hangUpTimeout limits the requests to a carrier after a call.
const hangUpTimeout = 15 * time.Second

// talk runs a call from the start of its stream.
func (h phones) talk(
	ctx context.Context, line *phone.Line, call ringing, id string, start phone.Message, conn *websocket.Conn,
) {
	carrier := phone.Carriers[line.Carrier]
	defer h.lines.leave(id)
	client, started, err := h.begin(ctx, line, call, id, start)
	if err != nil {
		h.Metrics.refused(err)
		h.Logger.Error("telephone call not begun", "line", line.Name, "error", err)
		_ = conn.Close(websocket.StatusInternalError, "")
		h.dialled(ctx, line, call.Out, false)
		h.hangUp(ctx, carrier, line, call.Call)
		return
	}
	h.dialled(ctx, line, call.Out, true)
	h.Metrics.callsStarted.Inc()
	log := h.Logger.With("call_id", started.CallID, "thread_id", started.ThreadID, "line", line.Name)
	gone := func() {
		err := h.Calls.End(ctx, line.Owner, started.CallID, bridge.EndCallerHangup)
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			log.Warn("telephone call not ended", "error", err)
		}
	}
	stream := phone.NewStream(phone.Config{
		Carrier: carrier, Start: start, Gone: gone, Grace: h.Phone.Grace,
		Mask: started.MaskKeys, Log: log,
		Keys: func(keys string) {
			m := thread.Message{Parts: []thread.Part{thread.TextPart("DTMF: " + keys)}}
			m.Metadata.Source = thread.SourceKeys
			if _, err := h.Calls.Say(ctx, thread.Key{Owner: line.Owner, Thread: started.ThreadID}, m, ""); err != nil {
				log.Warn("keys not told", "error", err)
			}
		},
	})
	h.lines.join(id, &phoneCall{line: line.Name, caller: call.Caller, stream: stream, gone: gone})
	client.Stops(stream.Stop)
	stream.Run(conn, func() { client.ServeSocket(stream) })
	if !stream.Over() {
		h.hangUp(ctx, carrier, line, call.Call)
	}
}

func (h phones) hangUp(ctx context.Context, carrier phone.Carrier, line *phone.Line, call string) {
	ctx, cancel := context.WithTimeout(ctx, hangUpTimeout)
	defer cancel()
	if err := carrier.HangUp(ctx, line, call); err != nil {
		h.Logger.Warn("telephone call not hung up", "line", line.Name, "error", err)
	}
}

// begin begins a call on the thread of the caller, or on a new one.
func (h phones) begin(
	ctx context.Context, line *phone.Line, call ringing, id string, start phone.Message,
) (client *wsserver.Conn, started bridge.Started, err error) {
	came := &bridge.Phone{
		Line: line.Name, Caller: call.Caller, Called: call.Called, CallID: call.Out, AskAfter: h.Phone.AskAfter,
		HangUpAfter: h.Phone.HangUpAfter, Dials: h.Phone.Dials,
	}
	if line.Account != "" {
		came.Transfer = func(ctx context.Context, number string) error { return h.transfer(ctx, line, call, id, number) }
	}
	if call.Out != "" {
		came.Caller, came.Called = call.Called, call.Caller
		return h.beginOut(ctx, line, came, start)
	}
	s := bridge.Start{Owner: line.Owner, Phone: came}
	if s.Assistant, err = h.ofCall(ctx, access.Identity{Owner: line.Owner}, line.Assistant); err != nil {
		return nil, started, err
	}
	if days := h.Phone.ThreadDays; call.Caller != "" && days > 0 {
		s.ThreadID, err = h.Store.Records.LastThreadOf(ctx, line.Owner, line.Name, call.Caller, h.now().Add(-days))
		if err != nil && !errors.Is(err, persistence.ErrNotFound) {
			return nil, started, err
		}
	}
	if s.ThreadID != "" {
		_, err := h.Store.Records.LiveCall(ctx, thread.Key{Owner: line.Owner, Thread: s.ThreadID})
		if err == nil { // a second call of the caller
			s.ThreadID = ""
		}
	}
	for {
		client = wsserver.New()
		client.Use(start.Format)
		s.Socket = client
		started, err = calls(h).begin(ctx, s)
		active := err != nil && classify(err).Code == string(bridge.CodeCallActive)
		if !active || s.ThreadID == "" {
			return client, started, err
		}
		s.ThreadID = ""
	}
}

// transfer has a carrier connect the caller with another number.
func (h phones) transfer(ctx context.Context, line *phone.Line, call ringing, id, number string) error {
	open := h.lines.find(id)
	if open == nil || open.stream == nil {
		return errors.New("failed")
	}
	return open.stream.Transfer(ctx, number, func() error {
		return phone.Carriers[line.Carrier].Transfer(ctx, line,
			phone.Transfer{Call: call.Call, Number: number, Webhook: h.webhook(line)})
	})
}

// webhook returns the public address of a line's webhook, streamAddress that of the stream that a token opens.
func (h phones) webhook(line *phone.Line) string {
	return strings.TrimSuffix(h.Phone.PublicURL, "/") + "/phone/" + line.Carrier + "/" + line.Name
}

func (h phones) streamAddress(line *phone.Line, token string) string {
	return strings.Replace(h.webhook(line), "http", "ws", 1) + "/" + token
}

// endDial ends a call out in which nobody talks.
func (h phones) endDial(ctx context.Context, d records.Dial, reason string) {
	_, err := h.Store.Records.ChangeDial(ctx, d.Key, d.ID,
		func(d *records.Dial, _ time.Time) bool { return phone.End(d, reason) })
	if err != nil {
		h.Logger.Warn("end of call out not saved", "call_id", d.ID, "error", err)
	}
}

// dialled notes that the stream of a call out has begun, or cannot.
func (h phones) dialled(ctx context.Context, line *phone.Line, id string, begun bool) {
	if id == "" {
		return
	}
	d, err := h.Store.Records.Dial(ctx, line.Owner, id)
	switch {
	case err != nil:
	case !begun:
		h.endDial(ctx, d, records.DialFailed)
	default:
		_, err = h.Store.Records.ChangeDial(ctx, d.Key, d.ID, func(d *records.Dial, _ time.Time) bool {
			d.NextAt = nil
			return d.State == records.DialAnswered
		})
	}
	if err != nil {
		h.Logger.Warn("call out not saved", "call_id", id, "error", err)
	}
}

// beginOut begins a call out, whose stream is there.
func (h phones) beginOut(
	ctx context.Context, line *phone.Line, came *bridge.Phone, start phone.Message,
) (client *wsserver.Conn, started bridge.Started, err error) {
	d, err := h.Store.Records.Dial(ctx, line.Owner, came.CallID)
	if err != nil {
		return nil, started, err
	}
	client = wsserver.New()
	client.Use(start.Format)
	started, err = calls(h).begin(ctx, bridge.Start{
		Owner: line.Owner, ThreadID: d.Key.Thread, Assistant: d.Assistant, Variables: d.Variables, Socket: client,
		Phone: came,
	})
	return client, started, err
}
