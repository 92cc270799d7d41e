package conductor

import (
	"context"
	"log/slog"
	"time"

	"voicebridge/chat"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

// textChat is what the sessions need of text turns; *chat.Door implements it.
type textChat interface {
	Say(ctx context.Context, req chat.TurnRequest, mode chat.Mode) (chat.Answer, error)
	Interrupt(ctx context.Context, key thread.Key) error
	KeepResult(ctx context.Context, key thread.Key, r chat.ToolResult) error
}

// Config is what [New] needs; all of it is required.
type Config struct {
	Chat textChat
	// Admit counts a text of the owner, or returns why it is refused.
	Admit func(ctx context.Context, owner string) error
	// Explain turns any error into one for the app.
	Explain func(error) *problem.Error
	Now     func() time.Time
	Logger  *slog.Logger
}
