package web

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"voicebridge/chat"
	"voicebridge/internal/testkit"
	"voicebridge/llm"
	"voicebridge/thread"
	"voicebridge/web/socket"
)

func TestConductorTurns(t *testing.T) {
	t.Parallel()
	loop := make([]scripted, 12)
	for i := range loop {
		loop[i] = toolCalls("", fmt.Sprintf("c%d", i), "look", "{}")
	}
	rounds := "I stopped after 8 rounds of tool calls without finishing. Tell me to go on, or ask for less at a time."
	for name, c := range map[string]struct {
		answers []scripted
		// run is what the app does after it has said "hi".
		run      func(c *client)
		received string // by the model in its last request
		status   thread.Status
	}{
		"an answer": {answers: []scripted{words("Hello ", "there.")}, run: func(c *client) {
			c.want(answered("hi", "Hello there."))
		}},
		"nothing": {answers: []scripted{words()}, run: func(c *client) {
			c.want(answered("hi", "The model gave no answer. Please try again."))
		}},
		"two rounds": {answers: []scripted{toolCalls("Wait.", "c1", "look", `{"at":"<b>"}`), words("Done.")}, run: func(c *client) {
			c.want("state thinking\nappend user \"hi\"\npartial \"Wait.\"\ncall c1 look {\"at\":\"<b>\"}")
			c.result("c1", map[string]int{"n": 1})
			c.want(`partial "Wait.\nDone."` + "\n" + ending("Wait.\nDone."))
		}, received: `look c1: {"n":1}`},
		"a failure": {answers: []scripted{failure("", llm.KindQuota)}, run: func(c *client) {
			if f := c.want("state thinking\nappend user \"hi\"\nerror provider_quota"); f.problem.Message != "No money is left." {
				c.t.Errorf("message %q", f.problem.Message)
			}
			c.want("state idle")
		}, status: thread.StatusFailed},
		"a failure between two rounds": {answers: []scripted{toolCalls("", "c1", "look", "{}"), failure("", llm.KindOverloaded)}, run: func(c *client) {
			c.until("call c1 look {}")
			c.result("c1", 1)
			c.want("error provider_overloaded\nstate idle")
		}, status: thread.StatusFailed},
		"endless rounds": {answers: loop, run: func(c *client) {
			for i := range 8 {
				c.until(fmt.Sprintf("call c%d look {}", i))
				c.result(fmt.Sprintf("c%d", i), i)
			}
			c.want(fmt.Sprintf("partial %q\n", rounds) + ending(rounds))
		}},
		"a missing tool": {answers: []scripted{toolCalls("", "c1", "unknown", "{}"), words("No.")}, run: func(c *client) {
			c.want(answered("hi", "No."))
		}},
		"results of calls that need none": {answers: []scripted{words("Yes.")}, run: func(c *client) {
			lines, _ := c.until(`append user "hi"`)
			if len(lines) != 2 {
				c.t.Errorf("got %q", lines)
			}
			f := c.want(`partial "Yes."` + "\n" + ending("Yes."))
			c.result(f.call.CallID, nil)
			c.send(typeToolResult, map[string]any{"callId": f.call.CallID, "error": "no such state"})
			c.sync()
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, nil, c.answers...)
			app := st.connect(t, st.key, "")
			app.say("hi")
			c.run(app)
			app.sync()
			if got := st.script.received(); c.received != "" && got != c.received {
				t.Errorf("the model heard %s, want %s", got, c.received)
			}
			if c.status == "" {
				c.status = thread.StatusCompleted
			}
			if m := st.saved(t); m.Metadata.Status != c.status || m.Text() == "" {
				t.Errorf("the saved message is %s %q, want %s", m.Metadata.Status, m.Text(), c.status)
			}
		})
	}
}

func TestConductorToolResults(t *testing.T) {
	t.Parallel()
	opening := "state thinking\nappend user \"hi\"\n"
	two := []scripted{toolCalls("", "c1", "look", "{}", "c2", "act", `{"x":1}`), words("Done.")}
	one := []scripted{toolCalls("", "c1", "look", "{}"), words("Done.")}
	for name, c := range map[string]struct {
		answers  []scripted
		limit    time.Duration // time for a result
		run      func(c *client)
		received string
	}{
		"one after the other": {answers: two, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.result("c2", "too early")
			c.want("error unknown_call")
			c.result("c1", []int{1})
			c.want(`call c2 act {"x":1}`)
			c.result("c2", "second")
		}, received: "look c1: [1]\nact c2: second"},
		"twice": {answers: two, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.result("c1", "first")
			c.want(`call c2 act {"x":1}`)
			c.result("c1", "other")
			c.want("error already_answered")
			c.result("c2", true)
		}, received: "look c1: first\nact c2: true"},
		"an error": {answers: one, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.send(typeToolResult, map[string]any{"callId": "c1", "result": 1, "error": "the disk is full"})
		}, received: "look c1: Error: the disk is full"},
		"an error that is an object": {answers: one, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.send(typeToolResult, map[string]any{"callId": "c1", "error": map[string]int{"code": 7}})
		}, received: `look c1: Error: {"code":7}`},
		"neither result nor error": {answers: one, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.send(typeToolResult, map[string]any{"callId": "c1", "error": nil})
		}, received: "look c1: null"},
		"too large": {answers: one, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.result("c1", strings.Repeat("x", chat.MaxToolOutput))
			c.want("error too_large")
		}, received: "look c1: Error: tool call \"c1\": too large: the output has 65538 bytes, the limit is 65536"},
		"unknown": {answers: one, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.result("c9", 1)
			c.want("error unknown_call")
			c.result("c1", 1)
		}, received: "look c1: 1"},
		"never": {answers: one, limit: time.Second, run: func(c *client) {
			c.want(opening + "call c1 look {}")
		}, received: "look c1: Error: tool_result_timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, func(cfg *chat.Config) { cfg.ClientTimeout = c.limit }, c.answers...)
			app := st.connect(t, st.key, "")
			app.say("hi")
			c.run(app)
			app.want(`partial "Done."` + "\n" + ending("Done."))
			testkit.Equal(t, st.script.received(), c.received, "the model heard")
			app.result("c1", "late")
			if name == "never" { // the first result is kept
				app.result("c1", "later")
			}
			app.want("error already_answered")
			app.say(" ")
			app.want("error empty_message") // and nothing before it
		})
	}
}

func TestConductorInterrupt(t *testing.T) {
	t.Parallel()
	opening := "state thinking\nappend user \"hi\"\n"
	begun := make(chan struct{}) // the model was asked: the next turn gets the next answer
	silent := func(ctx context.Context, yield func(llm.Delta, error) bool) {
		close(begun)
		held("", nil)(ctx, yield)
	}
	for name, c := range map[string]struct {
		answers []scripted
		run     func(c *client)
		saved   string
		status  thread.Status
		// received is what the model reads in the next turn.
		received string
	}{
		"before the first word": {answers: []scripted{silent}, run: func(c *client) {
			c.want(opening)
			<-begun
			c.send(typeInterrupt, nil)
			c.want("final \"\"\nstate idle")
		}, status: thread.StatusInterrupted},
		"in the middle of the words": {answers: []scripted{held("So far", nil)}, run: func(c *client) {
			c.want(opening + `partial "So far"`)
			c.send(typeInterrupt, map[string]any{})
			c.want("final \"So far\"\nappend assistant \"So far\"\nstate idle")
		}, saved: "So far", status: thread.StatusInterrupted},
		"while a tool runs": {answers: []scripted{toolCalls("Wait.", "c1", "look", "{}")}, run: func(c *client) {
			c.want(opening + "partial \"Wait.\"\ncall c1 look {}")
			c.send(typeInterrupt, map[string]any{})
			c.want("final \"Wait.\"\nappend assistant \"Wait.\"\nstate idle")
			c.result("c1", "late")
		}, saved: "Wait.", status: thread.StatusInterrupted, received: "look c1: late"},
		"before the second of two calls": {answers: []scripted{toolCalls("", "c1", "look", "{}", "c2", "act", "{}")}, run: func(c *client) {
			c.want(opening + "call c1 look {}")
			c.send(typeInterrupt, map[string]any{})
			c.want("final \"\"\nstate idle")
		}, status: thread.StatusInterrupted, received: "look c1: Error: This call was interrupted before the app had answered it. " +
			"The app may have run it all the same.\nact c2: Error: the tool call was cancelled: interrupted"},
		"after the end": {answers: []scripted{words("Yes.")}, run: func(c *client) {
			c.want(answered("hi", "Yes."))
			c.send(typeInterrupt, map[string]any{})
		}, saved: "Yes.", status: thread.StatusCompleted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, nil, append(c.answers, words("Next."))...)
			app := st.connect(t, st.key, "")
			app.send(typeInterrupt, map[string]any{}) // nothing is running: nothing happens
			app.say("hi")
			c.run(app)
			app.sync()
			if m := st.saved(t); m.Text() != c.saved || m.Metadata.Status != c.status {
				t.Errorf("saved %q %s, want %q %s", m.Text(), m.Metadata.Status, c.saved, c.status)
			}
			app.say("and then")
			app.want(answered("and then", "Next."))
			testkit.Equal(t, st.script.received(), c.received, "the model heard")
		})
	}
}

func TestConductorIsBusy(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	st := newStage(t, nil, held("One.", more), words("Three."))
	app := st.connect(t, st.key, "")
	app.say("one")
	app.want("state thinking\nappend user \"one\"\npartial \"One.\"")
	app.say("two")
	app.want("error agent_busy")
	close(more)
	app.want("partial \"One. More.\"\n" + ending("One. More."))
	app.say("three")
	app.want(answered("three", "Three."))
	all, err := st.db.Messages(t.Context(), st.key, 0, 100)
	if err != nil || len(all) != 4 {
		t.Errorf("%d messages are saved, want 4: %v", len(all), err)
	}
}

func TestConductorComesBack(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	st := newStage(t, nil, toolCalls("Wait.", "c1", "look", `{"n":1}`), held("", more))
	first := st.connect(t, st.key, "")
	first.say("hi")
	asked := first.want("state thinking\nappend user \"hi\"\npartial \"Wait.\"\ncall c1 look {\"n\":1}")
	_ = first.conn.CloseNow()

	second := st.connect(t, st.key, "")
	if again := second.want("state thinking\npartial \"Wait.\"\ncall c1 look {\"n\":1}"); again.ID != asked.ID {
		t.Errorf("the call came with the id %s and again with %s", asked.ID, again.ID)
	}
	second.result("c1", "found")
	second.sync()
	_ = second.conn.CloseNow()

	third := st.connect(t, st.key, "")
	third.want("state thinking\npartial \"Wait.\"") // the call has its answer
	close(more)
	third.want(`partial "Wait.\n More."` + "\n" + ending("Wait.\n More."))
	testkit.Equal(t, st.script.received(), "look c1: found", "the model heard")
	must(t, third.conn.Close(websocket.StatusNormalClosure, ""))
	st.connect(t, st.key, "").sync() // nothing is left to send
}

// TestConductorSendsTheEndAgain has an app whose connection dies silently: writes succeed,
// but no ping is ever answered.
func TestConductorSendsTheEndAgain(t *testing.T) {
	t.Parallel()
	st := newStage(t, nil, words("Yes."))
	deaf := open(t, "ws://"+st.address+"/conductor?session_id="+st.key.Thread)
	must(t, deaf.Write(within(t), websocket.MessageText, []byte(`{"type":"transcript.final","payload":{"text":"hi"}}`)))
	ids := map[string]string{}
	for {
		// The last read returns before the ping behind it is seen.
		_, data, err := deaf.Read(within(t))
		must(t, err)
		f, err := parseFrame(data, st.key)
		must(t, err)
		ids[f.line()] = f.ID
		if f.line() == "state idle" {
			break
		}
	}
	app := st.connect(t, st.key, "")
	app.want(ending("Yes."))
	for line, id := range app.ids {
		testkit.Equal(t, ids[line], id, "%s came with the id and again", line)
	}
	wantClosed(t, deaf, socket.StatusTaken, "took over")
	app.sync()
}

func TestConductorTakesOver(t *testing.T) {
	t.Parallel()
	more := make(chan struct{})
	st := newStage(t, nil, held("One.", more))
	first := st.connect(t, st.key, "")
	first.say("hi")
	first.want("state thinking\nappend user \"hi\"\npartial \"One.\"")
	second := st.connect(t, st.key, "")
	second.want("state thinking\npartial \"One.\"")
	for range first.frames {
		t.Error("the first connection was sent more")
	}
	if err := testkit.Take(t, "the end", first.ended); websocket.CloseStatus(err) != socket.StatusTaken || !strings.Contains(err.Error(), "another connection took over") {
		t.Errorf("the first connection ended with %v", err)
	}
	close(more)
	second.want(`partial "One. More."` + "\n" + ending("One. More."))
	// Of many connections one has the session in the end, whichever it is.
	crowd, gone := make([]*client, 5), make(chan *client, 5)
	for i := range crowd {
		c := st.connect(t, st.key, "")
		crowd[i] = c
		go func() {
			err := <-c.ended
			// A busy machine may not let go of a connection in time: then it is cut, without a status.
			if status := websocket.CloseStatus(err); status == socket.StatusTaken || status == -1 {
				gone <- c
			}
		}()
	}
	for range len(crowd) - 1 {
		select {
		case c := <-gone:
			for f := range c.frames {
				// On a busy machine the server may miss that the one before had read the end
				// of the turn, and sends it again.
				if !strings.Contains(ending("One. More."), f.line()) {
					t.Errorf("a lost connection was sent %s", f.line())
				}
			}
			crowd = slices.DeleteFunc(crowd, func(other *client) bool { return other == c })
		case <-within(t).Done():
			t.Fatal("more than one connection has the session")
		}
	}
	crowd[0].sync()
}

func TestConductorHostileFrames(t *testing.T) {
	t.Parallel()
	st := newStage(t, nil, words("Yes."))
	app := st.connect(t, st.key, "")
	session := fmt.Sprintf(`"sessionId":%q`, st.key.Thread)
	for name, c := range map[string]struct{ frame, code string }{
		"empty":                       {"", "bad_envelope"},
		"no JSON":                     {"hello", "bad_envelope"},
		"half":                        {`{"type":`, "bad_envelope"},
		"two":                         {`{} {}`, "bad_envelope"},
		"a list":                      {`[]`, "bad_envelope"},
		"null":                        {`null`, "bad_envelope"},
		"no type":                     {`{` + session + `}`, "bad_envelope"},
		"a type that is a number":     {`{"type":1}`, "bad_envelope"},
		"not UTF-8":                   {"{\"type\":\"\xff\"}", "bad_envelope"},
		"deep":                        {strings.Repeat(`{"a":`, 20_000) + "1" + strings.Repeat("}", 20_000), "bad_envelope"},
		"unknown type":                {`{"type":"assistant.speech.final",` + session + `}`, "unknown_type"},
		"a stranger's session":        {`{"type":"transcript.final","sessionId":"other","payload":{"text":"x"}}`, "wrong_session"},
		"no payload":                  {`{"type":"transcript.final"}`, "bad_envelope"},
		"payload null":                {`{"type":"transcript.final","payload":null}`, "bad_envelope"},
		"a text that is a list":       {`{"type":"transcript.final","payload":{"text":["x"]}}`, "bad_envelope"},
		"no text":                     {`{"type":"transcript.final","payload":{}}`, "empty_message"},
		"blank":                       {`{"type":"transcript.final","payload":{"text":" \n"}}`, "empty_message"},
		"a text that is too long":     {`{"type":"transcript.final","payload":{"text":"` + strings.Repeat("x", chat.MaxText+1) + `"}}`, "too_large"},
		"an envelope that is large":   {`{"type":"transcript.final","payload":{"text":"` + strings.Repeat("x", 3<<20) + `"}}`, "too_large"},
		"a result without a call":     {`{"type":"tool.result","payload":{}}`, "bad_envelope"},
		"a result of an unknown call": {`{"type":"tool.result","payload":{"callId":"` + strings.Repeat("c", 1000) + `"}}`, "unknown_call"},
	} {
		app.raw(websocket.MessageText, []byte(c.frame))
		if f := app.next(); f.Type != typeError || f.problem.Code != c.code || f.problem.Message == "" || len(f.problem.Message) > 500 {
			t.Errorf("%s: %s, want the error %s", name, f.line(), c.code)
		}
	}
	app.raw(websocket.MessageBinary, []byte(`{"type":"interrupt"}`))
	app.want("error bad_envelope")
	app.say("hi\x00")
	lines, _ := app.until("state idle") // after all those
	if len(lines) != 8 {
		t.Errorf("got %q", lines)
	}
}

func TestConductorRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { tokens(c); c.Limits.SocketsPerOwner = 2 })
	address, _ := b.run(t)
	key := b.thread(t, "alice")
	url := "ws://" + address + "/conductor"
	alice := []string{"Authorization", "Bearer alice-token-of-tests"}
	for name, c := range map[string]struct {
		query   string
		headers []string
		status  int
	}{
		"fine":              {"?session_id=" + key.Thread, alice, 101},
		"no session":        {"", alice, 400},
		"a new one":         {"?session_id=My-own_1", alice, 101},
		"a long new one":    {"?session_id=" + strings.Repeat("a", 65), alice, 400},
		"an odd new one":    {"?session_id=a.b", alice, 400},
		"an impossible one": {"?session_id=a%00b", alice, 400},
		"a stranger's":      {"?session_id=" + key.Thread, []string{"Authorization", "Bearer bob-token-of-tests"}, 404},
		"nobody":            {"?session_id=" + key.Thread, nil, 401},
		"a foreign page":    {"?session_id=" + key.Thread, append([]string{"Origin", "https://evil.example"}, alice...), 403},
		"the page":          {"?session_id=" + key.Thread, append([]string{"Origin", "http://" + address}, alice...), 101},
		"an unknown kit":    {"?tools=everything&session_id=" + key.Thread, alice, 400},
	} {
		t.Run(name, func(t *testing.T) {
			conn, status, err := dial(t, url+c.query, c.headers...)
			testkit.Equal(t, status, c.status, "status: %v", err)
			if conn != nil {
				if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wantError(t, b.do(t, "GET", "/conductor?session_id="+key.Thread, "", as("alice-token-of-tests")), 426, "upgrade_required")
}

func TestConductorEndsWithTheServer(t *testing.T) {
	t.Parallel()
	st := newStage(t, nil, toolCalls("", "c1", "look", "{}"))
	address, stop := st.run(t)
	conn := open(t, "ws://"+address+"/conductor?session_id="+st.key.Thread)
	must(t, conn.Write(within(t), websocket.MessageText, []byte(`{"type":"transcript.final","payload":{"text":"hi"}}`)))
	stopped := make(chan error, 1)
	if _, _, err := conn.Read(within(t)); err != nil {
		t.Fatal(err)
	}
	go func() { stopped <- stop() }()
	wantClosed(t, conn, websocket.StatusGoingAway, "shutting down")
	must(t, testkit.Take(t, "the stop", stopped))
}

func TestConductorAgentTools(t *testing.T) {
	t.Parallel()
	spawn := toolCalls("", "c1", "agent_spawn", `{"prompt":"fix it","repository":"a/b"}`)
	for _, query := range []string{"&tools=agent", ""} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, func(cfg *chat.Config) {
				cfg.Instructions, cfg.SpokenInstructions = "You may write Markdown.", "Be kind."
			}, spawn, words("Started."))
			app := st.connect(t, st.key, query)
			app.say("hi")
			if query == "" {
				app.want(answered("hi", "Started."))
			} else {
				app.want("state thinking\nappend user \"hi\"\ncall c1 agent.spawn {\"prompt\":\"fix it\",\"repository\":\"a/b\"}")
				app.result("c1", map[string]string{"id": "a1"})
				app.want("partial \"Started.\"\n" + ending("Started."))
			}
			first := st.script.requests[0]
			var names []string
			for _, d := range first.Tools {
				names = append(names, d.Name)
			}
			slices.Sort(names)
			want := []string{"act", "agent_cancel", "agent_followup", "agent_list", "agent_spawn", "agent_status", "look"}
			if query == "" {
				want = []string{"act", "look"}
			}
			if !slices.Equal(names, want) || strings.Contains(first.System, chat.AgentInstructions) != (len(want) == 7) {
				t.Errorf("the model has the tools %q and is told %q", names, first.System)
			}
			if !strings.HasPrefix(first.System, "Be kind.\n\nYour answers are spoken aloud") || strings.Contains(first.System, "Markdown") {
				t.Errorf("the model is not told that its answers are spoken: %q", first.System)
			}
		})
	}
}
