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

func (twilio) Notice(r *Request) (Notice, error) { return r.notice("CallSid") }

func (twilio) Connect(_ context.Context, _ *Line, _, address string) (Reply, error) {
	return xml(`<Connect><Stream url="` + address + `"/></Connect>`), nil
}

func (twilio) Refuse(context.Context, *Line, string) (Reply, error) {
	return xml(`<Reject reason="busy"/>`), nil
}

func (twilio) HangUp(ctx context.Context, l *Line, call string) error {
	if l.Account == "" {
		return nil // what closes the stream hangs up
	}
	address := cmp.Or(l.APIURL, "https://api.twilio.com") + "/2010-04-01/Accounts/" + l.Account + "/Calls/" + call
	return ask(ctx, http.MethodPost, address+".json", "application/x-www-form-urlencoded", "Status=completed",
		func(r *http.Request) { r.SetBasicAuth(l.Account, l.Secret.Reveal()) })
}
