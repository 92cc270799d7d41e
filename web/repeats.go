package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"voicebridge/chat"
	"voicebridge/persistence"
	"voicebridge/thread"
	"voicebridge/web/problem"
)

// headerIdempotencyKey names a request, so that it can be sent again when its answer was lost.
const headerIdempotencyKey = "Idempotency-Key"

var errKeyUsed = &problem.Error{
	Status: http.StatusConflict, Code: "idempotency_key_used", Param: "idempotency_key",
	Message: "The idempotency key belongs to another message of this thread.",
}

// idempotencyKey returns the key of a request, from its body or the header; empty for none.
func idempotencyKey(c echo.Context, inBody string) (string, error) {
	key := cmp.Or(inBody, c.Request().Header.Get(headerIdempotencyKey))
	if len(key) > thread.MaxIDBytes {
		return "", problem.BadRequest("invalid_value", "idempotency_key", "The idempotency key is too long.")
	}
	return key, nil
}

// messageID returns the id of the message of a request with an idempotency key; empty without one.
func messageID(thread, key string) string {
	if key == "" {
		return ""
	}
	return persistence.OnceID(thread, key)
}

// repeats recognises requests that were sent before.
type repeats struct {
	chat interface {
		Running(key thread.Key) *chat.Turn
		Answer(ctx context.Context, key thread.Key, asked thread.Message) (*chat.Turn, *chat.Followed, error)
	}
	store interface {
		Message(ctx context.Context, key thread.Key, id string) (thread.Message, error)
	}
}

// find returns the message of a request, if the thread has it already, and what answers it, also while that runs.
// answer is nil for a message in a call, and if there is none, or it has failed.
func (r repeats) find(ctx context.Context, req chat.TurnRequest) (asked *thread.Message, answer anyTurn, err error) {
	if req.MessageID == "" {
		return nil, nil, nil
	}
	m, err := r.store.Message(ctx, req.Key, req.MessageID)
	switch {
	case errors.Is(err, persistence.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	case !saysTheSame(m, req):
		return nil, nil, errKeyUsed
	case m.Metadata.CallID != "":
		return &m, nil, nil
	}
	turn, saved, err := r.chat.Answer(ctx, req.Key, m)
	switch {
	case turn != nil:
		return &m, turn, nil
	case saved != nil:
		return &m, saved, nil
	}
	return &m, nil, err
}

// mayHave reports whether the thread may have the message of a request whose turn could not begin: the same request may
// just have arrived. A turn that is being prepared here has then saved its message, or could not begin either.
func (r repeats) mayHave(ctx context.Context, req chat.TurnRequest, err error) bool {
	if req.MessageID == "" || !errors.Is(err, chat.ErrBusy) && !errors.Is(err, persistence.ErrConflict) {
		return false
	}
	if t := r.chat.Running(req.Key); t != nil {
		t.Begins(ctx)
	}
	return true
}

// saysTheSame reports whether a saved message has the words of a request, and as many images; without either, what counts
// are the words of its last instruction. Saved words have no NUL.
func saysTheSame(saved thread.Message, req chat.TurnRequest) bool {
	images := 0
	for _, p := range saved.Parts {
		if p.Type == "file" {
			images++
		}
	}
	words, given := req.Text, len(req.Images)+len(req.ImageIDs)
	if n := len(req.Instructions); n > 0 && words == "" && given == 0 {
		words = req.Instructions[n-1]
	}
	words = strings.ReplaceAll(words, "\x00", "")
	return strings.TrimSpace(saved.Text()) == strings.TrimSpace(words) && images == given
}
