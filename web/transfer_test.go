package web

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/thread"
)

const workshopNumber = "+493055555555"

// dialXML is an answer by which a carrier is to call a number.
type dialXML struct {
	Dial struct {
		Action   string `xml:"action,attr"`
		CallerID string `xml:"callerId,attr"`
		Callback string `xml:"callbackUrl,attr"`
		Number   struct {
			To       string `xml:",chardata"`
			Callback string `xml:"statusCallback,attr"`
		}
	}
}

// transfers has a caller connected with the workshop. It returns what the carrier was asked with, and what comes of it.
func (c *carrier) transfers(t *testing.T, s bridge.Start, path string) (body string, done <-chan error) {
	t.Helper()
	c.mu.Lock()
	c.asked = nil
	c.mu.Unlock()
	ended := make(chan error, 1)
	go func() { ended <- s.Phone.Transfer(t.Context(), workshopNumber) }()
	testkit.Eventually(t, "a request for a transfer", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.asked) > 0 {
			body = strings.TrimPrefix(c.asked[0], "POST "+path+" ")
		}
		return body != ""
	})
	return body, ended
}

// fails waits for the end of a transfer that fails.
func fails(t *testing.T, done <-chan error, want string) {
	t.Helper()
	err := testkit.Take(t, "the end of the transfer", done)
	testkit.Equal(t, fmt.Sprint(err), want, "the transfer")
}

// talksOn has the caller press keys, which come to the call.
func (c *carrier) talksOn(t *testing.T, conn *websocket.Conn, key string) {
	t.Helper()
	for _, digit := range []string{key, "#"} {
		put(t, conn, `{"event":"dtmf","dtmf":{"digit":"`+digit+`"}}`)
	}
	testkit.Eventually(t, "the keys", func() bool {
		threads, _, err := c.b.db.Threads(t.Context(), "alice", persistence.ThreadFilter{Limit: 10})
		must(t, err)
		m, err := c.b.db.LastMessage(t.Context(), thread.Key{Owner: "alice", Thread: threads[0].ID})
		return err == nil && m.Text() == "DTMF: "+key+"#"
	})
}

// left ends the call as one whose caller talks to somebody else, whom nobody hangs up on.
func (c *carrier) left(t *testing.T) {
	t.Helper()
	testkit.Equal(t, c.b.calls.ended(), nil, "ended")
	must(t, c.b.calls.End(t.Context(), "alice", "call-1", bridge.EndTransferred))
	c.joined(t, 0)
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.asked, func(a string) bool {
		return strings.Contains(a, "hangup") || strings.Contains(a, "completed") || strings.HasPrefix(a, "DELETE")
	}) {
		t.Errorf("the carrier was asked %q", c.asked)
	}
}

func TestTransferByTwilio(t *testing.T) {
	t.Parallel()
	c := setupPhone(t)
	conn, s := c.talks(t, "support", "CA1", "+493011111111")
	asks := func() (x dialXML, done <-chan error) {
		t.Helper()
		body, done := c.transfers(t, s, "/2010-04-01/Accounts/AC1/Calls/CA1.json")
		form, err := url.ParseQuery(body)
		must(t, err)
		must(t, xml.Unmarshal([]byte(form.Get("Twiml")), &x))
		testkit.Equal(t, x.Dial.Number.To+" "+x.Dial.CallerID, workshopNumber+" +493099999999", "numbers")
		return x, done
	}
	tells := func(call, status string) url.Values {
		return url.Values{"CallSid": {call}, "CallStatus": {"in-progress"}, "Direction": {"inbound"}, "DialCallStatus": {status}}
	}
	x, done := asks()
	put(t, conn, `{"event":"stop","stop":{}}`)
	closed(t, conn)
	if err := s.Phone.Transfer(t.Context(), "+493066666666"); err == nil || err.Error() != "busy" {
		t.Errorf("another transfer: %v", err)
	}
	forged := c.b.do(t, "POST", strings.TrimPrefix(x.Dial.Action, phoneURL), tells("CA1", "completed").Encode(), formBody)
	wantStatus(t, forged, 403)
	for _, call := range []string{"CA2", "CA1<x>"} { // of no call here
		if r := c.says(t, x.Dial.Action, tells(call, "busy")); strings.Contains(r.body, "Stream") || strings.Contains(r.body, "Dial") {
			t.Errorf("of %s: %s", call, r.body)
		}
	}
	testkit.Equal(t, len(done), 0, "the transfer has ended")
	path := streamPath(t, c.says(t, x.Dial.Action, tells("CA1", "busy")))
	fails(t, done, "busy")
	other, status := c.open(t, path)
	testkit.Equal(t, status, 101, "status")
	put(t, other, begins("CA9", "MZ2"))
	testkit.Equal(t, closed(t, other), websocket.StatusPolicyViolation, "a stream of another call")
	conn, _ = c.open(t, path)
	put(t, conn, connected)
	put(t, conn, begins("CA1", "MZ2"))
	c.talksOn(t, conn, "1")
	testkit.Equal(t, c.b.calls.ended(), nil, "ended")

	x, done = asks()
	must(t, conn.CloseNow())
	answered := url.Values{"CallSid": {"CA2"}, "ParentCallSid": {"CA1"}, "CallStatus": {"in-progress"}, "Direction": {"outbound-dial"}}
	wantStatus(t, c.says(t, x.Dial.Number.Callback, answered), 200)
	fails(t, done, "<nil>")
	c.left(t)
	if r := c.says(t, x.Dial.Action, tells("CA1", "completed")); r.StatusCode != http.StatusOK || strings.Contains(r.body, "Stream") {
		t.Errorf("at its end: %d %s", r.StatusCode, r.body)
	}
}

// TestTransferHungUp has a caller hang up while somebody else is called.
func TestTransferHungUp(t *testing.T) {
	t.Parallel()
	c := setupPhone(t)
	conn, s := c.talks(t, "support", "CA1", "+493011111111")
	c.transfers(t, s, "/2010-04-01/Accounts/AC1/Calls/CA1.json")
	put(t, conn, `{"event":"stop","stop":{}}`)
	closed(t, conn)
	form := url.Values{"CallSid": {"CA1"}, "CallStatus": {"completed"}, "Direction": {"inbound"}, "DialCallStatus": {"no-answer"}}
	wantStatus(t, c.says(t, phoneURL+"/phone/twilio/support?transfer=over", form), 200)
	testkit.Equal(t, c.b.calls.ended(), []string{"call-1 caller_hangup"}, "ended")
}

func TestTransferByTelnyx(t *testing.T) {
	t.Parallel()
	c := setupPhone(t)
	send := func(kind, more string) *answer {
		t.Helper()
		body := fmt.Sprintf(`{"data":{"event_type":%q,"payload":{"from":"+493011111111","to":"+493012345678",%s}}}`, kind, more)
		at := fmt.Sprint(c.b.clock.now().Unix())
		signature := base64.StdEncoding.EncodeToString(ed25519.Sign(c.private, []byte(at+"|"+body)))
		return c.b.do(t, "POST", "/phone/telnyx/tel", body, header("Telnyx-Timestamp", at), header("Telnyx-Signature-Ed25519", signature))
	}
	wantStatus(t, send("call.initiated", `"call_control_id":"v3:1","direction":"incoming"`), 200)
	c.mu.Lock()
	_, address, _ := strings.Cut(c.asked[0], `"stream_url":"wss://phone.example/base`)
	c.mu.Unlock()
	stream, _, _ := strings.Cut(address, `"`)
	conn, _ := c.open(t, stream)
	put(t, conn, `{"event":"start","sequence_number":"1","stream_id":"s1","start":{"call_control_id":"v3:1","media_format":{"encoding":"PCMU","sample_rate":8000,"channels":1}}}`)
	c.joined(t, 1)
	s := c.b.calls.started()[0]
	asks := func() (leg string, done <-chan error) {
		t.Helper()
		body, done := c.transfers(t, s, "/v2/calls/v3:1/actions/transfer")
		var in struct {
			To, From, State string
			Leg             string `json:"target_leg_client_state"`
			Webhook         string `json:"webhook_url"`
		}
		must(t, json.Unmarshal([]byte(body), &in))
		testkit.Equal(t, in.To+" "+in.From+" "+in.Webhook, workshopNumber+" +493099999999 "+phoneURL+"/phone/telnyx/tel", "asked")
		return `"call_control_id":"v3:2","direction":"outgoing","client_state":"` + in.Leg + `"`, done
	}
	leg, done := asks()
	wantStatus(t, send("call.initiated", leg), 200)
	wantStatus(t, c.b.do(t, "POST", "/phone/telnyx/tel", `{"data":{"event_type":"call.answered","payload":{`+leg+`}}}`), 403)
	wantStatus(t, send("call.answered", `"call_control_id":"v3:2","direction":"outgoing","client_state":"`+base64.StdEncoding.EncodeToString([]byte("transfer v3:9"))+`"`), 200)
	testkit.Equal(t, len(done), 0, "the transfer has ended")
	wantStatus(t, send("call.hangup", leg+`,"hangup_cause":"timeout"`), 200)
	fails(t, done, "no_answer")
	c.talksOn(t, conn, "1")

	leg, done = asks()
	wantStatus(t, send("call.answered", leg), 200)
	fails(t, done, "<nil>")
	wantStatus(t, send("call.bridged", leg), 200)
	c.left(t)
	wantStatus(t, send("call.hangup", leg+`,"hangup_cause":"normal_clearing"`), 200)
}

func TestTransferByPlivo(t *testing.T) {
	t.Parallel()
	c := setupPhone(t)
	post := func(address string, form url.Values) *answer {
		t.Helper()
		form.Set("CallUUID", "u1")
		form.Set("From", "493011111111")
		form.Set("Direction", "inbound")
		u, err := url.Parse(address)
		must(t, err)
		bare, fields := *u, ""
		bare.RawQuery = ""
		for _, name := range []string{"CallStatus", "CallUUID", "DialAction", "DialStatus", "Direction", "From"} {
			if form.Has(name) {
				fields += name + form.Get(name)
			}
		}
		signed := bare.String() + "?" + u.RawQuery
		if u.RawQuery != "" {
			signed += "."
		}
		m := hmac.New(sha256.New, []byte(phoneSecret))
		m.Write([]byte(signed + fields + ".n1"))
		return c.b.do(t, "POST", strings.TrimPrefix(address, phoneURL), form.Encode(), formBody,
			header("X-Plivo-Signature-V3", base64.StdEncoding.EncodeToString(m.Sum(nil))), header("X-Plivo-Signature-V3-Nonce", "n1"))
	}
	begins := func(path, stream string) *websocket.Conn {
		t.Helper()
		conn, status := c.open(t, path)
		testkit.Equal(t, status, 101, "status")
		put(t, conn, `{"event":"start","sequenceNumber":0,"start":{"callId":"u1","streamId":"`+stream+`","accountId":"1","tracks":["inbound"],"mediaFormat":{"encoding":"audio/x-mulaw","sampleRate":8000}}}`)
		return conn
	}
	in := url.Values{"CallStatus": {"in-progress"}}
	conn := begins(streamPath(t, post(phoneURL+"/phone/plivo/pli", url.Values{"CallStatus": {"ringing"}})), "s1")
	c.joined(t, 1)
	s := c.b.calls.started()[0]
	if r := post(phoneURL+"/phone/plivo/pli?transfer=ask", in); strings.Contains(r.body, "Dial") {
		t.Errorf("nobody is to be called: %s", r.body)
	}
	asks := func() (x dialXML, done <-chan error) {
		t.Helper()
		body, done := c.transfers(t, s, "/v1/Account/AC1/Call/u1/")
		var to struct {
			URL string `json:"aleg_url"`
		}
		must(t, json.Unmarshal([]byte(body), &to))
		must(t, xml.Unmarshal([]byte(post(to.URL, in).body), &x))
		testkit.Equal(t, x.Dial.Number.To+" "+x.Dial.CallerID, "493055555555 493099999999", "numbers")
		return x, done
	}
	x, done := asks()
	must(t, conn.CloseNow())
	r := post(x.Dial.Action, url.Values{"CallStatus": {"in-progress"}, "DialStatus": {"no-answer"}})
	fails(t, done, "no_answer")
	conn = begins(streamPath(t, r), "s2")
	c.talksOn(t, conn, "1")

	x, done = asks()
	must(t, conn.CloseNow())
	wantStatus(t, post(x.Dial.Callback, url.Values{"CallStatus": {"in-progress"}, "DialAction": {"answer"}}), 200)
	fails(t, done, "<nil>")
	c.left(t)
}

// TestTransfersOfAssistants has numbers that may not be called.
func TestTransfersOfAssistants(t *testing.T) {
	t.Parallel()
	c := setupPhone(t)
	c.b.Phone.DialPrefixes = []string{"+49"}
	post := func(transfers string) *answer {
		t.Helper()
		return c.b.do(t, "POST", "/api/assistants", `{"name":"Desk","transfers":`+transfers+`}`, as("alice-token-of-tests"))
	}
	for transfers, path := range map[string]string{
		`{"sales":{"number":"+15551234567"}}`:                         "transfers.sales.number",
		`{"sales":{"number":"493055555555"}}`:                         "transfers.sales.number",
		`{"sales":{"number":"+49305555<Dial>"}}`:                      "transfers.sales.number",
		`{"sales":{"number":"+4930555555\n"}}`:                        "transfers.sales.number",
		`{"sales":{"number":"sip:a@b"}}`:                              "transfers.sales.number",
		`{"sales":{}}`:                                                "transfers.sales.number",
		`{"sales":"+493055555555"}`:                                   "transfers.sales",
		`{"the sales":{"number":"+493055555555"}}`:                    "transfers.the sales",
		`{"sales":{"number":"+493055555555","says":"a\nb"}}`:          "transfers.sales.says",
		`{"sales":{"number":"+493055555555","sip":"x"}}`:              "transfers.sales.sip",
		`[{"number":"+493055555555"}]`:                                "transfers",
		`{"a":{"number":"+493055555555"},"b":{"number":"+99999999"}}`: "transfers.b.number",
	} {
		if r := post(transfers); r.StatusCode != http.StatusBadRequest || !strings.Contains(r.body, path) {
			t.Errorf("%s: %d %s, want %s", transfers, r.StatusCode, r.body, path)
		}
	}
	r := post(`{"sales":{"number":"+493055555555","says":"One moment."}}`)
	wantStatus(t, r, 201)
	if !strings.Contains(r.body, `"transfers":{"sales":{"number":"+493055555555","says":"One moment."}}`) {
		t.Errorf("made %s", r.body)
	}
}
