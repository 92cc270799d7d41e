package rtc

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pion/rtcp"
	"github.com/pion/rtp"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

// TestGaps says which packets are asked for when.
func TestGaps(t *testing.T) {
	t.Parallel()
	type numbers = []uint16
	from := func(first, n int) (all numbers) {
		for i := range n {
			all = append(all, uint16(first+i))
		}
		return all
	}
	without := func(all numbers, lost ...uint16) numbers {
		return slices.DeleteFunc(all, func(n uint16) bool { return slices.Contains(lost, n) })
	}
	for name, tt := range map[string]struct {
		come numbers
		asks map[uint16]numbers // by the packet that came before
	}{
		"all":            {from(1, 100), nil},
		"one lost":       {without(from(1, 40), 10), map[uint16]numbers{11: {10}, 14: {10}, 19: {10}, 26: {10}}},
		"repeated":       {numbers{1, 3, 4, 2, 5, 6, 7, 8}, map[uint16]numbers{3: {2}}},
		"lost again":     {numbers{1, 3, 4, 5, 6, 2, 7, 8, 9, 10, 11, 12, 13}, map[uint16]numbers{3: {2}, 6: {2}}},
		"two at once":    {without(from(1, 8), 4, 5), map[uint16]numbers{6: {5, 4}, 8: {4}}},
		"a wrap":         {without(from(65530, 11), 65535, 0), map[uint16]numbers{1: {0, 65535}, 3: {65535}, 4: {0}}},
		"twice":          {numbers{1, 2, 2, 1, 3}, nil},
		"640 ms":         {numbers{1, 33}, map[uint16]numbers{33: reversed(from(2, 31))}},
		"no network":     {numbers{1, 34, 35}, nil},
		"another start":  {numbers{60000, 5, 6, 8}, map[uint16]numbers{8: {7}}},
		"starts at zero": {numbers{0, 1, 3}, map[uint16]numbers{3: {2}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var g gaps
			for _, n := range tt.come {
				if got := g.take(n); !slices.Equal(reversed(slices.Sorted(slices.Values(got))), reversed(slices.Sorted(slices.Values(tt.asks[n])))) {
					t.Errorf("after %d: %d are asked for, want %d", n, got, tt.asks[n])
				}
			}
		})
	}
}

func reversed(all []uint16) []uint16 {
	slices.Reverse(all)
	return all
}

// wire keeps the numbers of what is sent.
type wire struct{ numbers []uint16 }

func (w *wire) write(p *rtp.Packet) error {
	if p.Payload[0] != byte(p.SequenceNumber) {
		panic("another payload")
	}
	w.numbers = append(w.numbers, p.SequenceNumber)
	return nil
}

// TestSentTwice sends packets twice while the remote misses some, and no more often than it may ask for one.
func TestSentTwice(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bare  bool
		tell  func(s *sent)
		twice bool
	}{
		"nothing": {tell: func(*sent) {}},
		"request": {twice: true, tell: func(s *sent) { s.repeat(request(5)) }},
		"request, bare": {bare: true, tell: func(s *sent) {
			s.repeat(request(5))
		}},
		"report of 2 %": {twice: true, tell: func(s *sent) { s.reported(9, []rtcp.ReceptionReport{{SSRC: 9, FractionLost: 6}}) }},
		"report of 1 %": {tell: func(s *sent) { s.reported(9, []rtcp.ReceptionReport{{SSRC: 9, FractionLost: 3}}) }},
		"of another":    {tell: func(s *sent) { s.reported(9, []rtcp.ReceptionReport{{SSRC: 8, FractionLost: 60}}) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := new(wire)
				s := &sent{bare: tt.bare, to: w.write}
				send := func(from, n int) {
					for i := range n {
						sequence := uint16(from + i)
						must(t, s.write(&rtp.Packet{Header: rtp.Header{SequenceNumber: sequence}, Payload: []byte{byte(sequence)}}, time.Now()))
						<-time.After(frameTime) // virtual
					}
				}
				send(65530, 10)
				tt.tell(s)
				w.numbers = nil
				send(4, 4)
				want := []uint16{4, 5, 6, 7}
				if tt.twice {
					want = []uint16{4, 4, 5, 5, 6, 6, 7}
				}
				if !slices.Equal(w.numbers, want) {
					t.Errorf("sent %d, want %d", w.numbers, want)
				}
				<-time.After(doubleFor) // virtual
				w.numbers = nil
				send(8, 3)
				if want := []uint16{8, 9, 10}; !slices.Equal(w.numbers, want) {
					t.Errorf("later %d, want %d", w.numbers, want)
				}
			})
		})
	}
}

func request(numbers ...uint16) *rtcp.TransportLayerNack {
	return &rtcp.TransportLayerNack{Nacks: rtcp.NackPairsFromSequenceNumbers(numbers)}
}

// TestRepeat asks for packets: those that are kept are repeated, some times.
func TestRepeat(t *testing.T) {
	t.Parallel()
	w := new(wire)
	s := &sent{bare: true, to: w.write}
	send := func(sequence uint16) {
		must(t, s.write(&rtp.Packet{Header: rtp.Header{SequenceNumber: sequence}, Payload: []byte{byte(sequence)}}, time.Now()))
	}
	send(0)
	if s.repeat(request(0)); s.kept.Load() == nil {
		t.Fatal("nothing is kept after a request")
	}
	for i := range uint16(100) {
		send(i + 1)
	}
	w.numbers = nil
	for range 2 * maxRepeats {
		s.repeat(request(68, 69, 90, 100, 101, 4000))
	}
	if want := slices.Repeat([]uint16{69, 90, 100}, maxRepeats); !slices.Equal(w.numbers, want) {
		t.Errorf("repeated %d, want %d", w.numbers, want)
	}
}

// TestRepairs talks over a network that loses every tenth packet, each way. What one side asks for the other one
// repeats, if the answer allows it.
func TestRepairs(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer func(string) string
		bare   bool
		least  int // per cent
		most   int
	}{
		"asked for":   {answer: func(s string) string { return s }, bare: true, least: 98, most: 100},
		"sent twice":  {answer: func(s string) string { return s }, least: 98, most: 100},
		"not allowed": {answer: func(s string) string { return strings.Replace(s, "a=rtcp-fb:111 nack\r\n", "", 1) }, bare: true, least: 60, most: 95},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var losing atomic.Bool
			var n atomic.Uint32
			disturb := func(outgoing bool) (time.Duration, bool) { return 0, outgoing && losing.Load() && n.Add(1)%11 == 0 } // odd: both sides send in turn
			a := newAPI(t, Config{Delay: time.Millisecond, Disturb: disturb, Bare: tt.bare})
			ctx := testContext(t)
			off, ans := newRecorder(), newRecorder()
			offerer, offer, err := a.Offer(ctx, off.handlers())
			must(t, err)
			answerer, answer, err := a.Answer(ctx, offer, ans.handlers())
			must(t, err)
			for what, text := range map[string]string{"offer": offer, "answer": answer} {
				if strings.Count(text, "a=rtcp-fb:111 nack\r\n") != 1 {
					t.Errorf("the %s does not say that packets are repeated:\n%s", what, text)
				}
			}
			must(t, offerer.Accept(ctx, tt.answer(answer)))
			off.waitState(t, media.StateConnected)
			ans.waitState(t, media.StateConnected)
			losing.Store(true)
			talks, run := beside(t)
			for from, to := range map[*Peer]*Peer{offerer: answerer, answerer: offerer} {
				run(func() { speak(talks, from, 1, 1, 1) })
				got, flow := make(chan uint16, 1000), new(media.Flow)
				flow.Open()
				run(func() {
					_ = to.Forward(talks, sinkFunc(func(p *media.Packet) error { got <- p.Sequence; return nil }), flow)
				})
				came := make(map[uint16]bool)
				for first, newest := testkit.Take(t, "what comes", got), uint16(0); ; {
					sequence := testkit.Take(t, "what comes", got)
					came[sequence] = true
					if newest = max(newest, sequence); newest-first < 220 {
						continue
					}
					percent := 0
					for i := range uint16(200) {
						if came[first+1+i] {
							percent++
						}
					}
					if percent /= 2; percent < tt.least || percent > tt.most {
						t.Errorf("%d %% came, want %d to %d", percent, tt.least, tt.most)
					}
					break
				}
			}
			losing.Store(false) // what ends connections is sent once
		})
	}
}
