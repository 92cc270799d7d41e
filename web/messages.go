package web

import (
	"context"
	"math"
	"net/http"
	"slices"

	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/web/input"
)

// messages serves the route about a thread's messages.
type messages struct{ store messageStore }

func (h *messages) routes(r router) { r.GET("/api/threads/:id/messages", onThread(h.list), r.user) }

// messageReader reads threads, their messages and images.
type messageReader interface {
	imageReader
	Message(ctx context.Context, key persistence.Key, id string) (persistence.Message, error)
}

// messageStore is what the routes about messages need of the store.
type messageStore interface {
	Message(ctx context.Context, key persistence.Key, id string) (persistence.Message, error)
	Messages(ctx context.Context, key persistence.Key, after int64, limit int) ([]persistence.Message, error)
	LastSeq(ctx context.Context, key persistence.Key) (int64, error)
}

type messagePage struct {
	Messages []persistence.Message `json:"messages"`
	// NextAfter is the number of the last message of the page, shown or not, from which to continue;
	// null if there was none.
	NextAfter *int64 `json:"next_after"`
}

func (h *messages) list(c echo.Context, key persistence.Key) error {
	after, err := input.Int(c, "after", 0, 0, math.MaxInt64)
	if err != nil {
		return err
	}
	limit, err := input.Int(c, "limit", 100, 1, 1000)
	if err != nil {
		return err
	}
	current, err := input.Bool(c, "current")
	if err != nil {
		return err
	}
	messages, err := h.store.Messages(c.Request().Context(), key, after, int(limit))
	if err != nil {
		return orThread(err)
	}
	page := messagePage{Messages: messages}
	if n := len(messages); n > 0 {
		page.NextAfter = new(messages[n-1].Seq)
	}
	if current {
		page.Messages = slices.DeleteFunc(messages, func(m persistence.Message) bool { return m.IsDiscarded() })
	}
	if page.Messages == nil {
		page.Messages = []persistence.Message{}
	}
	return c.JSON(http.StatusOK, page)
}
