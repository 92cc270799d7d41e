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
	"strings"
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

// signedFor is how old a request that Telnyx has signed may be, and how far ahead its clock.
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
				State     []byte `json:"client_state"`
				Cause     string `json:"hangup_cause"`
				Result    string
			}
		}
	}
	if err := json.Unmarshal(r.Body, &event); err != nil {
		return n, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	p := event.Data.Payload
	n = Notice{
		Call: p.Call, From: p.From, To: p.To, Ended: event.Data.EventType == "call.hangup",
		Ringing: event.Data.EventType == "call.initiated" && p.Direction == "incoming", Once: true,
	}
	if call, ok := strings.CutPrefix(string(p.State), transferState); ok { // it is the other one's
		n.Call, n.Ended = call, false
		switch event.Data.EventType {
		case "call.answered", "call.bridged":
			n.Move = Reached
		case "call.hangup":
			n.Move, n.Reason = Failed, cmp.Or(reasons[p.Cause], "failed")
		}
	} else if p.Direction != "incoming" && len(p.State) > 0 { // it is ours: a dialled call has a state
		n.ID, n.Reason = string(p.State), cmp.Or(reasons[p.Cause], "failed")
		switch event.Data.EventType {
		case "call.initiated":
			n.Rings = true
		case "call.answered":
			n.Answered = true
		case "call.machine.detection.ended":
			n.Machine = p.Result == "machine" || p.Result == "fax_detected"
			n.Person = !n.Machine
		case "call.machine.greeting.ended":
			n.Tone = true
		}
		n.Once = n.Answered || n.Person || n.Tone
	}
	return n.checked()
}

// act has Telnyx do something with a call, once.
func (telnyx) act(ctx context.Context, l *Line, call, action string, fields map[string]any) (Reply, error) {
	fields["command_id"] = action + " " + call
	body, err := json.Marshal(fields)
	if err != nil {
		return Reply{}, err
	}
	address := l.telnyx("/calls/" + url.PathEscape(call) + "/actions/" + action)
	return Reply{"application/json", "{}"}, act(ctx, http.MethodPost, address, "application/json", string(body), l.bearer)
}

// telnyx returns an address of the API.
func (l *Line) telnyx(path string) string {
	return cmp.Or(l.APIURL, "https://api.telnyx.com") + "/v2" + path
}

// bearer signs a request.
func (l *Line) bearer(r *http.Request) { r.Header.Set("Authorization", "Bearer "+l.Secret.Reveal()) }

func (telnyx) Dial(ctx context.Context, l *Line, d Dial) (string, error) {
	seconds, _ := strconv.Atoi(d.rings())
	fields := map[string]any{
		"connection_id": l.Account, "from": l.Number, "to": d.To, "webhook_url": d.Webhook, "timeout_secs": seconds,
		"client_state": []byte(d.ID), "command_id": "dial " + d.ID,
	}
	switch d.Machine {
	case HangUpMachine:
		fields["answering_machine_detection"] = "detect"
	case SpeakToMachine:
		fields["answering_machine_detection"] = "greeting_end"
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	var made struct {
		Data struct {
			Call string `json:"call_control_id"`
		}
	}
	err = ask(ctx, http.MethodPost, l.telnyx("/calls"), "application/json", string(body), l.bearer, &made)
	return made.Data.Call, err
}

// Find finds the call among those that go on; Telnyx does not list others.
func (telnyx) Find(ctx context.Context, l *Line, d Dial) (string, bool, error) {
	var list struct {
		Data []struct {
			Call  string `json:"call_control_id"`
			State []byte `json:"client_state"`
		}
	}
	address := l.telnyx("/connections/" + l.Account + "/active_calls?page[size]=250")
	err := ask(ctx, http.MethodGet, address, "application/json", "", l.bearer, &list)
	for _, c := range list.Data {
		if string(c.State) == d.ID && id.MatchString(c.Call) {
			return c.Call, true, nil
		}
	}
	return "", false, err
}

func (t telnyx) Connect(ctx context.Context, l *Line, n Notice, address string) (Reply, error) {
	action := "answer"
	if n.ID != "" {
		action = "streaming_start"
	}
	return t.act(ctx, l, n.Call, action, map[string]any{
		"stream_url": address, "stream_track": "inbound_track", "stream_bidirectional_mode": "rtp",
		"stream_bidirectional_codec": "PCMU", "stream_bidirectional_target_legs": "self",
		"send_silence_when_idle": true,
	})
}

// transferState begins the state of the call that a transfer makes, before the id of the one that is transferred.
const transferState = "transfer "

// Source: developers.telnyx.com/api-reference/call-commands/transfer-call.
func (telnyx) Transfer(ctx context.Context, l *Line, t Transfer) error {
	body := `{"to":"` + t.Number + `","from":"` + l.Number + `","timeout_secs":` + forwardTime + `,"webhook_url":"` +
		t.Webhook + `","target_leg_client_state":"` + base64.StdEncoding.EncodeToString([]byte(transferState+t.Call)) + `"}`
	address := l.telnyx("/calls/" + url.PathEscape(t.Call) + "/actions/transfer")
	return ask(ctx, http.MethodPost, address, "application/json", body, l.bearer, nil)
}

func (telnyx) Forward(*Line, Transfer) Reply { return Reply{} }

func (t telnyx) Refuse(ctx context.Context, l *Line, call string) (Reply, error) {
	return t.act(ctx, l, call, "reject", map[string]any{"cause": "USER_BUSY"})
}

func (t telnyx) HangUp(ctx context.Context, l *Line, call string) error {
	_, err := t.act(ctx, l, call, "hangup", map[string]any{})
	return err
}
