package phone

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// twilio is Twilio, and all that speak its Media Streams: SignalWire, Fonoster, sipgate's SIP bridge.
//
// Source: twilio.com/docs/voice/media-streams/websocket-messages, twilio.com/docs/usage/security.
type twilio struct{}

var twilioDialect = dialect{
	audio: `{"event":"media","streamSid":"STREAM","media":{"payload":"VALUE"}}`,
	mark:  `{"event":"mark","streamSid":"STREAM","mark":{"name":"VALUE"}}`,
	clear: `{"event":"clear","streamSid":"STREAM"}`,
}

func (twilio) Read(data []byte) (Message, error) { return read(data, common, true) }

func (twilio) Write(stream string, m Message) string { return twilioDialect.write(stream, m) }

func (twilio) Verify(l *Line, r *Request, _ time.Time) error {
	var fields strings.Builder
	for _, name := range slices.Sorted(maps.Keys(r.Form)) {
		for _, value := range slices.Compact(slices.Sorted(slices.Values(r.Form[name]))) {
			fields.WriteString(name + value)
		}
	}
	signature := []byte(r.Header.Get("X-Twilio-Signature"))
	for _, address := range addresses(r.URL) {
		mac := hmac.New(sha1.New, []byte(l.Secret.Reveal()))
		mac.Write([]byte(address + fields.String()))
		if hmac.Equal([]byte(base64.StdEncoding.EncodeToString(mac.Sum(nil))), signature) {
			return nil
		}
	}
	return ErrRefused
}

// addresses returns an address as it is and with the port, or without it, that its scheme has: who signs it may write
// either.
func addresses(u *url.URL) []string {
	other := *u
	if port := map[string]string{"https": "443", "http": "80"}[u.Scheme]; u.Port() == "" {
		other.Host += ":" + port
	} else if u.Port() == port {
		other.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
	return []string{u.String(), other.String()}
}

func (twilio) Notice(r *Request) (Notice, error) {
	n, err := r.notice("CallSid")
	by := r.Get("AnsweredBy")
	n.Tone = strings.HasPrefix(by, "machine_end")
	n.Machine, n.Person = by == "machine_start" || by == "fax", by == "human" || by == "unknown"
	return n, err
}

func (twilio) Connect(_ context.Context, _ *Line, _ Notice, address string) (Reply, error) {
	return xml(`<Connect><Stream url="` + address + `"/></Connect>`), nil
}

func (twilio) Refuse(context.Context, *Line, string) (Reply, error) {
	return xml(`<Reject reason="busy"/>`), nil
}

func (twilio) Dial(ctx context.Context, l *Line, d Dial) (string, error) {
	status := d.Webhook + "/status?call=" + d.ID
	form := url.Values{
		"To": {d.To}, "From": {l.Number}, "Url": {d.Webhook + "?call=" + d.ID}, "Timeout": {d.rings()},
		"StatusCallback": {status}, "StatusCallbackEvent": {"initiated", "ringing", "answered", "completed"},
	}
	switch d.Machine {
	case HangUpMachine: // a person is not to wait until the carrier has decided
		form["MachineDetection"], form["AsyncAmd"] = []string{"Enable"}, []string{"true"}
		form["AsyncAmdStatusCallback"] = []string{status}
	case SpeakToMachine:
		form["MachineDetection"] = []string{"DetectMessageEnd"}
	}
	var made struct{ Sid string }
	err := ask(ctx, http.MethodPost, l.twilio(".json"), formType, form.Encode(), l.basic, &made)
	return made.Sid, err
}

// Find finds the call by its numbers, since Twilio does not tell its addresses: a line calls a number once at a time.
func (twilio) Find(ctx context.Context, l *Line, d Dial) (string, bool, error) {
	var list struct {
		Calls []struct {
			Sid, Direction string
			Created        string `json:"date_created"`
		}
	}
	query := url.Values{"To": {d.To}, "From": {l.Number}, "PageSize": {"20"}}
	if err := ask(ctx, http.MethodGet, l.twilio(".json?"+query.Encode()), formType, "", l.basic, &list); err != nil {
		return "", false, err
	}
	for _, c := range list.Calls {
		created, err := time.Parse(time.RFC1123Z, c.Created)
		if err == nil && !created.Before(d.AskedAt.Add(-clockSkew)) && strings.HasPrefix(c.Direction, "outbound") &&
			id.MatchString(c.Sid) {
			return c.Sid, true, nil
		}
	}
	return "", true, nil
}

// twilio returns an address below the calls of the line's account.
func (l *Line) twilio(path string) string {
	return cmp.Or(l.APIURL, "https://api.twilio.com") + "/2010-04-01/Accounts/" + l.Account + "/Calls" + path
}

// basic signs a request.
func (l *Line) basic(r *http.Request) { r.SetBasicAuth(l.Account, l.Secret.Reveal()) }

// Source: twilio.com/docs/voice/twiml/dial, …/number, twilio.com/docs/voice/api/call-resource.
func (twilio) Forward(l *Line, t Transfer) Reply {
	return forward(t, l.Number, t.Number, "", ` statusCallback="HOOK?transfer=status" statusCallbackEvent="answered"`)
}

func (w twilio) Transfer(ctx context.Context, l *Line, t Transfer) error {
	form := url.Values{"Twiml": {w.Forward(l, t).Body}}
	return ask(ctx, http.MethodPost, l.twilio("/"+t.Call+".json"), formType, form.Encode(), l.basic, nil)
}

const formType = "application/x-www-form-urlencoded"

func (twilio) HangUp(ctx context.Context, l *Line, call string) error {
	if l.Account == "" {
		return nil // closing the stream hangs up
	}
	return act(ctx, http.MethodPost, l.twilio("/"+call+".json"), formType, "Status=completed", l.basic)
}
