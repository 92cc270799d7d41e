//go:build nightly

package e2e

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/simulator"
)

var (
	recordedFor  = flag.Duration("recorded.for", 4*time.Minute, "how long TestRecordedSoak goes on")
	recordedSeed = flag.Uint64("recorded.seed", 0, "what TestRecordedSoak does; 0 chooses one and prints it")
)

const (
	// recordedAtOnce is how many calls TestRecordedSoak has at a time.
	recordedAtOnce = 3
	// trueTo is how exact the times in a recording have to be, beside what packets need on their way.
	trueTo = 100 * time.Millisecond
	// unflushed is what a recording may lose when its process is killed: it is written once a second, which may take a moment.
	unflushed = 1500 * time.Millisecond
)

// numbered is a packet of 20 ms of Opus that there is only once.
func numbered(track, call byte, number int) []byte {
	return binary.BigEndian.AppendUint32([]byte{0xf8, track, call}, uint32(number))
}

// The tracks of numbered packets.
const (
	fromCaller byte = iota
	fromModel
)

// numberOf is numbered, the other way round.
func numberOf(packet []byte, track, call byte) (number int, ok bool) {
	if len(packet) != 7 || packet[1] != track || packet[2] != call {
		return 0, false
	}
	return int(binary.BigEndian.Uint32(packet[3:])), true
}

// samplesOf is the length of a packet of CELT with one frame (RFC 6716, 3.1), in samples of 48 kHz.
func samplesOf(packet []byte) int { return 120 << (packet[0]>>3 - 28) }

// numberedMic sends a numbered packet every 20 ms, unless it is muted.
type numberedMic struct {
	call byte
	stop func()

	mu     sync.Mutex
	muted  bool
	source uint32
	write  func(*media.Packet) error
	at     []time.Time // when each was sent
}

// openMic opens the microphone of a call.
func openMic(t *testing.T, call byte) *numberedMic {
	m := &numberedMic{call: call}
	stop, stopped := make(chan struct{}), make(chan struct{})
	m.stop = sync.OnceFunc(func() { close(stop); <-stopped })
	t.Cleanup(m.stop)
	go func() {
		defer close(stopped)
		began, tick := time.Now(), time.Tick(media.FrameTime)
		for {
			select {
			case <-stop:
				return
			case <-tick:
				m.frame(time.Since(began))
			}
		}
	}()
	return m
}

// frame sends a packet at a time of the microphone's clock.
func (m *numberedMic) frame(now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.muted || m.write == nil {
		return
	}
	n := len(m.at)
	m.at = append(m.at, time.Now())
	_ = m.write(&media.Packet{ // fails while there is no connection
		Source: m.source, Sequence: uint16(n), Timestamp: uint32(now/media.FrameTime) * media.FrameStep, Payload: numbered(fromCaller, m.call, n),
	})
}

// change changes the microphone between two packets.
func (m *numberedMic) change(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
}

// connect has it heard by a browser.
func (m *numberedMic) connect(c *caller) {
	m.change(func() { m.source++; m.write = c.peer.WriteAudio })
}

// talker is an upstream that speaks all the time, in numbered packets, and notes what comes.
type talker struct {
	speaking sync.WaitGroup

	mu   sync.Mutex
	came map[byte]map[int]time.Time // by call and number
	sent map[byte][]time.Time
}

func (u *talker) drive(s *simulator.Session) media.Sink { return &talkerOf{talker: u, session: s} }

type talkerOf struct {
	*talker

	session *simulator.Session
	begun   bool
}

// WriteAudio notes a packet. With the first one the session knows whose call it is.
func (u *talkerOf) WriteAudio(p *media.Packet) error {
	if len(p.Payload) != 7 {
		return nil
	}
	call := p.Payload[2]
	n, ok := numberOf(p.Payload, fromCaller, call)
	if !ok {
		return nil
	}
	if !u.begun {
		u.begun = true
		u.speaking.Go(func() { u.speak(call) })
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.came[call] == nil {
		u.came[call] = map[int]time.Time{}
	}
	u.came[call][n] = time.Now()
	return nil
}

// speak sends a packet every 20 ms as long as the session lives.
func (u *talkerOf) speak(call byte) {
	began, tick := time.Now(), time.Tick(media.FrameTime)
	for sequence := uint16(0); ; sequence++ {
		select {
		case <-u.session.Done():
			return
		case <-tick:
		}
		u.mu.Lock()
		n := len(u.sent[call])
		u.sent[call] = append(u.sent[call], time.Now())
		u.mu.Unlock()
		_ = u.session.WriteAudio(&media.Packet{ // fails at its end
			Source: 1, Sequence: sequence, Timestamp: uint32(time.Since(began)/media.FrameTime) * media.FrameStep, Payload: numbered(fromModel, call, n),
		})
	}
}

// recordedCall is a call of TestRecordedSoak.
type recordedCall struct {
	*caller // the present browser

	name     string
	mic      *numberedMic
	browsers []*caller
	dialed   time.Time
	dropped  []time.Time  // when the upstream dropped its session
	left     []time.Time  // when browsers left
	killed   bool         // with its process
	end      [2]time.Time // before and after
}

// TestRecordedSoak records calls that mute, lose their upstream session or have it renewed, and go on in other browsers,
// until their process is killed, or told to stop, or they hang up. What is kept is what passed, and when.
func TestRecordedSoak(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*recordedSeed, rand.Uint64())
	t.Logf("-recorded.for %v -recorded.seed %d", *recordedFor, seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	upstream := &talker{came: map[byte]map[int]time.Time{}, sent: map[byte][]time.Time{}}
	t.Cleanup(upstream.speaking.Wait)
	r := newRig(t, rigConfig{
		simulator: simulator.Config{Drive: upstream.drive, MaxDuration: renewedLength},
		environ:   slices.Concat(waiting, recordedCalls, []string{renewedEarly}),
	})
	var all []*recordedCall
	var threads [recordedAtOnce]string
	for _, ending := range []struct {
		name string
		act  func(calls []*recordedCall)
	}{
		{"killed", func(calls []*recordedCall) {
			all := endOf(calls)
			r.kill()
			all(true)
			r.start()
		}},
		{"stopped", func(calls []*recordedCall) {
			all := endOf(calls)
			testkit.Equal(t, r.terminate(), 0, "exit code")
			all(false)
			if left := r.tapes(t); len(left) > 0 {
				t.Errorf("a process that was told to stop leaves recordings to the next one: %q", left)
			}
			r.start()
		}},
		{"hung up", func(calls []*recordedCall) {
			slow := make(chan struct{}) // the upstream ends its sessions later than the call ends
			r.holding.Store(&slow)
			defer close(slow)
			for i, c := range calls {
				one := endOf(calls[i : i+1])
				c.hangUp()
				one(false)
				c.ended()
				c.end[1] = c.first("bridge.ended")
			}
		}},
	} {
		var calls []*recordedCall
		for i := range threads {
			c := &recordedCall{name: fmt.Sprintf("%s %d", ending.name, i), mic: openMic(t, byte(len(all))), dialed: time.Now()}
			c.caller = r.dial(t, request{thread: threads[i], record: true})
			c.browsers = append(c.browsers, c.caller)
			threads[i] = c.thread
			c.mic.connect(c.caller)
			c.next("bridge.recording")
			c.next("bridge.ready")
			calls, all = append(calls, c), append(all, c)
		}
		for end := time.Now().Add(*recordedFor / 3); time.Now().Before(end); {
			calls[rng.IntN(len(calls))].disturb(t, rng)
			<-time.After(time.Duration(rng.IntN(400)) * time.Millisecond)
		}
		ending.act(calls)
	}
	answers := 0
	for _, c := range all {
		answers += c.check(t, upstream)
	}
	if answers < 20*len(all) {
		t.Errorf("%d packets of the model are kept in %d calls", answers, len(all))
	}
	r.quiet()
}

// endOf is called before calls end, and what it returns when they have ended.
func endOf(calls []*recordedCall) (ended func(killed bool)) {
	before := time.Now()
	return func(killed bool) {
		after := time.Now()
		for _, c := range calls {
			c.end, c.killed = [2]time.Time{before, after}, killed
			c.mic.stop()
		}
	}
}

// disturb does something to a call.
func (c *recordedCall) disturb(t *testing.T, rng *rand.Rand) {
	t.Helper()
	switch n := rng.IntN(8); {
	case c.mic.muted:
		c.mic.change(func() { c.mic.muted = false })
	case n < 4:
		c.mic.change(func() { c.mic.muted = true })
	case n < 6 && len(c.dropped) < 3: // a call does not survive more than six losses
		c.dropped = append(c.dropped, time.Now())
		c.rig.current(t, c.id).Drop()
	default:
		c.left = append(c.left, time.Now())
		if n == 7 {
			c.leave()
			<-time.After(time.Duration(rng.IntN(600)) * time.Millisecond)
		}
		c.caller = c.rig.rejoin(t, c.caller)
		c.browsers = append(c.browsers, c.caller)
		c.mic.connect(c.caller)
		c.next("bridge.ready")
		c.left = append(c.left, time.Now())
	}
}

// around reports whether something happened at a time or a moment before or after.
func around(at time.Time, happened []time.Time, before, after time.Duration) bool {
	return slices.ContainsFunc(happened, func(h time.Time) bool { return at.After(h.Add(-before)) && at.Before(h.Add(after)) })
}

// renewed lists when the call had another upstream session, and the longest time that it was without one.
func (c *recordedCall) renewed() (at []time.Time, longest time.Duration) {
	for _, b := range c.browsers {
		for _, ev := range b.all() {
			var e struct {
				GapMS int `json:"gap_ms"`
			}
			if ev.Type == "bridge.upstream.renewed" && json.Unmarshal(ev.Raw, &e) == nil {
				at, longest = append(at, ev.at), max(longest, time.Duration(e.GapMS)*time.Millisecond)
			}
		}
	}
	return at, longest
}

// placed is a numbered packet in a recording.
type placed struct {
	number int
	at     time.Duration
}

// kept reads a track of the recording.
func (c *recordedCall) kept(t *testing.T, name string, track byte) (packets []placed, length time.Duration) {
	t.Helper()
	samples := 0
	for _, p := range oggPackets(t, c.rig.trackFile(t, c.id, name)) {
		if !isFill(p) {
			n, ok := numberOf(p, track, c.mic.call)
			if !ok || len(packets) > 0 && packets[len(packets)-1].number >= n {
				t.Errorf("%s: the track %s has the packet %x after %+v", c.name, name, p, packets[max(0, len(packets)-1):])
			}
			packets = append(packets, placed{n, time.Duration(samples) * time.Second / 48000})
		}
		samples += samplesOf(p)
	}
	return packets, time.Duration(samples) * time.Second / 48000
}

// check compares a call's recording with what its microphone and the upstream sent, and when. It returns how many packets of the
// model it has: few, if the call lost its session early.
func (c *recordedCall) check(t *testing.T, upstream *talker) int {
	t.Helper()
	upstream.mu.Lock()
	came, sent := upstream.came[c.mic.call], upstream.sent[c.mic.call]
	upstream.mu.Unlock()
	spoken, length := c.kept(t, "user", fromCaller)
	answers, answersLength := c.kept(t, "assistant", fromModel)
	if len(spoken) < 20 {
		t.Fatalf("%s: %d packets of the caller and %d of the model are kept, of %d that passed", c.name, len(spoken), len(answers), len(came))
	}
	renewals, gap := c.renewed()
	unrenewed := slices.DeleteFunc(slices.Clone(c.dropped), func(at time.Time) bool { return around(at, renewals, time.Hour, 0) }) // before it ended
	disturbed := func(at time.Time) bool {                                                                                         // what is held then comes late
		return around(at, renewals, gap+500*time.Millisecond, 3*time.Second) || around(at, unrenewed, 500*time.Millisecond, time.Hour)
	}
	var slowest time.Duration // of the packets that nothing held
	for n, at := range came {
		if !disturbed(c.mic.at[n]) {
			slowest = max(slowest, at.Sub(c.mic.at[n]))
		}
	}
	heard := c.heard()
	for n, at := range heard {
		slowest = max(slowest, at.Sub(sent[n]))
	}
	exact := trueTo + slowest
	if d := (length - answersLength).Abs(); d > exact {
		t.Errorf("%s: the tracks have %v and %v", c.name, length, answersLength)
	}
	began := c.mic.at[spoken[0].number].Add(-spoken[0].at)
	if ready := c.browsers[0].first("bridge.recording"); began.Before(c.dialed.Add(-exact)) || began.After(ready.Add(exact)) {
		t.Errorf("%s: it was called at %s and recorded at %s, the recording begins at %s", c.name, clock(c.dialed), clock(ready), clock(began))
	}
	from, to := c.end[0].Sub(began)-exact, c.end[1].Sub(began)+exact
	if c.killed {
		from -= unflushed
	}
	if length < from || length > to {
		t.Errorf("%s: the recording has %v, the call %v to %v", c.name, length, from+exact, to-exact)
	}
	var worst time.Duration
	for _, track := range []struct {
		name   string
		kept   []placed
		sent   []time.Time
		passed map[int]time.Time
		lost   func(at time.Time) bool // whether one that was sent then may have got lost after it was recorded
	}{
		{"user", spoken, c.mic.at, came, func(at time.Time) bool { // a stalled machine notices late what was lost
			return disturbed(at) || around(at, slices.Concat(renewals, c.dropped), gap+500*time.Millisecond+slowest, 3*time.Second+slowest)
		}},
		{"assistant", answers, sent, heard, func(at time.Time) bool { return around(at, c.left, exact, time.Second+exact) }},
	} {
		kept, unheard := map[int]bool{}, 0
		for _, p := range track.kept {
			kept[p.number] = true
			if p.number >= len(track.sent) {
				t.Errorf("%s: the track %s has the packet %d, which nobody sent", c.name, track.name, p.number)
				continue
			}
			at := track.sent[p.number]
			wrong := (p.at - at.Sub(began)).Abs()
			if worst = max(worst, wrong); wrong > exact {
				t.Errorf("%s: the packet %d of %s stands at %v, it was sent at %v", c.name, p.number, track.name, p.at, at.Sub(began))
			}
			if end := at.After(c.end[0].Add(-exact)); track.passed[p.number].IsZero() && !end {
				if unheard++; !track.lost(at) {
					t.Errorf("%s: the packet %d of %s is kept, but did not pass", c.name, p.number, track.name)
				}
			}
		}
		for n := range track.passed {
			if place := track.sent[n].Sub(began); !kept[n] && !(c.killed && place > length-exact) {
				t.Errorf("%s: the packet %d of %s passed at %v of %v and is not kept", c.name, n, track.name, place, length)
			}
		}
		t.Logf("%s: %s: %d packets kept, %d passed, %d got lost later", c.name, track.name, len(track.kept), len(track.passed), unheard)
	}
	t.Logf("%s: %v long, %d renewals, %d browsers; a packet stands %v beside its time at most, and needed %v at most", c.name, length, len(renewals), len(c.browsers), worst, slowest)
	if got := c.rig.do(t, http.MethodGet, "/api/calls/"+c.id+"/peaks", "", ""); got.status != http.StatusOK {
		t.Errorf("%s: its outline: %d %s", c.name, got.status, got.body)
	}
	return len(answers)
}

// heard are the model's packets that came to a browser, and when.
func (c *recordedCall) heard() map[int]time.Time {
	at := map[int]time.Time{}
	for _, b := range c.browsers {
		b.mu.Lock()
		for i, p := range b.got {
			if n, ok := numberOf(p, fromModel, c.mic.call); ok {
				at[n] = b.soundAt[i]
			}
		}
		b.mu.Unlock()
	}
	return at
}

// first returns when the first event of a kind came.
func (c *caller) first(kind string) time.Time {
	for _, ev := range c.all() {
		if ev.Type == kind {
			return ev.at
		}
	}
	return time.Time{}
}
