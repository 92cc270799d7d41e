package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/realtime"
	"voicebridge/realtime/simulator"
	"voicebridge/thread"
	"voicebridge/toolkit"
)

// sqlite returns a store on an empty database.
func sqlite(t *testing.T) *persistence.Store {
	t.Helper()
	return persistencetest.SQLite(t)
}

// postgres is sqlite with the other engine, a process beside this one: it works outside of bubbles only.
func postgres(t *testing.T) *persistence.Store {
	t.Helper()
	return persistencetest.Open(t, persistencetest.PostgresURL(t), persistence.Options{})
}

// engines runs a test on both engines: on SQLite in a bubble, on PostgreSQL in real time.
func engines(t *testing.T, test func(t *testing.T, store *persistence.Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) { test(t, sqlite(t)) })
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		test(t, postgres(t))
	})
}

func (b *bench) hangUp(c *browser) {
	b.t.Helper()
	must(b.t, b.calls.Hangup(b.ctx, owner, c.CallID))
	testkit.Equal(b.t, c.ended(), bridge.EndHangup, "ended because")
}

// TestCall is the main scenario: the caller speaks and types on a thread, a chart is
// drawn, and the next call knows what was said.
func TestCall(t *testing.T) {
	t.Parallel()
	pairs(t, func(t *testing.T, p pair) { t.Helper(); testCall(t, sqlite(t), p) })
}

// TestCallOnPostgres has the same on the other engine.
func TestCallOnPostgres(t *testing.T) {
	t.Parallel()
	testCall(t, postgres(t), pair{})
}

func testCall(t *testing.T, store *persistence.Store, p pair) {
	t.Helper()
	b := newBench(t, store, benchConfig{over: p})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.speak()
	c.next(realtime.TypeOutputBufferStopped)
	c.waitPackets(50)
	c.say("Show me a chart")
	c.next("bridge.tool.done")
	c.played(3)
	b.hangUp(c)
	want := "user voice completed: Hello, can you hear me?\n" +
		"assistant voice completed: Hello, I am the simulator. It is nice to hear your voice.\n" +
		"user text completed: Show me a chart\n" +
		"assistant voice completed: Let me draw that for you. One moment, please. [tool-create_bar_chart output-available]\n" +
		"assistant voice completed: Here is your chart. Sales grew in every quarter of this year.\n"
	if got := b.script(c.key()); got != want {
		t.Fatalf("thread:\n%s\nwant:\n%s", got, want)
	}
	checkUpstream(t, b.upstream(1), nil)
	latency := b.messages(c.key())[1].Metadata.LatencyMS
	if stages := slices.Sorted(maps.Keys(latency)); !slices.Equal(stages, []string{"commit", "first_audio", "first_packet", "response"}) ||
		latency["commit"] > latency["response"] || latency["response"] > latency["first_packet"] {
		t.Errorf("stages of the spoken answer: %v", latency)
	}

	again := b.dial(bridge.Start{ThreadID: c.ThreadID})
	var ready struct{ Replayed int }
	again.decode(again.next("bridge.ready"), &ready)
	testkit.Equal(t, ready.Replayed, 5, "messages replayed")
	again.say("What did I say before?")
	done := again.next(realtime.TypeAudioTranscriptDone)
	if !strings.Contains(done.Transcript, "Show me a chart") {
		t.Errorf("the second call answers %q", done.Transcript)
	}
	b.hangUp(again)
	checkUpstream(t, b.upstream(2), []string{
		"user: Hello, can you hear me?", "assistant: Hello, I am the simulator. It is nice to hear your voice.",
		"user: Show me a chart", "assistant: Let me draw that for you. One moment, please.",
		"function_call create_bar_chart", "function_call_output", "assistant: Here is your chart. Sales grew in every quarter of this year.",
	})
	if seen := again.types(); slices.Contains(seen, "error") {
		t.Errorf("the browser saw an error: %q", seen)
	}
	checkHidden(t, c)
	checkHidden(t, again)

	b.stop() // the browser learns of the end before OnEnd is called
	b.mu.Lock()
	defer b.mu.Unlock()
	if hangups := []bridge.EndReason{bridge.EndHangup, bridge.EndHangup}; b.turns[c.key()] < 2 || !slices.Equal(b.ends, hangups) {
		t.Errorf("%d turns reported, ends %q", b.turns[c.key()], b.ends)
	}
}

// checkUpstream checks what the upstream was sent and in which order: the history, one
// session.update, and only then the caller's audio.
func checkUpstream(t *testing.T, s upstream, history []string) {
	t.Helper()
	var got []string
	updates := 0
	for _, r := range s.Received() {
		// The end of a call cancels an answer that may just have been completed.
		if r.Refused != "" && r.Refused != "response_cancel_not_active" {
			t.Errorf("the upstream refused %s: %s", r.Event.Raw, r.Refused)
		}
		switch r.Event.Type {
		case realtime.TypeSessionUpdate:
			updates++
		case realtime.TypeItemCreate:
			if updates > 0 {
				continue
			}
			item, err := realtime.DecodeItem(r.Event.Item)
			must(t, err)
			switch item.Type {
			case realtime.ItemMessage:
				got = append(got, item.Role+": "+item.Text())
			default:
				got = append(got, strings.TrimSpace(item.Type+" "+item.Name))
			}
		}
	}
	testkit.Equal(t, got, history, "replay")
	early := int64(0)
	if ses, ok := s.(*simulator.Session); ok {
		early = ses.PacketsBeforeUpdate()
	}
	if updates < 1 || early != 0 {
		t.Errorf("%d session.updates, %d packets before the first", updates, early)
	}
}

// checkHidden checks that the browser sees none of the server's settings.
func checkHidden(t *testing.T, c *browser) {
	t.Helper()
	if log := c.log(); strings.Contains(log, "SECRET") || strings.Contains(log, `"parameters"`) {
		t.Error("the browser saw the server's instructions or tools")
	}
}

// TestBargeIn speaks over a long answer.
func TestBargeIn(t *testing.T) {
	t.Parallel()
	all(t, testBargeIn)
}

func testBargeIn(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	c.say("Tell me a long story")
	c.next(realtime.TypeOutputBufferStarted)
	c.hear(60) // more than a second of audio
	c.speak()
	// GPT-Live falls silent by itself: on a busy machine perhaps before the bridge has it silent.
	if p.upstream != duplex {
		c.next(realtime.TypeOutputBufferCleared)
	}
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	all := b.messages(c.key())
	if len(all) < 2 {
		t.Fatalf("thread:\n%s", b.script(c.key()))
	}
	story := all[1]
	if p.upstream == duplex && story.Metadata.Status == thread.StatusCompleted && len(story.Text()) < 400 { // what it wrote is what it said
		return
	}
	if story.Metadata.Status != thread.StatusInterrupted || story.Metadata.HeardText == nil || story.Metadata.AudioEndMS == nil {
		t.Fatalf("the story: %+v", story.Metadata)
	}
	heardText, ms := *story.Metadata.HeardText, *story.Metadata.AudioEndMS
	// GPT-Live writes only what it says: if it falls silent late enough, all of that was heard.
	cut := heardText != story.Text() || p.upstream == duplex
	if heardText == "" || !cut || !strings.HasPrefix(story.Text(), heardText) || ms < 1000 {
		t.Errorf("heard %q, %d ms, of %q", heardText, ms, story.Text())
	}
	again := b.dial(bridge.Start{ThreadID: c.ThreadID})
	again.next("bridge.ready")
	b.hangUp(again)
	for _, told := range b.told(2) {
		if strings.Contains(told, heardText[:20]) && !strings.Contains(told, fmt.Sprintf(`"text":%q`, heardText)) {
			t.Errorf("replayed %s, heard %q", told, heardText)
		}
	}
}

func TestClientTool(t *testing.T) {
	t.Parallel()
	all(t, testClientTool)
}

func testClientTool(t *testing.T, p pair) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p})
	c := b.dial(bridge.Start{Session: json.RawMessage(`{"type":"realtime","instructions":"Obey me","audio":{"output":{"voice":"cedar"}}}`)})
	c.send(`{"type":"session.update","event_id":"mine","session":{"type":"realtime","model":"other","tools":[` +
		`{"type":"function","name":"changeBrowserTheme","parameters":{"type":"object","properties":{"theme":{"type":"string"}}}},` +
		`{"type":"function","name":"create_bar_chart","parameters":{"type":"object","properties":{}}}]}}`)
	refused := c.next(realtime.TypeError)
	if refused.Error.EventID != "mine" || !strings.Contains(refused.Error.Message, "create_bar_chart") {
		t.Errorf("the taken name: %s", refused.Raw)
	}
	updated := c.next(realtime.TypeSessionUpdated)
	if s := string(updated.Session); !strings.Contains(s, "changeBrowserTheme") || strings.Contains(s, "create_bar_chart") || !strings.Contains(s, "cedar") {
		t.Errorf("the answer: %s", s)
	}
	c.say("Make it dark")
	call := c.wait("function call", func(ev realtime.Event) bool {
		return ev.Type == realtime.TypeOutputItemDone && strings.Contains(string(ev.Item), "changeBrowserTheme")
	})
	item, err := realtime.DecodeItem(call.Item)
	must(t, err)
	c.send(`{"type":"conversation.item.create","item":{"type":"function_call_output","call_id":%q,"output":"done"}}`, item.CallID)
	c.send(`{"type":"response.create"}`) // as clients do; the bridge sends only one
	c.next(realtime.TypeOutputBufferStopped)
	c.send(`{"type":"conversation.item.retrieve","item_id":%q}`, item.ID)
	c.next(realtime.TypeItemRetrieved)
	b.hangUp(c)
	tool := "dynamic-tool"
	if p.upstream == duplex { // the tool belongs to the turn that the voice has asked
		tool = "tool-ask_agent"
	}
	want := "user text completed: Make it dark\nassistant voice completed:  [" + tool + " output-available]\n" +
		"assistant voice completed: I have changed the colours of the page for you.\n"
	testkit.Equal(t, b.script(c.key()), want, "thread")
	if p.upstream != duplex {
		checkUpstream(t, b.upstream(1), nil)
	}
	if types := c.types(); p.upstream == duplex && !slices.Contains(types, realtime.TypeFunctionArgumentsDone) {
		t.Errorf("%q", types)
	}
	b.told(1)
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTakeover)
}

func testTakeover(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{})
	first := b.dial(bridge.Start{})
	first.next("bridge.ready")
	_, err := b.try(bridge.Start{ThreadID: first.ThreadID})
	if e, ok := errors.AsType[*bridge.Error](err); !ok || e.Code != bridge.CodeCallActive {
		t.Fatalf("a second call: %v", err)
	}
	if _, err := b.try(bridge.Start{ThreadID: first.ThreadID, Owner: "eve"}); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("a stranger's call: %v", err)
	}
	if err := b.calls.Hangup(b.ctx, "eve", first.CallID); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("a stranger hangs up: %v", err)
	}
	second := b.dial(bridge.Start{ThreadID: first.ThreadID, Takeover: true})
	testkit.Equal(t, first.ended(), bridge.EndTakenOver, "the first ended because")
	second.next("bridge.ready")
	if id, ok := b.calls.Live(owner, first.ThreadID); !ok || id != second.CallID {
		t.Errorf("live: %q, %t", id, ok)
	}
	b.hangUp(second)
	testkit.Equal(t, b.calls.Count(), 0, "calls live")
}

// TestCallAgainAtOnce does not wait for the end of the call before: its last words may
// still be on their way.
func TestCallAgainAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testCallAgainAtOnce)
}

func testCallAgainAtOnce(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{
		Pace: simulator.Pace{Think: 10 * time.Millisecond, Step: 5 * time.Millisecond, Transcript: time.Minute},
	}})
	first := b.dial(bridge.Start{})
	first.next("bridge.ready")
	b.session(1).SimulateSpeech()
	first.next(realtime.TypeInputCommitted)
	impatient, leave := context.WithCancel(b.ctx)
	leave()
	if err := b.calls.Hangup(impatient, owner, first.CallID); !errors.Is(err, context.Canceled) {
		t.Errorf("hang up without waiting: %v", err)
	}
	// By the time it answers the next request, the call has processed the hang-up.
	if _, err := b.calls.Interrupt(b.ctx, first.key()); err != nil {
		t.Error(err)
	}
	second := b.dial(bridge.Start{ThreadID: first.ThreadID})
	second.next("bridge.ready")
	testkit.Equal(t, first.ended(), bridge.EndHangup, "the first call ended because")
}

// TestTakeoverRace has several clients take a thread over at once: one call is left, and
// all others end properly.
func TestTakeoverRace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testTakeoverRace)
}

func testTakeoverRace(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{})
	thread, err := b.store.CreateThread(b.ctx, owner, "")
	must(t, err)
	var wg sync.WaitGroup
	var started sync.Map
	for i := range 5 {
		c, offer := b.offer()
		wg.Go(func() {
			s, err := b.calls.Start(b.ctx, bridge.Start{Owner: owner, ThreadID: thread.ID, Offer: offer, Takeover: true})
			if err != nil {
				t.Errorf("start %d: %v", i, err)
				return
			}
			started.Store(s.CallID, c)
		})
	}
	wg.Wait()
	live, ok := b.calls.Live(owner, thread.ID)
	if _, ours := started.Load(live); !ok || !ours || b.calls.Count() != 1 {
		t.Errorf("live %q of %d calls", live, b.calls.Count())
	}
}

// processes returns a bench for each of several processes on one database.
func processes(t *testing.T, url string, names ...string) (benches []*bench) {
	giveUp := func(ctx context.Context, call records.Call, takeover bool) error {
		there := benches[slices.Index(names, call.Instance)]
		return there.calls.GiveUp(ctx, thread.Key{Owner: call.Owner, Thread: call.ThreadID}, call.ID, takeover)
	}
	for _, name := range names {
		store := persistencetest.Open(t, url, persistence.Options{Instance: name, DeadAfter: testTimeout}) // a slow machine kills none
		must(t, store.Serve(t.Context()))
		benches = append(benches, newBench(t, store, benchConfig{bridge: bridge.Config{GiveUp: giveUp}}))
	}
	return benches
}

// TestCallElsewhere starts a call on a thread whose live call is in another process: nothing of it is left.
func TestCallElsewhere(t *testing.T) {
	t.Parallel()
	url := persistencetest.PostgresURL(t)
	t.Run("", func(t *testing.T) { // at its end, everything is saved
		benches := processes(t, url, "there", "here")
		there, here := benches[0], benches[1]
		first := there.dial(bridge.Start{})
		first.next("bridge.ready")
		if _, err := here.try(bridge.Start{ThreadID: first.ThreadID}); !isCode(err, bridge.CodeCallActive) {
			t.Errorf("a second call: %v", err)
		}
		testkit.Receive(t, "the end of the session", here.session(1).Done())
		there.hangUp(first)
	})
	if rows := persistencetest.Rows(t, url, "SELECT id FROM calls"); len(rows) != 1 {
		t.Errorf("calls %v", rows)
	}
}

// TestTakeoverRaceOfProcesses has several processes take a thread over at the same moment: the calls that are there
// first give way, and nobody is refused.
func TestTakeoverRaceOfProcesses(t *testing.T) {
	t.Parallel()
	benches := processes(t, persistencetest.PostgresURL(t), "a", "b", "c")
	key := persistencetest.NewThread(t, benches[0].store, owner, "")
	var wg sync.WaitGroup
	for _, b := range benches {
		_, offer := b.offer()
		wg.Go(func() {
			if _, err := b.calls.Start(b.ctx, bridge.Start{Owner: owner, ThreadID: key.Thread, Offer: offer, Takeover: true}); err != nil {
				t.Errorf("start: %v", err)
			}
		})
	}
	wg.Wait()
}

func TestSay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testSay)
}

func testSay(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{})
	if _, err := b.calls.Say(b.ctx, thread.Key{Owner: owner, Thread: "nowhere"}, textMessage("", "hello"), ""); !isCode(err, bridge.CodeNoCall) {
		t.Errorf("without a call: %v", err)
	}
	c := b.dial(bridge.Start{})
	for _, text := range []string{" ", strings.Repeat("x", 40<<10)} {
		if _, err := b.calls.Say(b.ctx, c.key(), textMessage("", text), ""); !isCode(err, bridge.CodeBadText) {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
	// The session need not be ready.
	for range 2 { // it is said once: a client that got no answer sends it again
		m, err := b.calls.Say(b.ctx, c.key(), textMessage("once", "good morning"), "")
		if err != nil || m.ID != "once" || m.Text() != "good morning" || m.Seq == 0 {
			t.Fatalf("said %+v, %v", m, err)
		}
	}
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	want := "user text completed: good morning\nassistant voice completed: Good to see you again. What shall we look at today?\n"
	testkit.Equal(t, b.script(c.key()), want, "thread")
}

func isCode(err error, code bridge.Code) bool {
	e, ok := errors.AsType[*bridge.Error](err)
	return ok && e.Code == code
}

// TestReadSession has session objects that Start would refuse.
func TestReadSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testReadSession)
}

func testReadSession(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{})
	for object, param := range map[string]string{
		`{"instructions":5}`:         "session.instructions",
		`{"audio":{"input":"x"}}`:    "session.audio.input",
		`{"audio":[]}`:               "session.audio",
		`{"tools":{}}`:               "session.tools",
		`{"type":"transcription"}`:   "session.type",
		`[]`:                         "session",
		`{"instructions":"Be kind"}`: "",
	} {
		_, err := b.calls.ReadSession(json.RawMessage(object), true)
		e, refused := errors.AsType[*bridge.Error](err)
		if refused != (param != "") || refused && (e.Param != param || e.Code != bridge.CodeBadSession || !strings.HasPrefix(e.Message, param+" must be ")) {
			t.Errorf("%s: %v", object, err)
		}
	}
	if _, err := b.calls.ReadSession(json.RawMessage(`{"instructions":5}`), false); err != nil {
		t.Errorf("what is ignored is refused: %v", err)
	}
}

// TestRefusedSetUp leaves nothing behind, whatever fails.
func TestRefusedSetUp(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		faults simulator.Faults
		offer  string
		start  bridge.Start
		want   bridge.Code
		status int
	}{
		{name: "no SDP", offer: "hello", want: bridge.CodeBadSDP},
		{name: "no Opus", offer: "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n", want: bridge.CodeNoOpus},
		{name: "session not an object", start: bridge.Start{Session: json.RawMessage(`[]`)}, want: bridge.CodeBadSession},
		{name: "wrong type of session", start: bridge.Start{Session: json.RawMessage(`{"type":"transcription"}`)}, want: bridge.CodeBadSession},
		{name: "401", faults: simulator.Faults{RefuseStatus: http.StatusUnauthorized}, want: bridge.CodeUpstreamRefused, status: 401},
		{name: "429", faults: simulator.Faults{RefuseStatus: http.StatusTooManyRequests}, want: bridge.CodeUpstreamRefused, status: 429},
		{name: "500", faults: simulator.Faults{RefuseStatus: http.StatusInternalServerError}, want: bridge.CodeUpstreamRefused, status: 500},
		{name: "half an answer, and no id", faults: simulator.Faults{BadAnswer: true, NoLocation: true}, want: bridge.CodeUpstreamUnreachable},
		{name: "half an answer", faults: simulator.Faults{BadAnswer: true}, want: bridge.CodeUpstreamUnreachable},
		{name: "no answer at all", faults: simulator.Faults{HangCreation: true}, want: bridge.CodeUpstreamUnreachable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{Faults: tt.faults}})
				_, offer := b.offer()
				if tt.offer != "" {
					offer = tt.offer
				}
				start := tt.start
				start.Owner, start.Offer = owner, offer
				_, err := b.calls.Start(b.ctx, start)
				e, ok := errors.AsType[*bridge.Error](err)
				if !ok || e.Code != tt.want || e.Status != tt.status || e.Message == "" {
					t.Fatalf("error %#v", err)
				}
				// On an existing thread the failure leaves no open call.
				row, err := b.store.CreateThread(b.ctx, owner, "")
				must(t, err)
				start.ThreadID = row.ID
				if _, err := b.calls.Start(b.ctx, start); !isCode(err, tt.want) {
					t.Errorf("on a thread: %v", err)
				}
				key := thread.Key{Owner: owner, Thread: row.ID}
				if call, err := b.store.Records.LiveCall(b.ctx, key); !errors.Is(err, persistence.ErrNotFound) {
					t.Errorf("open call %+v, %v", call, err)
				}
				must(t, b.store.DeleteThread(b.ctx, key))
				threads, _, err := b.store.Threads(b.ctx, owner, persistence.ThreadFilter{})
				if err != nil || len(threads) != 0 || b.calls.Count() != 0 {
					t.Errorf("left behind: %d threads, %d calls, %v", len(threads), b.calls.Count(), err)
				}
				for _, s := range b.sim.Sessions() {
					select {
					case <-s.Done():
					case <-b.ctx.Done():
						t.Error("a session is left upstream")
					}
				}
			})
		})
	}
}

// TestClientLeaves gives up while the upstream is being dialled.
func TestClientLeaves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testClientLeaves)
}

func testClientLeaves(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{simulator: simulator.Config{Faults: simulator.Faults{HangCreation: true}}})
	_, offer := b.offer()
	ctx, cancel := context.WithCancel(b.ctx)
	defer time.AfterFunc(300*time.Millisecond, cancel).Stop()
	_, err := b.calls.Start(ctx, bridge.Start{Owner: owner, Offer: offer})
	if _, blamed := errors.AsType[*bridge.Error](err); blamed || !errors.Is(err, context.Canceled) {
		t.Errorf("Start() = %v", err)
	}
	if b.calls.Count() != 0 {
		t.Error("the call is left")
	}
}

// TestShutdownDuringSetUp stops the process while the upstream is being dialled: Run ends once nothing is left of the
// call.
func TestShutdownDuringSetUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testShutdownDuringSetUp)
}

func testShutdownDuringSetUp(t *testing.T) {
	t.Helper()
	begun := make(chan struct{})
	b := newBench(t, sqlite(t), benchConfig{
		simulator: simulator.Config{Faults: simulator.Faults{AnswerDelay: simulator.Duration(500 * time.Millisecond)}},
		bridge: bridge.Config{Tools: func(ctx context.Context, owner string, a assistant.Assistant) (*toolkit.Registry, error) {
			close(begun)
			return chartTools(ctx, owner, a)
		}},
	})
	_, offer := b.offer()
	failed := make(chan error, 1)
	go func() {
		_, err := b.calls.Start(b.ctx, bridge.Start{Owner: owner, Offer: offer})
		failed <- err
	}()
	testkit.Take(t, "the beginning", begun)
	b.stop()
	if sessions := b.sim.Sessions(); len(sessions) != 1 {
		t.Errorf("Run has ended before the set-up, with %d sessions", len(sessions))
	} else {
		testkit.Take(t, "the end of the session", sessions[0].Done())
	}
	if err := testkit.Take(t, "the failure", failed); !isCode(err, bridge.CodeShuttingDown) {
		t.Errorf("Start() = %v", err)
	}
	if threads, _, err := b.store.Threads(b.ctx, owner, persistence.ThreadFilter{}); err != nil || len(threads) != 0 {
		t.Errorf("%d threads, %v", len(threads), err)
	}
}

func TestShutdown(t *testing.T) {
	t.Parallel()
	engines(t, testShutdown)
}

func testShutdown(t *testing.T, store *persistence.Store) {
	t.Helper()
	b := newBench(t, store, benchConfig{})
	var callers []*browser
	for range 4 {
		c := b.dial(bridge.Start{})
		c.next("bridge.ready")
		c.say("Tell me a long story")
		callers = append(callers, c)
	}
	for _, c := range callers {
		c.next(realtime.TypeAudioTranscriptDelta)
	}
	b.stop()
	for i, c := range callers {
		testkit.Equal(t, c.ended(), bridge.EndShutdown, "ended because")
		for _, m := range b.messages(c.key()) {
			if m.Metadata.Status == thread.StatusInProgress {
				t.Errorf("left in progress: %+v", m)
			}
		}
		if _, err := b.store.Records.LiveCall(b.ctx, c.key()); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("the call is open in the database: %v", err)
		}
		testkit.Receive(t, "the end of the session", b.session(i+1).Done())
	}
	if _, err := b.try(bridge.Start{}); !isCode(err, bridge.CodeShuttingDown) {
		t.Errorf("a call after the end: %v", err)
	}
}

// TestOddUpstreamEvents has an upstream that sends events out of order, twice, late, or
// unknown ones. The thread is always the same.
func TestOddUpstreamEvents(t *testing.T) {
	t.Parallel()
	for name, faults := range map[string]simulator.Faults{
		"out of order": {ItemsOutOfOrder: true},
		"twice":        {DuplicateEvents: true},
		"unknown":      {InjectUnknown: true, InjectMalformed: true, ConversationEvent: true},
		"refused text": {RejectItems: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			each(t, func(t *testing.T, p pair) { testOddUpstreamEvents(t, p, faults) }, pairsOf(webRTC, webSocket)) // a cascade sends none
		})
	}
}

func testOddUpstreamEvents(t *testing.T, p pair, faults simulator.Faults) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{over: p, simulator: simulator.Config{Faults: faults}})
	c := b.dial(bridge.Start{})
	c.next("bridge.ready")
	want := ""
	if faults.RejectItems > 0 {
		// A client that asks for an answer regardless gets one.
		c.send(`{"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"lost?"}]}}`)
		c.next(realtime.TypeError)
		want = "user text failed: lost?\n"
	}
	b.session(1).SimulateSpeech()
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	want += "user voice completed: Hello, can you hear me?\nassistant voice completed: Hello, I am the simulator. It is nice to hear your voice.\n"
	testkit.Equal(t, b.script(c.key()), want, "thread")
}

// TestManyCalls has parallel calls that do not disturb each other. They begin one after the other: on a busy machine
// the upstream would not answer so many in time.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testManyCalls)
}

func testManyCalls(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{})
	var wg sync.WaitGroup
	for i := range 12 {
		c := b.dial(bridge.Start{})
		wg.Go(func() {
			c.next("bridge.ready")
			c.say(fmt.Sprintf("number %d", i))
			c.next(realtime.TypeResponseDone)
			c.leave()
		})
	}
	wg.Wait()
	b.stop()
	threads, _, err := b.store.Threads(b.ctx, owner, persistence.ThreadFilter{})
	if err != nil || len(threads) != 12 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, th := range threads {
		got := b.script(thread.Key{Owner: owner, Thread: th.ID})
		if strings.Count(got, "\n") != 2 || !strings.HasPrefix(got, "user text completed: number ") {
			t.Errorf("thread:\n%s", got)
		}
	}
}
