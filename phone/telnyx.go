package phone

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// telnyx is Telnyx by Call Control.
//
// Source: developers.telnyx.com/docs/voice/programmable-voice/media-streaming and …/receiving-webhooks.
type telnyx struct{}

var telnyxDialect = dialect{
	audio: `{"event":"media","media":{"payload":"VALUE"}}`,
	mark:  `{"event":"mark","mark":{"name":"VALUE"}}`,
	clear: `{"event":"clear"}`,
}

func (telnyx) Read(data []byte) (Message, error) { return read(data, common, false) }

func (telnyx) Write(stream string, m Message) string { return telnyxDialect.write(stream, m) }

// signedFor is how old what Telnyx has signed may be, and how far ahead its clock.
const signedFor = 5 * time.Minute

func (telnyx) Verify(l *Line, r *Request, now time.Time) error {
	timestamp := r.Header.Get("Telnyx-Timestamp")
	at, err := strconv.ParseInt(timestamp, 10, 64)
	if age := now.Sub(time.Unix(at, 0)); err != nil || age.Abs() > signedFor {
		return fmt.Errorf("%w: signed at %.20q", ErrRefused, timestamp)
	}
	key, err := base64.StdEncoding.DecodeString(l.PublicKey)
	signature, bad := base64.StdEncoding.DecodeString(r.Header.Get("Telnyx-Signature-Ed25519"))
	if err != nil || bad != nil || len(key) != ed25519.PublicKeySize ||
		!ed25519.Verify(key, []byte(timestamp+"|"+string(r.Body)), signature) {
		return ErrRefused
	}
	return nil
}

func (telnyx) Notice(r *Request) (n Notice, err error) {
	var event struct {
		Data struct {
			EventType string `json:"event_type"`
			Payload   struct {
				Call      string `json:"call_control_id"`
				From, To  string
				Direction string
			}
		}
	}
	if err := json.Unmarshal(r.Body, &event); err != nil {
		return n, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	p := event.Data.Payload
	return Notice{
		Call: p.Call, From: p.From, To: p.To, Ended: event.Data.EventType == "call.hangup",
		Ringing: event.Data.EventType == "call.initiated" && p.Direction == "incoming", Once: true,
	}.checked()
}

// act has Telnyx do something with a call, once.
func (telnyx) act(ctx context.Context, l *Line, call, action string, fields map[string]any) (Reply, error) {
	fields["command_id"] = action + " " + call
	body, err := json.Marshal(fields)
	if err != nil {
		return Reply{}, err
	}
	address := cmp.Or(l.APIURL, "https://api.telnyx.com") + "/v2/calls/" + url.PathEscape(call) + "/actions/" + action
	return Reply{"application/json", "{}"}, ask(ctx, http.MethodPost, address, "application/json", string(body),
		func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+l.Secret.Reveal()) })
}

func (t telnyx) Connect(ctx context.Context, l *Line, call, address string) (Reply, error) {
	return t.act(ctx, l, call, "answer", map[string]any{
		"stream_url": address, "stream_track": "inbound_track", "stream_bidirectional_mode": "rtp",
		"stream_bidirectional_codec": "PCMU", "stream_bidirectional_target_legs": "self",
		"send_silence_when_idle": true,
	})
}

func (t telnyx) Refuse(ctx context.Context, l *Line, call string) (Reply, error) {
	return t.act(ctx, l, call, "reject", map[string]any{"cause": "USER_BUSY"})
}

func (t telnyx) HangUp(ctx context.Context, l *Line, call string) error {
	_, err := t.act(ctx, l, call, "hangup", map[string]any{})
	return err
}
