package e2e

import (
	"net/http"
	"strings"
	"testing"

	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
)

// refusing has the upstream refuse everything.
func (r *rig) refusing(with simulator.Faults) { r.faults.Store(&with) }

// refusedLate waits until a call that has begun is refused, and ends.
func (c *caller) refusedLate(code string) {
	c.t.Helper()
	if ev := c.next(realtime.TypeError); ev.Error.Code != code || ev.Error.Type != "upstream_error" || strings.Contains(string(ev.Raw), "secret") {
		c.t.Errorf("the client got %s", ev.Raw)
	}
	if ended := c.next("bridge.ended"); string(realtime.Member(ended.Raw, "reason")) != `"upstream_error"` {
		c.t.Errorf("the client got %s", ended.Raw)
	}
}

// TestAnswerAtOnce calls through both doors over both transports of the upstream. Once that was reached, calls begin before
// it has answered: if it refuses, a client is told in the call, and the next one waits again. Otherwise it is heard.
func TestAnswerAtOnce(t *testing.T) {
	t.Parallel()
	refuses := simulator.Faults{RefuseStatus: http.StatusUnauthorized, RefuseBody: `{"error":{"type":"x","code":"invalid_api_key","message":"No, sk-secret1234567."}}`}
	for name, socket := range map[string]bool{"WebRTC": false, "WebSocket": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, rigConfig{socket: socket})
			reach := func() {
				t.Helper()
				c := r.dial(t, request{})
				c.next("bridge.ready")
				r.over(c, "hangup")
			}
			reach()
			late, status, body := r.try(t, request{faults: refuses})
			if status != http.StatusCreated {
				t.Fatalf("answer %d: %s", status, body)
			}
			late.refusedLate("invalid_api_key")
			_, status, body = r.try(t, request{faults: refuses, thread: late.thread})
			wantRefusal(t, status, body, http.StatusBadGateway, "invalid_api_key")

			reach()
			r.refusing(refuses)
			socket, status, body := r.connect(t, handshake{})
			if status != http.StatusSwitchingProtocols {
				t.Fatalf("upgrade %d: %s", status, body)
			}
			socket.refusedLate("invalid_api_key")
			_, status, body = r.connect(t, handshake{})
			wantRefusal(t, status, body, http.StatusBadGateway, "invalid_api_key")
			r.refusing(simulator.Faults{})

			reach()
			again := r.dial(t, request{thread: late.thread, session: asksMe})
			again.next("bridge.ready")
			again.speak()
			again.saved("answer", says("assistant", spokenAnswer))
			if n := again.session.PacketsBeforeUpdate(); n != 0 {
				t.Errorf("%d packets of the caller arrived before the settings", n)
			}
			r.over(again, "hangup")
			socket, _, _ = r.connect(t, handshake{})
			socket.append(samples(t, simulator.UserSpeech())) // it waits for the call
			socket.next(realtime.TypeSessionCreated)
			socket.saved("answer", says("assistant", spokenAnswer))
			r.over(socket.caller, "hangup")
			if got := r.rows(t, "SELECT end_reason, ready_at IS NULL FROM calls WHERE end_reason <> 'hangup'"); strings.Join(got, ", ") != "upstream_error | 1, upstream_error | 1" {
				t.Errorf("refused calls: %q", got)
			}
			r.quiet()
		})
	}
}

// TestAnswerAfterUpstream has the setting that makes every call wait.
func TestAnswerAfterUpstream(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{environ: []string{"VOICEBRIDGE_CALLS__ANSWER=after_upstream"}})
	c := r.dial(t, request{})
	c.next("bridge.ready")
	r.over(c, "hangup")
	refuses := simulator.Faults{RefuseStatus: http.StatusServiceUnavailable}
	_, status, body := r.try(t, request{faults: refuses})
	wantRefusal(t, status, body, http.StatusBadGateway, "refused_on_purpose")
	r.refusing(refuses)
	_, status, body = r.connect(t, handshake{})
	wantRefusal(t, status, body, http.StatusBadGateway, "refused_on_purpose")
	r.quiet()
}

// TestBeginsElsewhere has the first upstream of two refuse a call whose client has its answer, by its status or by what it says
// in the session: the other one has the call, over the other transport, and the client is told nothing.
func TestBeginsElsewhere(t *testing.T) {
	t.Parallel()
	for order, upstreams := range map[string]string{"WebRTC first": byWebRTC + "," + bySocket, "WebSocket first": bySocket + "," + byWebRTC} {
		for how, fault := range map[string]simulator.Faults{"refuses": {RefuseStatus: http.StatusTooManyRequests}, "refuses the session": {RejectSessionUpdate: 9}} {
			t.Run(order+", it "+how, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, rigConfig{socket: true, upstreams: "[" + upstreams + "]", simulator: simulator.Config{FaultsFor: func(n int) simulator.Faults {
					if n == 2 {
						return fault
					}
					return simulator.Faults{}
				}}})
				for n := range 2 {
					c := r.dial(t, request{})
					c.next("bridge.ready")
					hello(c)
					c.hangUp()
					r.untilSaved(c)
					for _, ev := range c.all() {
						if ev.Error != nil || ev.Type == "bridge.upstream.renewing" {
							t.Errorf("call %d: the client got %s", n, ev.Raw)
						}
					}
				}
				const sql = "SELECT c.upstream, count(*) FROM calls c JOIN upstream_legs l ON l.call_id = c.id AND l.upstream = c.upstream GROUP BY c.id, c.upstream ORDER BY min(c.started_at)"
				if got := r.rows(t, sql); len(got) != 2 || got[0] == got[1] {
					t.Errorf("the calls' upstreams: %q", got)
				}
				r.quiet()
			})
		}
	}
}
