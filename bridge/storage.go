package bridge

import (
	"context"
	"fmt"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/persistence/spool"
)

// committer saves what calls say, in the database or, while that is away, where it
// outlives this process; *spool.Writer is one.
type committer interface {
	Commit(ctx context.Context, key persistence.Key, changes []persistence.Change) (spool.Result, error)
	// Full says that no more can wait.
	Full() bool
}

// log is where a call writes its thread.
func (c *Calls) threadLog(key persistence.Key) threadLog {
	direct := storeLog{c.cfg.Store, key}
	if c.cfg.Writer == nil {
		return direct
	}
	return spoolLog{direct, c.cfg.Writer}
}

// spoolLog is the threadLog of a committer.
type spoolLog struct {
	storeLog
	writer committer
}

func (l spoolLog) commit(ctx context.Context, changes []session.Change) ([]persistence.Message, error) {
	var puts []persistence.Change
	for _, c := range changes {
		put := putOf(c)
		if put == nil {
			return l.storeLog.commit(ctx, changes) // it belongs to a transaction of somebody else
		}
		puts = append(puts, put)
		if tool, ok := c.(session.SaveTool); ok && tool.Approval != nil {
			puts = append(puts, persistence.PutApproval{Approval: *tool.Approval})
		}
	}
	result, err := l.writer.Commit(ctx, l.key, puts)
	if err != nil {
		return nil, fmt.Errorf("save changes: %w", err)
	}
	return result.Messages, nil // of those in the file SavedLater is told
}

// putOf is a change as data, nil for one that is more than that.
func putOf(c session.Change) persistence.Change {
	switch c := c.(type) {
	case session.SaveMessage:
		if c.With != nil {
			return nil
		}
		how := map[session.Placing]persistence.Placing{
			session.PlaceKept: persistence.PlaceKept, session.PlaceLast: persistence.PlaceLast, session.PlaceAfter: persistence.PlaceAfter,
		}[c.Place.How]
		return persistence.PutMessage{Message: c.Message, Place: persistence.Place{How: how, After: c.Place.After}}
	case session.SaveTool:
		return persistence.PutToolCall{ToolCall: c.Call}
	case session.SaveResponse:
		return persistence.PutResponse{Response: c.Response}
	case session.SaveCall:
		return persistence.PutCall{Call: c.Call}
	case saveLeg:
		return persistence.PutLeg{Leg: c.leg}
	}
	return nil
}

// SavedLater is told of messages that have waited and are in the database now.
func (c *Calls) SavedLater(key persistence.Key, messages []persistence.Message) {
	if live := c.find(key); live != nil {
		for _, m := range messages {
			live.saved(m)
		}
	}
}

// StorageDelayed is told how many changes wait for the database, and of 0 when none
// does any more. The callers of all live calls hear of it.
func (c *Calls) StorageDelayed(pending int) {
	for _, live := range c.all() {
		live.offer(session.StorageDelayed{Pending: pending})
	}
}

var errStorageFull = &Error{Code: CodeStorageFull, Message: "The database cannot be reached, and no more changes can wait for it. Try again later."}
