package served_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime"
	"voicebridge/realtime/media"
	encoder "voicebridge/realtime/opus"
	"voicebridge/realtime/served"
)

// sounds are 20 ms of silence and of a tone.
var sounds = sync.OnceValue(func() (frames [2][][]byte) {
	for loud := range 2 {
		e, _ := encoder.NewEncoder(48_000)
		samples := make([]int16, 960)
		for i := range 100 {
			for j := range samples {
				samples[j] = int16(float64(8000*loud) * math.Sin(2*math.Pi*300*float64(i*960+j)/48_000))
			}
			packet, _ := e.Encode(samples)
			frames[loud] = append(frames[loud], packet)
		}
	}
	return frames
})

// script is a cascade of which a test says what it does.
type script struct {
	person

	write   func(n int, u served.Utterance) (string, error) // the nth
	takes   time.Duration                                   // to write that
	noVoice float64                                         // says the Ear
	skips   error                                           // why the first three bytes are not spoken

	mu      sync.Mutex
	written int
	asked   []string // the last words of each request
	closed  int      // answers that were thrown away
}

func (p *script) Write(ctx context.Context, u served.Utterance) iter.Seq2[served.Words, error] {
	p.mu.Lock()
	n := p.written
	p.written++
	p.mu.Unlock()
	return func(yield func(served.Words, error) bool) {
		select {
		case <-time.After(p.takes):
			text, err := p.write(n, u)
			yield(served.Words{Text: text, NoSpeech: p.noVoice}, err)
		case <-ctx.Done():
		}
	}
}

func (p *script) Answer(ctx context.Context, r *served.Request) iter.Seq2[served.Piece, error] {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r.Items[len(r.Items)-1].Words)
	pieces := p.person.Answer(ctx, r)
	return func(yield func(served.Piece, error) bool) {
		if yield(served.Piece{Usage: map[string]any{"input_tokens": 7}}, nil) {
			pieces(yield)
		}
		if ctx.Err() != nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.closed++
		}
	}
}

func (p *script) Speak(ctx context.Context, s served.Saying) iter.Seq2[served.Frame, error] {
	if p.skips == nil {
		return p.person.Speak(ctx, s)
	}
	return func(yield func(served.Frame, error) bool) {
		var text strings.Builder
		for piece := range s.Text {
			text.WriteString(piece)
		}
		_ = yield(served.Frame{Sent: 3}, nil) && yield(served.Frame{Spoken: 3, Skipped: p.skips}, nil) &&
			(len(text.String()) <= 3 || yield(served.Frame{Opus: opus, Sent: len(text.String()) - 3, Spoken: len(text.String())}, nil))
	}
}

// caller speaks to a session.
type caller struct {
	*served.Session

	at   uint32
	line *line
}

// for so many ms it is loud, or quiet.
func (c *caller) sound(loud, ms int) {
	for range ms / 20 {
		frames := sounds()[loud]
		c.line.sound <- media.Packet{Timestamp: c.at * 960, Payload: frames[c.at%100]}
		c.at++
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *caller) speaks(ms int) { c.sound(1, ms) }
func (c *caller) rests(ms int)  { c.sound(0, ms) }

// converse runs a session that takes turns by words, and returns its story, each event with the tenths of a second since
// it began.
func converse(t *testing.T, p *script, f func(c *caller)) (story string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := &line{ended: make(chan struct{}), stuck: make(chan struct{}), sound: make(chan media.Packet, 1000)}
		var lines []string
		l.told = func(e realtime.Event) {
			if said := tale(e); said != "" {
				lines = append(lines, fmt.Sprintf("%.1f %s", time.Since(began).Seconds(), said))
			}
		}
		s, err := served.New(served.Config{
			Settings: transcribing(t), Mind: p, Ear: p, Mouth: p, Logger: slog.New(slog.DiscardHandler), MaxDuration: time.Hour,
			SpeechModel: "voice", Turning: &served.Turning{
				MinPause: 300 * time.Millisecond, MaxPause: 3 * time.Second, MinSpeech: 240 * time.Millisecond,
				Interruption: served.Interruption{MinSpeech: 500 * time.Millisecond, Resume: 2 * time.Second},
			},
		})
		testkit.Must(t, err)
		ran := make(chan error, 1)
		go func() { ran <- s.Run(t.Context(), l) }()
		s.Open()
		f(&caller{Session: s, line: l})
		select {
		case err := <-ran:
			lines = append(lines, "ended: "+err.Error())
		default:
			close(l.ended)
			<-ran
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		story = strings.Join(lines, "\n")
	})
	return story
}

func transcribing(t *testing.T) *served.Settings {
	t.Helper()
	s := served.NewSettings("text")
	if err := s.Update([]byte(`{"type":"realtime","audio":{"input":{"transcription":{"language":"en"},"turn_detection":{"type":"server_vad"}}}}`)); err != nil {
		t.Fatal(err)
	}
	return s
}

// tale returns an event in short; empty for those that say nothing here.
func tale(e realtime.Event) string {
	switch e.Type {
	case realtime.TypeInputSpeechStarted, realtime.TypeInputSpeechStopped, realtime.TypeInputCommitted:
		return strings.TrimPrefix(e.Type, "input_audio_buffer.")
	case realtime.TypeTranscriptionCompleted:
		return fmt.Sprintf("heard %q", e.Transcript)
	case realtime.TypeTranscriptionFailed:
		return "failed"
	case realtime.TypeResponseCreated:
		return "answers"
	case realtime.TypeResponseDone:
		r, _ := realtime.DecodeResponse(e.Response)
		return fmt.Sprintf("%s, %d items", r.Status, len(r.Output))
	case realtime.TypeItemTruncated:
		return fmt.Sprintf("cut after %d ms: %q", e.AudioEndMS, e.Transcript)
	case realtime.TypeError:
		return e.Error.Code
	case realtime.TypeSpeech:
		for _, name := range []string{"resumed", "spoken_texts", "usage"} {
			if v := realtime.Member(e.Raw, name); v != nil && string(v) != "{}" {
				return "speech " + string(v)
			}
		}
	case realtime.TypeOutputBufferStarted, realtime.TypeOutputBufferStopped, realtime.TypeOutputBufferCleared:
		return strings.TrimPrefix(e.Type, "output_audio_buffer.")
	}
	return ""
}

// TestTurns has a caller speak to a session that takes turns by words.
func TestTurns(t *testing.T) {
	t.Parallel()
	says := func(texts ...string) func(int, served.Utterance) (string, error) {
		return func(n int, _ served.Utterance) (string, error) { return texts[min(n, len(texts)-1)], nil }
	}
	hello := person{pieces: []served.Piece{{Text: "Hi. "}, {Text: strings.Repeat("word ", 40)}}}
	for name, tt := range map[string]struct {
		script *script
		do     func(c *caller)
		want   []string // lines of the story, in order
		never  []string
		asked  int // answers
	}{
		"a sentence ends soon": {
			script: &script{person: hello, write: says("What is new?")}, asked: 1,
			do:   func(c *caller) { c.speaks(1000); c.rests(400) },
			want: []string{"0.2 speech_started", "1.3 speech_stopped", "1.3 committed", `1.3 heard "What is new?"`, "1.3 answers", "1.3 started"},
		},
		"one that goes on does not": {
			script: &script{person: hello, write: says("I would like a table and")}, asked: 1,
			do:   func(c *caller) { c.speaks(1000); c.rests(2000) },
			want: []string{"2.5 speech_stopped", "2.5 answers"},
		},
		"probabilities that no ear tells": {
			script: &script{person: hello, write: says("Yes.")}, asked: 1,
			do: func(c *caller) {
				c.Message([]byte(`{"type":"session.update","session":{"type":"realtime","include":["item.input_audio_transcription.logprobs"]}}`))
				c.speaks(1000)
				c.rests(400)
			},
			want: []string{`heard "Yes."`, "answers"}, never: []string{"invalid"},
		},
		"other words in between": {
			script: &script{person: hello, write: says("a table please")}, asked: 1,
			do:   func(c *caller) { c.speaks(1000); c.rests(1000) },
			want: []string{"1.8 speech_stopped"},
		},
		"a slow ear does not hold up the turn": {
			script: &script{person: hello, write: says("Yes."), takes: 1500 * time.Millisecond}, asked: 1,
			do:   func(c *caller) { c.speaks(1000); c.rests(2000) },
			want: []string{"1.8 speech_stopped", "1.8 committed", `2.7 heard "Yes."`, "2.7 answers"},
		},
		"who goes on is not answered": {
			script: &script{person: hello, write: says("I want", "I want a table.")}, asked: 2,
			do:    func(c *caller) { c.speaks(800); c.rests(400); c.speaks(800); c.rests(500) },
			want:  []string{"1.2 answers", "1.2 cancelled, 0 items", "2.3 speech_stopped", `heard "I want a table."`, "2.3 answers"},
			never: []string{`"I want"`},
		},
		"noise is no utterance": {
			script: &script{person: hello, write: says("Thank you.")},
			do:     func(c *caller) { c.speaks(160); c.rests(1000) },
			never:  []string{"started", "committed", "heard"},
		},
		"what the ear takes for silence asks nobody": {
			script: &script{person: hello, write: says("Thank you."), noVoice: 0.9},
			do:     func(c *caller) { c.speaks(400); c.rests(1000) },
			want:   []string{`heard ""`}, never: []string{"answers"},
		},
		"a cough does not end an answer": {
			script: &script{person: hello, write: says("Hello?", "")}, asked: 1,
			do:    func(c *caller) { c.speaks(600); c.rests(1000); c.speaks(600); c.rests(4000) },
			want:  []string{"started", "speech 1", "stopped"},
			never: []string{"cleared", "cut"},
		},
		"a short one neither": {
			script: &script{person: hello, write: says("Hello?", "Mhm.")}, asked: 1,
			do:    func(c *caller) { c.speaks(600); c.rests(1000); c.speaks(300); c.rests(4000) },
			want:  []string{"started", "speech 1", "stopped"},
			never: []string{"cleared", "cut", "Mhm"},
		},
		"words do": {
			script: &script{person: hello, write: says("Hello?", "Stop it.")}, asked: 2,
			do:   func(c *caller) { c.speaks(600); c.rests(1000); c.speaks(800); c.rests(500) },
			want: []string{"speech_started", "cleared", `"Hi. word word word`, "speech_stopped", `heard "Stop it."`, "answers"}, never: []string{"speech 1"},
		},
		"a commit by hand": {
			script: &script{person: hello, write: says("By hand."), takes: 300 * time.Millisecond}, asked: 1,
			do: func(c *caller) {
				c.Message([]byte(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null,
					"transcription":{"language":"de","keywords":["Aoife"]}},"output":{"voice":"af_heart"}}}}`))
				c.speaks(600)
				c.Message([]byte(`{"type":"input_audio_buffer.commit"}`))
				c.Message([]byte(`{"type":"response.create"}`))
				c.rests(1000)
			},
			want: []string{"0.6 committed", "0.6 answers", `0.9 heard "By hand."`, "0.9 started"}, never: []string{"invalid"},
		},
		"a commit of silence": {
			script: &script{person: hello, write: says("Thank you.")},
			do: func(c *caller) {
				c.Message([]byte(`{"type":"session.update","session":{"type":"realtime","audio":{"input":{"turn_detection":null}}}}`))
				c.rests(600)
				c.Message([]byte(`{"type":"input_audio_buffer.commit"}`))
				c.rests(1000)
			},
			want: []string{`heard ""`},
		},
		"a part that is not spoken": {
			script: &script{person: person{pieces: []served.Piece{{Text: "Oh, yes."}}}, write: says("Well?"), skips: errors.New("no")}, asked: 1,
			do:   func(c *caller) { c.speaks(600); c.rests(1000) },
			want: []string{`speech {"item_`, `"yes."`, "completed, 1 items"}, never: []string{"speech_failed"},
		},
		"nothing is spoken": {
			script: &script{person: person{pieces: []served.Piece{{Text: "Oh."}}}, write: says("Well?"), skips: errors.New("no")}, asked: 1,
			do:   func(c *caller) { c.speaks(600); c.rests(1000) },
			want: []string{"speech_failed", `:""}`, "completed, 1 items"},
		},
		"an ear that fails": {
			script: &script{person: hello, write: func(int, served.Utterance) (string, error) { return "", errors.New("broken") }},
			do: func(c *caller) {
				for range 3 {
					c.speaks(600)
					c.rests(1000)
				}
			},
			want: []string{"failed", "failed", "failed", "ended: speech servers fail: broken"}, never: []string{"answers"},
		},
		"one that cannot read some": {
			script: &script{person: hello, write: func(int, served.Utterance) (string, error) {
				return "", &realtime.Error{Type: "invalid_request_error", Message: "too long"}
			}},
			do: func(c *caller) {
				for range 4 {
					c.speaks(600)
					c.rests(1000)
				}
			},
			want: []string{"failed", "failed", "failed", "failed"}, never: []string{"ended"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story := converse(t, tt.script, tt.do)
			rest := story
			for _, want := range tt.want {
				i := strings.Index(rest, want)
				if i < 0 {
					t.Fatalf("%q is missing in, or not in this order:\n%s", want, story)
				}
				rest = rest[i+len(want):]
			}
			for _, never := range tt.never {
				if strings.Contains(story, never) {
					t.Errorf("%q is in:\n%s", never, story)
				}
			}
			testkit.Equal(t, len(tt.script.asked), tt.asked, "answers that were begun, of\n%s", story)
		})
	}
}
