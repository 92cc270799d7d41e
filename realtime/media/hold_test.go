package media

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sinkFunc is a Sink.
type sinkFunc func(*Packet) error

func (f sinkFunc) WriteAudio(p *Packet) error { return f(p) }

// tape is a Sink that records packets and when they came.
type tape struct {
	mu      sync.Mutex
	numbers []uint16
	times   []time.Time
	refuse  error
}

func (s *tape) WriteAudio(p *Packet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return s.refuse
	}
	s.numbers = append(s.numbers, p.Sequence)
	s.times = append(s.times, time.Now())
	return nil
}

// consecutive checks that the tape has all packets from first to last in order.
func (s *tape) consecutive(t *testing.T, first, last uint16) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.numbers) != int(last-first)+1 {
		t.Fatalf("%d packets, want %d to %d", len(s.numbers), first, last)
	}
	for i, n := range s.numbers {
		if n != first+uint16(i) {
			t.Fatalf("packet %d has number %d, want %d", i, n, first+uint16(i))
		}
	}
}

// talk writes n packets from number first on, 20 ms apart, reusing one packet as
// Forward does.
func talk(s Sink, first uint16, n int) {
	payload := make([]byte, 3)
	for i := range uint16(n) {
		payload[0] = byte(first + i)
		_ = s.WriteAudio(&Packet{Sequence: first + i, Timestamp: uint32(first+i) * FrameStep, Source: 1, Payload: payload})
		<-time.After(FrameTime) // of synctest
	}
}

// TestHold replaces a sink while the caller keeps talking: the new one gets all that was said meanwhile, in order and
// paced, and then what follows.
func TestHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Switch
		var before, after tape
		s.Set(&before)
		talk(&s, 1, 10)
		s.Hold()
		s.Hold()
		talk(&s, 11, 200)
		released := make(chan Held, 1)
		go func() {
			held, err := s.Release(t.Context(), &after)
			if err != nil {
				t.Error(err)
			}
			released <- held
		}()
		talk(&s, 211, 300)
		held := <-released
		before.consecutive(t, 1, 10)
		after.consecutive(t, 11, 510)
		if held.Dropped != 0 || held.Sent < 200 {
			t.Errorf("held: %+v", held)
		}
		live := 0
		for i := 1; i < len(after.times); i++ {
			switch gap := after.times[i].Sub(after.times[i-1]); {
			case gap == FrameTime:
				live++
			case gap > FrameTime:
				t.Errorf("packet %d comes %s after the one before", i, gap)
			}
		}
		if live < 200 {
			t.Errorf("%d packets live: never caught up", live)
		}
	})
}

// TestRemember replaces a sink that still works: the new one also gets the last of what the old one was told, unless
// that is long ago.
func TestRemember(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		pause time.Duration
		hold  bool // the old one is lost, and replaced later
		first uint16
	}{
		"at once":       {first: 192},
		"after a pause": {pause: time.Minute, first: 201},
		"after a loss":  {hold: true, first: 192},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var s Switch
				var before, after tape
				s.Remember(time.Second) // nothing to remember
				s.Set(&before)
				talk(&s, 1, 50)
				s.Remember(10 * FrameTime)
				talk(&s, 51, 75)
				s.Remember(10 * FrameTime)
				talk(&s, 126, 75)
				<-time.After(tt.pause)
				last := uint16(200)
				if tt.hold {
					s.Hold()
					talk(&s, 201, 100)
					last = 300
				}
				held, err := s.Release(t.Context(), &after)
				if err != nil || held.Sent != int(last)-int(tt.first)+1 || held.Dropped != 0 {
					t.Errorf("held %+v, %v", held, err)
				}
				talk(&s, last+1, 10)
				before.consecutive(t, 1, 200)
				after.consecutive(t, tt.first, last+10)
			})
		})
	}
}

// TestForget ends a memory for which there is no use, but nothing that is held.
func TestForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Switch
		var before, after tape
		s.Forget() // nothing to forget
		s.Set(&before)
		s.Remember(10 * FrameTime)
		talk(&s, 1, 50)
		s.Forget()
		if s.holding() != nil {
			t.Error("packets are still kept")
		}
		talk(&s, 51, 50)
		before.consecutive(t, 1, 100)
		s.Hold()
		talk(&s, 101, 50)
		s.Forget()
		if _, err := s.Release(t.Context(), &after); err != nil {
			t.Error(err)
		}
		after.consecutive(t, 101, 150)
	})
}

// TestHoldBounds keeps the newest 5 s, and no more from a source that floods.
func TestHoldBounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Switch
		var after tape
		s.Hold()
		talk(&s, 1, 400)
		held, err := s.Release(t.Context(), &after)
		if err != nil || held.Sent != 250 || held.Dropped != 150 {
			t.Errorf("held %+v, %v", held, err)
		}
		after.consecutive(t, 151, 400)
	})
	for _, tt := range []struct{ payload, packets, want int }{{1, 3 * holdPackets, holdPackets}, {1400, 2000, holdBytes / 1400}} {
		var s Switch
		s.Hold()
		for range tt.packets {
			_ = s.WriteAudio(&Packet{Payload: make([]byte, tt.payload)}) // it never fails
		}
		testkit.Equal(t, len(s.holding().packets), tt.want, "packets of %d bytes are kept", tt.payload)
	}
}

// TestReleaseEnds ends a release early, in each way.
func TestReleaseEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s Switch
		var after tape
		s.Hold()
		talk(&s, 1, 100)
		cause := errors.New("call ended")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(100*time.Millisecond, func() { cancel(cause) })
		held, err := s.Release(ctx, &after)
		if !errors.Is(err, cause) || held.Dropped != 0 || held.Sent > 25 || held.Sent == 0 {
			t.Errorf("held %+v, %v", held, err)
		}
		talk(&s, 101, 5)
		if held, err = s.Release(t.Context(), &after); err != nil || held != (Held{Sent: 105}) {
			t.Errorf("held %+v, %v", held, err)
		}
		after.consecutive(t, 1, 105)

		s.Hold()
		talk(&s, 1, 10)
		after.refuse = errors.New("full")
		if held, err := s.Release(t.Context(), &after); err != nil || held.Dropped != 10 {
			t.Errorf("refused: %+v, %v", held, err)
		}
		s.Hold()
		talk(&s, 1, 10)
		if held, err := s.Release(t.Context(), nil); err != nil || held != (Held{}) {
			t.Errorf("to nothing: %+v, %v", held, err)
		}
		if held, err := s.Release(t.Context(), &after); err != nil || held != (Held{}) || s.sink.Load() == nil {
			t.Errorf("without a hold: %+v, %v", held, err)
		}
	})
}

// TestHoldLosesNothing releases while packets pour in without a pause: none is lost or reordered, whatever the
// scheduler does.
func TestHoldLosesNothing(t *testing.T) {
	t.Parallel()
	for range 20 {
		var s Switch
		var after tape
		s.Hold()
		var wg sync.WaitGroup
		const n = 900 // fewer than are kept
		wg.Go(func() {
			for i := range uint16(n) {
				_ = s.WriteAudio(&Packet{Sequence: i, Payload: []byte{1}})
			}
		})
		ctx, cancel := context.WithCancel(t.Context())
		held, err := s.Release(ctx, &after)
		wg.Wait()
		cancel()
		if err != nil || held.Dropped != 0 {
			t.Fatalf("held %+v, %v", held, err)
		}
		after.consecutive(t, 0, n-1)
	}
}

// TestSwitchDoesNotAllocate checks the normal path, on which no packet is held back.
func TestSwitchDoesNotAllocate(t *testing.T) {
	var s Switch
	s.Set(sinkFunc(func(*Packet) error { return nil }))
	packet := &Packet{Payload: []byte{1, 2, 3}}
	testkit.Equal(t, testing.AllocsPerRun(1000, func() { _ = s.WriteAudio(packet) }), 0, "allocations for a packet")
}
