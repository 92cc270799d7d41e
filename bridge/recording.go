package bridge

import (
	"context"
	"fmt"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// RecordingState is whether a call is being recorded.
type RecordingState = session.RecordingState

// The states in which a client may put a recording.
const (
	RecordingOn     = session.RecordingOn
	RecordingPaused = session.RecordingPaused
)

// SetRecording pauses the recording of a live call, or goes on with it, on any instance. persistence.ErrNotFound means
// that the call does not exist or belongs to another owner, and CodeNotRecorded that it is not recorded.
func (c *Calls) SetRecording(ctx context.Context, owner, callID string, state RecordingState) error {
	if _, elsewhere, err := c.command(ctx, thread.Key{Owner: owner}, commandRecord,
		question{CallID: callID, Text: string(state)}); elsewhere || err != nil {
		return err
	}
	return c.setRecordingHere(ctx, owner, callID, state)
}

// setRecordingHere is SetRecording for a call of this process.
func (c *Calls) setRecordingHere(ctx context.Context, owner, callID string, state RecordingState) error {
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
