package phone

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// plivo is Plivo, and Vobiz, which is as Plivo.
//
// Source: plivo.com/docs/voice/xml/the-stream-element, plivo-go (validate.go).
type plivo struct{}

var plivoKinds = map[string]Kind{"start": Start, "media": Audio, "dtmf": Key, "playedStream": Mark, "stop": Stop}

var plivoDialect = dialect{
	audio: `{"event":"playAudio","streamId":"STREAM",` +
		`"media":{"contentType":"audio/x-mulaw","sampleRate":8000,"payload":"VALUE"}}`,
	mark:  `{"event":"checkpoint","streamId":"STREAM","name":"VALUE"}`,
	clear: `{"event":"clearAudio","streamId":"STREAM"}`,
}

func (plivo) Read(data []byte) (Message, error) { return read(data, plivoKinds, true) }

func (plivo) Write(stream string, m Message) string { return plivoDialect.write(stream, m) }

// Verify checks a signature of version 3.
func (plivo) Verify(l *Line, r *Request, _ time.Time) error {
	query, fields := joined(r.URL.Query(), "=", "&"), joined(r.Form, "", "")
	bare := *r.URL
	bare.RawQuery = ""
	signed := bare.String()
	if query != "" || fields != "" {
		signed += "?" + query
	}
	if query != "" && fields != "" {
		signed += "."
	}
	mac := hmac.New(sha256.New, []byte(l.Secret.Reveal()))
	mac.Write([]byte(signed + fields + "." + r.Header.Get("X-Plivo-Signature-V3-Nonce")))
	want := base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for given := range strings.SplitSeq(r.Header.Get("X-Plivo-Signature-V3"), ",") {
		if hmac.Equal([]byte(strings.TrimSpace(given)), []byte(want)) {
			return nil
		}
	}
	return ErrRefused
}

// joined writes parameters in the order of their names and values.
func joined(values url.Values, is, and string) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		for _, value := range slices.Sorted(slices.Values(values[name])) {
			out = append(out, name+is+value)
		}
	}
	return strings.Join(out, and)
}

func (plivo) Notice(r *Request) (Notice, error) {
	n, err := r.notice("CallUUID")
	if n.ID == "" {
		return n, err
	}
	heard := r.Get("Machine") == "true"
	n.Asked, n.Tone, n.Person = r.Get("RequestUUID"), heard, !heard // it does not listen for the tone
	if r.Get("Event") == "MachineDetection" {
		n.Answered, n.Machine, n.Tone, n.Person = false, heard, false, false
	}
	return n, err
}

func (plivo) Connect(_ context.Context, _ *Line, _ Notice, address string) (Reply, error) {
	return xml(`<Stream bidirectional="true" keepCallAlive="true" contentType="audio/x-mulaw;rate=8000">` +
		address + `</Stream>`), nil
}

func (plivo) Refuse(context.Context, *Line, string) (Reply, error) {
	return xml(`<Hangup reason="busy"/>`), nil
}

func (plivo) Dial(ctx context.Context, l *Line, d Dial) (string, error) {
	status := d.Webhook + "/status?call=" + d.ID
	fields := map[string]string{
		"from": l.Number[1:], "to": d.To[1:], "answer_url": d.Webhook + "?call=" + d.ID, "ring_url": status,
		"hangup_url": status, "hangup_on_ring": d.rings(),
	}
	if d.Machine != IgnoreMachine {
		fields["machine_detection"] = "true"
	}
	if d.Machine == HangUpMachine {
		fields["machine_detection_url"] = status
	}
	body, err := json.Marshal(fields)
	if err != nil {
		return "", err
	}
	var made struct {
		ID string `json:"request_uuid"`
	}
	err = ask(ctx, http.MethodPost, l.plivo(""), "application/json", string(body), l.basic, &made)
	return made.ID, err
}

// Find finds nothing: Plivo lists calls without what they were asked with, those that go on without their numbers.
func (plivo) Find(context.Context, *Line, Dial) (string, bool, error) { return "", false, nil }

// plivo returns an address below the calls of the line's account.
func (l *Line) plivo(path string) string {
	return cmp.Or(l.APIURL, "https://api.plivo.com") + "/v1/Account/" + l.Account + "/Call/" + path
}

// Source: plivo.com/docs/voice/xml/dial, plivo.com/docs/voice/api/call (transfer a call).
func (plivo) Forward(l *Line, t Transfer) Reply {
	return forward(t, l.Number[1:], t.Number[1:], ` callbackUrl="HOOK?transfer=status"`, "")
}

func (plivo) Transfer(ctx context.Context, l *Line, t Transfer) error {
	body := `{"legs":"aleg","aleg_url":"` + t.Webhook + `?transfer=ask","aleg_method":"POST"}`
	return ask(ctx, http.MethodPost, l.plivo(t.Call+"/"), "application/json", body, l.basic, nil)
}

func (plivo) HangUp(ctx context.Context, l *Line, call string) error {
	if l.Account == "" {
		return nil // closing the stream hangs up
	}
	return act(ctx, http.MethodDelete, l.plivo(call+"/"), "application/json", "", l.basic)
}
