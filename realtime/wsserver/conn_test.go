package wsserver

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/opus"
	"voicebridge/realtime/pcm"
)

var must = testkit.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// pipe is a socket without a network.
type pipe struct {
	in     chan []byte
	closed chan struct{}
	once   sync.Once
	polite bool
	deaf   bool // reads nothing: Write blocks, and there are no pongs

	mu  sync.Mutex
	out []map[string]any
}

func newPipe() *pipe { return &pipe{in: make(chan []byte), closed: make(chan struct{})} }

func (p *pipe) Read(context.Context) ([]byte, int, error) {
	select {
	case data, ok := <-p.in:
		switch {
		case !ok && p.polite:
			return nil, 0, websocket.CloseError{Code: websocket.StatusNormalClosure}
		case !ok:
			return nil, 0, errors.New("connection reset")
		case len(data) > MaxEvent:
			return nil, len(data), nil
		}
		return data, 0, nil
	case <-p.closed:
		return nil, 0, errors.New("closed")
	}
}

func (p *pipe) Write(ctx context.Context, data []byte) error {
	if p.deaf {
		select {
		case <-ctx.Done():
		case <-p.closed:
		}
		return errors.New("not read")
	}
	var event map[string]any
	if err := json.Unmarshal(data, &event); err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.out = append(p.out, event)
	return nil
}

func (p *pipe) Ping(ctx context.Context) error {
	if !p.deaf {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

func (p *pipe) Close() error    { return p.CloseNow() }
func (p *pipe) CloseNow() error { p.once.Do(func() { close(p.closed) }); return nil }

// sent returns the types of the events that were sent, and what is known of them.
func (p *pipe) sent() (types []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.out {
		line := fmt.Sprint(event["type"])
		if e, ok := event["error"].(map[string]any); ok {
			line += fmt.Sprint(" ", e["code"], " ", e["event_id"])
		}
		types = append(types, line)
	}
	return types
}

// event returns one of the events that were sent.
func (p *pipe) event(n int) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out[n]
}

// heard returns the sound that was sent, in bytes.
func (p *pipe) heard() (sound []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, event := range p.out {
		if event["type"] == "response.output_audio.delta" {
			delta, _ := base64.StdEncoding.DecodeString(event["delta"].(string))
			sound = append(sound, delta...)
		}
	}
	return sound
}

// room is a connection in a synctest bubble.
type room struct {
	voice  media.Packet // the last one
	t      *testing.T
	conn   *Conn
	pipe   *pipe
	flow   media.Flow
	served chan struct{}
	pumped chan struct{}

	mu      sync.Mutex
	events  []string // what the call gets, and the states
	packets []media.Packet
	at      []time.Duration // when they came
	slow    int
	silent  bool // packets are kept without their sound
	start   time.Time
	ahead   media.Packet // the last one that came before it is heard
}

func (r *room) WriteAudio(p *media.Packet) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.silent {
		kept := *p
		kept.Payload, kept.Part = nil, nil
		r.packets = append(r.packets, kept)
	} else {
		r.packets = append(r.packets, p.Clone())
	}
	r.at = append(r.at, time.Since(r.start))
	return nil
}

func (r *room) add(event string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, event)
}

func (r *room) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *room) passed() []media.Packet {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.packets)
}

func (r *room) times() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.at)
}

func (r *room) told() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.slow
}

// inRoom runs a test with a connection.
func inRoom(t *testing.T, p *pipe, test func(r *room)) {
	t.Helper()
	inRoomOf(t, p, func(r *room) media.Sink { return r }, test)
}

// inRoomOf is inRoom with a sink for the client's sound.
func inRoomOf(t *testing.T, p *pipe, sink func(r *room) media.Sink, test func(r *room)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &room{t: t, conn: New(), pipe: p, served: make(chan struct{}), pumped: make(chan struct{}), start: time.Now()}
		p.in, p.closed = make(chan []byte), make(chan struct{}) // of the bubble
		r.conn.Handle(media.Handlers{
			Message:  func(data []byte) { r.add(string(data)) },
			TooLarge: func(size int) { r.add(fmt.Sprint("too large: ", size)) },
			State:    func(s media.State) { r.add(s.String()) },
		}, func() { r.mu.Lock(); defer r.mu.Unlock(); r.slow++ })
		go func() { defer close(r.served); r.conn.ServeSocket(p) }()
		go func() {
			defer close(r.pumped)
			if err := r.conn.Forward(t.Context(), sink(r), &r.flow); !errors.Is(err, media.ErrClosed) {
				t.Errorf("Forward ends with %v", err)
			}
		}()
		synctest.Wait()
		test(r)
		_ = r.conn.Close()
		<-r.served
		<-r.pumped
	})
}

func (r *room) say(format string, args ...any) {
	r.t.Helper()
	select {
	case r.pipe.in <- fmt.Appendf(nil, format, args...):
	case <-time.After(time.Minute):
		r.t.Fatal("the client is not read")
	}
	synctest.Wait()
}

// append appends ms of a tone.
func (r *room) append(ms int) {
	r.t.Helper()
	r.say(`{"type":"input_audio_buffer.append","event_id":"a%d","audio":%q}`, ms, base64.StdEncoding.EncodeToString(pcm.Linear.Append(nil, tone(24*ms))))
}

func tone(n int) []int16 {
	samples := make([]int16, n)
	for i := range samples {
		samples[i] = int16(8000 * math.Sin(2*math.Pi*440*float64(i)/24000))
	}
	return samples
}

func (r *room) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.packets)
}

// tell sends events of the call.
func (r *room) tell(events ...string) {
	r.t.Helper()
	for _, event := range events {
		must(r.t, r.conn.Send(r.t.Context(), []byte(event)))
	}
	synctest.Wait()
}

func TestInput(t *testing.T) {
	t.Parallel()
	t.Run("real time", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			r.flow.Open()
			r.append(10) // half a packet
			if r.count() != 0 {
				t.Error("half a packet was sent")
			}
			for range 50 {
				r.append(20)
				time.Sleep(20 * time.Millisecond)
			}
			testkit.Equal(t, r.count(), 50, "packets of a second")
			for i, p := range r.passed() {
				if len(p.Payload) != 960 || p.Format != linear || p.Sequence != r.passed()[0].Sequence+uint16(i) || p.Timestamp != r.passed()[0].Timestamp+uint32(i)*media.FrameStep {
					t.Fatalf("packet %d: %+v", i, p)
				}
			}
		})
	})
	t.Run("a file at once", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			r.flow.Open()
			r.append(4000)
			time.Sleep(5 * time.Second)
			if n := r.count(); n != 200 {
				t.Fatalf("%d packets of 4 s", n)
			}
			if took := r.times()[199] - r.times()[0]; took > 1800*time.Millisecond {
				t.Errorf("4 s took %s", took)
			}
			// Afterwards time has gone on.
			before := r.passed()[199].Timestamp
			r.append(20)
			if step := r.passed()[200].Timestamp - before; step < 48000 || !r.passed()[200].Marker || r.passed()[200].Sequence != r.passed()[199].Sequence+1 {
				t.Errorf("after a pause: %+v, a step of %d", r.passed()[200], step)
			}
		})
	})
	t.Run("a stall", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			r.flow.Open()
			for range 50 {
				r.append(20)
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(700 * time.Millisecond) // in which the network holds up what is spoken
			r.append(720)
			time.Sleep(time.Second)
			for i, p := range r.passed() {
				if p.Timestamp != r.passed()[0].Timestamp+uint32(i)*media.FrameStep {
					t.Errorf("packet %d of %d is %d later than the first", i, r.count(), p.Timestamp-r.passed()[0].Timestamp)
					return
				}
			}
		})
	})
	t.Run("before the gate opens", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			for range 100 {
				r.append(20)
				time.Sleep(20 * time.Millisecond)
			}
			if r.count() != 0 {
				t.Error("sound passes the gate")
			}
			r.append(27_900)
			r.append(200) // too much
			testkit.Equal(t, r.pipe.sent(), []string{"error input_audio_too_much a200"}, "events")
			r.say(`{"type":"input_audio_buffer.clear"}`)
			for range 100 {
				r.append(20)
				time.Sleep(20 * time.Millisecond)
			}
			r.flow.Open()
			for range 60 { // it catches up
				r.append(20)
				time.Sleep(20 * time.Millisecond)
			}
			if n := r.count(); n < 155 {
				t.Errorf("%d packets of 160", n)
			}
			r.append(59_000)
			r.append(1100)
			if got := r.pipe.sent(); len(got) != 2 || got[1] != "error input_audio_too_much a1100" {
				t.Errorf("events %v", got)
			}
		})
	})
	t.Run("what is held says when it came", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			for i := range 200 {
				r.append(20)
				time.Sleep(20 * time.Millisecond)
				if i == 99 {
					r.flow.Open()
				}
			}
			packets := r.passed()
			at := r.times() // of these, and perhaps more
			for i, p := range packets {
				came := at[i]
				if !p.Came.IsZero() {
					came = p.Came.Sub(r.start)
				}
				if late := came - time.Duration(i)*20*time.Millisecond; late.Abs() > jitter+2*media.FrameTime {
					t.Errorf("packet %d is said to have come %s late", i, late)
				}
			}
			time.Sleep(time.Second)
			said := time.Since(r.start)
			r.append(2000) // at once
			r.say(`{"type":"input_audio_buffer.commit"}`)
			time.Sleep(time.Second)
			for _, p := range r.passed()[200:] {
				if came := p.Came.Sub(r.start); !p.Came.IsZero() && came < said {
					t.Errorf("a packet is said to have come %s before all", said-came)
				}
			}
		})
	})
	t.Run("a commit follows its sound", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			r.flow.Open()
			r.append(510)
			r.say(`{"type":"input_audio_buffer.commit"}`)
			r.say(`{"type":"response.create"}`)
			if len(r.got()) != 1 {
				t.Errorf("the call gets %v before the sound", r.got())
			}
			time.Sleep(time.Second)
			if diff := cmp.Diff([]string{"connected", `{"type":"input_audio_buffer.commit"}`, `{"type":"response.create"}`}, r.got()); diff != "" || r.count() != 26 {
				t.Errorf("%d packets, events (-want +got):\n%s", r.count(), diff)
			}
			r.append(500)
			for range 70 {
				r.say(`{"type":"input_audio_buffer.commit","event_id":"c"}`)
			}
			r.say(`{"type":"input_audio_buffer.clear"}`)
			if got := r.pipe.sent(); len(r.got()) != 3+maxPending+1 || len(got) != 70-maxPending || got[0] != "error too_many_events c" {
				t.Errorf("%d events of 70 commits, %v", len(r.got()), got)
			}
		})
	})
	t.Run("an hour", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			r.silent = true
			r.flow.Open()
			r.say(`{"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcmu"}}}}}`) // which is short
			event := fmt.Sprintf(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(make([]byte, 3*160)))
			for range 3600 * 50 / 3 {
				r.say("%s", event)
				time.Sleep(3 * media.FrameTime)
			}
			first, at, last := r.passed()[0], r.times(), r.count()-1
			if late := at[last] - at[0] - time.Duration(last)*media.FrameTime; last+1 != 180_000 || late != 0 {
				t.Errorf("%d packets, the last %s late", last+1, late)
			}
			if p := r.passed()[last]; p.Timestamp-first.Timestamp != uint32(last)*media.FrameStep {
				t.Errorf("the last timestamp is %d after the first", p.Timestamp-first.Timestamp)
			}
		})
	})
	t.Run("a clock that is faster", func(t *testing.T) {
		t.Parallel()
		inRoom(t, newPipe(), func(r *room) {
			r.flow.Open()
			for range 3000 { // 2 % faster than ours, for a minute
				r.append(20)
				time.Sleep(19600 * time.Microsecond)
			}
			if n := r.count(); n < 2_990 {
				t.Errorf("%d packets of 3000 came", n)
			}
		})
	})
}

// hasty is a room that takes sound as it comes.
type hasty struct{ *room }

func (hasty) Faster() bool { return true }

// TestPace has clients whose sound is held up, or comes in pieces of some length: what is late is caught up with, and
// nothing that is not becomes uneven.
func TestPace(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	piece := func(r *room, piece time.Duration, n int) {
		for range n {
			time.Sleep(piece)
			r.append(int(piece / ms))
		}
	}
	stall := func(d time.Duration) func(r *room) {
		return func(r *room) {
			piece(r, 20*ms, 50)
			time.Sleep(d)
			for range d / (20 * ms) { // what was said meanwhile comes at once
				r.append(20)
			}
			piece(r, 20*ms, 500)
		}
	}
	for name, tt := range map[string]struct {
		act         func(r *room)
		late, hasty time.Duration // how much later than the last sound its packet may be sent, to WebRTC and as it comes
		uneven      time.Duration // the longest time between two packets at last, to WebRTC
	}{
		"as it is spoken":  {func(r *room) { piece(r, 20*ms, 200) }, 0, 0, 20 * ms},
		"a stall of 1.5 s": {stall(1500 * ms), 80 * ms, 0, 20 * ms},
		"a stall of 6 s":   {stall(6 * time.Second), 80 * ms, 0, 20 * ms},
		"pieces of 100 ms": {func(r *room) { piece(r, 100*ms, 100) }, 100 * ms, 0, 20 * ms},
		"pieces of 500 ms": {func(r *room) { piece(r, 500*ms, 20) }, 500 * ms, 0, 20 * ms},
		"an utterance": {func(r *room) {
			r.append(4000)
			r.say(`{"type":"input_audio_buffer.commit"}`)
		}, time.Second, 0, 20 * ms},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, faster := range []bool{false, true} {
				inRoomOf(t, newPipe(), func(r *room) media.Sink {
					if faster {
						return hasty{r}
					}
					return r
				}, func(r *room) {
					r.silent = true
					r.flow.Open()
					tt.act(r)
					said := time.Since(r.start)
					time.Sleep(5 * time.Second)
					at := r.times()
					late, allowed := at[len(at)-1]-said, tt.late
					if faster {
						allowed = tt.hasty
					}
					if late > allowed {
						t.Errorf("faster %t: the last of %d packets is %s late", faster, len(at), late)
					}
					for i := len(at) - 25; i < len(at) && !faster; i++ {
						if gap := at[i] - at[i-1]; gap > tt.uneven {
							t.Errorf("packet %d comes %s after the one before", i, gap)
						}
					}
					if got := r.got(); name == "an utterance" && (len(got) != 2 || !strings.Contains(got[1], "commit")) {
						t.Errorf("the call gets %q", got)
					}
				})
			}
		})
	}
}

func TestInputRefused(t *testing.T) {
	t.Parallel()
	inRoom(t, newPipe(), func(r *room) {
		for _, event := range []string{
			`{"type":"input_audio_buffer.append","event_id":"1"}`,
			`{"type":"input_audio_buffer.append","event_id":"2","audio":7}`,
			`{"type":"input_audio_buffer.append","event_id":"3","audio":"%%"}`,
			`{"type":"input_audio_buffer.append","event_id":"4","audio":"AAAA"}`, // three bytes
			`{"type":"input_audio_buffer.append","event_id":"5","audio":""}`,
			`{"type":"session.update","event_id":"6","session":{"audio":{"input":{"format":{"type":"audio/mp3"}}}}}`,
			`{"type":"session.update","event_id":"7","session":{"audio":{"output":{"format":{"type":"audio/pcm","rate":8000}}}}}`,
			`{"type":"session.update","event_id":"8","session":{"audio":{"output":{"format":"pcm16"}}}}`,
		} {
			r.say("%s", strings.ReplaceAll(event, "%%", "%"))
		}
		r.append(20)
		r.say(`{"type":"session.update","event_id":"9","session":{"audio":{"input":{"format":{"type":"audio/pcmu"}}}}}`)
		many := strings.Repeat("e", realtime.MaxEventID+1)
		r.say(`{"type":"input_audio_buffer.append","event_id":%q}`, many) // which is not said again
		want := []string{
			"error invalid_value 1", "error invalid_value 2", "error invalid_value 3", "error invalid_value 4",
			"error invalid_value 6", "error invalid_value 7", "error invalid_value 8", "error invalid_value <nil>",
		}
		testkit.Equal(t, r.pipe.sent(), want, "errors")
		// What the connection does not understand, the call explains; and what it does, it leaves to the call but for
		// formats.
		r.say("nonsense")
		r.say(`{"type":"session.update","session":7}`)
		r.say("%s", strings.Repeat(" ", MaxEvent+1))
		got := r.got()
		if len(got) != 8 || got[0] != "connected" || !strings.Contains(got[1], "audio/mp3") || !strings.Contains(got[4], "audio/pcmu") {
			t.Fatalf("the call gets %q", got)
		}
		testkit.Equal(t, got[5:], []string{"nonsense", `{"type":"session.update","session":7}`, fmt.Sprint("too large: ", MaxEvent+1)}, "the call")
	})
}

// The events of an answer with sound, and of one without.
const (
	partAdded = `{"type":"response.content_part.added","response_id":"r1","item_id":"i1","output_index":0,"content_index":0,"part":{"type":"audio","transcript":""}}`
	audioDone = `{"type":"response.output_audio.done","response_id":"r1","item_id":"i1","output_index":0,"content_index":0}`
	itemDone  = `{"type":"response.output_item.done","response_id":"r1","item":{"id":"i1","type":"message"}}`
	callDone  = `{"type":"response.output_item.done","response_id":"r1","item":{"id":"f1","type":"function_call"}}`
	done      = `{"type":"response.done","response":{"id":"r1","status":"completed"}}`
	started   = `{"type":"output_audio_buffer.started","response_id":"r1"}`
	stopped   = `{"type":"output_audio_buffer.stopped","response_id":"r1"}`
	cleared   = `{"type":"output_audio_buffer.cleared","response_id":"r1"}`
	speech    = `{"type":"input_audio_buffer.speech_started"}`

	nextCreated = `{"type":"response.created","response":{"id":"r2"}}`
	nextItem    = `{"type":"conversation.item.added","previous_item_id":"i1","item":{"id":"i2","type":"message"}}`
	nextPart    = `{"type":"response.content_part.added","response_id":"r2","item_id":"i2","output_index":0,"content_index":0,"part":{"type":"audio"}}`
	nextDone    = `{"type":"response.done","response":{"id":"r2","status":"completed"}}`
	nextStarted = `{"type":"output_audio_buffer.started","response_id":"r2"}`
	nextStopped = `{"type":"output_audio_buffer.stopped","response_id":"r2"}`
)

// speak sends packets of Opus as a WebRTC upstream does, whose clock goes on between them: ms of a tone.
func (r *room) speak(ms int) {
	r.t.Helper()
	e, err := opus.NewEncoder(24000)
	must(r.t, err)
	if r.voice.Source == 0 {
		r.voice.Source = media.NewSource()
	}
	p := &r.voice
	for frame := range slices.Chunk(tone(24*ms), 480) {
		if p.Payload, err = e.Encode(frame); err != nil {
			r.t.Fatal(err)
		}
		p.Sequence++
		p.Timestamp = uint32(time.Now().UnixMilli()) * media.ClockRate / 1000
		must(r.t, r.conn.WriteAudio(p))
		time.Sleep(20 * time.Millisecond)
	}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		act    func(r *room)
		want   []string // without deltas before the last event
		deltas int      // ms of sound
	}{
		{"an answer", func(r *room) {
			r.tell(partAdded, started)
			r.speak(400)
			r.tell(audioDone, itemDone, callDone, done, speech)
			r.speak(600)
			r.tell(stopped)
			time.Sleep(time.Second)
		}, []string{"response.content_part.added", "response.output_item.done", "input_audio_buffer.speech_started", "response.output_audio.done", "response.output_item.done", "response.done"}, 1000},
		{"sound before it is announced", func(r *room) {
			r.tell(partAdded)
			r.speak(100)
			r.tell(started, audioDone, done)
			r.speak(200)
			r.tell(stopped)
			r.speak(40)
			time.Sleep(time.Second)
		}, []string{"response.content_part.added", "response.output_audio.done", "response.done"}, 340},
		{"nothing is announced", func(r *room) {
			r.tell(partAdded, audioDone, done)
			r.speak(500)
			time.Sleep(3 * time.Second)
		}, []string{"response.content_part.added", "response.output_audio.done", "response.done"}, 500},
		{"the next answer follows the end of the one before", func(r *room) {
			r.tell(partAdded, started, done)
			r.speak(200)
			r.tell(nextCreated, nextItem, `{"type":"error","error":{"code":"x"}}`, speech, nextPart, nextDone, `{"type":"bridge.usage"}`)
			r.speak(200)
			r.tell(stopped)
			time.Sleep(time.Second)
			r.tell(nextStarted)
			r.speak(200)
			r.tell(nextStopped)
			time.Sleep(time.Second)
		}, []string{
			"response.content_part.added", "error x <nil>", "input_audio_buffer.speech_started", "bridge.usage", "response.done",
			"response.created", "conversation.item.added", "response.content_part.added", "response.done",
		}, 600},
		{"a pause between answers is no sound", func(r *room) {
			r.tell(partAdded, started, done)
			r.speak(200)
			r.tell(stopped)
			time.Sleep(300 * time.Millisecond)
			r.tell(nextCreated, nextPart, nextDone, nextStarted)
			r.speak(200)
			r.tell(nextStopped)
			time.Sleep(900 * time.Millisecond)
			r.tell(strings.ReplaceAll(partAdded, "1", "3"), strings.ReplaceAll(done, "r1", "r3"))
			r.speak(100)
			r.tell(strings.Replace(started, "r1", "r3", 1), strings.Replace(stopped, "r1", "r3", 1))
			time.Sleep(time.Second)
		}, []string{
			"response.content_part.added", "response.done", "response.created", "response.content_part.added", "response.done",
			"response.content_part.added", "response.done",
		}, 500},
		{"an answer that begins is the end of the one before", func(r *room) {
			r.tell(partAdded, done, nextCreated, nextPart, nextDone, nextStarted)
			r.speak(200)
			r.tell(nextStopped)
			time.Sleep(time.Second)
		}, []string{"response.content_part.added", "response.done", "response.created", "response.content_part.added", "response.done"}, 200},
		{"the client cancels", func(r *room) {
			r.tell(partAdded, started, done, nextCreated)
			r.speak(200)
			if got := r.conn.Sent(); !slices.Equal(got.Pending, []string{"r1"}) || got.Done != "" {
				r.t.Errorf("told %+v", got)
			}
			r.tell(`{"type":"response.cancel","response_id":"r1"}`)
			r.speak(1000) // which the upstream goes on with
			if got := r.conn.Sent(); got.Pending != nil || got.Done != "r1" || time.Since(got.At) != time.Second {
				r.t.Errorf("told %+v", got)
			}
			testkit.Equal(r.t, fmt.Sprint(r.pipe.event(len(r.pipe.sent()) - 2)["response"]), "map[id:r1 status:cancelled status_details:map[reason:client_cancelled type:cancelled]]", "the end")
			r.tell(nextPart, nextDone, nextStarted)
			r.speak(200)
			r.tell(nextStopped)
			time.Sleep(time.Second)
		}, []string{"response.content_part.added", "response.done", "response.created", "response.content_part.added", "response.done"}, 400},
		{"the client truncates", func(r *room) {
			whole := `{"id":"i1","type":"message","status":"completed","content":[{"type":"output_audio","transcript":"Not heard."}]}`
			r.tell(partAdded, started, `{"type":"response.output_item.done","response_id":"r1","item":`+whole+`}`,
				`{"type":"response.done","response":{"id":"r1","status":"completed","output":[{"id":"f1","type":"function_call","status":"completed"},`+whole+`]}}`)
			r.speak(200)
			r.tell(`{"type":"output_audio_buffer.clear","response_id":"r1"}`)
			r.speak(100)
			r.tell(cleared)
			cut := "map[content:[map[type:output_audio]] id:i1 status:incomplete type:message]"
			testkit.Equal(r.t, fmt.Sprint(r.pipe.event(len(r.pipe.sent()) - 2)["item"]), cut, "the item")
			want := "map[id:r1 output:[map[id:f1 status:completed type:function_call] " + cut + "] status:completed]"
			testkit.Equal(r.t, fmt.Sprint(r.pipe.event(len(r.pipe.sent()) - 1)["response"]), want, "the end")
		}, []string{"response.content_part.added", "response.output_item.done", "response.done"}, 200},
		{"too much is held back", func(r *room) {
			r.tell(partAdded, started, done, nextCreated)
			large := fmt.Sprintf(`{"type":"conversation.item.added","item":{"x":%q}}`, strings.Repeat("x", highWater/2))
			r.tell(large, large)
			r.speak(200)
		}, []string{"response.content_part.added", "response.done", "response.created", "conversation.item.added", "conversation.item.added"}, 0},
		{"interrupted", func(r *room) {
			r.tell(partAdded, started, done)
			r.speak(420)
			r.tell(cleared)
		}, []string{"response.content_part.added", "response.done"}, 400},
		{"cancelled before it began", func(r *room) {
			r.tell(partAdded, strings.Replace(done, "completed", "cancelled", 1))
		}, []string{"response.content_part.added", "response.done"}, 0},
		{"its end is never announced", func(r *room) {
			r.tell(partAdded, started, done)
			r.speak(200)
			time.Sleep(3 * time.Second)
		}, []string{"response.content_part.added", "response.done"}, 200},
		{"no answer", func(r *room) {
			r.speak(700)
			r.tell(done)
		}, []string{"response.done"}, 0},
		{"the call ends", func(r *room) {
			r.tell(partAdded, started, done)
			r.speak(200)
			_ = r.conn.Close()
		}, []string{"response.content_part.added", "response.done"}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inRoom(t, newPipe(), func(r *room) {
				tt.act(r)
				synctest.Wait()
				sent := r.pipe.sent()
				got := slices.DeleteFunc(slices.Clone(sent), func(s string) bool { return strings.HasSuffix(s, "audio.delta") })
				testkit.Equal(t, got, tt.want, "events")
				testkit.Equal(t, len(r.pipe.heard())/48, tt.deltas, "of sound")
				if n := len(sent); n > 0 && tt.deltas > 0 && sent[n-1] != tt.want[len(tt.want)-1] {
					t.Errorf("the last event is %s", sent[n-1])
				}
			})
		})
	}
}

// TestFormats has a client that speaks and hears µ-law and A-law.
func TestFormats(t *testing.T) {
	t.Parallel()
	inRoom(t, newPipe(), func(r *room) {
		r.flow.Open()
		r.tell(`{"type":"session.created","session":{"type":"realtime","audio":{"output":{"voice":"marin"}},"n":12345678901234567890}}`)
		r.say(`{"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcmu"}},"output":{"format":{"type":"audio/pcma"}}}}}`)
		r.tell(`{"type":"session.updated","session":{"type":"realtime","audio":{"input":{"format":{"type":"audio/pcm","rate":24000}}}}}`)
		r.say(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(make([]byte, 320)))
		time.Sleep(time.Second)
		ulaw := media.Format{Rate: 8000, Encoding: pcm.ULaw}
		if r.count() != 2 || r.passed()[0].Format != ulaw || len(r.passed()[0].Payload) != 160 {
			t.Errorf("%d packets, %+v", r.count(), r.passed())
		}
		r.tell(`{"type":"response.created","response":{"id":"r1","audio":{"output":{"format":{"type":"audio/pcm","rate":24000},"voice":"marin"}}}}`)
		testkit.Equal(t, fmt.Sprint(r.pipe.event(2)["response"]), "map[audio:map[output:map[format:map[type:audio/pcma] voice:marin]] id:r1]", "the response")
		r.tell(partAdded, started)
		r.speak(400)
		samples := pcm.ALaw.Decode(nil, r.pipe.heard())
		if len(samples) != 3200 || math.Abs(pcm.Level(samples[800:])+15.3) > 1 {
			t.Errorf("%d samples at %.1f dBFS", len(samples), pcm.Level(samples[800:]))
		}
		in := fmt.Sprint(r.pipe.event(0)["session"], r.pipe.event(1)["session"])
		want := `map[audio:map[output:map[voice:marin]] n:1.2345678901234567e+19 type:realtime] ` +
			`map[audio:map[input:map[format:map[type:audio/pcmu]] output:map[format:map[type:audio/pcma]]] type:realtime]`
		testkit.Equal(t, in, want, "sessions")
	})
}

// TestFormatChanges has a client that changes its formats in the middle: each sound is what it was when it was sent,
// and the answer's from session.updated on.
func TestFormatChanges(t *testing.T) {
	t.Parallel()
	inRoom(t, newPipe(), func(r *room) {
		update := func(kind string) {
			r.say(`{"type":"session.update","session":{"audio":{"input":{"format":{"type":%q}},"output":{"format":{"type":%q}}}}}`, kind, kind)
		}
		ulaw, alaw := formats["audio/pcmu"], formats["audio/pcma"]
		r.append(10) // half a frame, as telephones send before they say their format
		update("audio/pcmu")
		r.say(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(make([]byte, 320)))
		r.say(`{"type":"input_audio_buffer.commit"}`)
		update("audio/pcma")
		r.say(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(make([]byte, 160)))
		r.flow.Open()
		time.Sleep(time.Second)
		var got []media.Format
		for _, p := range r.passed() {
			got = append(got, p.Format)
		}
		testkit.Equal(t, got, []media.Format{linear, ulaw, ulaw, alaw}, "packets")
		testkit.Equal(t, len(r.got()), 4, "the call gets %q", r.got())
		r.tell(partAdded, started)
		r.speak(400)
		testkit.Equal(t, len(r.pipe.heard()), 400*48, "bytes before the answer to the update")
		r.tell(`{"type":"session.updated","session":{"type":"realtime"}}`)
		r.speak(400)
		testkit.Equal(t, len(r.pipe.heard())-400*48, 400*8, "bytes after it")
	})
}

// TestPendingFormats has clients that ask for more before they have the answer to what they asked before.
func TestPendingFormats(t *testing.T) {
	t.Parallel()
	const created, updated = `{"type":"session.created","session":{"type":"realtime"}}`, `{"type":"session.updated","session":{"type":"realtime"}}`
	both := func(in, out string) string {
		return fmt.Sprintf(`{"type":"session.update","session":{"audio":{"input":{"format":{"type":%q}},"output":{"format":{"type":%q}}}}}`, in, out)
	}
	one := func(side, kind string) string {
		return fmt.Sprintf(`{"type":"session.update","session":{"audio":{%q:{"format":{"type":%q}}}}}`, side, kind)
	}
	const other = `{"type":"session.update","session":{"type":"realtime","instructions":"x"}}`
	tests := []struct {
		name    string
		early   bool // the client asks before it is told of its session
		asks    []string
		answers int
		in, out string
	}{
		{"something else meanwhile", false, []string{both("audio/pcmu", "audio/pcmu"), other}, 2, "audio/pcmu", "audio/pcmu"},
		{"one answer for both", false, []string{both("audio/pcmu", "audio/pcmu"), other}, 1, "audio/pcmu", "audio/pcmu"},
		{"before the session", true, []string{both("audio/pcmu", "audio/pcmu"), other, other}, 1, "audio/pcmu", "audio/pcmu"},
		{"one side after the other", false, []string{one("output", "audio/pcma"), one("input", "audio/pcmu"), other}, 1, "audio/pcmu", "audio/pcma"},
		{"another format meanwhile", false, []string{both("audio/pcmu", "audio/pcmu"), one("output", "audio/pcma")}, 2, "audio/pcmu", "audio/pcma"},
		{"back again", false, []string{both("audio/pcmu", "audio/pcmu"), both("audio/pcm", "audio/pcm"), other}, 1, "audio/pcm", "audio/pcm"},
		{"a side that there is not", false, []string{both("audio/pcmu", "audio/mp3"), other}, 1, "audio/pcm", "audio/pcm"},
		{"the other side that there is not", true, []string{both("audio/opus", "audio/pcmu"), other}, 1, "audio/pcm", "audio/pcm"},
		{"a refusal changes nothing that waits", false, []string{both("audio/pcmu", "audio/pcmu"), both("audio/pcma", "g711")}, 1, "audio/pcmu", "audio/pcmu"},
		{"no answer yet", false, []string{both("audio/pcmu", "audio/pcmu"), other}, 0, "audio/pcmu", "audio/pcm"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			inRoom(t, newPipe(), func(r *room) {
				r.flow.Open()
				if !tt.early {
					r.tell(created)
				}
				for _, ask := range tt.asks {
					r.say("%s", ask)
				}
				if tt.early {
					r.tell(created)
				}
				for range tt.answers {
					r.tell(updated)
				}
				r.say(`{"type":"input_audio_buffer.append","audio":%q}`, base64.StdEncoding.EncodeToString(make([]byte, 960)))
				r.tell(partAdded, started)
				r.speak(400)
				in, out := formats[tt.in], formats[tt.out]
				if r.passed()[0].Format != in {
					t.Errorf("the model hears %+v", r.passed()[0].Format)
				}
				testkit.Equal(t, len(r.pipe.heard()), 20*out.Frame(), "bytes of 400 ms are heard")
				if tt.answers == 0 {
					return
				}
				last := slices.Index(r.pipe.sent(), "session.updated") + tt.answers - 1
				session := fmt.Sprint(r.pipe.event(last)["session"])
				if n := strings.Count(session, tt.in) + strings.Count(session, tt.out); tt.in != "audio/pcm" && n < 2 {
					t.Errorf("the session says %s", session)
				}
			})
		})
	}
}

// TestFlood has a client that sends what is refused, and large events that wait for its sound, and reads nothing.
func TestFlood(t *testing.T) {
	t.Parallel()
	p := newPipe()
	p.deaf = true
	inRoom(t, p, func(r *room) {
		wrong, sent := []byte(`{"type":"input_audio_buffer.append","event_id":"`+strings.Repeat("e", 500)+`","audio":7}`), 0
		for open := true; open; sent++ {
			select {
			case p.in <- wrong:
			case <-time.After(time.Second):
				open = false
			}
		}
		if r.conn.out.bytes > highWater+1<<10 || sent > highWater/500 {
			t.Errorf("%d bytes wait of the answers to %d events", r.conn.out.bytes, sent)
		}
	})
	inRoom(t, newPipe(), func(r *room) {
		r.append(20)
		r.say(`{"type":"input_audio_buffer.commit"}`)
		for range 5 {
			r.say(`{"type":"conversation.item.create","event_id":"i","item":{"x":%q}}`, strings.Repeat("x", 1<<20))
		}
		if got := r.pipe.sent(); r.conn.input.pendingBytes > maxPendingBytes || len(got) != 2 {
			t.Errorf("%d bytes wait, %q", r.conn.input.pendingBytes, got)
		}
	})
}

// TestMemory has events of a client take the memory of its owner while they are read.
func TestMemory(t *testing.T) {
	t.Parallel()
	inRoom(t, newPipe(), func(r *room) {
		var taken []int64
		free := make(chan struct{})
		r.conn.Within(func(ctx context.Context, n int64) (func(), error) {
			taken = append(taken, n)
			select {
			case <-free:
				return func() { taken = append(taken, -n) }, nil
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		})
		r.say(`{"type":"x"}`)
		large := `{"type":"` + strings.Repeat("y", freeBytes) + `"}`
		r.say("%s", large)
		if len(r.got()) != 2 {
			t.Errorf("%d events are taken", len(r.got())-1)
		}
		free <- struct{}{}
		synctest.Wait()
		n := int64(len(large))
		if len(r.got()) != 3 || !slices.Equal(taken, []int64{n, -n}) {
			t.Errorf("%d events are taken, memory %v", len(r.got())-1, taken)
		}
		r.say("%s", large) // and the connection ends while it waits
	})
}

// TestTransparent sends sound that needs no codec.
func TestTransparent(t *testing.T) {
	t.Parallel()
	inRoom(t, newPipe(), func(r *room) {
		r.tell(partAdded, started)
		sound := pcm.Linear.Append(nil, tone(24000))
		p := media.Packet{Source: 1, Format: linear}
		for frame := range slices.Chunk(sound, 960) {
			p.Sequence++
			p.Payload = frame
			must(t, r.conn.WriteAudio(&p))
		}
		synctest.Wait()
		if !slices.Equal(r.pipe.heard(), sound) {
			t.Error("the sound was changed")
		}
	})
}

func TestEnds(t *testing.T) {
	t.Parallel()
	t.Run("the client says goodbye", func(t *testing.T) {
		t.Parallel()
		p := newPipe()
		p.polite = true
		inRoom(t, p, func(r *room) {
			close(p.in)
			<-r.served
			testkit.Equal(t, r.got(), []string{"connected", "closed"}, "states")
			if err := r.conn.Send(r.t.Context(), []byte(speech)); !errors.Is(err, media.ErrClosed) {
				t.Errorf("Send: %v", err)
			}
		})
	})
	t.Run("the client is gone", func(t *testing.T) {
		t.Parallel()
		p := newPipe()
		inRoom(t, p, func(r *room) {
			close(p.in)
			<-r.served
			testkit.Equal(t, r.got(), []string{"connected", "failed"}, "states")
		})
	})
	t.Run("no pong", func(t *testing.T) {
		t.Parallel()
		p := newPipe()
		p.deaf = true
		inRoom(t, p, func(r *room) {
			time.Sleep(pingEvery + pongWithin + time.Second)
			synctest.Wait()
			testkit.Equal(t, r.got(), []string{"connected", "failed"}, "states")
		})
	})
	t.Run("a slow reader", func(t *testing.T) {
		t.Parallel()
		p := newPipe()
		p.deaf = true
		inRoom(t, p, func(r *room) {
			r.tell(partAdded, started)
			sound := media.Packet{Format: linear, Payload: pcm.Linear.Append(nil, tone(480))}
			for range 31 * 50 {
				must(t, r.conn.WriteAudio(&sound))
			}
			synctest.Wait()
			testkit.Equal(t, r.told(), 1, "the call was told times")
		})
	})
	t.Run("an interruption", func(t *testing.T) {
		t.Parallel()
		p := newPipe()
		p.deaf = true
		inRoom(t, p, func(r *room) {
			r.tell(partAdded, started)
			sound := media.Packet{Format: linear, Payload: pcm.Linear.Append(nil, tone(480))}
			for range 10 * 50 {
				must(t, r.conn.WriteAudio(&sound))
			}
			r.tell(cleared, speech)
			var left []string
			for data, _ := r.conn.out.next(); data != nil; data, _ = r.conn.out.next() {
				left = append(left, string(data))
			}
			testkit.Equal(t, left, []string{speech}, "%d events wait", len(left))
		})
	})
	t.Run("many events", func(t *testing.T) {
		t.Parallel()
		p := newPipe()
		p.deaf = true
		inRoom(t, p, func(r *room) {
			large := fmt.Appendf(nil, `{"type":"x","y":%q}`, strings.Repeat("y", 600<<10))
			n := 0
			for ; r.conn.TrySend(large); n++ {
				synctest.Wait()
			}
			if n > 3 {
				t.Errorf("%d large events wait", n)
			}
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Second)
			defer cancel()
			if err := r.conn.Send(ctx, large); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("Send: %v", err)
			}
			if err := r.conn.Send(ctx, make([]byte, MaxEvent+1)); !errors.Is(err, media.ErrTooLarge) {
				t.Errorf("Send: %v", err)
			}
		})
	})
	t.Run("before there is a socket", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var states []media.State
			c := New()
			c.Handle(media.Handlers{State: func(s media.State) { states = append(states, s) }}, nil)
			if !c.TrySend([]byte(speech)) {
				t.Error("events do not wait for a socket")
			}
			c.Abandon()
			_ = c.Close()
			_ = c.Close()
			if len(states) != 1 || states[0] != media.StateFailed {
				t.Errorf("states %v", states)
			}
			time.Sleep(time.Minute)
		})
	})
	t.Run("closed before it is served", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			c, p := New(), newPipe()
			c.Handle(media.Handlers{}, nil)
			c.TrySend([]byte(speech))
			_ = c.Close()
			c.ServeSocket(p)
			testkit.Equal(t, p.sent(), []string{"input_audio_buffer.speech_started"}, "sent")
		})
	})
}

// FuzzTake sends what clients send, one event a line.
func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"type":"input_audio_buffer.append","audio":"AAAA"}` + "\n" + `{"type":"input_audio_buffer.commit"}` + "\n" + `{"type":"input_audio_buffer.clear"}`))
	f.Add([]byte(`{"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/pcma"}}}}}` + "\n" + `{"type":"input_audio_buffer.append","audio":"AA=="}`))
	f.Add([]byte(`{"type":"input_audio_buffer.append","audio":{}}` + "\n[\n{}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c := New()
		defer c.Close()
		var flow media.Flow
		flow.Open()
		c.input.flow = &flow
		lines := 0
		c.Handle(media.Handlers{Message: func([]byte) { lines++ }}, nil)
		for line := range bytes.Lines(data) {
			c.take(line)
			if frame, waiting, _ := c.input.frame(nil); frame.sound == nil && waiting >= media.FrameTime || waiting > maxAhead {
				t.Fatalf("%s wait", waiting)
			}
			c.release()
		}
		if lines > bytes.Count(data, []byte("\n"))+1 {
			t.Fatalf("%d events", lines)
		}
	})
}
