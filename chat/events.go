package chat

import (
	"context"
	"encoding/json"
	"iter"
	"sync"
	"time"

	"voicebridge/persistence/records"
	"voicebridge/toolkit"
)

// Limits of what a turn keeps for its followers.
const (
	maxEvents     = 50_000
	maxEventBytes = 16 << 20
)

// EventType is the kind of an [Event].
type EventType string

// The kinds of events, in the order in which they occur in a turn. A step is one request to the
// model, with the resulting calls.
const (
	EventStart     EventType = "start"
	EventStepStart EventType = "step-start"
	EventTextStart EventType = "text-start" // of the block TextID
	EventTextDelta EventType = "text-delta"
	EventTextEnd   EventType = "text-end"
	// The model's reasoning, if its provider reports it, in blocks like text.
	EventReasoningStart EventType = "reasoning-start"
	EventReasoningDelta EventType = "reasoning-delta"
	EventReasoningEnd   EventType = "reasoning-end"
	EventToolInput      EventType = "tool-input"    // the model calls Call
	EventToolApproval   EventType = "tool-approval" // the user is asked whether Call may run
	EventToolDecided    EventType = "tool-decided"  // the user has answered that, or nobody will
	EventToolAsked      EventType = "tool-asked"    // the client must run Call now, and deliver its result
	EventToolProgress   EventType = "tool-progress" // of Call
	EventToolOutput     EventType = "tool-output"   // Call has its result, or an error
	EventStepFinish     EventType = "step-finish"
	// EventFinish is the last event, with Result.
	EventFinish EventType = "finish"
)

// Event is something that happened in a turn.
type Event struct {
	// Index counts from 0.
	Index int
	Type  EventType
	// MessageID is the assistant's message.
	MessageID string
	TextID    string
	Delta     string
	// Notice means that the text is not the model's: it says why the turn failed, as Result.Err
	// will.
	Notice bool
	Call   *EventCall
	Result *Result
}

// EventCall is a tool call, with what an event knows about it.
type EventCall struct {
	ID   string
	Name string
	// Dynamic means that its part is a dynamic-tool.
	Dynamic bool
	// Executor and Server are those of its tool, as far as this process runs the turn.
	Executor toolkit.Executor
	Server   string
	// Input is JSON, with secrets masked except in EventToolAsked, whose client needs them.
	// Arguments, there and in the EventToolInput of a client's tool, is the input as the model wrote it.
	Input     json.RawMessage
	Arguments string
	// Output is set on success, Error on failure, both only in EventToolOutput.
	Output json.RawMessage
	Error  string
	// Asks, in EventToolInput, means that an EventToolApproval follows, unless the call ends before.
	Asks bool
	// Nonce, in EventToolApproval, must be sent back with the decision; see [Decision].
	Nonce string
	// Approved and, unless the user decided, Reason are set in EventToolDecided.
	Approved bool
	Reason   string
	// Progress, in EventToolProgress.
	Message string
	Percent float64
	Data    json.RawMessage
}

func (e Event) size() int {
	n := len(e.Delta) + 100
	if e.Call != nil {
		n += len(e.Call.Input) + len(e.Call.Arguments) + len(e.Call.Output) + len(e.Call.Data)
	}
	return n
}

// eventLog keeps a turn's events for any number of readers.
type eventLog struct {
	mu     sync.Mutex
	events []Event
	first  int // the index of events[0]
	bytes  int
	ended  bool
	// more is closed when there is something new; nil while nobody is waiting.
	more chan struct{}
}

func (l *eventLog) add(e Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return
	}
	e.Index = l.first + len(l.events)
	l.events = append(l.events, e)
	l.bytes += e.size()
	for len(l.events) > maxEvents || l.bytes > maxEventBytes && len(l.events) > 1 {
		l.bytes -= l.events[0].size()
		l.events = l.events[1:]
		l.first++
	}
	l.ended = e.Type == EventFinish
	l.wake()
}

// end ends the log of a turn that never began.
func (l *eventLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ended = true
	l.wake()
}

// message returns the id of the message that the events are about; empty before the first one.
func (l *eventLog) message() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.events) == 0 {
		return ""
	}
	return l.events[len(l.events)-1].MessageID
}

// wake wakes those who wait for more. The mutex is held.
func (l *eventLog) wake() {
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
}

// from returns the events from an index on, or a channel to wait for.
func (l *eventLog) from(index int) (events []Event, more <-chan struct{}, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch end := l.first + len(l.events); {
	case index < l.first:
		return nil, nil, ErrReplayGone
	case index < end:
		return l.events[index-l.first : len(l.events) : len(l.events)], nil, nil
	case l.ended:
		return nil, nil, nil
	}
	if l.more == nil {
		l.more = make(chan struct{})
	}
	return nil, l.more, nil
}

// follow yields the events from an index on until the turn has ended.
func (l *eventLog) follow(ctx context.Context, index int) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for at := max(index, 0); ; {
			events, more, err := l.from(at)
			if err != nil {
				yield(Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
			if at += len(events); len(events) > 0 {
				continue
			}
			if more == nil {
				return
			}
			select {
			case <-more:
			case <-ctx.Done():
				yield(Event{}, context.Cause(ctx))
				return
			}
		}
	}
}

// Course is what a turn spent its time on.
type Course struct {
	Begun, Ended time.Time
	// FirstToken is the time until the first piece of the answer; 0 means never.
	FirstToken time.Duration
	Requests   []records.Response // to the model
}
