package bridge_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/bridge"
	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
	"voicebridge/realtime/simulator"
)

// recorded is what the simulator has a recording of.
const recorded = "Here is your chart. Sales grew in every quarter of this year."

// tape keeps the sound that comes to one end of a call. It is decoded only when it is listened to, as that takes most
// of a test's time.
type tape struct {
	mu      sync.Mutex
	decoder *opus.Decoder
	packets [][]byte // of Opus
	linears [][]byte // of samples
	times   []time.Time
	samples []int16
	ends    []int // how many samples there were then
}

// WriteAudio implements media.Sink.
func (t *tape) WriteAudio(p *media.Packet) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.packets, t.times = append(t.packets, bytes.Clone(p.Payload)), append(t.times, time.Now())
	return nil
}

// linear takes samples.
func (t *tape) linear(sound []byte, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.linears, t.times = append(t.linears, sound), append(t.times, at)
}

// listen decodes what has come since the last time. t.mu is held.
func (t *tape) listen() (err error) {
	if t.decoder == nil {
		t.decoder, err = opus.NewDecoder(24_000)
	}
	for n := len(t.ends); n < len(t.times) && err == nil; n = len(t.ends) {
		if len(t.linears) > 0 {
			t.samples = append(t.samples, pcm.Linear.Decode(nil, t.linears[n])...)
		} else {
			var samples []int16
			samples, err = t.decoder.Decode(t.packets[n])
			t.samples = append(t.samples, samples...)
		}
		t.ends = append(t.ends, len(t.samples))
	}
	return err
}

// last returns when the last sound came.
func (t *tape) last() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.times[len(t.times)-1]
}

// whole reports whether the tape has a recording, but for its end: an upstream over WebSocket may be told that later,
// and a busy machine loses packets.
func (t *tape) whole(frames [][]byte) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.listen() == nil && len(t.samples) >= enough(frames)*480
}

// enough is how many frames of a recording are compared.
func enough(frames [][]byte) int { return len(frames) * 95 / 100 }

// compared says how a tape differs from the recording that was played, of which each frame was due at a time.
func (t *tape) compared(frames [][]byte, due func(frame int) time.Time) (c comparison) {
	t.mu.Lock()
	defer t.mu.Unlock()
	frames = frames[:enough(frames)]
	var want tape
	for _, frame := range frames {
		_ = want.WriteAudio(&media.Packet{Payload: frame}) // it only keeps it
	}
	_, _ = want.listen(), t.listen() // the recordings can be read, and so could the tape
	c.db, c.segmental = signalToNoise(want.samples, t.samples)
	if len(t.linears) > 0 {
		c.same = bytes.Contains(pcm.Linear.Append(nil, t.samples), pcm.Linear.Append(nil, want.samples))
	} else {
		c.same = true
		next := 0
		for _, packet := range t.packets[:min(len(t.packets), len(frames))] {
			at := slices.IndexFunc(frames[next:], func(frame []byte) bool { return bytes.Equal(packet, frame) })
			if at < 0 {
				c.same = false
				break
			}
			c.lost, next = c.lost+at, next+at+1
		}
	}
	first := 0
	var played time.Time // when a player that keeps nothing has played what came until now
	for i, at := range t.times {
		// The sound of an event is there with its first sample.
		if first/480 >= len(frames) {
			break
		}
		late := at.Sub(due(first / 480))
		if i == 0 {
			c.delay = late
			played = at
		}
		if gap := at.Sub(played); gap > longestGap {
			c.gaps = append(c.gaps, fmt.Sprintf("%d ms at %.1f s", gap.Milliseconds(), float64(first)/24_000))
		}
		if at.After(played) {
			played = at
		}
		played = played.Add(time.Duration(t.ends[i]-first) * time.Second / 24_000)
		c.latest, first = max(c.latest, late-c.delay), t.ends[i]
	}
	return c
}

// comparison is how sound differs from what was played.
type comparison struct {
	same bool // the same bytes
	lost int  // packets
	// Signal to noise: of all, and the mean of the frames that are louder than -50 dBFS, each counted from -10 to 35.
	db, segmental float64

	delay  time.Duration // of the first sound
	latest time.Duration // how much later than the first some sound came
	gaps   []string      // where sound ended before more came
}

// longestGap is one that nobody hears: what players keep against it.
const longestGap = 60 * time.Millisecond

func (c comparison) String() string {
	how := fmt.Sprintf("%.1f dB (segmental %.1f)", c.db, c.segmental)
	if c.same {
		how = "the same bytes"
	}
	if c.lost > 0 {
		how += fmt.Sprintf(", %d packets lost", c.lost)
	}
	if len(c.gaps) > 0 {
		how += ", gaps of " + strings.Join(c.gaps, ", ")
	}
	return fmt.Sprintf("%s, %.0f ms late, at most %.0f more", how, float64(c.delay.Microseconds())/1000, float64(c.latest.Microseconds())/1000)
}

// signalToNoise compares a recording with what came, which an encoder may have delayed by up to 40 ms: a whole number
// of samples, as all rates of Opus divide 48 kHz.
func signalToNoise(want, got []int16) (db, segmental float64) {
	db = math.Inf(-1)
	for delay := range min(960, len(got)) {
		n := min(len(want), len(got)-delay)
		all := ratio(want[:n], got[delay:])
		if n <= len(want)*9/10 || all <= db {
			continue
		}
		db, segmental = all, 0
		frames := 0.0
		for i := 0; i+480 <= n; i += 480 {
			if frame := want[i:][:480]; pcm.Level(frame) > -50 {
				segmental += min(35, max(-10, ratio(frame, got[delay+i:])))
				frames++
			}
		}
		segmental /= frames
	}
	return db, segmental
}

// ratio returns, in dB, by how much sound is louder than what it differs by from what came.
//
//go:norace
func ratio(want, got []int16) float64 {
	var signal, noise float64
	for i := range want {
		w, g := float64(want[i]), float64(got[i])
		signal += w * w
		noise += (w - g) * (w - g)
	}
	return 10 * math.Log10(signal/max(noise, 1))
}

// TestSound sends recorded speech through each pair of transports, both ways. Where both sides speak the same format
// the bytes are the same; where Opus is decoded the samples are what a decoder makes of it; where it is encoded they
// are near. With -v it prints the figures of docs/performance.md.
func TestSound(t *testing.T) {
	t.Parallel()
	each(t, testSound, pairsOf(webRTC, webSocket)) // of which the ends are known
}

func testSound(t *testing.T, p pair) {
	t.Helper()
	var up tape
	b := newBench(t, sqlite(t), benchConfig{over: p, simulator: simulator.Config{
		Script: &simulator.Script{Otherwise: simulator.Reply{Say: recorded}, Spoken: []simulator.Reply{{Say: recorded}}},
		Drive:  func(*simulator.Session) media.Sink { return &up }, // of WebRTC
	}})
	c := b.dial(bridge.Start{Session: json.RawMessage(`{"type":"realtime","audio":{"input":{"turn_detection":null}}}`)})
	c.next("bridge.ready")

	said := simulator.UserSpeech()
	c.speak()
	session := b.session(1)
	if p.upstream == webSocket {
		heard := 0
		_, err := session.WaitFor(b.ctx, func(ev realtime.Event) bool {
			heard += len(appended(ev)) / 2
			return heard >= enough(said)*480
		})
		must(t, err)
		for _, r := range session.Received() {
			if sound := appended(r.Event); sound != nil {
				up.linear(sound, r.At)
			}
		}
	}
	testkit.Eventually(b.t, "what was said", func() bool { return up.whole(said) })

	c.say("Say it")
	c.next(realtime.TypeOutputBufferStopped)
	told := simulator.Speech(recorded)
	testkit.Eventually(b.t, "the answer", func() bool { return c.tape.whole(told) })
	begins := map[transport]string{webRTC: realtime.TypeOutputBufferStarted, webSocket: realtime.TypeOutputAudioDelta}[p.upstream]
	began := sentAt(session, begins)
	upwards := up.compared(said, func(frame int) time.Time { return c.said[frame] })
	downwards := c.tape.compared(told, func(frame int) time.Time { return began.Add(time.Duration(frame) * media.FrameTime) })

	c.send(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":{"type":"server_vad"}}}}}`)
	c.next(realtime.TypeSessionUpdated)
	c.say("Say it again, to be interrupted")
	c.next(realtime.TypeOutputBufferStarted)
	c.waitPackets(len(told) + 25)
	session.SimulateSpeech()
	c.next(realtime.TypeOutputBufferCleared)
	interrupted := sentAt(session, realtime.TypeInputSpeechStarted)
	silent := c.tape.last()
	if p.client == webSocket { // which stops by itself
		silent = c.stopped
	}
	b.hangUp(c)
	t.Logf("up %v; down %v; silent %.0f ms after an interruption", upwards, downwards, float64(silent.Sub(interrupted).Microseconds())/1000)

	for _, way := range []struct {
		comparison

		name    string
		encoded pair // the only one in which Opus is made
	}{{upwards, "up", pair{webSocket, webRTC}}, {downwards, "down", pair{webRTC, webSocket}}} {
		switch {
		case way.lost > 10:
			t.Errorf("%s: %d packets are lost", way.name, way.lost)
		case p == way.encoded && (way.same || way.db < 19):
			t.Errorf("%s: %s, which was encoded", way.name, way)
		case p != way.encoded && !way.same && way.db < 20: // a lost packet is concealed
			t.Errorf("%s: %s", way.name, way)
		}
	}
}

// appended returns the sound that an event brings to an upstream.
func appended(ev realtime.Event) []byte {
	var e struct{ Audio []byte }
	if ev.Type != realtime.TypeInputAppend || json.Unmarshal(ev.Raw, &e) != nil {
		return nil
	}
	return e.Audio
}

// sentAt returns when a session sent the first event of a type.
func sentAt(s *simulator.Session, kind string) time.Time {
	sent := s.Sent()
	return sent[slices.IndexFunc(sent, func(r simulator.Record) bool { return r.Event.Type == kind })].At
}
