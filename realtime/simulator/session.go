package simulator

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"voicebridge/realtime"
	"voicebridge/realtime/media"
	"voicebridge/realtime/served"
)

// Reasons why a session ends, as returned by Session.Err.
var (
	ErrExpired = served.ErrExpired
	ErrDropped = errors.New("connection dropped on purpose")
	ErrHungUp  = errors.New("call hung up")
	ErrStopped = errors.New("simulator stopped")
)

// Session is one call: what it is, what was said in it, and what goes wrong in it on purpose. Its exported methods are
// safe for concurrent use, but for Emit and After.
type Session struct {
	*served.Session

	id       string
	number   int // among the server's sessions, from 1; the server's mutex guards it
	log      *slog.Logger
	faults   Faults
	sound    media.Sink                 // takes the caller's audio
	peer     atomic.Pointer[Connection] // nil once the session has ended
	received record
	sent     record
	done     chan struct{}
	err      error        // valid when done is closed
	early    atomic.Int64 // packets before the first session.update; -1 until then
	played   atomic.Int64 // packets
	silent   atomic.Bool  // nothing more is sent

	refused, rejected int // updates and items on purpose
	// items are events about the user's item that come after the assistant's, words those of the transcript of an
	// utterance that come after the next one's.
	items, words []realtime.Event
}

// ID returns the call's id as in Location.
func (s *Session) ID() string { return s.id }

// Done is closed when the session has ended and all its goroutines are joined.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns why the session ended, nil while it is running.
func (s *Session) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Received returns every client event in order, with its time and the code of the error that
// answered it. Of more than 4096 events the oldest are dropped.
func (s *Session) Received() []Record { return s.received.all() }

// Sent returns every event that was sent, like Received.
func (s *Session) Sent() []Record { return s.sent.all() }

// WaitFor waits for a client event that match accepts, past or future. Errors: the context's,
// ErrSessionEnded.
func (s *Session) WaitFor(ctx context.Context, match func(realtime.Event) bool) (realtime.Event, error) {
	return s.received.wait(ctx, match)
}

// WaitForSent is WaitFor for the events that the session sends.
func (s *Session) WaitForSent(ctx context.Context, match func(realtime.Event) bool) (realtime.Event, error) {
	return s.sent.wait(ctx, match)
}

// AudioPackets returns how many RTP packets came from the caller.
func (s *Session) AudioPackets() int64 { return s.Heard() }

// PacketsBeforeUpdate returns how many RTP packets had come from the caller when the first session.update was accepted;
// if none was, how many have come so far.
func (s *Session) PacketsBeforeUpdate() int64 {
	if n := s.early.Load(); n >= 0 {
		return n
	}
	return s.AudioPackets()
}

// PacketsPlayed returns how many RTP packets were sent to the caller.
func (s *Session) PacketsPlayed() int64 { return s.played.Load() }

// Drop ends the session without an event.
func (s *Session) Drop() { s.End(ErrDropped) }

// silence stops sending events and audio, after those that wait; the connection stays.
func (s *Session) silence() { s.Do(func() { s.Emit(object{"type": silent}) }) }

// silent is an event that is not sent: nothing is after it.
const silent = "simulator.silent"

// Inject sends bytes as if they were an event, whatever they are.
func (s *Session) Inject(raw []byte) { s.Do(func() { _ = s.send(context.Background(), raw) }) }

// WriteAudio implements media.Sink: it sends a packet to the caller, in addition to what the Script says. It may be
// called on any goroutine.
func (s *Session) WriteAudio(packet *media.Packet) error {
	if peer := s.peer.Load(); peer != nil {
		return (*peer).WriteAudio(packet)
	}
	return media.ErrClosed
}

// run owns the session until it ends.
func (s *Session) run(ctx context.Context) {
	defer close(s.done)
	s.err = s.Run(ctx, line{s})
	peer := *s.peer.Load()
	if k, ok := peer.(*socket); ok {
		k.expired, k.dropped = errors.Is(s.err, ErrExpired), errors.Is(s.err, ErrDropped)
	}
	if err := peer.Close(); err != nil {
		s.log.Warn("peer did not close", "error", err)
	}
	s.peer.Store(nil) // ended sessions are kept
	s.received.end()
	s.sent.end()
	s.log.Info("session ended", "reason", s.err)
}

// open starts the session, and what will go wrong in it by the clock.
func (s *Session) open() {
	s.Open()
	s.Do(func() {
		for _, fault := range []struct {
			after Duration
			do    func()
		}{{s.faults.ExpireAfter, s.Expire}, {s.faults.DropAfter, s.Drop}, {s.faults.SilenceAfter, s.silence}} {
			if fault.after > 0 {
				s.After(time.Duration(fault.after), fault.do)
			}
		}
	})
}

// handle records an event of the client, and refuses some on purpose.
func (s *Session) handle(e realtime.Event, handle func() *realtime.Error) (refusal *realtime.Error) {
	number := s.received.add(e)
	switch {
	case e.Type == realtime.TypeSessionUpdate && s.refused < s.faults.RejectSessionUpdate:
		s.refused++
		refusal = refuse("invalid_value", "session", "The update was refused on purpose.")
	case e.Type == realtime.TypeItemCreate && s.rejected < s.faults.RejectItems:
		s.rejected++
		refusal = refuse("invalid_value", "item", "The item was refused on purpose.")
	default:
		refusal = handle()
	}
	if refusal != nil {
		s.received.refuse(number, refusal.Code)
	}
	return refusal
}

// line is the connection as the session sees it: the faults are between it and the client.
type line struct{ *Session }

func (l line) Done() <-chan struct{} { return (*l.peer.Load()).Done() }

func (l line) Forward(ctx context.Context, dst media.Sink, flow *media.Flow) error {
	return (*l.peer.Load()).Forward(ctx, cmp.Or(l.sound, dst), flow)
}

func (l line) WriteAudio(packet *media.Packet) error {
	if l.silent.Load() {
		return nil
	}
	l.played.Add(1)
	return l.Session.WriteAudio(packet)
}

// duplicated are the events that the fault DuplicateEvents sends twice.
var duplicated = map[string]bool{
	realtime.TypeItemAdded: true, realtime.TypeItemDone: true, realtime.TypeInputCommitted: true,
	realtime.TypeOutputItemDone: true, realtime.TypeTranscriptionCompleted: true, realtime.TypeResponseDone: true,
}

func (l line) Send(ctx context.Context, data []byte) error {
	e, _ := realtime.Decode(data) // the session's own
	switch e.Type {
	case silent:
		l.silent.Store(true)
		return nil
	case realtime.TypeSessionUpdated:
		l.early.CompareAndSwap(-1, l.Heard())
		if l.faults.MuteUpdates {
			return nil
		}
	case realtime.TypeResponseCreated:
		l.injectOddities(ctx)
	case realtime.TypeItemAdded, realtime.TypeItemDone:
		if l.faults.ItemsOutOfOrder && bytes.Contains(e.Item, []byte(`"`+realtime.ContentInputAudio+`"`)) {
			l.items = append(l.items, e)
			return nil
		}
	case realtime.TypeTranscriptionDelta, realtime.TypeTranscriptionCompleted:
		switch l.faults.Transcripts {
		case TranscriptNever:
			return nil
		case TranscriptReversed:
			if len(l.words) == 0 || l.words[0].ItemID == e.ItemID {
				l.words = append(l.words, e)
				return nil
			}
		}
	}
	err := l.twice(ctx, e)
	switch e.Type {
	case realtime.TypeSessionCreated:
		if l.faults.ConversationEvent {
			err = errors.Join(err, l.sendOwn(ctx, object{
				"type":         realtime.TypeConversationCreated,
				"conversation": object{"id": l.Conversation(), "object": "realtime.conversation"},
			}))
		}
	case realtime.TypeItemAdded, realtime.TypeResponseDone:
		err = errors.Join(err, l.twice(ctx, l.items...))
		l.items = nil
	case realtime.TypeTranscriptionCompleted:
		err = errors.Join(err, l.twice(ctx, l.words...))
		l.words = nil
	}
	return err
}

// twice sends events, some of them twice.
func (l line) twice(ctx context.Context, events ...realtime.Event) (err error) {
	for _, e := range events {
		err = errors.Join(err, l.send(ctx, e.Raw))
		if l.faults.DuplicateEvents && duplicated[e.Type] {
			err = errors.Join(err, l.send(ctx, e.Raw))
		}
	}
	return err
}

// send records what is sent, first: whoever waits for an event that was sent may at once check what the client made of
// it.
func (s *Session) send(ctx context.Context, data []byte) error {
	peer := s.peer.Load()
	if s.silent.Load() || peer == nil {
		return nil
	}
	if e, err := realtime.Decode(data); err == nil {
		s.sent.add(e)
	} else {
		s.sent.add(realtime.Event{Raw: data})
	}
	return (*peer).Send(ctx, data)
}

// sendOwn sends an event that is not the session's.
func (l line) sendOwn(ctx context.Context, o object) error {
	o["event_id"] = newID("event_")
	return l.send(ctx, realtime.Encode(o))
}

// injectOddities sends the events that the faults ask for before a response.
func (l line) injectOddities(ctx context.Context) {
	if l.faults.InjectUnknown {
		_ = l.sendOwn(ctx, object{ // a connection that is gone says so
			"type": "response.hologram.delta", "response_id": newID("resp_"), "frames": []any{1, object{"a": nil}},
		})
	}
	if !l.faults.InjectMalformed {
		return
	}
	for _, raw := range []string{
		`this is not JSON`, `[]`, `{"event_id":"event_no_type"}`, `{"type":7}`,
		`{"type":"conversation.item.added","event_id":"event_bad_item","item":"no object"}`,
		`{"type":"response.done","event_id":"event_bad_response","response":[1,2]}`,
		`{"type":"conversation.item.done","event_id":"event_null_item","item":null}`,
		`{"type":"error","error":{"code":null,"message":null}}`,
	} {
		_ = l.send(ctx, []byte(raw))
	}
}
