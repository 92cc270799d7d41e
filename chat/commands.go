package chat

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"voicebridge/persistence"
)

// commands is the prefix of the kinds of this package's commands.
const commands = "turn."

// The kinds of commands between processes. What they are about is already in the database, where the turn finds it when
// it next renews its lease; the command makes it look at once.
const (
	commandStop = commands + "stop" // answered when the turn is saved
	commandLook = commands + "look" // an approval was decided
)

// notifyTimeout is how long another instance may take to answer.
const notifyTimeout = 5 * time.Second

// IsCommand reports whether Coordinator.HandleCommand is for the command.
func IsCommand(c persistence.Command) bool { return strings.HasPrefix(c.Kind, commands) }

// others are the other processes on this database.
type others struct {
	store *persistence.Store
	log   *slog.Logger
}

// notify makes the process that runs the thread's turn look at the database now. One that does not answer will do so
// later; if it is dead, its turn is closed.
func (o others) notify(ctx context.Context, key persistence.Key, kind string) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	turn, err := o.store.RunningTurn(ctx, key)
	if err != nil || turn.Instance == o.store.Instance() {
		return // it is over, or just beginning here
	}
	_, err = o.store.Ask(ctx, persistence.Command{Instance: turn.Instance, Key: key, Kind: kind})
	if errors.Is(err, persistence.ErrGone) {
		_, err = o.store.Recover(ctx)
	}
	if err != nil {
		o.log.Warn("process of the turn not notified", "kind", kind, "thread_id", key.Thread, "error", err)
	}
}
