package uistream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"strconv"
	"time"

	"voicebridge/chat"
)

// MediaType is that of a stream of server-sent events.
const MediaType = "text/event-stream"

// Header names the protocol.
const Header = "X-Vercel-Ai-Ui-Message-Stream"

// openAfter is how long the first event may take before the stream is opened without it; until then
// a failure can be an ordinary answer.
const openAfter = 100 * time.Millisecond

// Timing holds the timings of a stream, which tests shorten.
type Timing struct {
	KeepAlive time.Duration // of silence, before a comment is sent: proxies cut silent connections
	Write     time.Duration // one write, before the client counts as gone
}

// DefaultTiming returns a server's timings.
func DefaultTiming() Timing {
	return Timing{KeepAlive: 15 * time.Second, Write: 20 * time.Second}
}

// Writer writes server-sent events.
type Writer struct {
	out    http.ResponseWriter
	timing Timing
	turnID string
	begun  bool // the headers are sent
	translator
}

// askWait is how long the stream goes on after a question, for other calls of the same step.
const askWait = 250 * time.Millisecond

// AskInStates makes the stream ask for approvals as the AI SDK does from version 6 on: a state of the
// tool's part asks, and then the stream ends. The client sends the answer with its next request.
func (w *Writer) AskInStates() {
	w.inStates, w.unasked, w.asked, w.denied = true, map[string]bool{}, map[string]bool{}, map[string]bool{}
}

// GoOn makes the stream go on where it ended at questions: answered are the calls whose questions the client has just
// answered, and open says of all calls that it has whether they have no result there.
func (w *Writer) GoOn(answered, open map[string]bool) {
	w.answered, w.open, w.left = answered, open, len(answered)
}

// New returns a writer for the events of a turn; explain puts a failure into words for the client.
// Without a turn's id, the events have no ids.
func New(out http.ResponseWriter, timing Timing, turnID string, explain func(error) string) *Writer {
	return &Writer{out: out, timing: timing, turnID: turnID, translator: translator{explain: explain}}
}

// Begun reports whether anything was sent: from then on a failure cannot be an ordinary answer.
func (w *Writer) Begun() bool { return w.begun }

type eventOrError struct {
	event chat.Event
	err   error
}

// Follow writes the events as they come, and comments while none come. Before it returns, it calls
// stop, which must end the sequence, and waits for the goroutine that reads it.
func (w *Writer) Follow(events iter.Seq2[chat.Event, error], stop func()) error {
	next, joined, left := make(chan eventOrError), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(joined)
		defer close(next)
		for e, err := range events {
			select {
			case next <- eventOrError{e, err}:
			case <-left:
				return
			}
		}
	}()
	defer func() {
		close(left)
		stop()
		<-joined
	}()
	tick := time.NewTicker(min(openAfter, w.timing.KeepAlive))
	defer tick.Stop()
	for {
		var err error
		select {
		case n, ok := <-next:
			if !ok {
				return w.Done()
			}
			if err = n.err; err == nil {
				err = w.event(n.event)
			}
		case <-tick.C:
			if len(w.asked) > 0 && len(w.unasked) == 0 {
				return w.endAsking()
			}
			err = w.flush([]byte(": keep-alive\n\n"))
		}
		tick.Reset(w.timing.KeepAlive)
		if len(w.asked) > 0 {
			tick.Reset(askWait)
		}
		if err != nil {
			return w.broken(err)
		}
	}
}

// endAsking ends the stream at a question to the user.
func (w *Writer) endAsking() error {
	if err := w.Write("", Chunk{Type: "finish-step"}, Chunk{Type: "finish", FinishReason: "tool-calls"}); err != nil {
		return err
	}
	return w.Done()
}

// broken tells a client that is still there why its stream ends early, and returns the error.
func (w *Writer) broken(err error) error {
	if w.begun && (errors.Is(err, chat.ErrReplayGone) || errors.Is(err, chat.ErrClosed)) {
		text := w.explain(err)
		return errors.Join(err, w.Write("", Chunk{Type: "error", ErrorText: &text}))
	}
	return err
}

// event writes the chunks of an event. The last one carries the id with which a client may resume.
// Without a turn's id, the client is made to forget the id of an earlier stream.
func (w *Writer) event(e chat.Event) error {
	chunks := w.chunksOf(e)
	switch {
	case len(chunks) == 0:
		return nil
	case w.turnID == "" && e.Type == chat.EventStart:
		if err := w.flush([]byte("id\n")); err != nil {
			return err
		}
		fallthrough
	case w.turnID == "":
		return w.Write("", chunks...)
	}
	return w.Write(w.turnID+":"+strconv.Itoa(e.Index), chunks...)
}

// Write sends chunks; the last one carries the id, if there is one.
func (w *Writer) Write(id string, chunks ...Chunk) error {
	var buf bytes.Buffer
	for i, c := range chunks {
		if id != "" && i == len(chunks)-1 {
			buf.WriteString("id: " + id + "\n")
		}
		data, err := json.Marshal(c)
		if err != nil {
			return fmt.Errorf("encode event: %w", err)
		}
		buf.WriteString("data: ")
		buf.Write(data)
		buf.WriteString("\n\n")
	}
	return w.flush(buf.Bytes())
}

// Done sends the mark that ends the stream.
func (w *Writer) Done() error { return w.flush([]byte("data: [DONE]\n\n")) }

// flush sends bytes at once, with the headers before the first ones.
func (w *Writer) flush(data []byte) error {
	rc := http.NewResponseController(w.out)
	_ = rc.SetWriteDeadline(time.Now().Add(w.timing.Write)) // not every ResponseWriter of a test has deadlines
	if !w.begun {
		w.begun = true
		h := w.out.Header()
		h.Set("Content-Type", MediaType)
		h.Set(Header, "v1")
		h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
		w.out.WriteHeader(http.StatusOK)
	}
	if _, err := w.out.Write(data); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("send event: %w", err)
	}
	return nil
}
