package media

import (
	"context"
	"errors"
	"fmt"
)

// Errors that callers branch on.
var (
	// ErrTooLarge means that a message is larger than the remote accepts. The connection stays usable.
	ErrTooLarge = errors.New("message larger than the remote accepts")
	// ErrClosed means that the connection has ended.
	ErrClosed = errors.New("connection closed")
)

// SendWaiting sends an event by try, which returns false until there is room for it; room has a token each time that
// there may be. Errors: ErrTooLarge beyond limit bytes, ErrClosed when done is closed, or ctx's cause.
func SendWaiting(
	ctx context.Context, data []byte, limit int, try func([]byte) bool, room, done <-chan struct{},
) error {
	if len(data) > limit {
		return fmt.Errorf("send event: %w: %d bytes, limit %d", ErrTooLarge, len(data), limit)
	}
	for !try(data) {
		select {
		case <-room:
		case <-done:
			return fmt.Errorf("send event: %w", ErrClosed)
		case <-ctx.Done():
			return fmt.Errorf("send event: %w", context.Cause(ctx))
		}
	}
	return nil
}

// State is the state of a connection, as passed to Handlers.State.
type State int32

// The states of a connection. StateNew is never passed to Handlers.State.
const (
	// StateNew is before the first connection.
	StateNew State = iota
	// StateConnected means that audio can flow.
	StateConnected
	// StateDisconnected means that nothing has come for a while. StateConnected may follow.
	StateDisconnected
	// StateFailed means that the connection is lost, or that the remote broke the protocol. StateConnected follows only
	// if the transport can revive a connection, as WebRTC can.
	StateFailed
	// StateClosed is the last state, reported once, when the remote has closed the connection, or when Close has
	// joined everything.
	StateClosed
)

// String returns the state's name in lower case.
func (s State) String() string {
	switch s {
	case StateNew:
		return "new"
	case StateConnected:
		return "connected"
	case StateDisconnected:
		return "disconnected"
	case StateFailed:
		return "failed"
	case StateClosed:
		return "closed"
	default:
		return "unknown"
	}
}

// Step is a part of making a connection, as passed to Handlers.Reached.
type Step string

// The steps, each at its end, in their usual order. A transport may know some of them only.
const (
	StepOffer   Step = "offer"   // what the remote is asked with
	StepAnswer  Step = "answer"  // our answer to the remote, or the remote's
	StepICE     Step = "ice"     // a path was found
	StepDTLS    Step = "dtls"    // its keys were agreed on
	StepChannel Step = "channel" // events can be sent
)

// Handlers are called from the connection's goroutines, each kind in order. They must return at once and must not
// call Close. Any of them may be nil.
type Handlers struct {
	// Message takes one event, and owns the slice. It is never called after StateClosed was reported. While it runs,
	// the remote's next events wait.
	Message func(data []byte)
	// TooLarge is called in place of Message for an event above our limit, which was dropped. size is in bytes.
	TooLarge func(size int)
	// Open is called when events can be sent, before the first Message.
	Open func()
	// State is called with StateConnected, StateDisconnected, StateFailed and StateClosed.
	State func(State)
	// Reached is called with steps that are done. It is the only one that may be called several times at once.
	Reached func(Step)
}

// Reach calls Reached, if there is one.
func (h *Handlers) Reach(s Step) {
	if h.Reached != nil {
		h.Reached(s)
	}
}
