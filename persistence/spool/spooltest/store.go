// Package spooltest provides a database for a spool.Writer that fails on demand.
package spooltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"voicebridge/persistence"
)

// Store returns the errors in Errs, then records what is saved.
type Store struct {
	mu      sync.Mutex
	Errs    []error    // results of the next transactions
	Commits [][]string // the changes of each transaction, as lines
	Saved   []string   // the lines of all transactions
}

// Instance is the id of the process.
func (*Store) Instance() string { return "test" }

// ApplyAll is one transaction.
func (s *Store) ApplyAll(_ context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.Errs) > 0 {
		err := s.Errs[0]
		s.Errs = s.Errs[1:]
		return nil, err
	}
	var lines []string
	applied := make([]persistence.Applied, len(groups))
	for i, g := range groups {
		for _, c := range g.Changes {
			lines = append(lines, show(c))
			if m, ok := c.(persistence.PutMessage); ok {
				applied[i].Messages = append(applied[i].Messages, m.Message)
			}
		}
	}
	s.Commits = append(s.Commits, lines)
	s.Saved = append(s.Saved, lines...)
	return applied, nil
}

// Away makes all transactions fail, until it is called with false.
func (s *Store) Away(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Errs = nil
	if away {
		s.Errs = slices.Repeat([]error{errors.New("database is away")}, 10_000)
	}
}

// show returns a change as one line.
func show(c persistence.Change) string {
	switch c := c.(type) {
	case persistence.PutMessage:
		m := c.Message
		parts, err := json.Marshal(m.Parts)
		if err != nil {
			return err.Error()
		}
		how := map[persistence.Placing]string{persistence.PlaceLast: " last", persistence.PlaceAfter: fmt.Sprintf(" after %q", c.Place.After)}[c.Place.How]
		return fmt.Sprintf("message %s %s %s %s%s %s", m.ID, m.Role, m.Metadata.Source, m.Metadata.Status, how, parts)
	case persistence.PutDraft:
		return fmt.Sprintf("draft %s %d %q", c.MessageID, c.Start, c.Text)
	case persistence.PutToolCall:
		return fmt.Sprintf("tool %s %s %s %s", c.ToolCall.ToolCallID, c.ToolCall.Name, c.ToolCall.Executor, c.ToolCall.Status)
	case persistence.PutCall:
		return fmt.Sprintf("call ended=%t %s", c.Call.EndedAt != nil, c.Call.EndReason)
	}
	kind, id := c.Subject()
	return kind + " " + id
}
