package bench

import (
	"context"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must ends the test if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestStamp(t *testing.T) {
	t.Parallel()
	payload := make([]byte, payloadSize)
	for _, want := range []stamp{{}, {1, 2, 3}, {math.MaxUint32, math.MaxUint64, math.MaxInt64}, {7, 1, -5}} {
		want.put(payload)
		if got, ok := readStamp(payload); !ok || got != want {
			t.Errorf("%+v reads as %+v, %v", want, got, ok)
		}
	}
}

func TestStampOfOthers(t *testing.T) {
	t.Parallel()
	good := make([]byte, payloadSize)
	stamp{1, 2, 3}.put(good)
	change := func(at int) []byte {
		b := append([]byte(nil), good...)
		b[at] ^= 1
		return b
	}
	for name, payload := range map[string][]byte{
		"nothing": nil, "silence": {0xf8, 0xff, 0xfe}, "short": good[:payloadSize-1], "long": append(append([]byte(nil), good...), 0),
		"another codec": change(0), "another head": change(3), "a changed end": change(payloadSize - 1), "a changed middle": change(stampEnd),
	} {
		if s, ok := readStamp(payload); ok {
			t.Errorf("%s reads as %+v", name, s)
		}
	}
}

// sink keeps the packets of one sender.
type sink struct {
	mu       sync.Mutex
	got      []rtp.Packet
	at       []time.Time
	receiver *receiver
	drop     func(n int) bool
}

func (s *sink) WriteRTP(p *rtp.Packet) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := *p
	kept.Payload = append([]byte(nil), p.Payload...)
	s.got, s.at = append(s.got, kept), append(s.at, time.Now())
	if s.receiver != nil && (s.drop == nil || !s.drop(len(s.got))) {
		return s.receiver.WriteRTP(p)
	}
	return nil
}

func newReceiver(m *measurement, way way) *receiver {
	e := &receiver{m: m, way: way}
	e.started.init()
	return e
}

func TestSendingKeepsTheSchedule(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasurement()
		sinks := make([]*sink, 7)
		var senders []*sender
		for i := range sinks {
			sinks[i] = &sink{}
			senders = append(senders, newSender(m, upward, uint32(i+1), sinks[i]))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*frame-time.Nanosecond)
		defer cancel()
		sendAll(ctx, m, senders)
		starts := map[time.Time]bool{}
		for i, s := range sinks {
			if len(s.got) != 20 {
				t.Fatalf("sender %d sent %d packets", i, len(s.got))
			}
			starts[s.at[0]] = true
			for n := 1; n < len(s.got); n++ {
				a, b := s.got[n-1], s.got[n]
				if s.at[n].Sub(s.at[n-1]) != frame || b.SequenceNumber != a.SequenceNumber+1 || b.Timestamp != a.Timestamp+samples || b.SSRC != a.SSRC {
					t.Fatalf("sender %d: %v after %v, %s later", i, b, a, s.at[n].Sub(s.at[n-1]))
				}
			}
		}
		if len(starts) != len(sinks) {
			t.Errorf("%d senders start at %d times", len(sinks), len(starts))
		}
	})
}

func TestSpreadIsEven(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 2, 3, 100, 400} {
		senders := make([]*sender, n)
		for i := range senders {
			senders[i] = &sender{}
		}
		spread(senders)
		tenths := make([]int, 10)
		for _, v := range senders {
			if v.phase < 0 || v.phase >= frame {
				t.Fatalf("phase %s", v.phase)
			}
			tenths[v.phase*10/frame]++
		}
		for i, got := range tenths {
			if fair := n / 10; got > fair+3 || got < fair-3 {
				t.Errorf("%d senders: %d in tenth %d of the frame", n, got, i)
			}
		}
	}
}

func TestOnlyTheWindowCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := newMeasurement()
		lossy := &sink{receiver: newReceiver(m, upward), drop: func(n int) bool { return n%10 == 0 }}
		senders := []*sender{newSender(m, upward, 1, lossy)}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { sendAll(ctx, m, senders) })
		time.Sleep(time.Second)
		w := m.open(2 * time.Second)
		must(t, wait(ctx, w.ends.Add(time.Second)))
		cancel()
		wg.Wait()
		path := m.paths(w).Up
		if path.Sent != 100 || path.Lost != 10 || path.Disordered != 0 || path.Wrong != 0 || w.late.count() != 100 {
			t.Errorf("of 100 packets, each tenth lost: %+v, %d timed", path, w.late.count())
		}
	})
}

func TestReceiverTellsDisorderAndStrangers(t *testing.T) {
	t.Parallel()
	m := newMeasurement()
	m.window.Store(&window{from: 0, to: math.MaxInt64})
	e := newReceiver(m, downward)
	receive := func(s stamp) {
		payload := make([]byte, payloadSize)
		s.put(payload)
		must(t, e.WriteRTP(&rtp.Packet{Payload: payload}))
	}
	must(t, e.WriteRTP(&rtp.Packet{Payload: []byte("noise")}))
	select {
	case <-e.started.done:
		t.Error("noise was taken for the first packet")
	default:
	}
	for _, s := range []stamp{{5, 1, 0}, {5, 3, 0}, {5, 2, 0}, {5, 3, 0}, {6, 4, 0}, {5, 4, 0}, {5, 5, -1}} {
		receive(s)
	}
	<-e.started.done
	w := m.window.Load()
	if got, n := m.paths(w), w.ways[downward].latency.count(); got.Down.Wrong != 2 || got.Down.Disordered != 2 || n != 5 || got.Up != (Path{}) {
		t.Errorf("%+v, %d counted", got, n)
	}
	if got := m.paths(w); got.Down.Wrong != 0 {
		t.Errorf("wrong packets are told twice: %+v", got)
	}
}
