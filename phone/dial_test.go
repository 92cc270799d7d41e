package phone

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// network is the API of each carrier: it keeps what it has taken, may not answer, and lists what it has.
type network struct {
	calls  []string // what was asked, without the addresses
	silent bool     // it takes a call and does not say so
	refuse int      // the status with which it refuses
}

func (n *network) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request strings.Builder
	_ = r.Write(&request)
	_, body, _ := strings.Cut(request.String(), "\r\n\r\n")
	switch {
	case n.refuse != 0:
		w.WriteHeader(n.refuse)
	case r.Method == http.MethodPost && !strings.Contains(r.URL.Path, "/actions/"):
		n.calls = append(n.calls, body)
		if n.silent {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = fmt.Fprint(w, `{"sid":"C1","request_uuid":"C1","data":{"call_control_id":"C1"}}`)
	case r.Method == http.MethodGet && len(n.calls) == 0:
		_, _ = fmt.Fprint(w, `{"calls":[{"sid":"old","direction":"outbound-api","date_created":"Mon, 02 Jan 2006 15:04:05 +0000"}],"data":[]}`)
	case r.Method == http.MethodGet:
		_, _ = fmt.Fprintf(w, `{"calls":[{"sid":"in","direction":"inbound","date_created":%[1]q},{"sid":"C1","direction":"outbound-api","date_created":%[1]q}],`+
			`"data":[{"call_control_id":"C0","client_state":"eA=="},{"call_control_id":"C1","client_state":"b3Vycw=="}]}`, time.Now().UTC().Format(time.RFC1123Z))
	}
}

// TestKilledDialer has a process die at each step of a call out, and another one go on: the carrier has one call, or none that nobody knows of.
func TestKilledDialer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		carrier       string
		claimed, sent bool // before the death
		refuse        int
		want          string
		told          []Notice // saved before the death
	}{
		"nothing":                     {"twilio", false, false, 0, "1 calls, queued C1", nil},
		"claimed":                     {"twilio", true, false, 0, "1 calls, queued C1", nil},
		"asked":                       {"twilio", true, true, 0, "1 calls, queued C1", nil},
		"nothing at Telnyx":           {"telnyx", false, false, 0, "1 calls, queued C1", nil},
		"claimed, which is not known": {"telnyx", true, false, 0, "0 calls, ended failed", nil},
		"asked Telnyx":                {"telnyx", true, true, 0, "1 calls, queued C1", nil},
		"nothing at Plivo":            {"plivo", false, false, 0, "1 calls, queued C1", nil},
		"asked Plivo":                 {"plivo", true, true, 0, "1 calls, ended failed", nil},
		"taken":                       {"telnyx", true, false, 0, "0 calls, ended no_answerC1", []Notice{{}}},
		"rings":                       {"telnyx", true, true, 0, "1 calls, ended no_answerC1", []Notice{{Rings: true}}},
		"answered, without a stream":  {"telnyx", true, true, 0, "1 calls, ended failedC1", []Notice{{Answered: true}}},
		"answered at Plivo":           {"plivo", true, true, 0, "1 calls, ended failedC1", []Notice{{Rings: true}, {Answered: true}}},
		"busy":                        {"twilio", true, true, 0, "1 calls, ended busyC1", []Notice{{Ended: true, Reason: "busy"}}},
		"refused":                     {"twilio", false, false, 400, "0 calls, ended failed", nil},
		"too many":                    {"telnyx", false, false, 429, "0 calls, ended failed", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := &network{refuse: c.refuse, silent: c.sent}
			server := httptest.NewServer(api)
			defer server.Close()
			ctx := testkit.Context(t, "the calls")
			url := "sqlite:" + t.TempDir() + "/x.db"
			ahead := time.Duration(0)
			open := func() (*persistence.Store, *Dialer) {
				s, err := persistence.Open(ctx, url, persistence.Options{Clock: func() time.Time { return time.Now().Add(ahead) }, Instance: persistence.NewID(), Logger: slog.New(slog.DiscardHandler)})
				must(t, err)
				line := Line{Name: "l", Carrier: c.carrier, Number: "+4930111", Account: "AC1", Secret: secret("s"), APIURL: server.URL}
				return s, &Dialer{Settings: Settings{Lines: map[string]Line{"l": line}}, Store: s.Records, PublicURL: "https://p.example", Log: slog.New(slog.DiscardHandler)}
			}
			store, dialer := open()
			made, err := store.CreateThread(ctx, "anna", "")
			must(t, err)
			_, _, err = store.Records.AddDial(ctx, records.Dial{ID: "ours", Key: thread.Key{Owner: "anna", Thread: made.ID}, Line: "l", Number: "+4930222"})
			must(t, err)
			if c.claimed {
				claimed, err := store.Records.ClaimDials(ctx, 8)
				must(t, err)
				testkit.Equal(t, len(claimed), 1, "claimed")
				if c.sent {
					dialer.Store = dead{store.Records}
					dialer.look(ctx, claimed[0], time.Now())
				}
			}
			for _, n := range c.told {
				n.Call = "C1"
				_, err := store.Records.ChangeDial(ctx, thread.Key{Owner: "anna", Thread: made.ID}, "ours", func(d *records.Dial, now time.Time) bool {
					_, changed := Follow(d, n, now)
					return changed
				})
				must(t, err)
			}
			must(t, store.Close())
			api.silent = false
			store, dialer = open()
			defer func() { must(t, store.Close()) }()
			for range 8 + 12*len(c.told) { // until the carrier says nothing for too long
				due, err := store.Records.ClaimDials(ctx, 8)
				must(t, err)
				for _, d := range due {
					if d.CarrierCall != "" && c.told == nil {
						t.Fatalf("claimed %+v", d)
					}
					dialer.look(ctx, d, time.Now())
				}
				ahead += records.DialClaim + time.Second // the clock of the database
			}
			d, err := store.Records.Dial(ctx, "anna", "ours")
			must(t, err)
			testkit.Equal(t, fmt.Sprintf("%d calls, %s %s", len(api.calls), d.State, d.EndReason+d.CarrierCall), c.want, "what became of it")
		})
	}
}

// dead is the database of a process that has died.
type dead struct{ dials }

func (dead) ChangeDial(
	context.Context, thread.Key, string, func(*records.Dial, time.Time) bool,
) (records.Dial, error) {
	return records.Dial{}, errors.New("dead")
}

// TestFollow has what carriers say of calls out, in every order.
func TestFollow(t *testing.T) {
	t.Parallel()
	rings, answered, ended := Notice{Call: "C1", Rings: true}, Notice{Call: "C1", Answered: true}, Notice{Call: "C1", Ended: true, Reason: "busy"}
	for name, c := range map[string]struct {
		before records.Dial
		told   []Notice
		want   string
	}{
		"in order":          {records.Dial{}, []Notice{rings, ended}, "ended busy C1"},
		"ended first":       {records.Dial{}, []Notice{ended, rings, answered}, "ended busy C1"},
		"answered first":    {records.Dial{}, []Notice{answered, rings}, "answered  C1"},
		"without a stream":  {records.Dial{}, []Notice{answered, ended}, "ended busy C1"},
		"another call":      {records.Dial{CarrierCall: "C2"}, []Notice{answered}, "queued  C2, another"},
		"under a new name":  {records.Dial{CarrierCall: "R1"}, []Notice{{Call: "C1", Asked: "R1", Rings: true}}, "ringing  C1"},
		"nothing of it yet": {records.Dial{}, []Notice{{Call: "C1"}}, "queued  C1"},
	} {
		d := c.before
		d.State = records.DialQueued
		other := ""
		for _, n := range c.told {
			if same, _ := Follow(&d, n, time.Unix(1, 0)); !same {
				other = ", another"
			}
		}
		testkit.Equal(t, fmt.Sprint(d.State, " ", d.EndReason, " ", d.CarrierCall, other), c.want, "%s", name)
	}
}

// TestDialREST has what carriers are asked with.
func TestDialREST(t *testing.T) {
	t.Parallel()
	api := &network{}
	server := httptest.NewServer(api)
	defer server.Close()
	l := &Line{Account: "AC1", Number: "+4930111", Secret: secret("s"), APIURL: server.URL}
	for _, c := range []struct{ carrier, machine, want string }{
		{"telnyx", "off", `{"client_state":"b3Vycw==","command_id":"dial ours","connection_id":"AC1","from":"+4930111","timeout_secs":60,"to":"+4930222","webhook_url":"https://p.example/w"}`},
		{"telnyx", "message", `{"answering_machine_detection":"greeting_end","client_state":"b3Vycw==","command_id":"dial ours","connection_id":"AC1","from":"+4930111","timeout_secs":60,"to":"+4930222","webhook_url":"https://p.example/w"}`},
		{"plivo", "hangup", `{"answer_url":"https://p.example/w?call=ours","from":"4930111","hangup_on_ring":"60","hangup_url":"https://p.example/w/status?call=ours","machine_detection":"true","machine_detection_url":"https://p.example/w/status?call=ours","ring_url":"https://p.example/w/status?call=ours","to":"4930222"}`},
		{"twilio", "message", `From=%2B4930111&MachineDetection=DetectMessageEnd&StatusCallback=https%3A%2F%2Fp.example%2Fw%2Fstatus%3Fcall%3Dours&StatusCallbackEvent=initiated&StatusCallbackEvent=ringing&StatusCallbackEvent=answered&StatusCallbackEvent=completed&Timeout=60&To=%2B4930222&Url=https%3A%2F%2Fp.example%2Fw%3Fcall%3Dours`},
	} {
		call, err := Carriers[c.carrier].Dial(t.Context(), l, Dial{ID: "ours", To: "+4930222", Machine: c.machine, Webhook: "https://p.example/w"})
		must(t, err)
		testkit.Equal(t, call, "C1", "call")
		testkit.Equal(t, api.calls[len(api.calls)-1], c.want, "%s", c.carrier)
	}
}
