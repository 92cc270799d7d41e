// Package writertest provides a writer.Log that fails on demand.
package writertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"voicebridge/bridge/internal/session"
	"voicebridge/persistence"
	"voicebridge/thread"
)

// Log returns the errors in Errs, then records what is saved.
type Log struct {
	mu      sync.Mutex
	Errs    []error    // results of the next commits
	Commits [][]string // one line per change
	Saved   []string   // the lines of all commits
}

func (l *Log) Commit(_ context.Context, ops []session.Change) ([]thread.Message, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.Errs) > 0 {
		err := l.Errs[0]
		l.Errs = l.Errs[1:]
		return nil, err
	}
	var keys []string
	var saved []thread.Message
	for _, o := range ops {
		keys = append(keys, show(o))
		if m, ok := o.(session.SaveMessage); ok {
			saved = append(saved, m.Message)
		}
	}
	l.Commits = append(l.Commits, keys)
	l.Saved = append(l.Saved, keys...)
	return saved, nil
}

// Away makes all commits fail, until it is called with false.
func (l *Log) Away(away bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Errs = nil
	if away {
		l.Errs = slices.Repeat([]error{errors.New("database is away")}, 10_000)
	}
}

// show returns a change as one line.
func show(c session.Change) string {
	switch c := c.(type) {
	case session.SaveMessage:
		m := c.Message
		parts, err := json.Marshal(m.Parts)
		if err != nil {
			return err.Error()
		}
		how := map[persistence.Placing]string{persistence.PlaceLast: " last", persistence.PlaceAfter: fmt.Sprintf(" after %q", c.Place.After)}[c.Place.How]
		return fmt.Sprintf("message %s %s %s %s%s %s", m.ID, m.Role, m.Metadata.Source, m.Metadata.Status, how, parts)
	case session.SaveDraft:
		return fmt.Sprintf("draft %s %d %q", c.MessageID, c.Start, c.Text)
	case session.SaveTool:
		return fmt.Sprintf("tool %s %s %s %s", c.Call.ToolCallID, c.Call.Name, c.Call.Executor, c.Call.Status)
	case session.SaveCall:
		return fmt.Sprintf("call ended=%t %s", c.Call.EndedAt != nil, c.Call.EndReason)
	}
	return c.Key()
}
