package wsserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
	"voicebridge/realtime/pcm"
)

// early sends ms of a tone as an upstream that sends faster than it is heard, in packets of one source.
func (r *room) early(source uint32, part media.Part, ms int) {
	r.t.Helper()
	p := &r.ahead
	p.Source, p.Format = source, linear
	for range ms / 20 {
		p.Sequence++
		p.Timestamp += media.FrameStep
		p.Payload = pcm.Linear.Append(nil, tone(480))
		p.Part = &part
		must(r.t, r.conn.WriteAudio(p))
	}
	synctest.Wait()
}

func (r *room) complete(source uint32, part media.Part) {
	r.t.Helper()
	part.Last = true
	must(r.t, r.conn.WriteAudio(&media.Packet{Source: source, Format: linear, Part: &part}))
	synctest.Wait()
}

// summary is what was sent, with the sound of each part in ms in place of its deltas.
func (p *pipe) summary() (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ms, of := 0, ""
	flush := func() {
		if ms > 0 {
			lines = append(lines, fmt.Sprint(of, " ", ms))
		}
		ms = 0
	}
	for _, event := range p.out {
		if event["type"] == "response.output_audio.delta" {
			if name := fmt.Sprint(event["response_id"], " ", event["item_id"], " ", event["content_index"]); name != of {
				flush()
				of = name
			}
			ms += len(event["delta"].(string)) * 3 / 4 / 48
			continue
		}
		flush()
		lines = append(lines, strings.TrimPrefix(fmt.Sprint(event["type"]), "response."))
	}
	flush()
	return lines
}

// TestEarly has sound come before it is heard: it is passed on at once, and the events that say that it is complete
// follow it.
func TestEarly(t *testing.T) {
	t.Parallel()
	first, second := media.Part{Response: "r1", Item: "i1"}, media.Part{Response: "r1", Item: "i2"}
	twoParts := []string{
		`{"type":"response.content_part.added","response_id":"r1","item_id":"i2","output_index":1,"content_index":0,"part":{"type":"audio"}}`,
		`{"type":"response.output_audio.done","response_id":"r1","item_id":"i2","output_index":1,"content_index":0}`,
	}
	for name, tt := range map[string]struct {
		act  func(r *room)
		want []string
	}{
		"an answer": {func(r *room) {
			r.tell(partAdded)
			r.early(1, first, 1000)
			r.tell(started)
			r.early(1, first, 500)
			r.tell(audioDone, itemDone, callDone, done)
			r.complete(1, first)
			r.tell(speech)
		}, []string{"content_part.added", "r1 i1 0 1500", "output_item.done", "output_audio.done", "output_item.done", "done", "input_audio_buffer.speech_started"}},
		"it is announced late": {func(r *room) {
			r.early(1, first, 400)
			r.complete(1, first)
			r.tell(partAdded, audioDone, done)
		}, []string{"content_part.added", "r1 i1 0 400", "output_audio.done", "done"}},
		"two parts": {func(r *room) {
			r.tell(partAdded, twoParts[0])
			r.early(1, first, 200)
			r.tell(audioDone)
			r.complete(1, first)
			r.tell(twoParts[1], done)
			r.early(1, second, 100)
			r.complete(1, second)
		}, []string{"content_part.added", "content_part.added", "r1 i1 0 200", "output_audio.done", "r1 i2 0 100", "output_audio.done", "done"}},
		"an id that was used before": {func(r *room) {
			r.tell(partAdded)
			r.early(1, first, 100)
			r.complete(1, first)
			r.tell(audioDone, done)
			r.early(2, first, 60) // of another session, and not announced yet
			r.tell(strings.NewReplacer(`"r1"`, `"g2_r1"`, `"i1"`, `"g2_i1"`).Replace(partAdded))
		}, []string{"content_part.added", "r1 i1 0 100", "output_audio.done", "done", "content_part.added", "g2_r1 g2_i1 0 60"}},
		"its end is never told": {func(r *room) {
			r.tell(partAdded)
			r.early(1, first, 100)
			r.tell(audioDone, done)
			time.Sleep(soundless + time.Second)
		}, []string{"content_part.added", "r1 i1 0 100", "output_audio.done", "done"}},
		"cancelled": {func(r *room) {
			r.tell(partAdded)
			r.early(1, first, 100)
			r.tell(strings.Replace(done, "completed", "cancelled", 1))
		}, []string{"content_part.added", "r1 i1 0 100", "done"}},
		"cleared": {func(r *room) {
			r.tell(partAdded, started)
			r.early(1, first, 100)
			r.tell(done, cleared)
		}, []string{"content_part.added", "r1 i1 0 100", "done"}},
		"never announced": {func(r *room) {
			r.early(1, first, 400)
			time.Sleep(unannounced)
			r.early(1, first, 100)
			r.tell(done)
			r.early(1, first, 100)
			r.complete(1, first)
		}, []string{"r1 i1 0 600", "done"}},
		"never announced, and over at once": {func(r *room) {
			r.tell(`{"type":"response.created","response":{"id":"r1"}}`)
			r.early(1, first, 400)
			r.tell(done)
			r.complete(1, first)
		}, []string{"created", "r1 i1 0 400", "done"}},
		"announced by its end, before it comes": {func(r *room) {
			r.tell(audioDone, done)
			r.early(1, first, 400)
			r.complete(1, first)
		}, []string{"r1 i1 0 400", "output_audio.done", "done"}},
		"announced answers after one that is not": {func(r *room) {
			r.early(1, media.Part{Response: "r0", Item: "i0"}, 400)
			r.early(1, first, 200)
			r.tell(partAdded)
			time.Sleep(time.Second)
			r.tell(audioDone, done)
			r.complete(1, first)
		}, []string{"content_part.added", "r0 i0 0 400", "r1 i1 0 200", "output_audio.done", "done"}},
		"not announced, with ids that were used before": {func(r *room) {
			r.tell(`{"type":"response.created","response":{"id":"g2_r1"}}`)
			r.early(2, first, 400)
			r.tell(strings.NewReplacer(`"r1"`, `"g2_r1"`, `"i1"`, `"g2_i1"`).Replace(audioDone))
		}, []string{"created", "g2_r1 g2_i1 0 400"}},
		"parts that count up": {func(r *room) {
			r.tell(partAdded)
			for content := range 5 {
				r.early(1, media.Part{Response: "r1", Item: "i1", Content: content}, 40)
			}
			r.tell(strings.Replace(audioDone, `"content_index":0`, `"content_index":4`, 1), done)
			r.complete(1, first)
		}, []string{"content_part.added", "r1 i1 0 200", "output_audio.done", "done"}},
		"in real time": {func(r *room) { // there was no room
			r.tell(partAdded, started)
			for range 10 {
				r.early(1, first, 20)
				time.Sleep(20 * time.Millisecond)
			}
			r.tell(audioDone, done)
			r.complete(1, first)
			r.tell(stopped)
		}, []string{"content_part.added", "r1 i1 0 200", "output_audio.done", "done"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inRoom(t, newPipe(), func(r *room) {
				tt.act(r)
				synctest.Wait()
				testkit.Equal(t, r.pipe.summary(), tt.want, "r.pipe.summary()")
			})
		})
	}
}

// TestEarlyRoom has a client that does not read, and sound that is never announced: there is no more room, and what
// waits is bounded.
func TestEarlyRoom(t *testing.T) {
	t.Parallel()
	p := newPipe()
	p.deaf = true
	inRoom(t, p, func(r *room) {
		id, room := r.conn.Ahead()
		if id == 0 || !room {
			t.Errorf("at first: %d, %t", id, room)
		}
		r.tell(partAdded)
		for room {
			r.early(1, media.Part{Response: "r1", Item: "i1"}, 100)
			_, room = r.conn.Ahead()
		}
		if ms := r.conn.out.waiting(); ms < maxEarlySound || ms > maxEarlySound+time.Second || r.told() != 0 {
			t.Errorf("%s wait, told %d times", ms, r.told())
		}
	})
	inRoom(t, newPipe(), func(r *room) {
		for range 400 {
			r.early(1, media.Part{Response: "r1", Item: "i1"}, 100)
		}
		if _, room := r.conn.Ahead(); room || r.conn.output.unnamed() != maxUnnamedSound {
			t.Errorf("%s wait without a name, room %t", r.conn.output.unnamed(), room)
		}
	})
}

// TestEarlyFormats has sound that comes before it is heard in another format.
func TestEarlyFormats(t *testing.T) {
	t.Parallel()
	inRoom(t, newPipe(), func(r *room) {
		r.say(`{"type":"session.update","session":{"audio":{"output":{"format":{"type":"audio/pcmu"}}}}}`)
		r.early(1, media.Part{Response: "r1", Item: "i1"}, 500) // which waits for its name
		r.tell(`{"type":"session.updated","session":{"type":"realtime"}}`, partAdded)
		r.early(1, media.Part{Response: "r1", Item: "i1"}, 500)
		testkit.Equal(t, len(r.pipe.heard()), 8000, "samples")
	})
}

// TestEarlyAgain has a client reconnect while it has sound that is not heard yet: it gets that again, and its end after
// it. Its session comes before both.
func TestEarlyAgain(t *testing.T) {
	t.Parallel()
	inRoom(t, newPipe(), func(r *room) {
		part := media.Part{Response: "r1", Item: "i1"}
		before := New()
		before.Handle(media.Handlers{}, nil)
		before.TrySend([]byte(partAdded))
		p := media.Packet{Source: 1, Format: linear, Part: &part, Payload: pcm.Linear.Append(nil, tone(480))}
		must(t, before.WriteAudio(&p))
		r.conn.Succeed(before)
		_ = before.Close()
		r.tell(done)
		if len(r.pipe.sent()) != 0 {
			t.Errorf("at once: %v", r.pipe.sent())
		}
		r.early(1, part, 100)
		if len(r.pipe.sent()) != 0 {
			t.Errorf("before the session: %v", r.pipe.sent())
		}
		r.tell(`{"type":"session.created","session":{}}`)
		r.complete(1, part)
		testkit.Equal(t, r.pipe.summary(), []string{"session.created", "r1 i1 0 100", "done"}, "r.pipe.summary()")
	})
}

// TestSilent has a connection without sound: everything passes as it is.
func TestSilent(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := newPipe()
		var got []string
		c := NewSilent()
		c.Handle(media.Handlers{Message: func(data []byte) { got = append(got, string(data)) }}, nil)
		served := make(chan struct{})
		go func() { defer close(served); c.ServeSocket(p) }()
		said := []string{`{"type":"input_audio_buffer.append","audio":"AAA"}`, "x", `{"type":"session.update","session":{"audio":{"input":{"format":{"type":"audio/mp3"}}}}}`}
		for _, event := range said {
			p.in <- []byte(event)
		}
		told := []string{`{"type":"output_audio_buffer.started"}`, `{"type":"response.done","response":{"id":"r1"}}`}
		for _, event := range told {
			c.TrySend([]byte(event))
		}
		synctest.Wait()
		if !slices.Equal(got, said) || !slices.Equal(p.sent(), []string{"output_audio_buffer.started", "response.done"}) {
			t.Errorf("got %v, sent %v", got, p.sent())
		}
		if remote, _ := c.Ahead(); remote != 0 {
			t.Errorf("it plays as %d", remote)
		}
		_ = c.Close()
		<-served
	})
}
