package ws

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
)

// player is a client that plays answers by its own clock.
type player struct {
	*ear

	remote uint32
	room   atomic.Bool
	ends   []string // the items that are complete, after how many frames
	sound  []byte
	pieces []int // how long each was
}

func (p *player) Ahead() (remote uint32, room bool) { return p.remote, p.room.Load() }

func (p *player) WriteAudio(packet *media.Packet) error {
	if packet.Part.Last {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ends = append(p.ends, fmt.Sprint(packet.Part.Item, " ", len(p.frames)))
		return nil
	}
	p.mu.Lock()
	p.sound, p.pieces = append(p.sound, packet.Payload...), append(p.pieces, len(packet.Payload))
	p.mu.Unlock()
	frame := *packet
	for frame.Payload = range slices.Chunk(packet.Payload, packet.Format.Frame()) {
		if err := p.ear.WriteAudio(&frame); err != nil {
			return err
		}
		frame.Timestamp += media.FrameStep
	}
	return nil
}

func (p *player) count() int {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.frames)
}

// inAhead is inCall with a player, which takes the place of the ear.
func inAhead(t *testing.T, profile Profile, test func(t *testing.T, c *call, p *player, sink *media.Switch)) {
	t.Helper()
	inCallOf(t, profile, func(c *call) (media.Sink, func(t *testing.T)) {
		p, sink := &player{ear: c.ear, remote: 7}, new(media.Switch)
		p.room.Store(true)
		sink.Set(p)
		c.ClientPlays(func() bool { return true })
		return sink, func(t *testing.T) { test(t, c, p, sink) }
	})
}

// TestAhead has an upstream send two items at once: they come at once, and the events say when they are heard.
func TestAhead(t *testing.T) {
	t.Parallel()
	inAhead(t, Profile{}, func(t *testing.T, c *call, p *player, _ *media.Switch) {
		c.speak("resp_1", "item_1", 0, 50)
		c.speak("resp_1", "item_2", 50, 25)
		c.done("resp_1")
		testkit.Equal(t, p.count(), 75, "frames at once")
		testkit.Equal(t, p.ends, []string{"item_1 50", "item_2 75"}, "the ends")
		testkit.Equal(t, sorted(c.heard()), []string{"output_audio_buffer.started resp_1", "response.done"}, "at the beginning")
		pass(1490 * time.Millisecond)
		if got := c.heard(); got != nil {
			t.Errorf("in the answer came %v", got)
		}
		pass(20 * time.Millisecond)
		testkit.Equal(t, c.heard(), []string{"output_audio_buffer.stopped resp_1"}, "at the end")
		for i, frame := range p.frames {
			if frame != byte(i) || i > 0 && p.stamps[i] != p.stamps[i-1]+media.FrameStep {
				t.Fatalf("frame %d is %d", i, frame)
			}
		}
	})
}

// TestAheadWithoutRoom has a client that does not read: it gets what is due, and the rest once it reads.
func TestAheadWithoutRoom(t *testing.T) {
	t.Parallel()
	inAhead(t, Profile{}, func(t *testing.T, c *call, p *player, _ *media.Switch) {
		c.speak("resp_1", "item_1", 0, 10)
		testkit.Equal(t, p.count(), 10, "frames with room")
		p.room.Store(false)
		for i := range 9 {
			c.speak("resp_1", "item_1", 10*(i+1), 10)
		}
		c.done("resp_1")
		pass(190 * time.Millisecond)
		testkit.Equal(t, p.count(), 10, "frames before the next one is due")
		pass(200 * time.Millisecond)
		testkit.Equal(t, p.count(), 20, "frames after 390 ms")
		p.room.Store(true)
		pass(20 * time.Millisecond)
		testkit.Equal(t, p.count(), 100, "frames once there is room")
		p.room.Store(false)
		pass(2 * time.Second)
		if got := c.heard(); len(p.ends) != 1 || got[len(got)-1] != "output_audio_buffer.stopped resp_1" || !slices.IsSorted(p.frames) {
			t.Errorf("%v, then %v", p.ends, got)
		}
	})
}

// TestAheadPieces has an upstream send sound in pieces of any length, even with a sample in two of them: a client gets
// all of it in pieces of whole samples, as they came unless they are very short or very long, whether it reads or not.
func TestAheadPieces(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		said, got []int // lengths of pieces
	}{
		"as they came":         {[]int{9600, 4098, 14_400}, []int{9600, 4098, 14_400}},
		"very short":           {[]int{2, 1, 1, 2, 954}, []int{960}},
		"less than a frame":    {[]int{100}, []int{100}},
		"samples in two":       {[]int{9601, 9599, 9601, 9600}, []int{9600, 9600, 9600, 9600}},
		"an answer in one":     {[]int{3*maxPiece + 100}, []int{maxPiece, maxPiece, maxPiece, 100}},
		"frames in two pieces": {[]int{5000, 5000, 5000, 5000}, []int{5000, 5000, 5000, 5000}},
	} {
		for _, room := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", room ", room), func(t *testing.T) {
				t.Parallel()
				inAhead(t, Profile{}, func(t *testing.T, c *call, p *player, _ *media.Switch) {
					p.room.Store(room)
					var all []byte
					for _, n := range tt.said {
						sound := make([]byte, n)
						for i := range sound {
							sound[i] = byte((len(all) + i) % 251)
						}
						all = append(all, sound...)
						c.up.say(`{"type":"response.output_audio.delta","response_id":"r","item_id":"i","content_index":0,"delta":%q}`,
							base64.StdEncoding.EncodeToString(sound))
					}
					c.done("r")
					pass(10 * time.Second)
					if !bytes.Equal(p.sound, all[:len(all)/2*2]) {
						t.Errorf("%d bytes of %d, or others", len(p.sound), len(all))
					}
					testkit.Equal(t, p.pieces, tt.got, "pieces")
					if got := c.heard(); got[len(got)-1] != "output_audio_buffer.stopped r" {
						t.Errorf("events %v", got)
					}
				})
			})
		}
	}
}

// TestAheadChanges has another connection take the place of the player: it gets what is not heard yet.
func TestAheadChanges(t *testing.T) {
	t.Parallel()
	inAhead(t, Profile{}, func(t *testing.T, c *call, p *player, sink *media.Switch) {
		c.speak("resp_1", "item_1", 0, 100)
		c.done("resp_1")
		pass(399 * time.Millisecond) // 20 frames
		plain := new(ear)
		sink.Set(plain)
		pass(3 * time.Second)
		if len(p.frames) != 100 || len(plain.frames) != 80 || plain.frames[0] != 20 {
			t.Errorf("%d frames, then %d from %d on", len(p.frames), len(plain.frames), plain.frames[0])
		}
		if got := c.heard(); got[len(got)-1] != "output_audio_buffer.stopped resp_1" {
			t.Errorf("then %v", got)
		}
	})
}

// TestAheadInterrupted has the caller speak into an answer that the client has: what was heard is the client's to say,
// for a second. Then the upstream is told what was by the clock.
func TestAheadInterrupted(t *testing.T) {
	t.Parallel()
	const within = clientsWord - 10*time.Millisecond
	for name, tt := range map[string]struct {
		keeps  bool
		say    string
		early  []string // truncations within a second
		late   []string // and after it
		events []string
	}{
		"it says nothing": {late: []string{"item_1 500", "item_2 0"}},
		"it says so":      {say: "item_1", early: []string{"item_1 123"}, late: []string{"item_2 0"}},
		"an upstream that keeps all": {
			keeps: true, say: "item_1", events: []string{"conversation.item.truncated item_1", "conversation.item.truncated item_2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAhead(t, Profile{KeepsAudio: tt.keeps}, func(t *testing.T, c *call, p *player, _ *media.Switch) {
				c.up.say(`{"type":"response.created","response":{"id":"resp_1"}}`)
				c.speak("resp_1", "item_1", 0, 50)
				c.speak("resp_1", "item_2", 50, 10)
				pass(499 * time.Millisecond)
				c.heard()
				c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9"}`)
				testkit.Equal(t, c.heard(), []string{"input_audio_buffer.speech_started item_9", "output_audio_buffer.cleared resp_1"}, "at once")
				if tt.say != "" {
					c.TrySend(realtime.ItemTruncate("e1", tt.say, 123))
				}
				pass(within)
				early := truncations(c)
				pass(time.Second)
				testkit.Equal(t, [][]string{early, truncations(c)}, [][]string{tt.early, tt.late}, "the upstream is told")
				testkit.Equal(t, c.heard(), tt.events, "events")
				c.speak("resp_2", "item_3", 0, 5)
				testkit.Equal(t, p.count(), 65, "frames after the next answer")
			})
		})
	}
}

func truncations(c *call) (told []string) {
	for _, ev := range c.up.told() {
		if ev.Type == realtime.TypeItemTruncate {
			told = append(told, fmt.Sprint(ev.ItemID, " ", ev.AudioEndMS))
		}
	}
	slices.Sort(told)
	return told
}

// TestTruncatedTooLate has a client say that it heard more of an answer than there was: what there was counts.
func TestTruncatedTooLate(t *testing.T) {
	t.Parallel()
	for name, stopped := range map[string]bool{"while it is played": false, "after it was stopped": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inAhead(t, Profile{KeepsAudio: true}, func(t *testing.T, c *call, _ *player, _ *media.Switch) {
				var heard []int64
				c.ear.mu.Lock()
				c.ear.on = func(ev realtime.Event) {
					if ev.Type == realtime.TypeItemTruncated {
						heard = append(heard, ev.AudioEndMS)
					}
				}
				c.ear.mu.Unlock()
				c.up.say(`{"type":"response.created","response":{"id":"resp_1"}}`)
				c.speak("resp_1", "item_1", 0, 50)
				pass(499 * time.Millisecond)
				if stopped {
					c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9"}`)
				}
				c.heard()
				c.TrySend(realtime.ItemTruncate("e1", "item_1", 9999))
				pass(2 * time.Second)
				c.heard()
				if !slices.Equal(heard, []int64{1000}) {
					t.Errorf("heard %v ms, want 1000", heard)
				}
			})
		})
	}
}
