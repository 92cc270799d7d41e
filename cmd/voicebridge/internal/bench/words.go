package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"voicebridge/realtime"
)

// transcriptSender is a model that never stops speaking: it sends the transcripts of its answers in
// events. It belongs to the session's goroutine.
type transcriptSender struct {
	session upstreamSession
	m       *measurement
	size    int    // bytes of text per event
	name    string // of the call, to make ids unique
	// first is how many events the first answer has; 0 means as many as the others.
	first int

	answers, events int
	transcript      strings.Builder
}

func (n *transcriptSender) item() string     { return fmt.Sprintf("item_%s_%d", n.name, n.answers) }
func (n *transcriptSender) response() string { return fmt.Sprintf("resp_%s_%d", n.name, n.answers) }

// send sends the next event, stamped with a time of the measurement's clock.
func (n *transcriptSender) send(at int64) {
	if n.events == 0 {
		n.begin()
	}
	text := timedText(at, n.size)
	n.transcript.WriteString(text)
	if w := n.m.at(at); w != nil {
		w.words.sent.Add(1)
	}
	n.session.Emit(object{
		"type": realtime.TypeAudioTranscriptDelta, "response_id": n.response(), "item_id": n.item(),
		"output_index": 0, "content_index": 0, "delta": text,
	})
	length := answerEvents
	if n.answers == 1 {
		length = cmp.Or(n.first, answerEvents)
	}
	if n.events++; n.events == length {
		n.end()
	}
}

func (n *transcriptSender) begin() {
	var previous any
	if n.answers > 0 {
		previous = n.item()
	}
	n.answers++
	item := n.shown("in_progress")
	n.respond(realtime.TypeResponseCreated, realtime.ResponseInProgress, []any{})
	n.session.Emit(object{"type": realtime.TypeOutputItemAdded, "response_id": n.response(), "output_index": 0, "item": item})
	n.session.Emit(object{"type": realtime.TypeItemAdded, "previous_item_id": previous, "item": item})
	n.session.Emit(object{"type": realtime.TypeOutputBufferStarted, "response_id": n.response()})
}

// end ends the current answer, if any.
func (n *transcriptSender) end() {
	if n.events == 0 {
		return
	}
	item := n.shown("completed")
	n.session.Emit(object{
		"type": realtime.TypeAudioTranscriptDone, "response_id": n.response(), "item_id": n.item(),
		"output_index": 0, "content_index": 0, "transcript": n.transcript.String(),
	})
	n.session.Emit(object{"type": realtime.TypeOutputItemDone, "response_id": n.response(), "output_index": 0, "item": item})
	n.session.Emit(object{"type": realtime.TypeItemDone, "item": item})
	n.respond(realtime.TypeResponseDone, realtime.ResponseCompleted, []any{item})
	n.session.Emit(object{"type": realtime.TypeOutputBufferStopped, "response_id": n.response()})
	n.events = 0
	n.transcript.Reset()
}

func (n *transcriptSender) shown(status string) object {
	content := []any{}
	if status == "completed" {
		content = append(content, object{"type": "output_audio", "transcript": n.transcript.String()})
	}
	return object{
		"id": n.item(), "object": "realtime.item", "type": realtime.ItemMessage, "role": "assistant", "status": status, "content": content,
	}
}

func (n *transcriptSender) respond(kind, status string, output []any) {
	n.session.Emit(object{"type": kind, "response": object{
		"object": "realtime.response", "id": n.response(), "status": status, "output": output,
	}})
}

// sendTranscripts makes the models of all calls send events, perSecond each with size bytes of text,
// on a fixed schedule until ctx ends. Then it ends their answers.
func (t *traffic) sendTranscripts(ctx context.Context, perSecond, size int) {
	senders := make([]*transcriptSender, len(t.calls))
	for i, c := range t.calls {
		// The end of an answer repeats its whole transcript several times. Real answers do not end
		// at the same moment, so these must not either.
		first := 1 + i*answerEvents/len(t.calls)
		senders[i] = &transcriptSender{session: c.session, m: t.rig.m, size: size, name: fmt.Sprintf("%d_%d", i, size), first: first}
	}
	every := time.Second / time.Duration(perSecond)
	var wg sync.WaitGroup
	for first := range min(len(t.calls), transcriptGroups) {
		wg.Go(func() {
			timer := time.NewTimer(time.Hour)
			defer timer.Stop()
			for start := t.rig.m.now(); ctx.Err() == nil; start += int64(every) {
				for i := first; i < len(t.calls); i += transcriptGroups {
					due := start + int64(every)*int64(i)/int64(len(t.calls))
					if wait := due - t.rig.m.now(); wait > 0 {
						timer.Reset(time.Duration(wait))
						select {
						case <-timer.C:
						case <-ctx.Done():
							return
						}
					}
					at := t.rig.m.now()
					t.calls[i].session.Do(func() { senders[i].send(at) })
				}
			}
		})
	}
	wg.Wait()
	for i, n := range senders {
		t.calls[i].session.Do(n.end)
	}
}

// transcriptGroups is how many goroutines send the events.
const transcriptGroups = 2

// measureWords is one round: n calls through the bridge, first without words, then with them.
func measureWords(ctx context.Context, c Config, n, size int) (row Words, err error) {
	r, err := openRig(ctx, &c.Bridge, n, 0)
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	t, err := r.startTraffic(n)
	if err != nil {
		return row, r.explain(err)
	}
	defer func() { err = errors.Join(err, t.stop()) }()

	row = Words{Calls: n, EventsPerSecond: c.Events, EventBytes: size}
	without, err := t.measure(t.alive, c)
	if err != nil {
		return row, r.explain(err)
	}
	sending, stop := context.WithCancel(t.alive)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		t.sendTranscripts(sending, c.Events, size)
	}()
	with, err := t.measure(t.alive, c)
	stop()
	<-ended
	if err != nil {
		return row, r.explain(err)
	}
	row.Without, row.With, row.Events = newWordsHalf(without, n), newWordsHalf(with, n), with.words
	row.AudioRatio = Ways{Up: by(with.paths.Up, without.paths.Up), Down: by(with.paths.Down, without.paths.Down)}
	if with.used != nil && without.used != nil && row.Events.Sent > 0 {
		more := with.used.cpu.Seconds()/with.seconds - without.used.cpu.Seconds()/without.seconds
		row.CPUPerEvent = new(round(more*1e6/float64(n*c.Events), 1))
	}
	return row, nil
}

func newWordsHalf(f flow, calls int) WordsHalf {
	h := WordsHalf{Audio: f.paths, Generator: f.generator, OthersCPU: f.others}
	if f.used != nil {
		h.CPUPerCall = new(round(percent(f.used.cpu, f.seconds)/float64(calls), 3))
		h.RSS = &f.used.rss
	}
	return h
}
