package chat

import (
	"context"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/spool"
	"voicebridge/thread"
)

// saver has a turn's changes saved, in their order and in the background: a slow database delays neither the model's
// text nor a tool. It belongs to the turn's goroutine.
type saver struct {
	stop   context.CancelCauseFunc
	writer *spool.Writer
	key    thread.Key
	saves  []Interval // for which the turn has waited
}

// put saves changes soon.
func (s *saver) put(changes ...persistence.Change) {
	if !s.writer.Push(s.key, changes...) {
		s.stop(errNoRoom)
	}
}

// maxSaves is how many waits the report of a turn lists.
const maxSaves = 64

// flush waits until everything is safe, in the database or in the writer's file: a tool does not run before its call is
// on record.
func (s *saver) flush(ctx context.Context) error {
	began := time.Now()
	err := s.writer.Await(ctx, s.key)
	if len(s.saves) < maxSaves {
		s.saves = append(s.saves, Interval{began, time.Now()})
	}
	return err
}
