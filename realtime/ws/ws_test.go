package ws

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSocket is an upstream without a network.
type fakeSocket struct {
	in     chan []byte   // what the upstream says
	out    chan []byte   // what it is told
	closed chan struct{} // by either side
	once   sync.Once
	deaf   atomic.Bool // it answers no ping
	read   atomic.Bool // our side reads, without which no pong arrives
}

func newFakeSocket() *fakeSocket {
	return &fakeSocket{in: make(chan []byte, 4096), out: make(chan []byte, 4096), closed: make(chan struct{})}
}

func (s *fakeSocket) Read(ctx context.Context) ([]byte, error) {
	s.read.Store(true)
	defer s.read.Store(false)
	select {
	case data := <-s.in:
		return data, nil
	default:
	}
	select {
	case data := <-s.in:
		return data, nil
	case <-s.closed:
		return nil, errors.New("closed")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *fakeSocket) Write(ctx context.Context, data []byte) error {
	select {
	case s.out <- data:
		return nil
	case <-s.closed:
		return errors.New("closed")
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *fakeSocket) Ping(ctx context.Context) error {
	if s.deaf.Load() || !s.read.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (s *fakeSocket) Close() error    { s.once.Do(func() { close(s.closed) }); return nil }
func (s *fakeSocket) CloseNow() error { return s.Close() }

func (s *fakeSocket) say(format string, args ...any) { s.in <- fmt.Appendf(nil, format, args...) }

// pass lets time go by, and everybody do what is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// told returns what the upstream was told until now.
func (s *fakeSocket) told() (events []realtime.Event) {
	synctest.Wait()
	for len(s.out) > 0 {
		ev, err := realtime.Decode(<-s.out)
		if err != nil {
			panic(err)
		}
		events = append(events, ev)
	}
	return events
}

// ear is what the client's side gets.
type ear struct {
	mu     sync.Mutex
	events []string
	states []media.State
	frames []byte // the first byte of each
	times  []time.Time
	marks  []bool
	stamps []uint32
	on     func(ev realtime.Event) // gets events, if it is set
}

func (e *ear) handlers() media.Handlers {
	return media.Handlers{
		Message: func(data []byte) {
			ev, err := realtime.Decode(data)
			if err != nil {
				panic(err)
			}
			e.mu.Lock()
			defer e.mu.Unlock()
			if e.on != nil {
				e.on(ev)
			}
			e.events = append(e.events, strings.TrimSpace(ev.Type+" "+ev.ResponseID+ev.ItemID))
		},
		State: func(s media.State) {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.states = append(e.states, s)
		},
	}
}

func (e *ear) WriteAudio(p *media.Packet) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.frames = append(e.frames, p.Payload[0])
	e.times = append(e.times, time.Now())
	e.marks = append(e.marks, p.Marker)
	e.stamps = append(e.stamps, p.Timestamp)
	return nil
}

// heard returns the events since the last call.
func (e *ear) heard() []string {
	synctest.Wait()
	e.mu.Lock()
	defer e.mu.Unlock()
	events := e.events
	e.events = nil
	return events
}

// call is a connection to a fake upstream.
type call struct {
	*Conn
	*ear
	up   *fakeSocket
	flow media.Flow
}

// inCall runs a test in virtual time, in a connected session of a profile.
func inCall(t *testing.T, p Profile, test func(t *testing.T, c *call)) {
	t.Helper()
	inCallOf(t, p, func(c *call) (media.Sink, func(*testing.T)) { return c.ear, func(t *testing.T) { test(t, c) } })
}

// playing prepares a call whose client plays answers itself.
func playing(test func(t *testing.T, c *call)) func(c *call) (media.Sink, func(*testing.T)) {
	return func(c *call) (media.Sink, func(*testing.T)) {
		c.ClientPlays(func() bool { return true })
		return c.ear, func(t *testing.T) { test(t, c) }
	}
}

// inCallOf is inCall for a test with a sink of its own.
func inCallOf(t *testing.T, p Profile, prepare func(c *call) (sink media.Sink, test func(t *testing.T))) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		up := newFakeSocket()
		c := &call{Conn: newConn(up, p.withDefaults(), "gpt-realtime", new(shared), slog.New(slog.DiscardHandler)), ear: new(ear), up: up}
		up.say(`{"type":"session.created","session":{"id":"sess_1","type":"realtime"}}`)
		testkit.Must(t, c.awaitSession(t.Context()))
		sink, test := prepare(c)
		c.Start(c.handlers())
		c.flow.Open()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- c.Forward(ctx, sink, &c.flow) }()
		if got := c.heard(); !slices.Equal(got, []string{"session.created"}) || c.ID() != "sess_1" {
			t.Fatalf("session %q begins with %v", c.ID(), got)
		}
		test(t)
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, media.ErrClosed) {
			t.Errorf("Forward: %v", err)
		}
		cancel()
	})
}

// speak says n frames of an item, each of which is the number of the frame.
func (c *call) speak(response, item string, first, n int) {
	var sound []byte
	for i := range n {
		sound = append(sound, bytes.Repeat([]byte{byte(first + i)}, c.play.current().Frame())...)
	}
	c.up.say(`{"type":"response.output_audio.delta","response_id":%q,"item_id":%q,"content_index":0,"delta":%q}`,
		response, item, base64.StdEncoding.EncodeToString(sound))
}

func (c *call) done(response string) {
	c.up.say(`{"type":"response.done","response":{"id":%q,"status":"completed","output":[]}}`, response)
}

// TestPlayout has an upstream send two answers at once: they are heard in real time, one frame each 20 ms, and the
// events say when.
func TestPlayout(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		began := time.Now()
		c.speak("resp_1", "item_1", 0, 50)
		c.speak("resp_1", "item_2", 50, 25)
		c.done("resp_1")
		c.speak("resp_2", "item_3", 75, 25)
		c.done("resp_2")
		testkit.Equal(t, sorted(c.heard()), []string{"output_audio_buffer.started resp_1", "response.done", "response.done"}, "at the beginning")
		pass(1490 * time.Millisecond)
		if got := c.heard(); got != nil {
			t.Errorf("in the first answer came %v", got)
		}
		pass(20 * time.Millisecond)
		testkit.Equal(t, c.heard(), []string{"output_audio_buffer.stopped resp_1", "output_audio_buffer.started resp_2"}, "between the answers")
		pass(time.Second)
		testkit.Equal(t, c.heard(), []string{"output_audio_buffer.stopped resp_2"}, "at the end")
		if len(c.frames) != 100 {
			t.Fatalf("%d frames", len(c.frames))
		}
		for i := range c.frames {
			if c.frames[i] != byte(i) || c.times[i].Sub(began) != time.Duration(i)*media.FrameTime || c.marks[i] != (i == 0) {
				t.Fatalf("frame %d is %d, after %s, marker %v", i, c.frames[i], c.times[i].Sub(began), c.marks[i])
			}
		}
		c.speak("resp_3", "item_4", 0, 1) // after a second of silence
		synctest.Wait()
		if step := c.stamps[100] - c.stamps[99]; step < 25*media.FrameStep || !c.marks[100] {
			t.Errorf("after the silence time is %d later, marker %v", step, c.marks[100])
		}
	})
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// TestInterruption has the caller speak into an answer: within 40 ms nothing more is heard, and the upstream is told
// what was.
func TestInterruption(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		inCall(t, Profile{KeepsAudio: keeps}, func(t *testing.T, c *call) {
			c.up.say(`{"type":"response.created","response":{"id":"resp_1"}}`)
			c.speak("resp_1", "item_1", 0, 10)
			c.speak("resp_1", "item_2", 10, 100)
			pass(499 * time.Millisecond) // 25 frames
			c.heard()
			c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9","audio_start_ms":100}`)
			c.speak("resp_1", "item_2", 110, 10) // was on its way
			events := c.heard()
			told := c.up.told()
			pass(time.Second)
			testkit.Equal(t, len(c.frames), 25, "frames were heard")
			want := []string{"input_audio_buffer.speech_started item_9", "output_audio_buffer.cleared resp_1"}
			if keeps {
				want = append(want, "conversation.item.truncated item_2")
			}
			testkit.Equal(t, events, want, "events")
			if keeps != (len(told) == 0) {
				t.Fatalf("the upstream is told %v", told)
			}
			if !keeps && (len(told) != 1 || told[0].Type != realtime.TypeItemTruncate || told[0].ItemID != "item_2" || told[0].AudioEndMS != 300) {
				t.Errorf("the upstream is told %s", told[0].Raw)
			}
			c.up.say(`{"type":"error","error":{"type":"invalid_request_error","code":"item_truncate_invalid_item_id","event_id":"bridge_ws_item_2"}}`)
			if got := c.heard(); got != nil {
				t.Errorf("the client is told %v", got)
			}
			// Another answer is heard.
			c.speak("resp_2", "item_3", 0, 5)
			pass(100 * time.Millisecond)
			testkit.Equal(t, len(c.frames), 30, "frames after the next answer")
		})
	}
}

// TestOneStream has upstreams that give an item's sound in pieces of 32 ms which are parts of their own, say after each
// that it was the last, or go on with the item after a pause: it is heard as one stream, and cut once.
func TestOneStream(t *testing.T) {
	t.Parallel()
	for name, say := range map[string]func(c *call, i int){
		"parts that count up": func(c *call, i int) { c.piece("item_1", i) },
		"an end after each piece": func(c *call, i int) {
			c.piece("item_1", 0)
			c.up.say(`{"type":"response.output_audio.done","response_id":"resp_1","item_id":"item_1","content_index":0}`)
		},
		"an end of each part": func(c *call, i int) {
			c.piece("item_1", i)
			c.up.say(`{"type":"response.output_audio.done","response_id":"resp_1","item_id":"item_1","content_index":%d}`, i)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCall(t, Profile{}, func(t *testing.T, c *call) {
				c.up.say(`{"type":"response.created","response":{"id":"resp_1"}}`)
				for i := range 50 { // 1600 ms
					say(c, i)
				}
				pass(2 * time.Second)
				testkit.Equal(t, len(c.frames), 80, "frames of 1600 ms")
				for i := range 50 { // and another 1600 ms, after a pause
					say(c, 50+i)
				}
				pass(390 * time.Millisecond)
				c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9","audio_start_ms":100}`)
				if told := c.up.told(); len(told) != 1 || told[0].ItemID != "item_1" || told[0].AudioEndMS != 2000 {
					t.Errorf("the upstream is told %+v", told)
				}
			})
		})
	}
}

// piece says 32 ms of an item of the first response.
func (c *call) piece(item string, content int) {
	c.up.say(`{"type":"response.output_audio.delta","response_id":"resp_1","item_id":%q,"content_index":%d,"delta":%q}`,
		item, content, base64.StdEncoding.EncodeToString(make([]byte, 32*48)))
}

// TestClientsWord has a client that plays answers itself: what it says of an interrupted one is what the upstream is
// told, or, if it says nothing for a second, what was played here.
func TestClientsWord(t *testing.T) {
	t.Parallel()
	for _, keeps := range []bool{false, true} {
		for _, says := range []bool{false, true} {
			inCallOf(t, Profile{KeepsAudio: keeps}, playing(func(t *testing.T, c *call) {
				c.speak("resp_1", "item_1", 0, 100)
				pass(499 * time.Millisecond) // 25 frames
				c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9","audio_start_ms":100}`)
				pass(900 * time.Millisecond)
				if told, heard := c.up.told(), c.heard(); len(told) > 0 || slices.Contains(heard, "conversation.item.truncated item_1") {
					t.Fatalf("too early, the upstream is told %v, the client %v", told, heard)
				}
				want, ms := int64(500), []int64(nil)
				c.ear.mu.Lock()
				c.on = func(ev realtime.Event) {
					if ev.Type == realtime.TypeItemTruncated {
						ms = append(ms, ev.AudioEndMS)
					}
				}
				c.ear.mu.Unlock()
				if says {
					want = 321
					c.TrySend([]byte(`{"type":"conversation.item.truncate","item_id":"item_1","content_index":0,"audio_end_ms":321}`))
				}
				pass(time.Second)
				if !keeps {
					for _, ev := range c.up.told() {
						ms = append(ms, ev.AudioEndMS)
					}
				}
				c.heard()
				if !slices.Equal(ms, []int64{want}) {
					t.Errorf("keeps %t, says %t: told %v", keeps, says, ms)
				}
			}))
		}
	}
}

// TestClientsWordFirst has a client say what it has heard before the caller is heard to speak: nothing else is said of it.
func TestClientsWordFirst(t *testing.T) {
	t.Parallel()
	inCallOf(t, Profile{}, playing(func(t *testing.T, c *call) {
		c.speak("resp_1", "item_1", 0, 100)
		pass(499 * time.Millisecond)
		c.TrySend([]byte(`{"type":"conversation.item.truncate","item_id":"item_1","content_index":0,"audio_end_ms":321}`))
		c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9","audio_start_ms":100}`)
		pass(2 * time.Second)
		var ms []int64
		for _, ev := range c.up.told() {
			ms = append(ms, ev.AudioEndMS)
		}
		if !slices.Equal(ms, []int64{321}) {
			t.Errorf("the upstream is told %v", ms)
		}
	}))
}

// TestNoInterruption has a session in which speech does not stop answers; its client does, with
// output_audio_buffer.clear.
func TestNoInterruption(t *testing.T) {
	t.Parallel()
	for _, turns := range []string{"null", `{"type":"server_vad","interrupt_response":false}`} {
		inCall(t, Profile{}, func(t *testing.T, c *call) {
			c.up.say(`{"type":"session.updated","session":{"audio":{"input":{"turn_detection":%s}}}}`, turns)
			c.speak("resp_1", "item_1", 0, 50)
			pass(199 * time.Millisecond)
			c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9"}`)
			pass(200 * time.Millisecond)
			testkit.Equal(t, len(c.frames), 20, "frames before output_audio_buffer.clear")
			c.heard()
			if !c.TrySend([]byte(`{"type":"output_audio_buffer.clear"}`)) {
				t.Error("nothing can be sent")
			}
			testkit.Equal(t, c.heard(), []string{"output_audio_buffer.cleared resp_1"}, "c.heard()")
			if told := c.up.told(); len(told) != 1 || told[0].AudioEndMS != 400 {
				t.Errorf("the upstream is told %v", told)
			}
			c.TrySend([]byte(`{"type":"output_audio_buffer.clear"}`))
			testkit.Equal(t, c.heard(), []string{"output_audio_buffer.cleared"}, "without sound")
		})
	}
}

// TestFarAhead has an upstream send more sound than may wait: what is more waits with it, and nothing is lost.
func TestFarAhead(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		for i := range 400 {
			c.speak("resp_1", "item_1", i%2, 50)
		}
		c.done("resp_1")
		synctest.Wait()
		c.play.mu.Lock()
		if n := bytesOf(c.play.format, maxAhead); c.play.waiting > n {
			t.Errorf("%d bytes wait", c.play.waiting)
		}
		c.play.mu.Unlock()
		pass(401 * time.Second)
		if got := c.heard(); len(c.frames) != 20_000 || got[len(got)-1] != "output_audio_buffer.stopped resp_1" {
			t.Errorf("%d frames, then %v", len(c.frames), got)
		}
	})
}

// TestSharedAhead has other sessions use what is shared: a minute of sound waits all the same, and what is more comes
// when there is room for it. Nothing is lost, and what was taken is given back, however it was used.
func TestSharedAhead(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(c *call){
		"played":      func(c *call) { pass(81 * time.Second) },
		"interrupted": func(c *call) { c.up.say(`{"type":"input_audio_buffer.speech_started"}`); synctest.Wait() },
		"truncated":   func(c *call) { c.TrySend([]byte(`{"type":"conversation.item.truncate","item_id":"item_1"}`)) },
		"closed":      func(c *call) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCall(t, Profile{}, func(t *testing.T, c *call) {
				common, others := c.play.shared, int64(maxShared-1000)
				waiting := func() time.Duration {
					c.play.mu.Lock()
					defer c.play.mu.Unlock()
					return c.play.format.Lasts(c.play.waiting)
				}
				common.used.Store(others)
				for range 80 {
					c.speak("resp_1", "item_1", 0, 50)
				}
				c.done("resp_1")
				synctest.Wait()
				if got := waiting(); got > assured || got < assured-2*time.Second {
					t.Errorf("%s of sound wait", got)
				}
				common.used.Add(-others)
				pass(2 * time.Second)
				if got, used := waiting(), common.used.Load(); got <= assured || used != int64(bytesOf(c.play.format, got-assured)) {
					t.Errorf("%s of sound wait, %d bytes are of what is shared", got, used)
				}
				end(c)
				testkit.Equal(t, common.used.Load(), 0, "bytes are not given back")
				if name == "played" && len(c.frames) != 4000 {
					t.Errorf("%d frames were heard", len(c.frames))
				}
			})
		})
	}
}

// TestSteadyClock plays an hour of sound that comes in real time: the clock does not drift.
func TestSteadyClock(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{RateOut: 16000}, func(t *testing.T, c *call) {
		began := time.Now()
		for range 3600 {
			c.speak("resp_1", "item_1", 0, 50)
			pass(time.Second)
		}
		synctest.Wait()
		last := len(c.times) - 1
		if late := c.times[last].Sub(began) - time.Duration(last)*media.FrameTime; last+1 != 180_000 || late != 0 {
			t.Errorf("%d frames, the last %s late", last+1, late)
		}
		testkit.Equal(t, c.stamps[last]-c.stamps[0], uint32(last)*media.FrameStep, "the last timestamp")
	})
}

// say has the caller say n packets of sound.
func (c *call) say(n int) {
	c.sayFrom(0, n)
}

func (c *call) sayFrom(first, n int) {
	for i := range n {
		at := first + i
		_ = c.Conn.WriteAudio(&media.Packet{
			Source: 1, Sequence: uint16(at), Timestamp: uint32(at) * media.FrameStep, Format: media.Format{Rate: 24000},
			Payload: bytes.Repeat([]byte{byte(at)}, 960),
		})
		pass(media.FrameTime)
	}
}

// appends returns the sound that the upstream was told, by event.
func appends(t *testing.T, events []realtime.Event) (sound [][]byte) {
	t.Helper()
	for _, ev := range events {
		var e struct{ Audio []byte }
		if ev.Type != realtime.TypeInputAppend {
			continue
		}
		testkit.Must(t, json.Unmarshal(ev.Raw, &e))
		sound = append(sound, e.Audio)
	}
	return sound
}

// TestAppends passes the caller's sound on in events of 40 to 100 ms, in order with other events.
func TestAppends(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		c.say(25)
		c.TrySend([]byte(`{"type":"input_audio_buffer.commit"}`))
		c.sayFrom(25, 2)
		events := c.up.told()
		var all []byte
		for _, s := range appends(t, events) {
			all = append(all, s...)
			if n := len(s) / 960; n > 5 || n < 1 {
				t.Errorf("%d frames in one event", n)
			}
		}
		for i := range 27 {
			if len(all) != 27*960 || all[i*960] != byte(i) {
				t.Fatalf("%d bytes, frame %d begins with %d", len(all), i, all[i*960])
			}
		}
		commit := slices.IndexFunc(events, func(ev realtime.Event) bool { return ev.Type == realtime.TypeInputCommit })
		testkit.Equal(t, len(bytes.Join(appends(t, events[:commit]), nil)), 25*960, "bytes come before the commit")
		if len(events) > 15 {
			t.Errorf("%d events", len(events))
		}
	})
}

// TestLastSound sends the last of the caller's sound soon, however little that is, although nothing follows it.
func TestLastSound(t *testing.T) {
	t.Parallel()
	for _, frames := range []int{1, 2, 3, 7} {
		inCall(t, Profile{}, func(t *testing.T, c *call) {
			c.say(frames)
			pass(2 * longestAppend)
			testkit.Equal(t, len(bytes.Join(appends(t, c.up.told()), nil)), frames*960, "of bytes have come")
		})
	}
}

// TestSlowUpstream does not read for a while: the oldest sound is dropped, events are not, and what waits is bounded.
func TestSlowUpstream(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		for range cap(c.up.out) {
			c.up.out <- []byte(`{"type":"full"}`)
		}
		c.TrySend([]byte(`{"type":"response.create","event_id":"first"}`))
		c.say(600)
		c.TrySend([]byte(`{"type":"response.create","event_id":"last"}`))
		if c.out.sound > bytesOf(c.out.format, maxWaiting) {
			t.Errorf("%d bytes of sound wait", c.out.sound)
		}
		big := append([]byte(`{"type":"response.create","metadata":"`), bytes.Repeat([]byte("."), 900<<10)...)
		big = append(big, `"}`...)
		if !c.TrySend(big) || c.TrySend(big) {
			t.Error("a megabyte of events is not the limit")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := c.Send(ctx, big); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Send: %v", err)
		}
		if err := c.Send(ctx, bytes.Repeat([]byte("."), 2<<20)); !errors.Is(err, media.ErrTooLarge) {
			t.Errorf("Send of too much: %v", err)
		}
		for range cap(c.up.out) {
			testkit.Take(t, "what goes out", c.up.out)
		}
		events := c.up.told()
		if events[0].EventID != "first" || events[len(events)-2].EventID != "last" {
			t.Errorf("%s … %s", events[0].Raw, events[len(events)-2].Raw)
		}
		all := bytes.Join(appends(t, events), nil)
		if len(all)/960 > 510 || len(all)/960 < 450 || all[len(all)-1] != byte(599%256) {
			t.Errorf("%d frames, the last is %d", len(all)/960, all[len(all)-1])
		}
	})
}

// TestMutedCaller sends silence to an upstream that hears somebody speak when no more packets come.
func TestMutedCaller(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		c.say(10)
		pass(time.Second)
		c.up.told() // nobody speaks: nothing is needed
		c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9"}`)
		c.sayFrom(60, 10)
		c.up.told()
		pass(1 * time.Second)
		if n := len(bytes.Join(appends(t, c.up.told()), nil)) / 960; n < 25 || n > 35 {
			t.Errorf("%d frames of silence in a second", n)
		}
		c.up.say(`{"type":"input_audio_buffer.speech_stopped","item_id":"item_9"}`)
		synctest.Wait()
		c.up.told()
		pass(time.Second)
		if told := c.up.told(); len(told) > 1 {
			t.Errorf("silence after the speech: %d events", len(told))
		}
	})
}

// TestPausingCaller has a caller say that nothing comes in silence (DTX): the upstream, which hears that somebody
// speaks, gets silence as time goes on, neither in bursts nor more of it than there was.
func TestPausingCaller(t *testing.T) {
	t.Parallel()
	for name, refreshes := range map[string]int{"to be refreshed": 5, "for good": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCall(t, Profile{}, func(t *testing.T, c *call) {
				var sequence uint16
				began := time.Now()
				send := func(payload ...byte) {
					sequence++
					stamp := uint32(time.Since(began)/media.FrameTime) * media.FrameStep
					if err := c.Conn.WriteAudio(&media.Packet{Source: 1, Sequence: sequence, Timestamp: stamp, Payload: payload}); err != nil {
						t.Error(err)
					}
					pass(media.FrameTime)
				}
				c.up.say(`{"type":"input_audio_buffer.speech_started","item_id":"item_9"}`)
				for range 20 {
					send(0xf8, 0xff, 0xfe)
				}
				send(0xf8)
				heard := time.Duration(0)
				for i := range 100 {
					if i%20 == 0 && i/20 < refreshes {
						send(0xf8, 0xff, 0xfe)
						send(0xf8)
					} else if i%20 != 1 || i/20 >= refreshes {
						pass(media.FrameTime)
					}
					heard += c.out.format.Lasts(len(bytes.Join(appends(t, c.up.told()), nil)))
					if late := time.Since(began) - heard; late > 160*time.Millisecond || late < 0 {
						t.Fatalf("%s after the beginning the upstream has heard %s", time.Since(began), heard)
					}
				}
			})
		})
	}
}

// TestCommitWaits commits, or clears, while packets wait for a lost one: they come before that.
func TestCommitWaits(t *testing.T) {
	t.Parallel()
	encoder, err := opus.NewEncoder(24000)
	testkit.Must(t, err)
	packet, err := encoder.Encode(make([]int16, 480))
	testkit.Must(t, err)
	for _, kind := range []string{realtime.TypeInputCommit, realtime.TypeInputClear} {
		inCall(t, Profile{}, func(t *testing.T, c *call) {
			for i := range 10 {
				if i == 5 {
					continue // lost
				}
				p := media.Packet{Source: 1, Sequence: uint16(i), Timestamp: uint32(i) * media.FrameStep, Payload: packet}
				testkit.Must(t, c.Conn.WriteAudio(&p))
			}
			c.TrySend(fmt.Appendf(nil, `{"type":%q}`, kind))
			pass(time.Second)
			told := c.up.told()
			if n := len(bytes.Join(appends(t, told), nil)); n != 10*960 || told[len(told)-1].Type != kind {
				t.Errorf("%d bytes of 200 ms, the last event is %s", n, told[len(told)-1].Type)
			}
		})
	}
}

// TestGate plays on behind a shut gate, as a WebRTC upstream does.
func TestGate(t *testing.T) {
	t.Parallel()
	inCall(t, Profile{}, func(t *testing.T, c *call) {
		c.speak("resp_1", "item_1", 0, 50)
		pass(199 * time.Millisecond)
		c.flow.Shut()
		pass(400 * time.Millisecond)
		c.flow.Open()
		pass(time.Second)
		synctest.Wait()
		if len(c.frames) != 30 || c.frames[10] != 30 || c.stamps[10]-c.stamps[9] != 21*media.FrameStep || c.flow.Gated.Load() != 20 {
			t.Errorf("%d frames, then %d, time %d, gated %d", len(c.frames), c.frames[10], c.stamps[10]-c.stamps[9], c.flow.Gated.Load())
		}
	})
}

// TestFormatsOfTheSession has upstreams say other rates than they were asked for: what they say counts, as far as it is
// known.
func TestFormatsOfTheSession(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		profile Profile
		audio   string
		in, out int // Hz
	}{
		"as it was asked":   {Profile{}, `{"input":{"format":{"type":"audio/pcm","rate":24000}},"output":{"format":{"type":"audio/pcm","rate":24000}}}`, 24000, 24000},
		"both":              {Profile{}, `{"input":{"format":{"type":"audio/pcm","rate":16000}},"output":{"format":{"type":"audio/pcm","rate":16000}}}`, 16000, 16000},
		"what it hears":     {Profile{RateIn: 16000}, `{"input":{"format":{"type":"audio/pcm","rate":24000}}}`, 24000, 24000},
		"what it says":      {Profile{}, `{"output":{"format":{"type":"audio/pcm","rate":48000}}}`, 24000, 48000},
		"no rate":           {Profile{RateIn: 16000}, `{"input":{"format":{"type":"audio/pcm"}},"output":{"format":"pcm16"}}`, 16000, 24000},
		"one that is not":   {Profile{}, `{"input":{"format":{"type":"audio/pcm","rate":-1}},"output":{"format":{"type":"audio/pcm","rate":1e9}}}`, 24000, 24000},
		"nothing":           {Profile{RateOut: 16000}, `null`, 24000, 16000},
		"another container": {Profile{}, `{"input":{"format":{"type":"audio/opus","rate":48000}}}`, 24000, 24000},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCallOf(t, tt.profile, func(c *call) (media.Sink, func(*testing.T)) {
				got := new(formats)
				return got, func(t *testing.T) {
					c.up.say(`{"type":"session.updated","session":{"audio":%s}}`, tt.audio)
					c.up.say(`{"type":"session.updated","session":{"instructions":"x"}}`)
					c.heard()
					c.say(50)
					pass(time.Second)
					if n := len(bytes.Join(appends(t, c.up.told()), nil)); n/2 != tt.in {
						t.Errorf("it hears a second in %d samples, want %d", n/2, tt.in)
					}
					c.up.say(`{"type":"response.output_audio.delta","response_id":"r","item_id":"i","delta":%q}`, base64.StdEncoding.EncodeToString(make([]byte, tt.out)))
					c.done("r")
					pass(time.Second)
					testkit.Equal(t, *got, slices.Repeat([]media.Format{{Rate: tt.out}}, 25), "half a second is %d packets", len(*got))
				}
			})
		})
	}
}

// formats are those of the packets that came.
type formats []media.Format

func (f *formats) WriteAudio(p *media.Packet) error { *f = append(*f, p.Format); return nil }

// TestEnds has a connection end in different ways.
func TestEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end  func(c *call)
		want []media.State
	}{
		"closed by us": {func(*call) {}, []media.State{media.StateConnected, media.StateClosed}},
		"lost":         {func(c *call) { _ = c.up.Close() }, []media.State{media.StateConnected, media.StateFailed, media.StateClosed}},
		"silent": {func(c *call) {
			c.up.deaf.Store(true)
			pass(pingEvery + pongWithin)
		}, []media.State{media.StateConnected, media.StateFailed, media.StateClosed}},
		"deaf to pings, and speaks": {func(c *call) {
			c.up.deaf.Store(true)
			for range 4 {
				pass(pongWithin - time.Second)
				c.up.say(`{"type":"response.output_audio_transcript.delta","delta":"x"}`)
			}
		}, []media.State{media.StateConnected, media.StateClosed}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var e *ear
			inCall(t, Profile{}, func(t *testing.T, c *call) {
				e = c.ear
				tt.end(c)
				synctest.Wait()
				if lost := len(tt.want) > 2; lost && !errors.Is(c.Conn.WriteAudio(&media.Packet{}), media.ErrClosed) {
					t.Error("a lost connection takes sound")
				}
			})
			testkit.Equal(t, e.states, tt.want, "states")
		})
	}
}

// TestNoSession dials upstreams that do not begin as they must.
func TestNoSession(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		says string
		want func(error) bool
	}{
		{`{"type":"error","error":{"type":"invalid_request_error","code":"invalid_api_key","message":"no"}}`, func(err error) bool {
			e, ok := errors.AsType[*realtime.APIError](err)
			return ok && e.Code == "invalid_api_key"
		}},
		{`{"type":"hello"}`, func(err error) bool { return errors.Is(err, ErrNoSession) }},
		{`nonsense`, func(err error) bool { return errors.Is(err, ErrNoSession) }},
	} {
		up := newFakeSocket()
		c := newConn(up, Profile{}.withDefaults(), "", new(shared), slog.New(slog.DiscardHandler))
		for range maxBefore {
			up.say("%s", tt.says)
		}
		if err := c.awaitSession(t.Context()); !tt.want(err) {
			t.Errorf("%s: %v", tt.says, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
