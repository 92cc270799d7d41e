package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
)

// Timings of a stream.
const (
	keepAlive   = 15 * time.Second // of silence, before a comment is sent: proxies cut silent connections
	streamWrite = 20 * time.Second // one write, before the client counts as gone
	// openSoon is how long the first event may take before the stream is opened
	// without it: until then a failure can be an ordinary answer.
	openSoon = 100 * time.Millisecond
)

// streamTiming holds the timings, which tests shorten.
type streamTiming struct{ keepAlive, write time.Duration }

const (
	typeEventStream = "text/event-stream"
	// headerUIStream names the protocol: the UI message stream of Vercel's AI SDK,
	// https://ai-sdk.dev/docs/ai-sdk-ui/stream-protocol.
	headerUIStream = "X-Vercel-Ai-Ui-Message-Stream"
)

// isStream reports whether the answer is a stream of events.
func isStream(c echo.Context) bool {
	if c.Request().Method == http.MethodGet && strings.HasSuffix(c.Path(), "/stream") {
		return true
	}
	for _, header := range c.Request().Header.Values(echo.HeaderAccept) {
		for accepted := range strings.SplitSeq(header, ",") {
			if t, _, err := mime.ParseMediaType(accepted); err == nil && t == typeEventStream {
				return true
			}
		}
	}
	return false
}

// chunk is one chunk of the UI message stream; its reader refuses keys that the
// chunk's type does not have.
type chunk struct {
	Type       string          `json:"type"`
	MessageID  string          `json:"messageId,omitempty"`
	Metadata   any             `json:"messageMetadata,omitempty"`
	ID         string          `json:"id,omitempty"`
	Delta      *string         `json:"delta,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	ToolName   string          `json:"toolName,omitempty"`
	Input      json.RawMessage `json:"input,omitempty"`
	Output     json.RawMessage `json:"output,omitempty"`
	ErrorText  *string         `json:"errorText,omitempty"`
	Dynamic    bool            `json:"dynamic,omitempty"`
	Data       any             `json:"data,omitempty"`
	Transient  bool            `json:"transient,omitempty"`
}

// progressData is the data of a data-tool-progress chunk.
type progressData struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Message    string          `json:"message,omitempty"`
	Percent    float64         `json:"percent,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// approvalData is the data of a data-tool-approval chunk: the question with its
// nonce, or what came of it.
type approvalData struct {
	ToolCallID string          `json:"toolCallId"`
	ToolName   string          `json:"toolName"`
	Input      json.RawMessage `json:"input,omitempty"`
	Nonce      string          `json:"nonce,omitempty"`
	Approved   *bool           `json:"approved,omitempty"`
	Reason     string          `json:"reason,omitempty"`
}

var null = json.RawMessage("null")

// chunksOf gives the chunks of one event of a turn; none for an event that is
// not for this client.
func chunksOf(e chat.Event) []chunk {
	switch e.Type {
	case chat.EventStart:
		return []chunk{{Type: "start", MessageID: e.MessageID}}
	case chat.EventStepStart:
		return []chunk{{Type: "start-step"}}
	case chat.EventTextStart:
		return []chunk{{Type: "text-start", ID: e.TextID}}
	case chat.EventTextDelta:
		return []chunk{{Type: "text-delta", ID: e.TextID, Delta: &e.Delta}}
	case chat.EventTextEnd:
		return []chunk{{Type: "text-end", ID: e.TextID}}
	case chat.EventToolInput:
		return []chunk{{Type: "tool-input-available", ToolCallID: e.Call.ID, ToolName: e.Call.Name, Input: orNull(e.Call.Input), Dynamic: e.Call.Dynamic}}
	case chat.EventToolApproval:
		d := approvalData{ToolCallID: e.Call.ID, ToolName: e.Call.Name, Input: orNull(e.Call.Input), Nonce: e.Call.Nonce}
		return []chunk{{Type: "data-tool-approval", ID: e.Call.ID, Data: d, Transient: true}}
	case chat.EventToolDecided:
		d := approvalData{ToolCallID: e.Call.ID, ToolName: e.Call.Name, Approved: &e.Call.Approved, Reason: e.Call.Reason}
		return []chunk{{Type: "data-tool-approval", ID: e.Call.ID, Data: d, Transient: true}}
	case chat.EventToolProgress:
		d := progressData{ToolCallID: e.Call.ID, ToolName: e.Call.Name, Message: e.Call.Message, Percent: e.Call.Percent, Data: e.Call.Data}
		return []chunk{{Type: "data-tool-progress", ID: e.Call.ID, Data: d, Transient: true}}
	case chat.EventToolOutput:
		if e.Call.Error != "" {
			return []chunk{{Type: "tool-output-error", ToolCallID: e.Call.ID, ErrorText: &e.Call.Error, Dynamic: e.Call.Dynamic}}
		}
		return []chunk{{Type: "tool-output-available", ToolCallID: e.Call.ID, Output: orNull(e.Call.Output), Dynamic: e.Call.Dynamic}}
	case chat.EventStepFinish:
		return []chunk{{Type: "finish-step"}}
	case chat.EventFinish:
		return lastChunks(e.Result)
	default:
		return nil
	}
}

// lastChunks end a stream. The metadata are those of the saved message, so that
// what was streamed equals what is read later.
func lastChunks(r *chat.Result) []chunk {
	var out []chunk
	switch {
	case r.Err != nil:
		text := classifyProvider(r.Err).Message
		out = append(out, chunk{Type: "error", ErrorText: &text})
	case r.Finish == chat.FinishInterrupted:
		out = append(out, chunk{Type: "abort"})
	}
	finish := chunk{Type: "finish"}
	if r.Message.Parts != nil {
		finish.Metadata = r.Message.Metadata
	}
	return append(out, finish)
}

func orNull(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return null
	}
	return raw
}

// resumeStream follows the turn that runs on a thread, from its beginning or
// from the event after a number. Without a number it is 204 when none runs; with
// one the rest of a turn that has just ended is told.
func (s *Server) resumeStream(c echo.Context) error {
	key, err := threadKey(c)
	if err != nil {
		return err
	}
	after, turnID, err := resumePoint(c)
	if err != nil {
		return err
	}
	if _, err := s.store.Thread(c.Request().Context(), key); err != nil {
		return orThread(err)
	}
	t := s.chat.Running(key)
	switch {
	case t == nil, turnID != "" && t.ID() != turnID, after < 0 && hasEnded(t):
		return c.NoContent(http.StatusNoContent)
	}
	return s.streamTurn(c, key, after, func() (*chat.Turn, error) { return t, nil })
}

func hasEnded(t *chat.Turn) bool {
	select {
	case <-t.Done():
		return true
	default:
		return false
	}
}

// resumePoint reads ?after=N, or the header with which a browser's EventSource
// connects again, whose value is an id that writeEvent gave.
func resumePoint(c echo.Context) (after int64, turnID string, err error) {
	last := c.Request().Header.Get("Last-Event-ID")
	if c.QueryParam("after") != "" || last == "" {
		after, err = queryInt(c, "after", -1, 0, math.MaxInt32)
		return after, "", err
	}
	turnID, number, ok := strings.Cut(last, ":")
	n, err := strconv.ParseInt(number, 10, 32)
	if !ok || err != nil || n < 0 || !validID(turnID, maxThreadID) {
		return 0, "", badRequest("invalid_value", "Last-Event-ID", "Last-Event-ID is not one that this server gave.")
	}
	return n, turnID, nil
}

// streamTurn follows a turn until it ends or the client goes away, which changes
// nothing for the turn. An error before the first event is an ordinary answer.
func (s *Server) streamTurn(c echo.Context, key persistence.Key, after int64, turn func() (*chat.Turn, error)) error {
	release, ok := s.limits.sockets.take(key.Owner)
	if !ok {
		return tooMany("too_many_sockets", "Too many sockets and streams are open. Close one first.", retryFull)
	}
	defer release()
	t, err := turn()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(c.Request().Context())
	defer cancel()
	w := &streamWriter{c: c, timing: s.streamTiming, turnID: t.ID()}
	err = w.follow(t.Events(ctx, int(after)+1), cancel)
	if err != nil && w.begun {
		s.log.Debug("stream ended early", "thread_id", key.Thread, "error", err, "request_id", requestID(c))
		return nil
	}
	return err
}

// streamSaid tells a client that wants a stream that its text went into a live
// call: a stream without a message, since the answer is spoken.
func (s *Server) streamSaid(c echo.Context, said saidAnswer) {
	w := &streamWriter{c: c, timing: s.streamTiming}
	err := w.write("", chunk{Type: "start"}, chunk{Type: "data-said", Data: said, Transient: true}, chunk{Type: "finish"})
	if err == nil {
		err = w.done()
	}
	if err != nil {
		s.log.Debug("stream ended early", "error", err, "request_id", requestID(c))
	}
}

// streamWriter writes server-sent events.
type streamWriter struct {
	c      echo.Context
	timing streamTiming
	turnID string
	begun  bool // the headers are sent
}

type eventOrError struct {
	event chat.Event
	err   error
}

// follow writes the events as they come, and comments while none come. It joins
// the goroutine that reads them; stop ends that.
func (w *streamWriter) follow(events iter.Seq2[chat.Event, error], stop func()) error {
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
	tick := time.NewTicker(min(openSoon, w.timing.keepAlive))
	defer tick.Stop()
	for {
		var err error
		select {
		case n, ok := <-next:
			if !ok {
				return w.done()
			}
			if err = n.err; err == nil {
				err = w.event(n.event)
			}
		case <-tick.C:
			err = w.flush([]byte(": keep-alive\n\n"))
		}
		tick.Reset(w.timing.keepAlive)
		if err != nil {
			return w.broken(err)
		}
	}
}

// broken tells a client that is still there why its stream ends early.
func (w *streamWriter) broken(err error) error {
	if w.begun && errors.Is(err, chat.ErrReplayGone) {
		text := classify(err).Message
		return errors.Join(err, w.write("", chunk{Type: "error", ErrorText: &text}))
	}
	return err
}

// event writes the chunks of an event. The id that a client may come back with
// stands at the last of them.
func (w *streamWriter) event(e chat.Event) error {
	chunks := chunksOf(e)
	if len(chunks) == 0 {
		return nil
	}
	return w.write(w.turnID+":"+strconv.Itoa(e.Index), chunks...)
}

func (w *streamWriter) write(id string, chunks ...chunk) error {
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

// done ends the stream as its readers expect it.
func (w *streamWriter) done() error { return w.flush([]byte("data: [DONE]\n\n")) }

// flush sends bytes at once, with the headers before the first ones.
func (w *streamWriter) flush(data []byte) error {
	response := w.c.Response()
	rc := http.NewResponseController(response)
	_ = rc.SetWriteDeadline(time.Now().Add(w.timing.write)) // not every ResponseWriter of a test has deadlines
	if !w.begun {
		w.begun = true
		h := response.Header()
		h.Set(echo.HeaderContentType, typeEventStream)
		h.Set(headerUIStream, "v1")
		h.Set("X-Accel-Buffering", "no") // nginx would hold the events back
		response.WriteHeader(http.StatusOK)
	}
	if _, err := response.Write(data); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	if err := rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return fmt.Errorf("send event: %w", err)
	}
	return nil
}
