package e2e

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/realtimetest"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
)

// strictly are the strict servers, with the settings of the upstream that each is.
var strictly = map[string]struct {
	dialect   realtimetest.Dialect
	settings  string
	truncates bool
	seeded    int      // items in which the next call is told of the last one, -1: one for each
	callers   []string // the transports of callers; the first is in every run of the tests, the others in that of the night
}{
	"realtime": {realtimetest.Realtime(), `"profile":"realtime"`, true, -1, []string{"websocket", "webrtc"}},
	"azure":    {realtimetest.Azure(), `"profile":"azure"`, true, -1, []string{"websocket"}},
	"beta":     {realtimetest.Beta(), `"profile":"speech-to-speech","shape":"beta"`, true, -1, []string{"webrtc"}},
	"xai":      {realtimetest.XAI(), `"profile":"xai"`, false, 1, []string{"websocket", "webrtc"}},
	"qwen":     {realtimetest.Qwen(), `"profile":"qwen"`, false, 0, []string{"websocket", "webrtc"}},
}

const (
	longPlease  = "Recite."
	shortPlease = "Speak."
)

// strictAnswers are the answers of the strict servers.
func strictAnswers(words string) realtimetest.Reply {
	switch words {
	case spokenWords:
		return realtimetest.Reply{Say: spokenAnswer, Sound: time.Second}
	case secondWords:
		return realtimetest.Reply{Say: secondAnswer, Sound: time.Second}
	case waitPlease:
		return realtimetest.Reply{Call: "ask_me", Arguments: `{"a":1}`}
	case "output: Yes.":
		return realtimetest.Reply{Say: "It said so.", Sound: time.Second}
	case longPlease, shortPlease: // which is still being made, or is made, when it is interrupted
		sound := time.Minute
		if words == shortPlease {
			sound = 8 * time.Second
		}
		var say strings.Builder
		for i := range int(sound / (100 * time.Millisecond)) {
			fmt.Fprintf(&say, "n%d ", i)
		}
		return realtimetest.Reply{Say: strings.TrimSpace(say.String()), Sound: sound}
	}
	return realtimetest.Reply{Say: "Well.", Sound: 500 * time.Millisecond}
}

// strictRig is the program with a strict server as its only upstream.
func strictRig(t *testing.T, server *realtimetest.Strict, settings string, environ ...string) *rig {
	t.Helper()
	server.Model, server.Answer = "voice-1", strictAnswers
	server.Hears = []string{spokenWords, secondWords, secondWords, secondWords}
	url := server.Serve(t)
	r := newRig(t, rigConfig{
		upstreams: fmt.Sprintf(`[{"name":"strict",%s,"transport":"websocket","url":%q,"model":"voice-1","voice":"eve","api_key_env":"STRICT_KEY"}]`, settings, url),
		environ:   append(environ, "STRICT_KEY="+realtimetest.Key, "VOICEBRIDGE_REALTIME__KEYTERMS=Aoife,Xarelto"),
	})
	r.another = true
	return r
}

// TestStrictUpstream has the program call upstreams over WebSocket that were written from the vendors' pages and refuse what these do not
// name: what is said comes in order, tools run, interruptions leave what was heard, the next call is told of it, and
// nothing is refused.
func TestStrictUpstream(t *testing.T) {
	t.Parallel()
	for name, tt := range strictly {
		t.Run(name+" by "+tt.callers[0], func(t *testing.T) {
			t.Parallel()
			testStrictUpstream(t, name, tt.callers[0])
		})
	}
}

func testStrictUpstream(t *testing.T, name, transport string) {
	t.Helper()
	takePlace(t)
	tt := strictly[name]
	server := &realtimetest.Strict{Dialect: tt.dialect}
	r := strictRig(t, server, tt.settings)
	c := strictCaller(t, r, transport, "")
	strictCall(c, server, tt.truncates)
	c.hangUp()
	r.untilSaved(c.caller)
	r.wantLike(t, c.thread, []string{
		"user voice completed: " + spokenWords, "assistant voice completed: " + spokenAnswer,
		"user text completed: " + waitPlease, "assistant voice completed: [dynamic-tool output-available]", "assistant voice completed: It said so.",
		"user text completed: " + longPlease, "assistant voice interrupted: n0 n1 n2 …",
		"user voice completed: " + secondWords, "assistant voice completed: " + secondAnswer,
		"user text completed: " + shortPlease, "assistant voice interrupted: n0 n1 n2 …",
		"user voice completed: " + secondWords, "assistant voice completed: " + secondAnswer,
	})
	testkit.Equal(t, r.rows(t, "SELECT DISTINCT upstream FROM responses"), []string{"strict"}, "the answers")
	// The next call knows what was said.
	again := strictCaller(t, r, transport, c.thread)
	again.say("Hello.")
	again.heardAll("Well.", 1)
	again.hangUp()
	r.untilSaved(again.caller)
	sessions := server.Sessions()
	if n := sessions[len(sessions)-1].Seeded(); n != tt.seeded && tt.seeded >= 0 || tt.seeded < 0 && n < 10 {
		t.Errorf("the next call's history has %d items", n)
	}
	for _, what := range server.Refused() {
		t.Errorf("refused: %s", what)
	}
	for _, ev := range append(c.all(), again.all()...) {
		if ev.Error != nil {
			t.Errorf("the caller is told %s", ev.Raw)
		}
	}
	testkit.Eventually(t, "the end of the sessions", func() bool {
		return !slices.ContainsFunc(server.Sessions(), func(s *realtimetest.StrictSession) bool { return !s.Ended() })
	})
	r.quiet()
}

// strictCaller calls over that transport.
func strictCaller(t *testing.T, r *rig, transport, thread string) *socketCaller {
	t.Helper()
	if transport == "webrtc" {
		c := &socketCaller{caller: r.dial(t, request{session: asksMe, thread: thread})}
		c.next("bridge.ready")
		return c
	}
	c, status, body := r.connect(t, handshake{query: "thread_id=" + thread})
	if c == nil {
		t.Fatalf("connect: %d %s", status, body)
	}
	c.put(`{"type":"session.update","session":%s}`, asksMe)
	c.next("bridge.ready")
	return c
}

// ask speaks, over either transport.
func (c *socketCaller) ask() {
	c.t.Helper()
	if c.conn == nil {
		c.speak()
		return
	}
	before := c.spokenTurns()
	c.append(samples(c.t, simulator.UserSpeech()))
	c.until("spoken turn", func() bool { return c.turns > before })
}

// strictCall is a call with all that calls have.
func strictCall(c *socketCaller, server *realtimetest.Strict, truncates bool) {
	c.t.Helper()
	c.ask()
	c.heardAll(spokenAnswer, 1)
	c.say(waitPlease)
	c.deliver(c.tool(), "Yes.")
	c.heardAll("It said so.", 1)
	for n, words := range []string{longPlease, shortPlease} {
		c.say(words)
		begun := c.wait("beginning of an answer", func(ev timedEvent) bool {
			return ev.Type == realtime.TypeAudioTranscriptDelta && strings.HasPrefix(ev.Delta, "n0")
		})
		c.until("two seconds of the answer", func() bool { return c.lengthOf(begun.ItemID, begun.at) > 2*time.Second })
		played := time.Now()
		if c.conn != nil { // it came ahead of what a client plays by now
			<-time.After(time.Until(begun.at.Add(2 * time.Second)))
		}
		says := c.conn != nil && n == 0 // a client that does not say what was heard is told what was sent
		if c.conn == nil {
			c.speak()
		} else {
			c.append(samples(c.t, simulator.UserSpeech()))
			played = c.next(realtime.TypeInputSpeechStarted).at
		}
		if says {
			c.put(`{"type":"conversation.item.truncate","item_id":%q,"content_index":0,"audio_end_ms":1234}`, begun.ItemID)
		}
		truncated := c.next(realtime.TypeItemTruncated)
		told := time.Duration(truncated.AudioEndMS) * time.Millisecond
		c.mu.Lock()
		heard := c.lengthOf(begun.ItemID, begun.at)
		c.mu.Unlock()
		if c.conn != nil {
			heard = min(heard, played.Sub(begun.at))
		}
		if truncated.ItemID != begun.ItemID || says && told != 1234*time.Millisecond || !says && (told-heard).Abs() > 700*time.Millisecond {
			c.t.Errorf("after %s of sound: %s", heard, truncated.Raw)
		}
		c.saved("interruption", func(m thread.Message) bool {
			return m.Metadata.Status == thread.StatusInterrupted && m.Metadata.AudioEndMS != nil && *m.Metadata.AudioEndMS == truncated.AudioEndMS
		})
		c.heardAll(secondAnswer, n+1)
		c.checkHeard(server, n, truncated.AudioEndMS, truncates)
	}
}

// heardAll waits until the n-th answer with these words was heard to its end, and is saved.
func (c *socketCaller) heardAll(words string, n int) {
	c.t.Helper()
	end := realtime.TypeResponseDone // which comes once all was sent
	if c.conn == nil {
		end = realtime.TypeOutputBufferStopped
	}
	c.until(fmt.Sprintf("answer %q number %d", words, n), func() bool {
		ended, saved := 0, map[string]bool{}
		of := map[string]bool{}
		for _, ev := range c.events {
			switch {
			case ev.Type == realtime.TypeAudioTranscriptDone && ev.Transcript == words:
				of[ev.ResponseID] = true
			case ev.Type == end && (of[ev.ResponseID] || of[memberText(ev.Response, "id")]):
				ended++
			}
			if m, ok := messageOf(c.t, ev); ok && says(thread.RoleAssistant, words)(m) {
				saved[m.ID] = true
			}
		}
		return ended >= n && len(saved) >= n
	})
	if c.conn != nil {
		<-time.After(2 * time.Second) // it came ahead of what a client plays by now, which is shorter
	}
}

// memberText returns a member of an object, if it is a string.
func memberText(object json.RawMessage, name string) string {
	var s string
	_ = json.Unmarshal(realtime.Member(object, name), &s)
	return s
}

// lengthOf returns how much of an answer was heard, which began at that time; c.mu is held.
func (c *socketCaller) lengthOf(itemID string, begun time.Time) (length time.Duration) {
	if c.conn == nil {
		for _, at := range c.soundAt {
			if at.After(begun.Add(-200 * time.Millisecond)) { // words may come behind their sound
				length += 20 * time.Millisecond
			}
		}
		return length
	}
	for _, ev := range c.events {
		if ev.Type == realtime.TypeOutputAudioDelta && ev.ItemID == itemID {
			length += time.Duration(base64.StdEncoding.DecodedLen(len(ev.Delta))) * time.Second / 48000
		}
	}
	return length
}

// checkHeard compares what the upstream was told of an interruption with what the caller was.
func (c *socketCaller) checkHeard(server *realtimetest.Strict, n int, told int64, truncates bool) {
	c.t.Helper()
	cuts := server.Sessions()[0].Cuts()
	switch {
	case !truncates && len(cuts) > 0:
		c.t.Errorf("an upstream that does not truncate was told %v", cuts)
	case truncates && len(cuts) <= n:
		c.t.Errorf("the upstream was told %v", cuts)
	case truncates && cuts[n].Played.Milliseconds() != told:
		c.t.Errorf("the upstream was told %v, the caller %d ms", cuts[n], told)
	}
}

// TestStrictRenewal has the program call an upstream whose sessions end soon: each is replaced before, the conversation goes on,
// and nothing is refused.
func TestStrictRenewal(t *testing.T) {
	t.Parallel()
	testStrictRenewal(t, "realtime", "websocket")
}

func testStrictRenewal(t *testing.T, name, transport string) {
	t.Helper()
	server := &realtimetest.Strict{Dialect: strictly[name].dialect, Lives: renewedLength}
	r := strictRig(t, server, strictly[name].settings, renewedEarly)
	c := strictCaller(t, r, transport, "")
	var want []string
	for n := range 3 {
		c.say("Hello.")
		c.heardAll("Well.", n+1)
		c.next("bridge.upstream.renewed")
		want = append(want, "user text completed: Hello.", "assistant voice completed: Well.")
	}
	c.ask()
	c.heardAll(spokenAnswer, 1)
	c.hangUp()
	r.untilSaved(c.caller)
	r.wantLike(t, c.thread, append(want, "user voice completed: "+spokenWords, "assistant voice completed: "+spokenAnswer))
	for _, s := range server.Sessions() {
		if s.Expired() {
			t.Error("a session was in use until its end")
		}
	}
	for _, what := range server.Refused() {
		t.Errorf("refused: %s", what)
	}
	r.quiet()
}
