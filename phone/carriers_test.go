package phone

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
)

// secret is a line's.
type secret string

func (s secret) Reveal() string { return string(s) }

// request makes a request of a webhook.
func request(t *testing.T, method, address, body string, header ...string) *Request {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	r := &Request{Method: method, URL: u, Header: http.Header{}, Body: []byte(body)}
	if !strings.HasPrefix(body, "{") {
		r.Form, err = url.ParseQuery(body)
		must(t, err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}

// TestTwilioSignature has the example of twilio.com/docs/usage/security, and what is near to it.
func TestTwilioSignature(t *testing.T) {
	t.Parallel()
	const (
		address = "https://mycompany.com/myapp.php?foo=1&bar=2"
		body    = "CallSid=CA1234567890ABCDE&Caller=%2B14158675310&Digits=1234&From=%2B14158675310&To=%2B18005551212"
		theirs  = "RSOYDt4T1cUTdK1PDd93/VVr8B8="
	)
	sign := func(text string) string {
		mac := hmac.New(sha1.New, []byte("12345"))
		mac.Write([]byte(text))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	l := &Line{Secret: secret("12345")}
	for name, c := range map[string]struct {
		method, address, body, signature string
		ok                               bool
	}{
		"Twilio's example":         {"POST", address, body, sign("https://mycompany.com/myapp.php?foo=1&bar=2CallSidCA1234567890ABCDECaller+14158675310Digits1234From+14158675310To+18005551212"), true},
		"Twilio's own signature":   {"POST", "https://mycompany.com/myapp.php?foo=1&bar=2", "CallSid=CA1234567890ABCDE&Caller=%2B14158675309&Digits=1234&From=%2B14158675309&To=%2B18005551212", theirs, true},
		"with the port":            {"POST", "https://a.example/x", "", sign("https://a.example:443/x"), true},
		"without the port":         {"POST", "https://a.example:443/x", "", sign("https://a.example/x"), true},
		"another port":             {"POST", "https://a.example:8443/x", "", sign("https://a.example/x"), false},
		"GET":                      {"GET", address, "", sign(address), true},
		"a parameter twice":        {"POST", "https://a.example/x", "b=2&a=1&a=1&a=0", sign("https://a.example/xa0a1b2"), true},
		"unsigned":                 {"POST", address, body, "", false},
		"another address":          {"POST", "https://other.example/myapp.php?foo=1&bar=2", body, theirs, false},
		"http":                     {"POST", "http://mycompany.com/myapp.php?foo=1&bar=2", body, theirs, false},
		"without the query":        {"POST", "https://mycompany.com/myapp.php", body, theirs, false},
		"another parameter":        {"POST", address, body + "&x=1", theirs, false},
		"another value":            {"POST", address, strings.Replace(body, "1234", "1235", 1), theirs, false},
		"a signature cut short":    {"POST", address, body, theirs[:20], false},
		"two signatures":           {"POST", address, body, theirs + "," + theirs, false},
		"parameters in the query":  {"GET", address + "&" + body, "", theirs, false},
		"names and values blurred": {"POST", "https://a.example/x", "ab=c", sign("https://a.example/xab" + "c"), true},
	} {
		r := request(t, c.method, c.address, c.body, "X-Twilio-Signature", c.signature)
		if err := (twilio{}).Verify(l, r, time.Now()); (err == nil) != c.ok || err != nil && !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTelnyxSignature(t *testing.T) {
	t.Parallel()
	public, private, err := ed25519.GenerateKey(nil)
	must(t, err)
	now := time.Unix(1_800_000_000, 0)
	const body = `{"data":{"event_type":"call.initiated"}}`
	sign := func(at int64, body string) []string {
		text := fmt.Sprint(at, "|", body)
		return []string{"Telnyx-Timestamp", fmt.Sprint(at), "Telnyx-Signature-Ed25519", base64.StdEncoding.EncodeToString(ed25519.Sign(private, []byte(text)))}
	}
	l := &Line{PublicKey: base64.StdEncoding.EncodeToString(public)}
	at := now.Unix()
	for name, c := range map[string]struct {
		line   *Line
		body   string
		header []string
		ok     bool
	}{
		"signed":             {l, body, sign(at, body), true},
		"four minutes ago":   {l, body, sign(at-240, body), true},
		"six minutes ago":    {l, body, sign(at-360, body), false},
		"in six minutes":     {l, body, sign(at+360, body), false},
		"unsigned":           {l, body, nil, false},
		"another body":       {l, body + " ", sign(at, body), false},
		"another time":       {l, body, append(sign(at, body), "Telnyx-Timestamp", fmt.Sprint(at+1)), false},
		"a time with a sign": {l, body, append(sign(at, body), "Telnyx-Timestamp", fmt.Sprint("+", at)), false},
		"no signature":       {l, body, sign(at, body)[:2], false},
		"a line without key": {&Line{}, body, sign(at, body), false},
		"a bad key":          {&Line{PublicKey: "AAAA"}, body, sign(at, body), false},
	} {
		if err := (telnyx{}).Verify(c.line, request(t, "POST", "https://a.example/x", c.body, c.header...), now); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPlivoSignature has signatures made by plivo-go's ComputeSignatureV3.
func TestPlivoSignature(t *testing.T) {
	t.Parallel()
	l := &Line{Secret: secret("token")}
	sign := func(text string) string {
		return base64.StdEncoding.EncodeToString(hmac256("token", text))
	}
	for name, c := range map[string]struct {
		method, address, body, signature string
		ok                               bool
	}{
		"POST":                  {"POST", "https://a.example/x", "To=2&From=1", sign("https://a.example/x?From1To2.n"), true},
		"with a query":          {"POST", "https://a.example/x?b=2&a=1", "To=2&From=1", sign("https://a.example/x?a=1&b=2.From1To2.n"), true},
		"with a query only":     {"POST", "https://a.example/x?b=2&a=1", "", sign("https://a.example/x?a=1&b=2.n"), true},
		"GET":                   {"GET", "https://a.example/x?To=2&From=1", "", sign("https://a.example/x?From=1&To=2.n"), true},
		"nothing":               {"GET", "https://a.example/x", "", sign("https://a.example/x.n"), true},
		"one of several":        {"POST", "https://a.example/x", "To=2", "abc, " + sign("https://a.example/x?To2.n"), true},
		"unsigned":              {"POST", "https://a.example/x", "To=2", "", false},
		"another nonce":         {"POST", "https://a.example/x", "To=2", sign("https://a.example/x?To2.m"), false},
		"another address":       {"POST", "https://b.example/x", "To=2", sign("https://a.example/x?To2.n"), false},
		"the query in the body": {"POST", "https://a.example/x", "To=2", sign("https://a.example/x?To=2.n"), false},
	} {
		r := request(t, c.method, c.address, c.body, "X-Plivo-Signature-V3", c.signature, "X-Plivo-Signature-V3-Nonce", "n")
		if err := (plivo{}).Verify(l, r, time.Now()); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"+493012345678": "+493012345678", "493012345678": "+493012345678", "": "", "anonymous": "", "Restricted": "",
		"+266696687": "", "266696687": "", "+0123456789": "", "+1": "", "+12345678901234567": "", "sip:a@b": "",
		"+4930<b>": "", "+49 30 123": "", "+4930123456\n": "", "٠١٢٣٤٥٦٧٨": "",
	} {
		testkit.Equal(t, Number(text), want, "%q", text)
	}
}

func TestNotice(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		carrier Carrier
		body    string
		want    string
	}{
		"Twilio rings":       {twilio{}, "CallSid=CA1&From=%2B1&To=%2B2&CallStatus=ringing&Direction=inbound", "{true false false CA1 +1 +2} <nil>"},
		"Twilio's end":       {twilio{}, "CallSid=CA1&CallStatus=completed", "{false true false CA1  } <nil>"},
		"Twilio's other way": {twilio{}, "CallSid=CA1&CallStatus=ringing&Direction=outbound-api", "{false false false CA1  } <nil>"},
		"Twilio without id":  {twilio{}, "From=%2B1&CallStatus=ringing", "refused"},
		"an id with markup":  {twilio{}, "CallSid=CA%22%3E&CallStatus=ringing", "refused"},
		"Telnyx rings":       {telnyx{}, `{"data":{"event_type":"call.initiated","payload":{"call_control_id":"v3:x","from":"+1","to":"+2","direction":"incoming"}}}`, "{true false true v3:x +1 +2} <nil>"},
		"Telnyx' other way":  {telnyx{}, `{"data":{"event_type":"call.initiated","payload":{"call_control_id":"v3:x","direction":"outgoing"}}}`, "{false false true v3:x  } <nil>"},
		"Telnyx' end":        {telnyx{}, `{"data":{"event_type":"call.hangup","payload":{"call_control_id":"v3:x"}}}`, "{false true true v3:x  } <nil>"},
		"Telnyx not JSON":    {telnyx{}, `{"data"`, "refused"},
		"Plivo rings":        {plivo{}, "CallUUID=u-1&From=1&To=2&CallStatus=ringing&Direction=inbound&Event=StartApp", "{true false false u-1 1 2} <nil>"},
		"Plivo's end":        {plivo{}, "CallUUID=u-1&CallStatus=completed&Event=Hangup", "{false true false u-1  } <nil>"},
	} {
		n, err := c.carrier.Notice(request(t, "POST", "https://a.example/x", c.body))
		got := fmt.Sprintf("{%t %t %t %s %s %s} %v", n.Ringing, n.Ended, n.Once, n.Call, n.From, n.To, err)
		if errors.Is(err, ErrRefused) {
			got = "refused"
		}
		testkit.Equal(t, got, c.want, "%s", name)
		if n.ID != "" {
			t.Errorf("%s: of our call %q", name, n.ID)
		}
	}
}

// TestNoticeOut has what is told of calls out: which of ours, what has happened, and why it has ended.
func TestNoticeOut(t *testing.T) {
	t.Parallel()
	telnyxEvent := func(event, more string) string {
		return `{"data":{"event_type":"` + event + `","payload":{"call_control_id":"v3:x","direction":"outgoing","client_state":"b3Vycw=="` + more + `}}}`
	}
	for name, c := range map[string]struct {
		carrier Carrier
		body    string
		want    string
	}{
		"Twilio takes it":     {twilio{}, "CallSid=CA1&CallStatus=initiated&Direction=outbound-api", "CA1"},
		"Twilio rings":        {twilio{}, "CallSid=CA1&CallStatus=ringing&Direction=outbound-api", "CA1 rings"},
		"Twilio answered":     {twilio{}, "CallSid=CA1&CallStatus=in-progress&Direction=outbound-api", "CA1 answered"},
		"Twilio's person":     {twilio{}, "CallSid=CA1&CallStatus=in-progress&AnsweredBy=human", "CA1 answered person"},
		"Twilio's machine":    {twilio{}, "CallSid=CA1&AnsweredBy=machine_start", "CA1 machine"},
		"Twilio's fax":        {twilio{}, "CallSid=CA1&CallStatus=in-progress&AnsweredBy=fax", "CA1 answered machine"},
		"Twilio's tone":       {twilio{}, "CallSid=CA1&CallStatus=in-progress&AnsweredBy=machine_end_beep", "CA1 answered tone"},
		"Twilio busy":         {twilio{}, "CallSid=CA1&CallStatus=busy", "CA1 ended:busy"},
		"Twilio no answer":    {twilio{}, "CallSid=CA1&CallStatus=no-answer", "CA1 ended:no_answer"},
		"Twilio's end":        {twilio{}, "CallSid=CA1&CallStatus=completed", "CA1 ended:failed"},
		"Telnyx takes it":     {telnyx{}, telnyxEvent("call.initiated", ""), "v3:x rings"},
		"Telnyx answered":     {telnyx{}, telnyxEvent("call.answered", ""), "v3:x answered once"},
		"Telnyx' person":      {telnyx{}, telnyxEvent("call.machine.detection.ended", `,"result":"not_sure"`), "v3:x person once"},
		"Telnyx' machine":     {telnyx{}, telnyxEvent("call.machine.detection.ended", `,"result":"machine"`), "v3:x machine"},
		"Telnyx' tone":        {telnyx{}, telnyxEvent("call.machine.greeting.ended", `,"result":"beep_detected"`), "v3:x tone once"},
		"Telnyx busy":         {telnyx{}, telnyxEvent("call.hangup", `,"hangup_cause":"user_busy"`), "v3:x ended:busy"},
		"Telnyx no answer":    {telnyx{}, telnyxEvent("call.hangup", `,"hangup_cause":"timeout"`), "v3:x ended:no_answer"},
		"Telnyx rejected":     {telnyx{}, telnyxEvent("call.hangup", `,"hangup_cause":"call_rejected"`), "v3:x ended:failed"},
		"Plivo rings":         {plivo{}, "CallUUID=u1&RequestUUID=r1&CallStatus=ringing&Direction=outbound", "u1 of r1 rings person"},
		"Plivo answered":      {plivo{}, "CallUUID=u1&RequestUUID=r1&CallStatus=in-progress&Direction=outbound", "u1 of r1 answered person"},
		"Plivo's machine":     {plivo{}, "CallUUID=u1&RequestUUID=r1&CallStatus=in-progress&Event=MachineDetection&Machine=true", "u1 of r1 machine"},
		"Plivo's tone":        {plivo{}, "CallUUID=u1&RequestUUID=r1&CallStatus=in-progress&Machine=true", "u1 of r1 answered tone"},
		"Plivo busy":          {plivo{}, "CallUUID=u1&RequestUUID=r1&CallStatus=busy&Event=Hangup", "u1 of r1 ended:busy person"},
		"Plivo, no one there": {plivo{}, "CallUUID=u1&RequestUUID=r1&CallStatus=timeout&Event=Hangup", "u1 of r1 ended:no_answer person"},
	} {
		n, err := c.carrier.Notice(request(t, "POST", "https://a.example/x?call=ours", c.body))
		must(t, err)
		var got strings.Builder
		got.WriteString(n.Call)
		if n.Asked != "" {
			got.WriteString(" of " + n.Asked)
		}
		for _, w := range []struct {
			is   bool
			word string
		}{
			{n.Ended, "ended:" + n.Reason}, {n.Rings, "rings"}, {n.Answered, "answered"}, {n.Machine, "machine"}, {n.Tone, "tone"}, {n.Person, "person"},
			{n.Once && c.carrier == telnyx{} && !n.Ended && !n.Rings && !n.Machine, "once"}, {n.Ringing, "RINGING"}, {n.ID != "ours", "OF ANOTHER"},
		} {
			if w.is {
				got.WriteString(" " + w.word)
			}
		}
		testkit.Equal(t, got.String(), c.want, "%s", name)
	}
}

// start is a start of each carrier.
var start = map[string]string{
	"twilio": `{"event":"start","sequenceNumber":"1","streamSid":"MZ1","start":{"streamSid":"MZ1","accountSid":"AC1","callSid":"CA1","tracks":["inbound"],"customParameters":{},"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000,"channels":1}}}`,
	"telnyx": `{"event":"start","sequence_number":"1","stream_id":"MZ1","start":{"call_control_id":"CA1","from":"+1","to":"+2","media_format":{"encoding":"PCMU","sample_rate":8000,"channels":1}}}`,
	"plivo":  `{"event":"start","sequenceNumber":0,"start":{"callId":"CA1","streamId":"MZ1","accountId":"1","tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000}},"extra_headers":"{}"}`,
}

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ carrier, message, want string }{
		"connected":             {"twilio", `{"event":"connected","protocol":"Call","version":"1.0.0"}`, "0 call= stream= name= chunk=0 at=0s sound="},
		"Twilio's start":        {"twilio", start["twilio"], "1 call=CA1 stream=MZ1 name= chunk=0 at=0s sound="},
		"Telnyx' start":         {"telnyx", start["telnyx"], "1 call=CA1 stream=MZ1 name= chunk=0 at=0s sound="},
		"Plivo's start":         {"plivo", start["plivo"], "1 call=CA1 stream=MZ1 name= chunk=0 at=0s sound="},
		"Twilio's sound":        {"twilio", `{"event":"media","sequenceNumber":"3","streamSid":"MZ1","media":{"track":"inbound","chunk":"1","timestamp":"5","payload":"AQI="}}`, "2 call= stream= name= chunk=-1 at=5ms sound=\x01\x02"},
		"Telnyx' sound":         {"telnyx", `{"event":"media","sequence_number":"3","stream_id":"MZ1","media":{"track":"inbound","chunk":"2","timestamp":"5","payload":"AQI="}}`, "2 call= stream= name= chunk=2 at=5ms sound=\x01\x02"},
		"Plivo's sound":         {"plivo", `{"event":"media","media":{"track":"inbound","chunk":7,"timestamp":"1700000000000","payload":"AQI="}}`, "2 call= stream= name= chunk=-1 at=472222h13m20s sound=\x01\x02"},
		"the other side":        {"twilio", `{"event":"media","media":{"track":"outbound","chunk":"1","timestamp":"5","payload":"AQI="}}`, "0 call= stream= name= chunk=0 at=0s sound="},
		"sound without a time":  {"twilio", `{"event":"media","media":{"payload":"AQI="}}`, "2 call= stream= name= chunk=-1 at=-1ms sound=\x01\x02"},
		"a key":                 {"twilio", `{"event":"dtmf","streamSid":"MZ1","sequenceNumber":"5","dtmf":{"track":"inbound_track","digit":"1"}}`, "3 call= stream= name=1 chunk=0 at=0s sound="},
		"no key":                {"twilio", `{"event":"dtmf","dtmf":{"digit":"12"}}`, "0 call= stream= name= chunk=0 at=0s sound="},
		"a mark":                {"twilio", `{"event":"mark","sequenceNumber":"4","streamSid":"MZ1","mark":{"name":"m1"}}`, "4 call= stream= name=m1 chunk=0 at=0s sound="},
		"Plivo's mark":          {"plivo", `{"event":"playedStream","streamId":"MZ1","name":"m1"}`, "4 call= stream= name=m1 chunk=0 at=0s sound="},
		"the end":               {"twilio", `{"event":"stop","sequenceNumber":"","streamSid":"MZ1","stop":{"accountSid":"AC1","callSid":"CA1"}}`, "5 call= stream= name= chunk=0 at=0s sound="},
		"an error of Telnyx":    {"telnyx", `{"event":"error","payload":{"code":100003}}`, "0 call= stream= name= chunk=0 at=0s sound="},
		"no JSON":               {"twilio", `hello`, "refused"},
		"a list":                {"twilio", `[1]`, "refused"},
		"no base64":             {"twilio", `{"event":"media","media":{"payload":"%%%"}}`, "refused"},
		"a start of nothing":    {"twilio", `{"event":"start"}`, "refused"},
		"linear sound":          {"twilio", strings.Replace(start["twilio"], "audio/x-mulaw", "audio/x-l16", 1), "refused"},
		"16 kHz":                {"twilio", strings.Replace(start["twilio"], "8000", "16000", 1), "refused"},
		"two channels":          {"twilio", strings.Replace(start["twilio"], `"channels":1`, `"channels":2`, 1), "refused"},
		"a stream with markup":  {"twilio", strings.ReplaceAll(start["twilio"], "MZ1", `MZ<1>`), "refused"},
		"a start without sound": {"telnyx", `{"event":"start","stream_id":"MZ1","start":{"call_control_id":"CA1"}}`, "refused"},
	} {
		m, err := Carriers[c.carrier].Read([]byte(c.message))
		got := fmt.Sprintf("%d call=%s stream=%s name=%s chunk=%d at=%s sound=%s", m.Kind, m.Call, m.Stream, m.Name, m.Chunk, m.At, m.Sound)
		if errors.Is(err, ErrRefused) {
			got = "refused"
		}
		testkit.Equal(t, got, c.want, "%s", name)
	}
}

// FuzzRead has each carrier read anything.
func FuzzRead(f *testing.F) {
	for _, s := range start {
		f.Add([]byte(s))
	}
	f.Add([]byte(`{"event":"media","media":{"chunk":-1,"timestamp":"1e99","payload":"AQI="}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		in := input{format: ulaw}
		for name, c := range Carriers {
			m, err := c.Read(data)
			if err != nil {
				continue
			}
			if m.Kind == Start && (m.Call == "" || m.Stream == "" || m.Format.Rate != 8000) {
				t.Errorf("%s: start %+v", name, m)
			}
			if heard := in.take(m, time.Unix(1, 0)); len(heard) > len(m.Sound)+81_000 {
				t.Errorf("%s: %d bytes made of %d", name, len(heard), len(m.Sound))
			}
		}
	})
}

func TestWrite(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"twilio": `{"event":"media","streamSid":"MZ1","media":{"payload":"AQI="}} {"event":"mark","streamSid":"MZ1","mark":{"name":"m1"}} {"event":"clear","streamSid":"MZ1"}`,
		"telnyx": `{"event":"media","media":{"payload":"AQI="}} {"event":"mark","mark":{"name":"m1"}} {"event":"clear"}`,
		"plivo":  `{"event":"playAudio","streamId":"MZ1","media":{"contentType":"audio/x-mulaw","sampleRate":8000,"payload":"AQI="}} {"event":"checkpoint","streamId":"MZ1","name":"m1"} {"event":"clearAudio","streamId":"MZ1"}`,
	} {
		c := Carriers[name]
		got := []string{c.Write("MZ1", Message{Kind: Audio, Sound: []byte{1, 2}}), c.Write("MZ1", Message{Kind: Mark, Name: "m1"}), c.Write("MZ1", Message{Kind: Clear})}
		testkit.Equal(t, strings.Join(got, " "), want, "%s", name)
	}
}

// TestREST has the carriers' APIs asked: what they get, and that a call that has ended is no error.
func TestREST(t *testing.T) {
	t.Parallel()
	var asked string
	status := http.StatusOK
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body strings.Builder
		_ = r.Write(&body)
		_, text, _ := strings.Cut(body.String(), "\r\n\r\n")
		asked = fmt.Sprint(r.Method, " ", r.URL.EscapedPath(), " ", r.Header.Get("Authorization")[:6], " ", text)
		w.WriteHeader(status)
	}))
	defer api.Close()
	l := &Line{Account: "AC1", Secret: secret("s"), APIURL: api.URL}
	for _, c := range []struct {
		do   func(Carrier) error
		name string
		want string
	}{
		{func(c Carrier) error { return c.HangUp(t.Context(), l, "CA1") }, "twilio", "POST /2010-04-01/Accounts/AC1/Calls/CA1.json Basic  Status=completed"},
		{func(c Carrier) error { return c.HangUp(t.Context(), l, "CA1") }, "plivo", "DELETE /v1/Account/AC1/Call/CA1/ Basic  "},
		{func(c Carrier) error { return c.HangUp(t.Context(), l, "v3:a/b") }, "telnyx", `POST /v2/calls/v3:a%2Fb/actions/hangup Bearer {"command_id":"hangup v3:a/b"}`},
		{func(c Carrier) error { _, err := c.Refuse(t.Context(), l, "v3"); return err }, "telnyx", `POST /v2/calls/v3/actions/reject Bearer {"cause":"USER_BUSY","command_id":"reject v3"}`},
		{func(c Carrier) error { _, err := c.Connect(t.Context(), l, Notice{Call: "v3"}, "wss://a"); return err }, "telnyx", `POST /v2/calls/v3/actions/answer Bearer ` +
			`{"command_id":"answer v3","send_silence_when_idle":true,"stream_bidirectional_codec":"PCMU","stream_bidirectional_mode":"rtp","stream_bidirectional_target_legs":"self","stream_track":"inbound_track","stream_url":"wss://a"}`},
	} {
		for _, status = range []int{200, 404, 422} {
			must(t, c.do(Carriers[c.name]))
			testkit.Equal(t, asked, c.want, "%s", c.name)
		}
		status = http.StatusUnauthorized
		if err := c.do(Carriers[c.name]); err == nil {
			t.Errorf("%s: a refusal is none", c.name)
		}
	}
}

// TestTransferREST has carriers asked for transfers, of which all that is no success is a failure.
func TestTransferREST(t *testing.T) {
	t.Parallel()
	var asked string
	status := http.StatusOK
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = fmt.Sprint(r.Method, " ", r.URL.EscapedPath(), " ", r.Header.Get("Authorization")[:6], " ", string(body))
		w.WriteHeader(status)
	}))
	defer api.Close()
	l := &Line{Account: "AC1", Number: "+493099999999", Secret: secret("s"), APIURL: api.URL}
	of := Transfer{Call: "v3:a/b", Number: "+493055555555", Webhook: "https://p.example/w"}
	const twiml = `<?xml version="1.0" encoding="UTF-8"?><Response><Dial callerId="+493099999999" timeout="30" action="https://p.example/w?transfer=over"><Number statusCallback="https://p.example/w?transfer=status" statusCallbackEvent="answered">+493055555555</Number></Dial></Response>`
	for name, want := range map[string]string{
		"twilio": "POST /2010-04-01/Accounts/AC1/Calls/v3:a/b.json Basic  " + url.Values{"Twiml": {twiml}}.Encode(),
		"plivo":  `POST /v1/Account/AC1/Call/v3:a/b/ Basic  {"legs":"aleg","aleg_url":"https://p.example/w?transfer=ask","aleg_method":"POST"}`,
		"telnyx": `POST /v2/calls/v3:a%2Fb/actions/transfer Bearer {"to":"+493055555555","from":"+493099999999","timeout_secs":30,"webhook_url":"https://p.example/w","target_leg_client_state":"dHJhbnNmZXIgdjM6YS9i"}`,
	} {
		status = http.StatusAccepted
		must(t, Carriers[name].Transfer(t.Context(), l, of))
		testkit.Equal(t, asked, want, "%s", name)
		for _, status = range []int{400, 401, 404, 422, 429, 500} {
			if err := Carriers[name].Transfer(t.Context(), l, of); err == nil {
				t.Errorf("%s: %d is no failure", name, status)
			}
		}
	}
	testkit.Equal(t, plivo{}.Forward(l, of).Body, `<?xml version="1.0" encoding="UTF-8"?><Response><Dial callerId="493099999999" timeout="30" action="https://p.example/w?transfer=over" callbackUrl="https://p.example/w?transfer=status"><Number>493055555555</Number></Dial></Response>`, "Plivo's answer")
}

// TestNoticeOfTransfer has what is told of transfers: of which call, how it went, and that the caller has hung up.
func TestNoticeOfTransfer(t *testing.T) {
	t.Parallel()
	telnyxEvent := func(event, more string) string {
		return `{"data":{"event_type":"` + event + `","payload":{"call_control_id":"v3:new","direction":"outgoing","client_state":"dHJhbnNmZXIgdjM6eA=="` + more + `}}}`
	}
	for name, c := range map[string]struct {
		carrier           Carrier
		about, body, want string
	}{
		"Twilio, answered":            {twilio{}, "status", "CallSid=CA2&ParentCallSid=CA1&CallStatus=in-progress&Direction=outbound-dial", "CA1 reached"},
		"Twilio, the other one's end": {twilio{}, "status", "CallSid=CA2&ParentCallSid=CA1&CallStatus=completed", "CA1 nothing"},
		"Twilio, over":                {twilio{}, "over", "CallSid=CA1&CallStatus=in-progress&Direction=inbound&DialCallSid=CA2&DialCallStatus=completed", "CA1 reached"},
		"Twilio busy":                 {twilio{}, "over", "CallSid=CA1&CallStatus=in-progress&Direction=inbound&DialCallStatus=busy", "CA1 failed:busy"},
		"Twilio, no answer":           {twilio{}, "over", "CallSid=CA1&CallStatus=in-progress&DialCallStatus=no-answer", "CA1 failed:no_answer"},
		"Twilio failed":               {twilio{}, "over", "CallSid=CA1&CallStatus=in-progress&DialCallStatus=failed", "CA1 failed:failed"},
		"Twilio, the caller is gone":  {twilio{}, "over", "CallSid=CA1&CallStatus=completed&DialCallStatus=no-answer", "CA1 nothing ended"},
		"Plivo asks":                  {plivo{}, "ask", "CallUUID=u1&CallStatus=in-progress&Direction=inbound", "u1 asks"},
		"Plivo asks for nobody":       {plivo{}, "ask", "CallUUID=u1&CallStatus=completed", "u1 nothing ended"},
		"Plivo, answered":             {plivo{}, "status", "CallUUID=u1&CallStatus=in-progress&DialAction=answer&DialBLegStatus=answer&DialBLegUUID=u2", "u1 reached"},
		"Plivo, hung up":              {plivo{}, "status", "CallUUID=u1&CallStatus=in-progress&DialAction=hangup&DialBLegUUID=u2", "u1 nothing"},
		"Plivo busy":                  {plivo{}, "over", "CallUUID=u1&CallStatus=in-progress&DialStatus=busy", "u1 failed:busy"},
		"Plivo, time is over":         {plivo{}, "over", "CallUUID=u1&CallStatus=in-progress&DialStatus=timeout", "u1 failed:no_answer"},
		"Plivo, the caller is gone":   {plivo{}, "over", "CallUUID=u1&CallStatus=completed&DialStatus=cancel", "u1 nothing ended"},
		"Telnyx rings":                {telnyx{}, "", telnyxEvent("call.initiated", ""), "v3:x nothing"},
		"Telnyx, answered":            {telnyx{}, "", telnyxEvent("call.answered", ""), "v3:x reached"},
		"Telnyx, connected":           {telnyx{}, "", telnyxEvent("call.bridged", ""), "v3:x reached"},
		"Telnyx busy":                 {telnyx{}, "", telnyxEvent("call.hangup", `,"hangup_cause":"user_busy"`), "v3:x failed:busy"},
		"Telnyx, time is over":        {telnyx{}, "", telnyxEvent("call.hangup", `,"hangup_cause":"timeout"`), "v3:x failed:no_answer"},
	} {
		n, err := c.carrier.Notice(request(t, "POST", "https://a.example/x?transfer="+c.about, c.body))
		must(t, err)
		got := n.Call + " " + [...]string{"nothing", "asks", "reached", "failed:"}[n.Move]
		if n.Move == Failed {
			got += n.Reason
		}
		if n.Ended {
			got += " ended"
		}
		if n.Ringing || n.ID != "" {
			got += " as another call"
		}
		testkit.Equal(t, got, c.want, "%s", name)
	}
}

func hmac256(key, text string) []byte {
	mac := hmac.New(sha256.New, []byte(key))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
