package writer

import (
	"context"
	"fmt"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/thread"
)

// Committer saves the changes of calls, in the database or, while that is unavailable, where they
// outlive this process; *spool.Writer implements it.
type Committer interface {
	Commit(ctx context.Context, key thread.Key, changes []persistence.Change) (spool.Result, error)
	// Full reports whether no more changes can wait.
	Full() bool
	// Pending returns how many changes are waiting for the database.
	Pending() int
}

// To returns the Log of a thread, which writes through c or, if that is nil, directly to the store.
func To(store *persistence.Store, key thread.Key, c Committer) Log {
	if c == nil {
		c = spool.Direct{Store: store}
	}
	return threadLog{key, c}
}

// threadLog is the Log of one thread.
type threadLog struct {
	key    thread.Key
	writer Committer
}

func (l threadLog) Commit(ctx context.Context, changes []session.Change) ([]thread.Message, error) {
	var puts []persistence.Change
	for _, c := range changes {
		puts = append(puts, putOf(c))
		if tool, ok := c.(session.SaveTool); ok && tool.Approval != nil {
			puts = append(puts, persistence.PutApproval{Approval: *tool.Approval})
		}
	}
	result, err := l.writer.Commit(ctx, l.key, puts)
	if err != nil {
		return nil, fmt.Errorf("save changes: %w", err)
	}
	return result.Messages, nil // those that had to wait are passed to SavedLater
}

// putOf returns a change as data for the database.
func putOf(c session.Change) persistence.Change {
	switch c := c.(type) {
	case session.SaveMessage:
		return persistence.PutMessage{Message: c.Message, Place: c.Place, Queued: c.Queued}
	case session.SaveDraft:
		return persistence.PutDraft{Draft: c.Draft}
	case session.SaveTool:
		return persistence.PutToolCall{ToolCall: c.Call}
	case session.SaveResponse:
		return persistence.PutResponse{Response: c.Response}
	case session.SaveCall:
		return persistence.PutCall{Call: c.Call}
	case SaveLeg:
		return persistence.PutLeg{Leg: c.Leg}
	}
	return nil
}

// SaveLeg writes the record of an upstream session.
type SaveLeg struct{ Leg persistence.UpstreamLeg }

func (c SaveLeg) Key() string { return fmt.Sprintf("leg %d", c.Leg.Generation) }

func (SaveLeg) Size() int { return 512 }
