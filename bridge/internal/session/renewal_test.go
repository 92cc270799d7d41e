package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestSchedule checks when a session's renewal is planned and when it is forced, for the
// time that the session has left when it announces its end.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		left, before time.Duration
		plan, force  time.Duration // 0: never
	}{
		"an hour":            {left: time.Hour, before: 10 * time.Minute, plan: 50 * time.Minute, force: 58 * time.Minute},
		"just longer":        {left: 605 * time.Second, before: 10 * time.Minute, plan: 5 * time.Second, force: 485 * time.Second},
		"no longer":          {left: 10 * time.Minute, before: 10 * time.Minute, plan: 5 * time.Minute, force: 8 * time.Minute},
		"short":              {left: time.Minute, before: 10 * time.Minute, plan: 30 * time.Second, force: 45 * time.Second},
		"hardly longer":      {left: 601 * time.Second, before: 10 * time.Minute, plan: 2 * time.Second, force: 481 * time.Second},
		"switched off":       {left: time.Hour},
		"over":               {left: -time.Second, before: 10 * time.Minute},
		"it does not say so": {before: 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newTestState(t, Config{Settings: Settings{Limits: Limits{RenewBefore: tt.before}}})
			expires := int64(0)
			if tt.left != 0 {
				expires = epoch.Add(tt.left).Unix()
			}
			s.Reduce(epoch, UpstreamEvent{Gen: 1, Data: fmt.Appendf(nil, `{"type":"session.created","session":{"expires_at":%d}}`, expires)})
			since := func(at time.Time) time.Duration {
				if at.IsZero() {
					return 0
				}
				return at.Sub(epoch)
			}
			if plan, force := since(s.renewal.planAt), since(s.renewal.forceAt); plan != tt.plan || force != tt.force {
				t.Errorf("planned after %v, forced after %v; want %v, %v", plan, force, tt.plan, tt.force)
			}
		})
	}
}

// TestRetryWaitsForSilence has a planned renewal fail, and its next attempt become due while the caller speaks: the call
// waits for the end of that, without asking to be woken all the time.
func TestRetryWaitsForSilence(t *testing.T) {
	t.Parallel()
	c := &scripted{t: t, now: epoch, s: newTestState(t, Config{Settings: Settings{Limits: Limits{RenewBefore: 10 * time.Minute}}})}
	c.play(fmt.Sprintf(`up {"type":"session.created","session":{"type":"realtime","expires_at":%d}}`, epoch.Add(time.Hour).Unix()))
	c.play(`up {"type":"session.updated","session":{"type":"realtime"}}`)
	c.pass("50m")
	c.play("up2 refused")
	c.play(`up {"type":"input_audio_buffer.speech_started","item_id":"i1"}`)
	c.pass("40s")
	if out := c.out.String(); !strings.Contains(out, "\tdial 2") || strings.Contains(out, "\tdial 3") {
		t.Errorf("not renewed once, or in the middle of speech:\n%s", out)
	}
	c.play(`up {"type":"input_audio_buffer.cleared"}`)
	if out := c.out.String(); !strings.Contains(out, "\tdial 3") {
		t.Errorf("no second attempt at the silence:\n%s", out)
	}
}

// holdsButton is a call in push to talk whose caller has begun to hold the button shortly before the time for a renewal.
func holdsButton(t *testing.T) *scripted {
	t.Helper()
	c := &scripted{t: t, now: epoch, s: newTestState(t, Config{Settings: Settings{Limits: Limits{RenewBefore: 10 * time.Minute}}})}
	c.play(fmt.Sprintf(`up {"type":"session.created","session":{"type":"realtime","expires_at":%d}}`, epoch.Add(time.Hour).Unix()))
	c.play(`up {"type":"session.updated","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`)
	c.pass("49m50s")
	c.play(`br {"type":"input_audio_buffer.clear"}`)
	c.play(`up {"type":"input_audio_buffer.cleared"}`)
	return c
}

// TestRenewalInPushToTalk has the time for a renewal come while the caller holds the button. The upstream does not say
// that somebody speaks, and what was said so far is in its buffer: the renewal waits until it is committed.
func TestRenewalInPushToTalk(t *testing.T) {
	t.Parallel()
	c := holdsButton(t)
	c.pass("40s")
	c.play(`br {"type":"input_audio_buffer.commit"}`)
	if out := c.out.String(); strings.Contains(out, "\tdial 2") {
		t.Errorf("renewed while the button is held:\n%s", out)
	}
	c.play(`up {"type":"input_audio_buffer.committed","item_id":"i1","previous_item_id":null}`)
	c.play(`up {"type":"conversation.item.input_audio_transcription.completed","item_id":"i1","transcript":"Hi"}`)
	if out := c.out.String(); !strings.Contains(out, "\tdial 2") {
		t.Errorf("not renewed once it is quiet:\n%s", out)
	}
}

// TestShortSessions has an upstream end its sessions by a time limit that it does not announce: a call survives any number
// of them, but not of sessions that end at once.
func TestShortSessions(t *testing.T) {
	t.Parallel()
	for limit, ends := range map[time.Duration]bool{time.Second: true, 4 * time.Second: false} {
		c := &scripted{t: t, now: epoch, s: newTestState(t, Config{})}
		for gen := 1; gen <= 20 && !c.s.Ending(); gen++ {
			if gen > 1 {
				c.reduce(UpstreamEvent{Gen: gen - 1, Data: []byte(`{"type":"error","error":{"type":"invalid_request_error","code":"session_expired"}}`)})
				c.pass("5s") // a repeated loss waits
				c.reduce(UpstreamDialed{Gen: gen, ID: "rtc", Limit: 256 << 10})
			}
			c.reduce(UpstreamEvent{Gen: gen, Data: []byte(`{"type":"session.created","session":{"type":"realtime"}}`)})
			c.reduce(UpstreamEvent{Gen: gen, Data: []byte(`{"type":"session.updated","session":{"type":"realtime"}}`)})
			c.pass(limit.String())
		}
		if c.s.Ending() != ends {
			t.Errorf("sessions of %v: the call ends: %t\n%s", limit, c.s.Ending(), c.out.String())
		}
	}
}

// TestHolderReplaced has another browser join while the user of the one before holds the button: nobody does now, and the
// renewal need not wait.
func TestHolderReplaced(t *testing.T) {
	t.Parallel()
	c := holdsButton(t)
	c.pass("20s")
	before := c.out.Len()
	c.play("br joins")
	if out := c.out.String(); strings.Contains(out[:before], "\tdial 2") || !strings.Contains(out, "\tdial 2") {
		t.Errorf("not renewed once the button is nobody's:\n%s", out)
	}
}
