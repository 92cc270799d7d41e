package bridge

import (
	"context"
	"fmt"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// GiveUp ends a call of this process that another one takes over, or frees its thread as Free does.
// persistence.ErrNotFound means that another call holds the thread.
func (c *Calls) GiveUp(ctx context.Context, key thread.Key, callID string, takeover bool) error {
	if takeover {
		return endHere(ctx, c.holder(key, callID), EndTakenOver)
	}
	return c.freeAndSave(ctx, key)
}

// Hangup ends a call of this process, and returns when everything in it is saved; while the
// database is unavailable it waits up to 10 s for that. persistence.ErrNotFound means that the call
// does not exist or belongs to another owner.
func (c *Calls) Hangup(ctx context.Context, owner, callID string) error {
	return c.End(ctx, owner, callID, EndHangup)
}

// End is Hangup for another reason.
func (c *Calls) End(ctx context.Context, owner, callID string, reason EndReason) error {
	return endHere(ctx, c.ofOwner(owner, callID), reason)
}

// endHere ends a call of this process; nil means that there is none.
func endHere(ctx context.Context, live *call, reason EndReason) error {
	if live == nil {
		return fmt.Errorf("hang up call: %w", persistence.ErrNotFound)
	}
	live.stop(reason)
	select {
	case <-live.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("hang up call: %w", context.Cause(ctx))
	}
}

// RecordingState is whether a call is being recorded.
type RecordingState = session.RecordingState

// The states in which a client may put a recording.
const (
	RecordingOn     = session.RecordingOn
	RecordingPaused = session.RecordingPaused
)

// SetRecording pauses the recording of a call of this process, or goes on with it. persistence.ErrNotFound means
// that the call does not exist or belongs to another owner, and CodeNotRecorded that it is not recorded.
func (c *Calls) SetRecording(ctx context.Context, owner, callID string, state RecordingState) error {
	live := c.ofOwner(owner, callID)
	if live == nil {
		return fmt.Errorf("set recording: %w", persistence.ErrNotFound)
	}
	recorded := make(chan bool, 1)
	live.post(session.SetRecording{State: state, Recorded: recorded})
	select {
	case yes := <-recorded:
		if !yes {
			return &Error{Code: CodeNotRecorded, Message: "The call is not being recorded."}
		}
		return nil
	case <-live.quit:
		return fmt.Errorf("set recording: %w", persistence.ErrNotFound)
	case <-ctx.Done():
		return fmt.Errorf("set recording: %w", context.Cause(ctx))
	}
}
