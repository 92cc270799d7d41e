package chat

import (
	"strings"
	"time"

	"voicebridge/persistence/cluster"
)

// commands is the prefix of the kinds of this package's commands.
const commands = "turn."

// The kinds of commands between processes. What they are about is already in the database, where the turn finds it when
// it next looks; the command makes it look at once.
const (
	commandStop = commands + "stop" // answered when the turn is saved
	// commandYield is the exception: it is about the readers of the turn, which only its process knows.
	commandYield = commands + "yield"
)

// notifyTimeout is how long another instance may take to answer.
const notifyTimeout = 5 * time.Second

// IsCommand reports whether Coordinator.HandleCommand is for the command.
func IsCommand(c cluster.Command) bool { return strings.HasPrefix(c.Kind, commands) }
