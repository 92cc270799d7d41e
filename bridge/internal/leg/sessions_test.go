package leg

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/bridge/internal/session"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/records"
	"voicebridge/realtime/media"
	"voicebridge/thread"
)

// listener is an upstream's leg that counts the packets that it gets.
type listener struct {
	UpstreamLeg
	packets atomic.Int64
}

func (*listener) ID() string                       { return "rtc_1" }
func (*listener) Close() error                     { return nil }
func (*listener) Can() session.Capabilities        { return session.Capabilities{} }
func (*listener) MaxMessageSize() int              { return 64 << 10 }
func (l *listener) WriteAudio(*media.Packet) error { l.packets.Add(1); return nil }
func (*listener) Forward(ctx context.Context, _ media.Sink, _ *media.Flow) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// oneLeg is an upstream with one leg.
type oneLeg struct{ leg *listener }

func (oneLeg) Name() string                                      { return "one" }
func (u oneLeg) Dial(context.Context, Dial) (UpstreamLeg, error) { return u.leg, nil }
func (oneLeg) HangUp(context.Context, string) error              { return nil }

// newTestSessions returns sessions of which the first is active; those that are dialled are next. The call gets posted.
func newTestSessions(ctx context.Context, fromUser *media.Switch, first, next *listener) (s *Sessions, posted chan session.Input) {
	posted = make(chan session.Input, 8)
	d := &Dialer{Upstream: oneLeg{next}, Post: func(in session.Input) { posted <- in }, Log: quiet()}
	s = NewSessions(ctx, Wiring{
		FromUser: fromUser, ToUser: new(media.Switch),
		History: func(_ context.Context, messages []thread.Message) []thread.Message { return messages },
		Created: func(context.Context, records.Leg) error { return nil },
		Ended:   func(records.Leg) {},
	}, d)
	s.Begin(d.newSession(1, first))
	return s, posted
}

// talk has the caller speak n packets.
func talk(fromUser *media.Switch, n int) {
	for range n {
		_ = fromUser.WriteAudio(&media.Packet{}) // a listener takes everything
		time.Sleep(20 * time.Millisecond)        // virtual
	}
}

// TestOverlap replaces a session while the caller may just have begun to speak: the next one also hears the last 400 ms.
func TestOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, second := &listener{}, &listener{}
		var fromUser media.Switch
		s, posted := newTestSessions(ctx, &fromUser, first, second)
		talk(&fromUser, 50)
		s.Dial(session.Dial{Gen: 2})
		s.Add(<-s.Dialed)
		talk(&fromUser, 50)
		s.Switch(2)
		s.End(session.HangUp{Gen: 1})
		time.Sleep(time.Second) // virtual: until it has caught up
		if in := <-posted; in != (session.HeldSent{Gen: 2}) {
			t.Errorf("the call gets %v", in)
		}
		talk(&fromUser, 10)
		s.EndAll(session.EndHangup)
		if n, m := first.packets.Load(), second.packets.Load(); n != 100 || m != 19+10 {
			t.Errorf("the first session got %d packets, the second %d; want 100 and 29", n, m)
		}
	})
}

// TestFailedRenewal has sessions fail that were to replace the active one, after their dial and during it: nothing of
// what the caller says is kept for the next attempt, which may come much later.
func TestFailedRenewal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		first, next := &listener{}, &listener{}
		var fromUser media.Switch
		s, _ := newTestSessions(ctx, &fromUser, first, next)
		s.Dial(session.Dial{Gen: 2})
		s.Add(<-s.Dialed)
		talk(&fromUser, 50)
		s.End(session.HangUp{Gen: 2})
		s.Dial(session.Dial{Gen: 3})
		s.End(session.HangUp{Gen: 3})
		s.Add(<-s.Dialed)
		talk(&fromUser, 50)
		s.Dial(session.Dial{Gen: 4})
		s.Add(<-s.Dialed)
		talk(&fromUser, 5)
		s.Switch(4)
		time.Sleep(time.Second) // virtual: until it has caught up
		s.EndAll(session.EndHangup)
		if n, m := first.packets.Load(), next.packets.Load(); n != 105 || m != 5 {
			t.Errorf("the first session got %d packets, the last one %d; want 105 and 5", n, m)
		}
	})
}

// halfDialed is an upstream that creates sessions to which nobody can connect.
type halfDialed struct{ oneLeg }

func (halfDialed) Dial(_ context.Context, d Dial) (UpstreamLeg, error) {
	return nil, errors.Join(d.Created("rtc_2"), errors.New("bad answer"))
}

// TestDialFailsLate has the upstream create a session that the call cannot use. Its record says that it is over, so that it
// is hung up although the call goes on.
func TestDialFailsLate(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := &listener{}
	ended := make(chan records.Leg, 2)
	d := &Dialer{Upstream: halfDialed{oneLeg{first}}, Post: func(session.Input) {}, Log: quiet()}
	s := NewSessions(ctx, Wiring{
		FromUser: new(media.Switch), ToUser: new(media.Switch),
		Created: func(context.Context, records.Leg) error { return nil },
		Ended:   func(rec records.Leg) { ended <- rec },
	}, d)
	s.Begin(d.newSession(1, first))
	s.Dial(session.Dial{Gen: 2})
	in := s.Add(testkit.Take(t, "a session that is dialled", s.Dialed))
	if _, failed := in[0].(session.UpstreamDialFailed); len(in) != 1 || !failed {
		t.Errorf("the call gets %v", in)
	}
	if rec := testkit.Take(t, "the end", ended); rec.UpstreamID != "rtc_2" || rec.EndedAt == nil || rec.HungUpAt != nil {
		t.Errorf("record %+v", rec)
	}
	s.EndAll(session.EndHangup)
}

// TestEnd ends sessions in each state: the record of one that was active is saved once, what the caller says until the
// next one is held for it if the call says so, and one that is still being dialled says nothing any more.
func TestEnd(t *testing.T) {
	t.Parallel()
	for hold, want := range map[bool]int64{true: 10 + 5, false: 5} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			next := &listener{}
			var fromUser media.Switch
			s, _ := newTestSessions(ctx, &fromUser, &listener{}, next)
			saved := make(chan int64, 8)
			s.wiring.Ended = func(rec records.Leg) { saved <- rec.Generation }
			s.Dial(session.Dial{Gen: 2})
			if !s.KeepEarly(session.UpstreamEvent{Gen: 2}) {
				t.Error("an event during the dial is not kept")
			}
			s.End(session.HangUp{Gen: 2})
			if in := s.Add(<-s.Dialed); len(in) != 0 || len(s.early) != 0 {
				t.Errorf("the call gets %v of a session that it has ended, and %v is kept", in, s.early)
			}
			s.End(session.HangUp{Gen: 1, Hold: hold, Reason: session.EndUpstreamLost})
			if s.byGen[1] != nil {
				t.Error("events still reach the ended session")
			}
			if hold {
				talk(&fromUser, 10)
			}
			s.Dial(session.Dial{Gen: 3})
			s.Add(<-s.Dialed)
			s.Switch(3)
			time.Sleep(time.Second) // virtual: until it has caught up
			talk(&fromUser, 5)
			s.EndAll(session.EndHangup)
			close(saved)
			var ended []int64
			for gen := range saved {
				ended = append(ended, gen)
			}
			slices.Sort(ended)
			if n := next.packets.Load(); n != want || !slices.Equal(ended, []int64{1, 2, 3}) {
				t.Errorf("hold %t: the next session got %d packets, want %d; records of %v", hold, n, want, ended)
			}
		})
	}
}

// timer is a leg whose sound comes two seconds late, at first.
type timer struct{ listener }

func (*timer) Said(place time.Duration) (at time.Time, late time.Duration, ok bool) {
	return time.Unix(0, 0).Add(place), 2 * time.Second, place < 10*time.Second
}

func (*timer) Sound(itemID string) time.Duration { return time.Duration(len(itemID)) * time.Second }

// TestSound adds to events that end what the model says how long that is.
func TestSound(t *testing.T) {
	t.Parallel()
	s := &Sessions{byGen: map[int]*Session{1: {Leg: &timer{}}, 2: {Leg: &listener{}}}}
	for _, tt := range []struct {
		data string
		gen  int
		want time.Duration
	}{
		{`{"type":"response.output_audio.done","item_id":"abc"}`, 1, 3 * time.Second},
		{`{"type":"response.output_audio_transcript.done","item_id":"abcd"}`, 1, 4 * time.Second},
		{`{"type":"conversation.item.truncated","item_id":"ab","audio_end_ms":99}`, 1, 2 * time.Second},
		{`{"type":"response.output_audio_transcript.delta","item_id":"ab","delta":"x"}`, 1, 0},
		{`{"type":"response.output_audio.done"}`, 1, 0},
		{`{"type":"response.output_audio.done","item_id":"abc"}`, 2, 0},
	} {
		if got, _ := s.Time(session.UpstreamEvent{Gen: tt.gen, Data: []byte(tt.data)}).(session.UpstreamEvent); got.Sound != tt.want {
			t.Errorf("%s: %v", tt.data, got.Sound)
		}
	}
}

// TestSaid adds to events about speech when that came, and to no others.
func TestSaid(t *testing.T) {
	t.Parallel()
	s := &Sessions{byGen: map[int]*Session{1: {Leg: &timer{}}, 2: {Leg: &listener{}}}}
	at := func(d time.Duration) *session.Said {
		return &session.Said{At: time.Unix(0, 0).Add(d), Late: 2 * time.Second}
	}
	for _, tt := range []struct {
		name, data string
		gen        int
		want       *session.Said
	}{
		{"the beginning", `{"type":"input_audio_buffer.speech_started","item_id":"i","audio_start_ms":1500}`, 1, at(1500 * time.Millisecond)},
		{"the end", `{"type":"input_audio_buffer.speech_stopped","item_id":"i","audio_end_ms":2500}`, 1, at(2500 * time.Millisecond)},
		{"what never came", `{"type":"input_audio_buffer.speech_stopped","item_id":"i","audio_end_ms":99999}`, 1, nil},
		{"another event", `{"type":"input_audio_buffer.committed","item_id":"i"}`, 1, nil},
		{"no event", `{"type":"input_audio_buffer.speech_stopped"`, 1, nil},
		{"a leg that does not know", `{"type":"input_audio_buffer.speech_started","item_id":"i","audio_start_ms":1500}`, 2, nil},
		{"no leg", `{"type":"input_audio_buffer.speech_started","item_id":"i","audio_start_ms":1500}`, 3, nil},
	} {
		got, _ := s.Time(session.UpstreamEvent{Gen: tt.gen, Data: []byte(tt.data)}).(session.UpstreamEvent)
		if (got.Said == nil) != (tt.want == nil) || got.Said != nil && *got.Said != *tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got.Said, tt.want)
		}
	}
}
