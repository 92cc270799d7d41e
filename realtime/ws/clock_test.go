package ws

import (
	"bytes"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// TestSaid finds out when sound came by its place in what was sent: also what was held, what waited for a slow
// upstream, what another connection of the caller brought, and silence that nobody sent.
func TestSaid(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		burst := func(source uint32, first, n int) {
			for i := range n {
				at := first + i
				_ = c.Conn.WriteAudio(&media.Packet{
					Source: source, Sequence: uint16(at), Timestamp: uint32(at) * media.FrameStep, Format: media.Format{Rate: 24000}, Payload: bytes.Repeat([]byte{1}, 960),
				})
			}
			pass(media.FrameTime)
		}
		live := func(source uint32, first, n int) {
			for i := range n {
				burst(source, first+i, 1)
			}
		}
		began := time.Now()
		said := func(name string, place, wantAt, wantLate time.Duration) {
			t.Helper()
			at, late, ok := c.Said(place)
			if off := at.Sub(began) - wantAt; !ok || off.Abs() > closeEnough || (late-wantLate).Abs() > closeEnough {
				t.Errorf("%s: came %s after the beginning, sent %s late, %t; want %s, %s", name, at.Sub(began), late, ok, wantAt, wantLate)
			}
		}
		if _, _, ok := c.Said(0); ok {
			t.Error("something was said before anything came")
		}
		burst(1, 0, 100) // held for two seconds
		live(1, 100, 100)
		c.up.told()
		said("what was held", 0, -2*time.Second, 2*time.Second)
		said("what was held for a second", time.Second, -time.Second, time.Second)
		said("what was not held", 3*time.Second, time.Second, 0)
		live(1, 350, 50) // three seconds of silence were not sent
		c.up.told()
		said("after a pause", 4500*time.Millisecond, 2500*time.Millisecond, 0)
		if _, _, ok := c.Said(time.Hour); ok {
			t.Error("what was never sent was said")
		}
	})
}

// TestSaidSlowly counts how long sound waits for an upstream that does not read.
func TestSaidSlowly(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		c.say(50)
		c.up.told()
		for range cap(c.up.out) {
			c.up.out <- []byte(`{"type":"full"}`)
		}
		c.sayFrom(50, 150)
		for range cap(c.up.out) {
			testkit.Take(t, "what goes out", c.up.out)
		}
		pass(media.FrameTime)
		c.up.told()
		for place, want := range map[time.Duration]time.Duration{500 * time.Millisecond: 0, 2 * time.Second: 2 * time.Second, 3900 * time.Millisecond: 0} {
			if _, late, ok := c.Said(place); !ok || (late-want).Abs() > 3*closeEnough {
				t.Errorf("what was said after %s was sent %s late, %t; want %s", place, late, ok, want)
			}
		}
	})
}

// TestMarks keeps few, whatever comes.
func TestMarks(t *testing.T) {
	t.Parallel()
	var m marks
	now := time.Now()
	for i := range 10 * maxMarks {
		place := time.Duration(i) * 100 * time.Millisecond
		m.add(mark{place: place, at: place + time.Duration(i)*time.Second, sent: now.Add(place)})
	}
	if last, ok := m.before(time.Hour); len(m) != maxMarks || !ok || last.place != (10*maxMarks-1)*100*time.Millisecond {
		t.Errorf("%d marks, the last at %s", len(m), last.place)
	}
	if _, ok := m.before(0); ok {
		t.Error("a place that is forgotten is known")
	}
}

// TestStreamOfASlowClock does not stay behind a caller whose clock runs slow.
func TestStreamOfASlowClock(t *testing.T) {
	t.Parallel()
	var s stream
	now := time.Unix(0, 0)
	var at time.Duration
	for i := range 50 * 3600 {
		now = now.Add(20*time.Millisecond + 4*time.Microsecond) // 200 of a million
		at = s.take(&media.Packet{Source: 1, Timestamp: uint32(i) * media.FrameStep}, now)
	}
	if off := now.Sub(s.came(at)); off.Abs() > 5*time.Millisecond {
		t.Errorf("off by %s after an hour", off)
	}
}

// TestSound counts the sound of each item as far as it has come, whether it was played, waits, or was stopped; so many
// items as are remembered.
func TestSound(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		for i := range remembered {
			c.speak("resp_1", fmt.Sprint("early", i), 0, 1)
		}
		c.speak("resp_1", "item_1", 0, 50)
		pass(200 * time.Millisecond)
		c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"u1","audio_start_ms":0}`)
		c.speak("resp_1", "item_1", 50, 25)
		c.speak("resp_2", "item_2", 0, 3)
		pass(200 * time.Millisecond)
		for item, want := range map[string]time.Duration{"item_1": 1500 * time.Millisecond, "item_2": 60 * time.Millisecond, "early0": 0, "early2": 20 * time.Millisecond, "nobody": 0} {
			testkit.Equal(t, c.Sound(item), want, "%s", item)
		}
	})
}

// TestUnannounced dials upstreams that do not announce their session: one that accepts settings has one.
func TestUnannounced(t *testing.T) {
	t.Parallel()
	updated := `{"type":"session.updated","event_id":"e1","session":{"id":"sess_1","type":"realtime","model":"m"}}`
	for name, tt := range map[string]struct {
		first []string
		asked int
	}{
		"it says nothing":         {nil, 1},
		"it names a conversation": {[]string{`{"type":"conversation.created","conversation":{"id":"c"}}`}, 1},
		"it tells its settings":   {[]string{updated}, 0},
		"it announces itself":     {[]string{`{"type":"session.created","session":{"id":"sess_1"}}`}, 0},
	} {
		for _, profile := range []Profile{{Name: "realtime"}, profile(t, "xai"), profile(t, "qwen")} {
			t.Run(name+" "+profile.Name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					up := newFakeSocket()
					c := newConn(up, profile.withDefaults(), "m", new(shared), slog.New(slog.DiscardHandler))
					for _, event := range tt.first {
						up.say("%s", event)
					}
					announced := make(chan error, 1)
					go func() { announced <- c.awaitSession(t.Context()) }()
					pass(3 * time.Second)
					asked := up.told()
					if len(asked) != tt.asked {
						t.Errorf("it was sent %v", asked)
					}
					if tt.asked > 0 {
						up.say("%s", updated)
					}
					if err := <-announced; err != nil || c.ID() != "sess_1" {
						t.Errorf("session %q, %v", c.ID(), err)
					}
					events, _ := c.inbox.pop()
					last := decode(t, string(events[len(events)-1]))
					if last.Type != realtime.TypeSessionCreated {
						t.Errorf("the call is told %s", last.Raw)
					}
					if err := c.Close(); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
