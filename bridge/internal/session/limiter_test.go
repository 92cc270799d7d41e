package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
)

// limited is a live call with limits.
func limited(t *testing.T, cfg Config) *scripted {
	t.Helper()
	c := &scripted{t: t, now: epoch, s: newTestState(t, cfg)}
	c.s.Cost = func(string, string, realtime.Usage) *float64 { return new(0.25) }
	c.play(`up {"type":"session.created","session":{"type":"realtime"}}`)
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	return c
}

// answers makes the model answer once.
func (c *scripted) answers(id string) {
	c.play(fmt.Sprintf(`up {"type":"response.created","response":{"id":%q}}`, id))
	c.play(fmt.Sprintf(`up {"type":"response.done","response":{"id":%q,"status":"completed","usage":{"total_tokens":1}}}`, id))
}

// TestBudget spends the whole budget: the caller is warned once, and then the call ends.
func TestBudget(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		budget  Budget
		spent   float64 // by the owner before the call
		warning string
		answers int // that fit
	}{
		"of a call":      {Budget{CallUSD: 1, WarnPercent: 70}, 0, `"limit_usd":1,"scope":"call","spent_usd":0.75`, 4},
		"of a day":       {Budget{OwnerDayUSD: 10, WarnPercent: 100}, 9.25, `"limit_usd":10,"scope":"owner_day","spent_usd":10`, 3},
		"none":           {Budget{WarnPercent: 80}, 0, "", 20},
		"of both, a day": {Budget{CallUSD: 5, OwnerDayUSD: 1, WarnPercent: 80}, 0, `"limit_usd":1,"scope":"owner_day","spent_usd":1`, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := limited(t, Config{Settings: Settings{Budget: tt.budget}, OwnerSpentUSD: tt.spent})
			n := 0
			for ; n < 20 && !c.s.Ending(); n++ {
				c.answers(fmt.Sprintf("r%d", n))
			}
			testkit.Equal(t, n, tt.answers, "answers")
			c.pass("10s")
			out := c.out.String()
			warnings := strings.Count(out, "bridge.budget.warning")
			if over := strings.Contains(out, "finish budget"); over != (tt.warning != "") || warnings > 1 || !strings.Contains(out, tt.warning) {
				t.Errorf("over %t, %d warnings:\n%s", over, warnings, out)
			}
		})
	}
}

// TestIdle ends a call in which nothing is said. A noise that the upstream mistakes for
// speech does not keep it alive.
func TestIdle(t *testing.T) {
	t.Parallel()
	c := limited(t, Config{Settings: Settings{Limits: Limits{Idle: 10 * time.Minute}}})
	c.pass("9m")
	c.play(`br {"type":"conversation.item.create","item":{"type":"message","role":"user","content":[{"type":"input_text","text":"Hi"}]}}`)
	c.play(`up {"type":"rate_limits.updated"}`)
	c.pass("9m")
	for range 3 {
		c.play(`up {"type":"input_audio_buffer.speech_started"}`)
		c.play(`up {"type":"input_audio_buffer.committed","item_id":"noise","previous_item_id":null}`)
		c.play(`up {"type":"conversation.item.input_audio_transcription.completed","item_id":"noise","transcript":" "}`)
	}
	if c.s.Over() {
		t.Fatal("the call ended too early")
	}
	c.pass("70s")
	if !strings.Contains(c.out.String(), "finish idle") {
		t.Errorf("the call goes on:\n%s", c.out.String())
	}
}

// TestIdleAfterATool leaves time to speak of the result of a tool that has run for nearly as long as a call may be idle.
func TestIdleAfterATool(t *testing.T) {
	t.Parallel()
	c := limited(t, Config{Settings: Settings{Limits: Limits{Idle: 10 * time.Minute}}})
	c.play(`up {"type":"response.created","response":{"id":"r1"}}`)
	c.play(`up {"type":"response.output_item.done","response_id":"r1","item":{"type":"function_call","id":"i1","status":"completed","call_id":"c1","name":"create_bar_chart","arguments":"{}"}}`)
	c.play(`up {"type":"response.done","response":{"id":"r1","status":"completed"}}`)
	c.pass("19m59s")
	c.play(`tool c1 "done"`)
	c.pass("2s")
	if c.s.Over() || c.s.Ending() {
		t.Errorf("the call ended too early:\n%s", c.out.String())
	}
}

// TestIdleWithoutAnEnd ends an idle call although the upstream never said that its answer had been played.
func TestIdleWithoutAnEnd(t *testing.T) {
	t.Parallel()
	c := limited(t, Config{Settings: Settings{Limits: Limits{Idle: 10 * time.Minute}}})
	c.play(`up {"type":"response.created","response":{"id":"r1"}}`)
	c.play(`up {"type":"output_audio_buffer.started","response_id":"r1"}`)
	c.play(`up {"type":"response.output_audio_transcript.done","response_id":"r1","item_id":"i1","transcript":"` + strings.Repeat("So long. ", 50) + `"}`)
	c.play(`up {"type":"response.done","response":{"id":"r1","status":"completed"}}`)
	c.pass("2m")
	if c.s.playback.playing == "" {
		t.Error("450 characters count as played after two minutes, whatever the voice")
	}
	c.pass("8m")
	if !strings.Contains(c.out.String(), "finish idle") {
		t.Errorf("the call goes on:\n%s", c.out.String())
	}
}

// TestToolRounds makes the model answer in words after the allowed number of tool rounds. One that cannot be told to, for
// one response, is asked no more.
func TestToolRounds(t *testing.T) {
	t.Parallel()
	for can, want := range map[bool]struct {
		asked, inWords [3]int
	}{true: {[3]int{1, 2, 3}, [3]int{0, 1, 2}}, false: {[3]int{1, 1, 1}, [3]int{}}} {
		c := limited(t, Config{Settings: Settings{Limits: Limits{ToolRounds: 2}}})
		c.s.up.can.ResponseSettings = can
		for n := range 3 {
			c.play(fmt.Sprintf(`up {"type":"response.created","response":{"id":"r%d"}}`, n))
			c.play(fmt.Sprintf(`up {"type":"response.output_item.done","response_id":"r%[1]d","item":{"id":"i%[1]d","type":"function_call","status":"completed","call_id":"c%[1]d","name":"create_bar_chart","arguments":"{}"}}`, n))
			c.play(fmt.Sprintf(`up {"type":"response.done","response":{"id":"r%d","status":"completed"}}`, n))
			c.play(fmt.Sprintf(`tool c%d {}`, n))
			testkit.Equal(t, strings.Count(c.out.String(), `"tool_choice":"none"`), want.inWords[n], "requests without tools after round %d", n+1)
			testkit.Equal(t, strings.Count(c.out.String(), `"type":"response.create"`), want.asked[n], "requests after round %d", n+1)
		}
	}
}

// TestToolRoundsBeginAnew counts the rounds anew with each utterance, whatever tells of it.
func TestToolRoundsBeginAnew(t *testing.T) {
	t.Parallel()
	for _, told := range []string{
		`up {"type":"input_audio_buffer.committed","item_id":"u1","previous_item_id":null}`,
		`up {"type":"conversation.item.input_audio_transcription.completed","item_id":"u1","content_index":0,"transcript":"Again."}`,
	} {
		c := limited(t, Config{Settings: Settings{Limits: Limits{ToolRounds: 2}}})
		c.s.up.can.ResponseSettings = true
		for n := range 3 {
			c.play(fmt.Sprintf(`up {"type":"response.created","response":{"id":"r%d"}}`, n))
			c.play(fmt.Sprintf(`up {"type":"response.done","response":{"id":"r%[1]d","status":"completed","output":[{"id":"i%[1]d","type":"function_call","status":"completed","call_id":"c%[1]d","name":"create_bar_chart","arguments":"{}"}]}}`, n))
			if n == 0 {
				c.play(told)
			}
			c.play(fmt.Sprintf(`tool c%d {}`, n))
			c.pass("2s")
		}
		testkit.Equal(t, strings.Count(c.out.String(), `"tool_choice":"none"`), 1, "%s: requests without tools: %s", told, c.out.String())
	}
}

// TestBudgetOfTheDayIsShared counts what the owner spends elsewhere meanwhile, and starts
// again with each day.
func TestBudgetOfTheDayIsShared(t *testing.T) {
	t.Parallel()
	c := limited(t, Config{Settings: Settings{Budget: Budget{OwnerDayUSD: 10, WarnPercent: 80}}, OwnerSpentUSD: 2})
	spent := func(day string, usd float64) {
		t.Helper()
		c.reduce(OwnerSpent{Day: day, USD: usd})
	}
	c.answers("r1") // 2.25
	spent("2026-01-01", 2)
	testkit.Equal(t, c.s.limiter.day.total(c.s.limiter.spent), 2.25, "spent before the response is saved")
	spent("2026-01-01", 8)
	if out := c.out.String(); !strings.Contains(out, `"scope":"owner_day","spent_usd":8`) {
		t.Errorf("no warning:\n%s", out)
	}
	spent("2026-01-02", 0.5)
	c.answers("r2")
	testkit.Equal(t, c.s.limiter.day.total(c.s.limiter.spent), 0.5, "spent on the next day")
	spent("2026-01-02", 9)
	spent("2026-01-02", 10)
	if warnings := strings.Count(c.out.String(), "bridge.budget.warning"); !c.s.Ending() || warnings != 2 {
		t.Errorf("ending %t, %d warnings", c.s.Ending(), warnings)
	}
}

// TestNobodySpeaks asks a caller of whom nothing is heard whether they are there, once, and then ends the call: unless
// something is going on.
func TestNobodySpeaks(t *testing.T) {
	t.Parallel()
	const question = "whether they are still there"
	both := Config{AskAfter: 10 * time.Second, HangUpAfter: 30 * time.Second}
	for name, tt := range map[string]struct {
		cfg   Config
		play  func(*scripted)
		asked int
		over  bool
	}{
		"for nine seconds":   {both, func(c *scripted) { c.pass("9s") }, 0, false},
		"for eleven seconds": {both, func(c *scripted) { c.pass("11s") }, 1, false},
		"for 29 seconds":     {both, func(c *scripted) { c.pass("11s"); c.answers("r1"); c.pass("18s") }, 1, false},
		"for 31 seconds":     {both, func(c *scripted) { c.pass("11s"); c.answers("r1"); c.pass("20s") }, 1, true},
		"the question lasts": {both, func(c *scripted) {
			c.pass("11s")
			c.play(`up {"type":"response.created","response":{"id":"r1"}}`)
			c.play(`up {"type":"output_audio_buffer.started","response_id":"r1"}`)
			c.pass("30s")
		}, 1, false},
		"the caller answers": {both, func(c *scripted) {
			c.pass("11s")
			c.answers("r1")
			c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
			c.play(`up {"type":"conversation.item.input_audio_transcription.completed","item_id":"i1","transcript":"Yes!"}`)
			c.answers("r2")
			c.pass("29s")
		}, 2, false},
		"only noise": {both, func(c *scripted) {
			c.pass("11s")
			c.answers("r1")
			c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
			c.play(`up {"type":"conversation.item.input_audio_transcription.completed","item_id":"i1","transcript":" "}`)
			c.answers("r2")
			c.pass("20s")
		}, 1, true},
		"a tool runs": {both, func(c *scripted) {
			c.play(`up {"type":"response.created","response":{"id":"r1"}}`)
			c.play(`up {"type":"response.output_item.done","response_id":"r1","item":{"type":"function_call","id":"i1","status":"completed","call_id":"c1","name":"create_bar_chart","arguments":"{}"}}`)
			c.play(`up {"type":"response.done","response":{"id":"r1","status":"completed"}}`)
			c.pass("60s")
		}, 0, false},
		"nobody asks":   {Config{HangUpAfter: 30 * time.Second}, func(c *scripted) { c.pass("31s") }, 0, true},
		"nobody waits":  {Config{AskAfter: 10 * time.Second}, func(c *scripted) { c.pass("11s"); c.answers("r1"); c.pass("5m") }, 1, false},
		"no such limit": {Config{}, func(c *scripted) { c.pass("10m") }, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := limited(t, tt.cfg)
			tt.play(c)
			out := c.out.String()
			if asked, over := strings.Count(out, question), strings.Contains(out, "finish no_speech"); asked != tt.asked || over != tt.over {
				t.Errorf("asked %d times, over %t:\n%s", asked, over, out)
			}
		})
	}
}
