package chat

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"time"

	"voicebridge/thread"
	"voicebridge/toolkit"
)

// observerTimeout is how long observers may take.
const observerTimeout = 30 * time.Second

// Turn is one input of a user and everything the assistant does to answer it. It is safe for
// concurrent use.
type Turn struct {
	cfg    *Config
	req    TurnRequest
	id     string
	log    *slog.Logger
	begun  time.Time
	ending context.Context // of the coordinator: done when the server stops
	fitted *fitted

	ctx     context.Context // of the turn, not of the request that began it
	stop    context.CancelCauseFunc
	done    chan struct{}
	events  eventLog
	client  *client
	user    thread.Message
	message string // the id of the assistant's

	readers readers

	result  Result    // read after done
	endedAt time.Time // guarded by Coordinator.mu

	// The rest belongs to run.

	ended   time.Time
	side    sync.WaitGroup // goroutines that run starts
	draft   *draft
	saver   *saver
	steps   *steps
	tools   *tools
	prompt  *prompt
	note    string   // the context of this turn
	settled []string // ids of queued messages
}

// ID is the turn's id.
func (t *Turn) ID() string { return t.id }

// MessageID is the id of the assistant's message.
func (t *Turn) MessageID() string { return t.message }

// neverBegan ends a turn that could not begin, for those who found it while it was being prepared:
// there are no events, and the result is empty.
func (t *Turn) neverBegan() {
	t.events.end()
	close(t.done)
}

// Begins waits until the turn, which may still be prepared, has begun, and reports whether it has.
func (t *Turn) Begins(ctx context.Context) bool {
	for _, err := range t.Events(ctx, 0) {
		return err == nil || errors.Is(err, ErrReplayGone)
	}
	return false
}

// User is the saved user's message; zero if there is none, or if it was saved before.
func (t *Turn) User() thread.Message { return t.user }

// Done is closed when the turn has ended and is saved or, while the database is unavailable, when its end is announced;
// also when it could not begin.
func (t *Turn) Done() <-chan struct{} { return t.done }

// Ended reports whether Done is closed.
func (t *Turn) Ended() bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// Interrupt ends the turn; the text so far is kept.
func (t *Turn) Interrupt() { t.stop(errInterrupted) }

// yieldWait is how long a turn that is to give way may take to notice that its readers are gone.
const yieldWait = 3 * time.Second

// readers counts those who read a turn as it comes.
type readers struct {
	mu      sync.Mutex
	n       int
	lost    bool      // the last one has gone without having read to the end
	yieldBy time.Time // until then, the turn ends if that happens
}

// Join counts a reader of the turn. The reader must call leave, once; lost means that it has gone without having read
// to the end.
func (t *Turn) Join() (leave func(lost bool)) {
	r := &t.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n, r.lost = r.n+1, false
	return func(lost bool) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.n--
		if r.lost = lost && r.n == 0; r.lost && time.Now().Before(r.yieldBy) {
			t.Interrupt()
		}
	}
}

// yield ends the turn if its readers are gone, now or in a moment.
func (t *Turn) yield() {
	r := &t.readers
	r.mu.Lock()
	defer r.mu.Unlock()
	r.yieldBy = time.Now().Add(yieldWait)
	if r.lost {
		t.Interrupt()
	}
}

// turnEvent is the data of turn_started and turn_finished.
type turnEvent struct {
	TurnID    string        `json:"turn_id"`
	MessageID string        `json:"message_id"`
	Status    thread.Status `json:"status,omitempty"`
}

// event returns the data of what is told about the turn.
func (t *Turn) event() json.RawMessage {
	return toolkit.Encode(turnEvent{t.id, t.message, t.result.Status})
}

// Wait waits for the end of the turn. The error is that of ctx.
func (t *Turn) Wait(ctx context.Context) (Result, error) {
	select {
	case <-t.done:
		return t.result, nil
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
}

// Events yields the events of the turn, starting at that index and ending after EventFinish. Any
// number of readers may follow a turn, even after its end; none slows it down. The error is that of
// ctx, or ErrReplayGone if the turn was so long that its beginning is no longer kept.
func (t *Turn) Events(ctx context.Context, from int) iter.Seq2[Event, error] {
	return t.events.follow(ctx, from)
}

// Deliver delivers the result of a call that the turn is waiting for, or has given up: such a late result is saved at
// the end of the turn, for later ones. The errors are a [CallError] with ErrUnknownCall (never made, or the turn has
// ended: see [Coordinator.KeepResult]) or ErrAnswered, and ErrTooLarge, with which a call that was waiting has then
// failed.
func (t *Turn) Deliver(r ToolResult) error { return t.client.deliver(r) }

// Waiting lists the calls that are waiting for the client now, oldest first.
func (t *Turn) Waiting() []EventCall { return t.client.waiting() }

// requestTool reports to the turn's followers that the client must run a tool.
func (t *Turn) requestTool(call *EventCall) {
	t.events.add(Event{Type: EventToolAsked, MessageID: t.message, Call: call})
}
