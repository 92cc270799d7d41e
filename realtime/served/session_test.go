package served_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
)

// opus is 20 ms of silence.
var opus = []byte{0xf8, 0xff, 0xfe}

// person answers, writes down and speaks what a test says. It speaks a frame for each byte.
type person struct {
	pieces []served.Piece
	each   time.Duration // between pieces
	failed error         // after them
	mute   error         // of the voice, after the first piece
	spoken []bool        // whether each answer is
}

func (p *person) Answer(ctx context.Context, r *served.Request) iter.Seq2[served.Piece, error] {
	p.spoken = append(p.spoken, r.Spoken)
	return func(yield func(served.Piece, error) bool) {
		for _, piece := range p.pieces {
			select {
			case <-time.After(p.each):
			case <-ctx.Done():
				return
			}
			if !yield(piece, nil) {
				return
			}
		}
		if p.failed != nil {
			yield(served.Piece{}, p.failed)
		}
	}
}

func (p *person) Write(context.Context, served.Utterance) iter.Seq2[served.Words, error] {
	return func(yield func(served.Words, error) bool) { yield(served.Words{Text: "What is new?"}, nil) }
}

func (p *person) Speak(_ context.Context, s served.Saying) iter.Seq2[served.Frame, error] {
	return func(yield func(served.Frame, error) bool) {
		n := 0
		for text := range s.Text {
			if p.mute != nil && n > 0 {
				yield(served.Frame{}, p.mute)
				return
			}
			for range text {
				n++
				if !yield(served.Frame{Opus: opus, Spoken: n}, nil) {
					return
				}
			}
		}
	}
}

// line is a connection that keeps what is sent last.
type line struct {
	mu      sync.Mutex
	events  []realtime.Event
	packets int
	told    func(realtime.Event) // with each event
	sound   chan media.Packet    // of the caller
	slow    bool                 // nobody reads until stuck is closed
	stuck   chan struct{}
	ended   chan struct{}
}

func (l *line) Send(ctx context.Context, data []byte) error {
	if l.slow {
		select {
		case <-l.stuck:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	e, err := realtime.Decode(data)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events[max(0, len(l.events)-200):], e)
	if l.told != nil {
		l.told(e)
	}
	return err
}

func (l *line) WriteAudio(*media.Packet) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.packets++
	return nil
}

func (l *line) Forward(ctx context.Context, dst media.Sink, _ *media.Flow) error {
	for {
		select {
		case p := <-l.sound:
			_ = dst.WriteAudio(&p)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (l *line) Done() <-chan struct{} { return l.ended }

// story returns what was told, in short.
func (l *line) story() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lines []string
	for _, e := range l.events {
		switch {
		case e.Type == realtime.TypeResponseDone:
			r, _ := realtime.DecodeResponse(e.Response)
			lines = append(lines, r.Status)
		case e.Type == realtime.TypeError:
			lines = append(lines, e.Error.Code)
		case strings.HasSuffix(e.Type, ".delta"), e.Type == realtime.TypeOutputItemDone, strings.HasPrefix(e.Type, "output_audio"):
			lines = append(lines, strings.TrimSpace(e.Type[strings.LastIndex(e.Type, ".")+1:]+" "+e.Delta))
		}
	}
	return strings.Join(lines, "\n")
}

// talk runs a session until f returns.
func talk(t *testing.T, p *person, l *line, f func(s *served.Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l.ended, l.stuck = make(chan struct{}), make(chan struct{})
		s, err := served.New(served.Config{
			Settings: served.NewSettings("gpt-realtime"), Mind: p, Ear: p, Mouth: p, Logger: slog.New(slog.DiscardHandler),
			MaxDuration: 2 * time.Hour,
		})
		testkit.Must(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(t.Context(), l) }()
		s.Open()
		f(s)
		close(l.ended)
		if err := <-ran; !errors.Is(err, media.ErrClosed) {
			t.Error(err)
		}
	})
}

// TestPieces has answers come in pieces, and says in which order they are told.
func TestPieces(t *testing.T) {
	t.Parallel()
	hello, call := served.Piece{Text: "Hello"}, served.Piece{Call: served.Call{ID: "c", Name: "f", Arguments: `{"a":`}}
	more := served.Piece{Call: served.Call{ID: "c", Arguments: `1}`}}
	usage := served.Piece{Usage: map[string]any{"total_tokens": 7}}
	for name, tt := range map[string]struct {
		person
		want string
	}{
		"a text":  {person{pieces: []served.Piece{hello, usage, {Text: " you."}}}, "started\ndelta Hello\ndelta  you.\ndone\ncompleted\nstopped"},
		"a call":  {person{pieces: []served.Piece{call, more}}, "delta {\"a\":\ndelta 1}\ndone\ncompleted"},
		"both":    {person{pieces: []served.Piece{hello, call, more, hello}}, "started\ndelta Hello\ndone\ndelta {\"a\":\ndelta 1}\ndone\ndelta Hello\ndone\ncompleted\nstopped"},
		"nothing": {person{}, "completed"},
		"too long": {person{pieces: []served.Piece{hello, {Stop: "max_output_tokens"}}},
			"started\ndelta Hello\ndone\nincomplete\nstopped"},
		"a failure": {person{pieces: []served.Piece{hello}, failed: errors.New("no more")}, "started\ndelta Hello\ndone\nfailed\nstopped"},
		"a slow mind": {person{pieces: []served.Piece{hello, {Text: " you."}}, each: time.Second},
			"started\ndelta Hello\ndelta  you.\ndone\ncompleted\nstopped"},
		"no voice": {person{pieces: []served.Piece{hello, {Text: " you."}}, mute: errors.New("hoarse")},
			"started\ndelta Hello\ndelta  you.\ndone\ncompleted\nstopped"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &line{}
			talk(t, &tt.person, l, func(s *served.Session) {
				s.Message([]byte(`{"type":"response.create"}`))
				time.Sleep(10 * time.Second)
			})
			testkit.Equal(t, l.story(), tt.want, "told")
		})
	}
}

// TestSpoken tells the Mind which answers are spoken: not those in text, nor those beside the conversation.
func TestSpoken(t *testing.T) {
	t.Parallel()
	p := &person{pieces: []served.Piece{{Text: "Hello"}}}
	talk(t, p, &line{}, func(s *served.Session) {
		for _, response := range []string{`{}`, `{"output_modalities":["text"]}`, `{"conversation":"none"}`} {
			s.Message([]byte(`{"type":"response.create","response":` + response + `}`))
			time.Sleep(10 * time.Second)
		}
	})
	testkit.Equal(t, p.spoken, []bool{true, false, false}, "spoken")
}

// TestSlowReader has sound go on while nobody reads events, and the session end if that does not change.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	p, l := &person{pieces: []served.Piece{{Text: strings.Repeat("word ", 100)}}}, &line{slow: true}
	talk(t, p, l, func(s *served.Session) {
		s.Message([]byte(`{"type":"response.create"}`))
		time.Sleep(5 * time.Second)
		l.mu.Lock()
		if l.packets < 245 || len(l.events) != 0 {
			t.Errorf("%d packets in 5 s, %d events", l.packets, len(l.events))
		}
		l.mu.Unlock()
		close(l.stuck)
		synctest.Wait()
		if story := l.story(); !strings.HasSuffix(story, "completed") {
			t.Errorf("told late:\n%s", story)
		}
	})
}

// TestHour talks for an hour, in which the session grows by its words only.
func TestHour(t *testing.T) { //nolint:paralleltest // measures memory
	p := &person{pieces: []served.Piece{{Text: "This is new: "}, {Text: strings.Repeat("tree ", 20)}}, each: 100 * time.Millisecond}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	talk(t, p, &line{}, func(s *served.Session) {
		var before uint64
		packet := media.Packet{Source: 1, Payload: opus}
		for i := range 60 * 60 * 4 { // what comes between the packets is heard as silence
			if i%(12*4) == 0 {
				s.SimulateSpeech()
			}
			if i == 10*60*4 {
				before = heap()
			}
			packet.Sequence++
			packet.Timestamp += media.ClockRate / 4
			testkit.Must(t, s.Ears().WriteAudio(&packet))
			time.Sleep(time.Second / 4)
		}
		grown := int64(heap()) - int64(before)
		t.Logf("%d bytes in 250 turns", grown)
		if grown > 512<<10 {
			t.Errorf("50 minutes cost %d bytes", grown)
		}
	})
}
