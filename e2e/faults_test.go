package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// wantRefusal checks a response that refuses a call in OpenAI's form.
func wantRefusal(t *testing.T, status int, body string, wantStatus int, wantCode string) {
	t.Helper()
	var e struct {
		Error struct{ Type, Code, Message string }
	}
	err := json.Unmarshal([]byte(body), &e)
	if err != nil || status != wantStatus || e.Error.Code != wantCode || e.Error.Type == "" || e.Error.Message == "" {
		t.Errorf("%d %s, want %d %s", status, body, wantStatus, wantCode)
	}
}

// TestRefusedOffers sends what cannot become a call, for which nothing may be created.
func TestRefusedOffers(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{})
	peer, offer, err := r.api.Offer(r.ctx, media.Handlers{})
	testkit.Must(t, err)
	defer func() { _ = peer.Close() }()
	without := func(prefix string) string {
		var lines []string
		for line := range strings.Lines(offer) {
			if !strings.HasPrefix(line, prefix) {
				lines = append(lines, line)
			}
		}
		return strings.Join(lines, "")
	}
	const calls, sdp = "/v1/realtime/calls", "application/sdp"
	form := func(offer, session string) [2]string {
		kind, body := callForm(t, offer, session)
		return [2]string{kind, body}
	}
	for name, c := range map[string]struct {
		query  string
		body   [2]string // the content type and the body
		status int
		code   string
	}{
		"empty":                 {"", [2]string{sdp, ""}, 400, "bad_sdp"},
		"white space":           {"", [2]string{sdp, " \r\n "}, 400, "bad_sdp"},
		"garbage":               {"", [2]string{sdp, "\x00\xff garbage"}, 400, "bad_sdp"},
		"JSON":                  {"", [2]string{sdp, `{"sdp":"v=0"}`}, 400, "bad_sdp"},
		"half":                  {"", [2]string{sdp, offer[:len(offer)/3]}, 400, "bad_sdp"},
		"another codec":         {"", [2]string{sdp, strings.ReplaceAll(offer, "opus/48000/2", "PCMU/8000")}, 400, "no_opus"},
		"no audio":              {"", [2]string{sdp, strings.ReplaceAll(offer, "m=audio 9", "m=audio 0")}, 400, "no_opus"},
		"no ICE user":           {"", [2]string{sdp, without("a=ice-ufrag")}, 400, "bad_sdp"},
		"no ICE password":       {"", [2]string{sdp, without("a=ice-pwd")}, 400, "bad_sdp"},
		"no fingerprint":        {"", [2]string{sdp, without("a=fingerprint")}, 400, "bad_sdp"},
		"300 sections":          {"", [2]string{sdp, offer + strings.Repeat("m=video 9 UDP/TLS/RTP/SAVPF 96\r\n", 300)}, 400, "bad_sdp"},
		"huge":                  {"", [2]string{sdp, offer + strings.Repeat("a=x\r\n", 20_000)}, 413, "too_large"},
		"JSON by type":          {"", [2]string{"application/json", "{}"}, 415, "unsupported_media_type"},
		"a form without one":    {"", form("", "{}"), 400, "bad_sdp"},
		"a session as a list":   {"", form(offer, "[]"), 400, "invalid_value"},
		"half a session":        {"", form(offer, `{"type":`), 400, "invalid_value"},
		"another session":       {"", form(offer, `{"type":"transcription"}`), 400, "invalid_value"},
		"tools as a text":       {"", form(offer, `{"type":"realtime","tools":"all"}`), 400, "bad_session"},
		"a huge session":        {"", form(offer, `{"instructions":"`+strings.Repeat("x", 70_000)+`"}`), 413, "too_large"},
		"an unknown thread":     {"?thread_id=01a1fcfe-7e1f-7267-810b-722e6703a7de", [2]string{sdp, offer}, 404, "thread_not_found"},
		"a malformed thread id": {"?thread_id=../../etc", [2]string{sdp, offer}, 404, "thread_not_found"},
		"an odd takeover":       {"?takeover=perhaps", [2]string{sdp, offer}, 400, "invalid_value"},
	} {
		status, body := r.post(t, calls+c.query, c.body[0], c.body[1])
		t.Run(name, func(t *testing.T) { wantRefusal(t, status, body, c.status, c.code) })
	}
	for _, table := range []string{"threads", "calls"} {
		if rows := r.rows(t, fmt.Sprintf("SELECT id FROM %s", table)); len(rows) > 0 {
			t.Errorf("%s were made: %q", table, rows)
		}
	}
	if n := len(r.sim.Sessions()); n > 0 {
		t.Errorf("the upstream was called %d times", n)
	}
	r.quiet()
}

// TestUpstreamRefusesCalls has the upstream refuse calls in every way, on a new thread and
// on an existing one.
func TestUpstreamRefusesCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, rigConfig{})
	var old struct{ ID string }
	_, body := r.post(t, "/api/threads", "application/json", "{}")
	if err := json.Unmarshal([]byte(body), &old); err != nil || old.ID == "" {
		t.Fatalf("a thread: %s", body)
	}
	before := len(r.rows(t, "SELECT id FROM threads"))
	refuse := func(status int, code string) simulator.Faults {
		return simulator.Faults{RefuseStatus: status, RefuseBody: fmt.Sprintf(`{"error":{"type":"x","code":%q,"message":"No, sk-secret1234567."}}`, code)}
	}
	for name, c := range map[string]struct {
		faults simulator.Faults
		code   string
	}{
		"401":                               {refuse(401, "invalid_api_key"), "invalid_api_key"},
		"429":                               {refuse(429, "rate_limit_exceeded"), "rate_limit_exceeded"},
		"500":                               {simulator.Faults{RefuseStatus: 500}, "refused_on_purpose"},
		"500 as HTML":                       {simulator.Faults{RefuseStatus: 500, RefuseBody: "<html>oh</html>"}, "upstream_refused"},
		"no answer":                         {simulator.Faults{HangCreation: true}, "upstream_unreachable"},
		"half an answer":                    {simulator.Faults{BadAnswer: true}, "upstream_unreachable"},
		"half an answer without a Location": {simulator.Faults{BadAnswer: true, NoLocation: true}, "upstream_unreachable"},
	} {
		for _, thread := range []string{"", old.ID} {
			if thread == "" && c.faults.HangCreation {
				continue // it takes long; once is enough
			}
			made, status, body := r.try(t, request{thread: thread, faults: c.faults})
			t.Run(name, func(t *testing.T) {
				wantRefusal(t, status, body, http.StatusBadGateway, c.code)
				if strings.Contains(body, "secret") {
					t.Errorf("a key in %s", body)
				}
				// A slow database takes the end of a call after it was refused.
				testkit.Eventually(t, "a database without open calls", func() bool {
					return len(r.rows(t, "SELECT id FROM calls WHERE ended_at IS NULL")) == 0
				})
				testkit.Eventually(t, "a database without the thread of a refused call", func() bool { return len(r.rows(t, "SELECT id FROM threads")) == before })
				if made.session != nil && !c.faults.NoLocation {
					r.upstreamEnded(made)
				}
			})
		}
	}
	if strings.Contains(r.stderr.String(), "secret") {
		t.Error("a key in the log")
	}
	c := r.dial(t, request{thread: old.ID})
	c.next("bridge.ready")
	r.over(c, "hangup")
	r.quiet()
}

// failure is a fault of the upstream during a call.
type failure struct {
	faults  simulator.Faults
	session string // requested by the caller
	// act lives through it, starting before the session is ready if early is set; reason,
	// if set, is why the call ends by itself.
	act    func(*caller)
	renews bool // another upstream session is opened
	early  bool
	reason string
	thread []string // afterwards
}

const spokenTurn = "user voice completed: " + spokenWords

var answered = []string{"user text completed: Hello.", "assistant voice completed: Well."}

// hello types, and waits until the answer has been played to its end.
func hello(c *caller) {
	c.say("Hello.")
	c.next(realtime.TypeOutputBufferStopped)
	c.saved("answer", says(thread.RoleAssistant, "Well."))
}

// hearTurn speaks, and waits until the answer has been played to its end.
func hearTurn(c *caller) {
	c.session.SimulateSpeech()
	c.next(realtime.TypeOutputBufferStopped)
}

// inAnswer brings the call into the middle of an answer.
func inAnswer(c *caller) {
	c.say(countPlease)
	c.wait("20th piece of an answer", func(ev timedEvent) bool {
		return ev.Type == realtime.TypeAudioTranscriptDelta && strings.Contains(ev.Delta, "n60")
	})
}

var interrupted = []string{"user text completed: " + countPlease, "assistant voice interrupted: n0 n1 n2 …"}

// inAnswerAgain waits until another upstream session answers the question that the first
// one left open.
func inAnswerAgain(c *caller, reason string) {
	if got := reasonOf(c.t, c.next("bridge.upstream.renewing")); got != reason {
		c.t.Errorf("renewing because of %s", got)
	}
	c.next("bridge.upstream.renewed")
	c.wait("20th piece of the answer", func(ev timedEvent) bool {
		return ev.Type == realtime.TypeAudioTranscriptDelta && strings.Contains(ev.Delta, "n60")
	})
}

var interruptedTwice = append(slices.Clone(interrupted), "assistant voice interrupted: n0 n1 n2 …")

var failures = map[string]failure{
	"it drops the call": {
		act: func(c *caller) { inAnswer(c); c.session.Drop(); inAnswerAgain(c, "upstream_closed") }, renews: true, thread: interruptedTwice,
	},
	"its session expires": {
		act: func(c *caller) { inAnswer(c); c.session.Expire(); inAnswerAgain(c, "session_expired") }, renews: true, thread: interruptedTwice,
	},
	"the account is empty": {
		act: func(c *caller) {
			inAnswer(c)
			c.session.Inject([]byte(`{"type":"error","error":{"type":"insufficient_quota","code":"insufficient_quota","message":"No money."}}`))
			c.wait("its error", func(ev timedEvent) bool { return ev.Error != nil && ev.Error.Message == "No money." })
		}, reason: "upstream_error", thread: interrupted,
	},
	"it refuses the settings": {
		faults: simulator.Faults{RejectSessionUpdate: 100}, early: true, act: func(*caller) {}, reason: "session_rejected",
	},
	"it refuses every settings": {
		faults: simulator.Faults{RejectSessionUpdate: 100}, session: asksMe, early: true, act: func(*caller) {}, reason: "session_rejected",
	},
	"it refuses the caller's settings": {
		faults: simulator.Faults{RejectSessionUpdate: 1}, session: asksMe, early: true,
		act: func(c *caller) {
			c.wait("its error", func(ev timedEvent) bool { return ev.Error != nil && strings.Contains(ev.Error.Message, "on purpose") })
			c.next("bridge.ready")
			hello(c)
		}, thread: answered,
	},
	"it refuses a text": {
		faults: simulator.Faults{RejectItems: 1},
		act: func(c *caller) {
			c.put(`{"type":"conversation.item.create","event_id":"mine","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"No."}]}}`)
			if e := c.refusal("mine"); !strings.Contains(e.Message, "on purpose") {
				c.t.Errorf("error %+v", e)
			}
			hello(c)
		}, thread: append([]string{"user text failed: No."}, answered...),
	},
	"a response fails": {
		faults: simulator.Faults{FailResponses: 1},
		act: func(c *caller) {
			c.say("Hi.")
			c.next(realtime.TypeResponseDone)
			hello(c)
		}, thread: append([]string{"user text completed: Hi."}, answered...),
	},
	"arguments are cut": {
		faults: simulator.Faults{BadArguments: true},
		act: func(c *caller) {
			c.say(chartPlease)
			c.next("bridge.tool.failed")
			c.next(realtime.TypeOutputBufferStopped)
		}, thread: []string{
			"user text completed: " + chartPlease, "assistant voice completed: [tool-create_pie_chart output-error]",
			"assistant voice completed: The tool answered with an error…",
		},
	},
	"transcripts are late": {
		faults: simulator.Faults{Transcripts: simulator.TranscriptLate},
		act: func(c *caller) {
			hearTurn(c)
			c.saved("words", says(thread.RoleUser, spokenWords))
		}, thread: []string{spokenTurn, "assistant voice completed: " + spokenAnswer},
	},
	"transcripts are later than the call": {
		faults: simulator.Faults{Transcripts: simulator.TranscriptLate},
		act: func(c *caller) {
			c.session.SimulateSpeech()
			c.saved("answer", says(thread.RoleAssistant, spokenAnswer))
		}, thread: []string{"user voice …", "assistant voice …: " + spokenAnswer},
	},
	"transcripts never come": {
		faults: simulator.Faults{Transcripts: simulator.TranscriptNever}, act: hearTurn,
		thread: []string{"user voice failed: ", "assistant voice completed: " + spokenAnswer},
	},
	"transcripts fail": {
		faults: simulator.Faults{Transcripts: simulator.TranscriptFailed},
		act: func(c *caller) {
			hearTurn(c)
			c.saved("failed turn", func(m thread.Message) bool { return m.Metadata.Status == thread.StatusFailed })
		}, thread: []string{"user voice failed: ", "assistant voice completed: " + spokenAnswer},
	},
	"transcripts come in the wrong order": {
		faults: simulator.Faults{Transcripts: simulator.TranscriptReversed},
		act: func(c *caller) {
			hearTurn(c)
			hearTurn(c)
			c.saved("words of the first turn", says(thread.RoleUser, spokenWords))
		}, thread: []string{
			spokenTurn, "assistant voice completed: " + spokenAnswer, "user voice completed: " + secondWords, "assistant voice completed: " + secondAnswer,
		},
	},
	"events come twice": {
		faults: simulator.Faults{DuplicateEvents: true}, act: fullTurns, thread: finishedTurns,
	},
	"items come in the wrong order": {
		faults: simulator.Faults{ItemsOutOfOrder: true}, act: fullTurns, thread: finishedTurns,
	},
	"items come before those they follow": {
		act: func(c *caller) {
			hello(c)
			last := ""
			for _, ev := range c.all() {
				if ev.Type == realtime.TypeAudioTranscriptDone {
					last = ev.ItemID
				}
			}
			for _, it := range []string{
				`"previous_item_id":"first","item":{"id":"second","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"Second."}]}`,
				`"previous_item_id":"` + last + `","item":{"id":"first","type":"message","role":"user","status":"completed","content":[{"type":"input_text","text":"First."}]}`,
			} {
				for _, kind := range []string{realtime.TypeItemAdded, realtime.TypeItemDone} {
					c.session.Inject(fmt.Appendf(nil, `{"type":%q,%s}`, kind, it))
				}
			}
			c.saved("first item", says(thread.RoleUser, "First."))
		}, thread: slices.Concat(answered, []string{"user text completed: First.", "assistant voice completed: Second."}),
	},
	"events are unknown and malformed": {
		faults: simulator.Faults{InjectUnknown: true, InjectMalformed: true, ConversationEvent: true},
		act: func(c *caller) {
			fullTurns(c)
			unknown := 0
			for _, ev := range c.all() {
				if ev.Type == "response.hologram.delta" {
					unknown++
				}
			}
			if unknown != 3 {
				c.t.Errorf("%d unknown events were passed on, want one for each response", unknown)
			}
		}, thread: finishedTurns,
	},
	"the call has no Location": {
		faults: simulator.Faults{NoLocation: true}, act: hello, thread: answered,
	},
}

func fullTurns(c *caller) {
	hearTurn(c)
	c.say(chartPlease)
	c.next(realtime.TypeOutputBufferStopped)
	c.saved("answer after the chart", says(thread.RoleAssistant, chartAnswer))
}

// TestUpstreamFails has calls with a faulty upstream: they go on, or end for the right
// reason, and the thread has everything that was said.
func TestUpstreamFails(t *testing.T) {
	t.Parallel()
	for name, socket := range map[string]bool{"WebRTC": false, "WebSocket": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstreamFails(t, newRig(t, rigConfig{socket: socket}))
		})
	}
}

func upstreamFails(t *testing.T, r *rig) {
	t.Helper()
	// The session of a renewal could be taken for that of another call that begins then, so calls that
	// renew come one after the other.
	for _, renews := range []bool{false, true} {
		t.Run(fmt.Sprintf("calls that renew %t", renews), func(t *testing.T) {
			for name, f := range failures {
				if f.renews != renews {
					continue
				}
				t.Run(name, func(t *testing.T) {
					if !renews {
						t.Parallel()
					}
					c := r.dial(t, request{faults: f.faults, session: f.session})
					if !f.early {
						c.next("bridge.ready")
					}
					f.act(c)
					reason := "hangup"
					if f.reason != "" {
						reason = f.reason
						c.wantEnd(reason)
					}
					r.over(c, reason)
					r.wantLike(t, c.thread, f.thread)
					r.wantWords(c)
				})
			}
		})
	}
	r.quiet()
}

// wantEnd waits for what the caller is told about the end, whether the upstream or the
// bridge caused it.
func (c *caller) wantEnd(reason string) {
	c.t.Helper()
	if reason != "session_rejected" {
		if got := reasonOf(c.t, c.next("bridge.upstream.lost")); got != reason {
			c.t.Errorf("the upstream was lost because of %s, want %s", got, reason)
		}
	}
	if got := c.ended(); got != reason {
		c.t.Errorf("the call ended because of %s, want %s", got, reason)
	}
}

// wantWords checks that the thread has every word of the answers that the caller has seen.
func (r *rig) wantWords(c *caller) {
	c.t.Helper()
	seen := map[string]string{}
	for _, ev := range c.all() {
		if ev.Type == realtime.TypeAudioTranscriptDelta {
			seen[ev.ItemID] += ev.Delta
		}
	}
	for _, m := range r.messages(c.t, c.thread) {
		if words := seen[m.Metadata.ItemID]; !strings.HasPrefix(m.Text(), words) {
			c.t.Errorf("%d bytes of an answer are saved, %d were seen", len(m.Text()), len(words))
		}
		delete(seen, m.Metadata.ItemID)
	}
	if len(seen) > 0 {
		c.t.Errorf("%d answers were seen but are not saved", len(seen))
	}
}
