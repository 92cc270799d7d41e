package chat

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"voicebridge/persistence"
)

// commands is how the kinds of this package's commands begin.
const commands = "turn."

// What instances ask each other for. Both are in the database already, where the turn finds
// them when it next renews its lease: the command has it look at once.
const (
	commandStop = commands + "stop" // answered when the turn is saved
	commandLook = commands + "look" // a question has its answer
)

// tellTimeout is how long another instance may take to answer.
const tellTimeout = 5 * time.Second

// IsCommand says whether Coordinator.HandleCommand is for the command.
func IsCommand(c persistence.Command) bool { return strings.HasPrefix(c.Kind, commands) }

// others are the other processes on this database.
type others struct {
	store *persistence.Store
	log   *slog.Logger
}

// tell has the instance that runs the thread's turn do something now. One that does not
// answer does it later, and one that is dead has its turn closed.
func (o others) tell(ctx context.Context, key persistence.Key, kind string) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
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
		o.log.Warn("another process was not told of its turn", "kind", kind, "thread_id", key.Thread, "error", err)
	}
}
