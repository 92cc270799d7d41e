package bridge_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"voicebridge/assistant"
	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/toolkit"
)

// makes adds an assistant of the owner.
func (b *bench) makes(text string) assistant.Assistant {
	b.t.Helper()
	a, err := assistant.Parse([]byte(text))
	must(b.t, err)
	a, err = b.store.Assistants.Create(b.ctx, owner, a, true)
	must(b.t, err)
	return a
}

// updated returns the first session.update that the n-th session got.
func (b *bench) updated(n int) (session struct {
	Instructions string
	Audio        struct {
		Input struct {
			TurnDetection json.RawMessage `json:"turn_detection"`
			Transcription struct{ Model, Language, Prompt string }
		}
		Output struct {
			Voice string
			Speed float64
		}
	}
}) {
	b.t.Helper()
	event, err := b.session(n).WaitFor(b.ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeSessionUpdate })
	must(b.t, err)
	must(b.t, json.Unmarshal(event.Session, &session))
	return session
}

// chosen names an assistant of the tests' owner.
func chosen(id string) assistant.Ref { return assistant.Ref{Owner: owner, ID: id} }

// TestAssistantsOfCalls has two assistants, whose calls differ on the wire, and one that is deleted.
func TestAssistantsOfCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testAssistantsOfCalls)
}

func testAssistantsOfCalls(t *testing.T) {
	t.Helper()
	url := persistencetest.SQLiteURL(t)
	store := persistencetest.Open(t, url, persistence.Options{})
	b := newBench(t, store, benchConfig{bridge: bridge.Config{Settings: bridge.Settings{ReplayMessages: 20, Session: bridge.SessionConfig{
		Model: "gpt-realtime-2.1", Voice: "marin", TranscriptionModel: "gpt-transcribe", Instructions: "The server's, for {{user}}.",
	}}}})
	b.makes(`{"id":"desk","name":"Desk","instructions":"You help {{user}} in {{city}}.{{nothing}}","variables":{"city":"Bonn"},
		"keyterms":["Aoife","Xarelto"],"voice":{"voice":"cedar","speed":1.25,"language":"de","transcription_model":"whisper-1","turn_detection":{"type":"none"}},"history":{"replay_messages":0}}`)
	b.makes(`{"id":"plain","name":"Plain"}`)

	c := b.dial(bridge.Start{Owner: owner, User: "Anna", Assistant: chosen("desk"), Variables: map[string]string{"city": "Cologne"}})
	c.next("bridge.ready")
	got := b.updated(1)
	if got.Instructions != "You help Anna in Cologne." || got.Audio.Output.Voice != "cedar" || got.Audio.Output.Speed != 1.25 ||
		got.Audio.Input.Transcription.Language != "de" || got.Audio.Input.Transcription.Model != "whisper-1" || got.Audio.Input.Transcription.Prompt != "Aoife, Xarelto" || string(got.Audio.Input.TurnDetection) != "null" {
		t.Errorf("the session of desk: %+v", got)
	}
	c.say("Hello")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)

	// The thread keeps its assistant, which replays nothing.
	again := b.dial(bridge.Start{Owner: owner, User: "Anna", ThreadID: c.ThreadID})
	var ready struct{ Replayed int }
	again.decode(again.next("bridge.ready"), &ready)
	if got := b.updated(2); got.Instructions != "You help Anna in Cologne." || ready.Replayed != 0 {
		t.Errorf("the next call: %+v, %d replayed", got, ready.Replayed)
	}
	b.hangUp(again)

	// Another one holds from the next call on, and so does none.
	other := b.dial(bridge.Start{Owner: owner, User: "Anna", ThreadID: c.ThreadID, Assistant: chosen("plain")})
	other.decode(other.next("bridge.ready"), &ready)
	if got := b.updated(3); got.Instructions != "The server's, for Anna." || got.Audio.Output.Voice != "marin" || got.Audio.Output.Speed != 0 || ready.Replayed == 0 {
		t.Errorf("the session of plain: %+v, %d replayed", got, ready.Replayed)
	}
	b.hangUp(other)
	_, err := store.SetAssistant(b.ctx, c.key(), chosen("desk"), nil)
	must(t, err)
	must(t, store.Assistants.Delete(b.ctx, owner, "desk"))
	last := b.dial(bridge.Start{Owner: owner, User: "Anna", ThreadID: c.ThreadID})
	last.next("bridge.ready")
	if got := b.updated(4); got.Instructions != "The server's, for Anna." || got.Audio.Output.Voice != "marin" {
		t.Errorf("the session without an assistant: %+v", got)
	}
	b.hangUp(last)
	b.stop()
	var saved []string
	for _, row := range persistencetest.Rows(t, url, "SELECT assistant FROM call_summary") {
		saved = append(saved, row[0])
	}
	testkit.Equal(t, strings.Join(saved, ","), "desk,desk,plain,", "call_summary has the assistants")
}

// TestDeniedToolsOfClients has a client declare tools of which the server denies one, and the assistant another.
func TestDeniedToolsOfClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testDeniedToolsOfClients)
}

func testDeniedToolsOfClients(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{bridge: bridge.Config{Settings: bridge.Settings{Deny: toolkit.MustNames("look")}}})
	b.makes(`{"id":"calm","name":"Calm","tools":{"deny":["change*"]}}`)
	for id, want := range map[string][]string{"": {"changeColours", "write"}, "calm": {"write"}} {
		c := b.dial(bridge.Start{Owner: owner, Assistant: chosen(id)})
		c.next("bridge.ready")
		c.send(`{"type":"session.update","session":{"type":"realtime","tools":[{"type":"function","name":"look","parameters":{"type":"object","properties":{}}},` +
			`{"type":"function","name":"changeColours","parameters":{"type":"object","properties":{}}},{"type":"function","name":"write","parameters":{"type":"object","properties":{}}}]}}`)
		var updated struct {
			Session struct{ Tools []struct{ Name string } }
		}
		c.decode(c.next(realtime.TypeSessionUpdated), &updated)
		var got []string
		for _, tool := range updated.Session.Tools {
			got = append(got, tool.Name)
		}
		testkit.Equal(t, got, want, "with assistant %q the client", id)
		b.hangUp(c)
	}
}

// TestGreeting is said first in a call on an empty thread, and only there.
func TestGreeting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testGreeting)
}

func testGreeting(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{})
	b.makes(`{"id":"desk","name":"Desk","greeting":"Welcome to {{shop}}, {{user}}!\nHow are you?","variables":{"shop":"Anna's"}}`)
	c := b.dial(bridge.Start{Owner: owner, User: "Bert", Assistant: chosen("desk")})
	c.next("bridge.ready")
	c.next(realtime.TypeOutputBufferStopped)
	const greeting = "Welcome to Anna's, Bert!\nHow are you?"
	var asked struct {
		Response struct {
			Instructions string
			ToolChoice   string `json:"tool_choice"`
		}
	}
	event, err := b.session(1).WaitFor(b.ctx, func(e realtime.Event) bool { return e.Type == realtime.TypeResponseCreate })
	must(t, err)
	must(t, json.Unmarshal(event.Raw, &asked))
	if !strings.Contains(asked.Response.Instructions, greeting) || asked.Response.ToolChoice != "none" {
		t.Errorf("the model is asked for %s", event.Raw)
	}
	checkUpstream(t, b.session(1), nil)
	c.say("Hello")
	c.next(realtime.TypeOutputBufferStopped)
	b.hangUp(c)
	script := b.script(c.key())
	if want := "assistant voice completed: " + greeting + "\nuser text completed: Hello\n"; !strings.HasPrefix(script, want) {
		t.Errorf("thread:\n%s\nwant\n%s", script, want)
	}
	testkit.Equal(t, b.requests(1), 2, "answers were asked for, want the greeting and one")
	again := b.dial(bridge.Start{Owner: owner, ThreadID: c.ThreadID})
	again.next("bridge.ready")
	again.say("And now?")
	again.next(realtime.TypeOutputBufferStopped)
	b.hangUp(again)
	testkit.Equal(t, b.requests(2), 1, "answers were asked for in the second call")
}

// requests counts how often the n-th session was asked for an answer.
func (b *bench) requests(n int) (count int) {
	for _, r := range b.session(n).Received() {
		if r.Event.Type == realtime.TypeResponseCreate {
			count++
		}
	}
	return count
}

func TestLimitsOfAssistants(t *testing.T) {
	t.Parallel()
	minutes := func(n float64) *float64 { return &n }
	for _, c := range []struct {
		fixed  bool
		server float64
		own    *float64
		want   float64
	}{
		{false, 10, nil, 10}, {false, 10, minutes(5), 5}, {false, 10, minutes(20), 10}, {false, 10, minutes(0), 10}, {false, 0, minutes(20), 20}, {false, 0, minutes(0), 0},
		{true, 10, minutes(20), 20}, {true, 10, minutes(0), 0}, {true, 10, nil, 10},
	} {
		testkit.Equal(t, bridge.Narrowed(c.fixed, c.server, c.own, 1), c.want, "narrowed(%+v)", c)
	}
}

// TestRoutesOfAssistants gives models and voices to the upstream that the assistant means.
func TestRoutesOfAssistants(t *testing.T) {
	t.Parallel()
	cfg := bridge.Config{
		Upstreams: []bridge.Route{{Upstream: bridge.Named("a"), Voice: "va"}, {Upstream: bridge.Named("b"), Voice: "vb", Model: "mb"}, {Upstream: bridge.Named("c")}},
		Settings:  bridge.Settings{Session: bridge.SessionConfig{Model: "m", Voice: "v"}},
	}
	for text, want := range map[string]string{
		`{"name":"x"}`: "a m va, b mb vb, c m v",
		`{"name":"x","voice":{"voice":"own","model":"mine"}}`:   "a mine own, b mb vb, c mine own",
		`{"name":"x","voice":{"voice":"own","upstream":"b"}}`:   "a m va, b mb own, c m own",
		`{"name":"x","voice":{"voice":"own","upstream":"old"}}`: "a m own, b mb vb, c m own",
	} {
		a, err := assistant.Parse([]byte(text))
		must(t, err)
		testkit.Equal(t, bridge.RoutesWith(cfg, a), want, "%s", text)
	}
	if cfg.Upstreams[0].Voice != "va" {
		t.Error("the server's upstreams have changed")
	}
}

// keepsNothing is a recording whose sound nobody keeps.
type keepsNothing struct{}

func (keepsNothing) User(next media.Sink) media.Sink      { return next }
func (keepsNothing) Assistant(next media.Sink) media.Sink { return next }
func (keepsNothing) Run(bool)                             {}
func (keepsNothing) Stop()                                {}
func (keepsNothing) End()                                 {}

// TestAnnouncement is said first in each call that is recorded, also if the caller is faster, and in no other.
func TestAnnouncement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, testAnnouncement)
}

func testAnnouncement(t *testing.T) {
	t.Helper()
	b := newBench(t, sqlite(t), benchConfig{bridge: bridge.Config{
		Announcement: "This call is recorded.", Record: func(string, string, func()) (bridge.Recording, error) { return keepsNothing{}, nil },
	}})
	b.makes(`{"id":"desk","name":"Desk","greeting":"Welcome!"}`)
	c := b.dial(bridge.Start{Assistant: chosen("desk"), Record: true})
	c.say("Hello")
	c.next("bridge.ready")
	c.played(2)
	b.hangUp(c)
	if script := b.script(c.key()); !strings.Contains(script, "assistant voice completed: This call is recorded.\n\nWelcome!\n") || strings.Count(script, "assistant voice") != 2 {
		t.Errorf("thread:\n%s", script)
	}
	again := b.dial(bridge.Start{ThreadID: c.ThreadID, Record: true})
	again.next("bridge.ready")
	again.played(1)
	b.hangUp(again)
	if script := b.script(c.key()); !strings.HasSuffix(script, "assistant voice completed: This call is recorded.\n") {
		t.Errorf("the thread after a second call:\n%s", script)
	}
	plain := b.dial(bridge.Start{ThreadID: c.ThreadID})
	plain.next("bridge.ready")
	plain.say("And now?")
	plain.next(realtime.TypeOutputBufferStopped)
	b.hangUp(plain)
	testkit.Equal(t, b.requests(3), 1, "answers were asked for in a call that is not recorded")
}
