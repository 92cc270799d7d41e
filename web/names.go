package web

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"voicebridge/persistence"
	"voicebridge/thread"
)

// names finds the threads whose ids apps have chosen. Two owners may choose the same id: the thread of the first has it,
// that of the second has one which is made of it. So neither keeps the other from their own.
type names struct {
	store interface {
		Thread(ctx context.Context, key thread.Key) (persistence.Thread, error)
	}
}

// ownKey returns the key that an owner's thread has if its id is another's already: with a ~, which ids that are chosen
// do not have. The server's own ids are never taken.
func ownKey(key thread.Key) thread.Key {
	if _, err := uuid.Parse(key.Thread); err == nil {
		return key
	}
	sum := sha256.Sum256([]byte(key.Owner + "\x00" + key.Thread))
	return thread.Key{Owner: key.Owner, Thread: "~" + hex.EncodeToString(sum[:16])}
}

// find returns the key of the thread that the owner means by an id.
func (n names) find(ctx context.Context, key thread.Key) thread.Key {
	own := ownKey(key)
	if own == key {
		return key
	}
	if _, err := n.store.Thread(ctx, own); err != nil { // what the error says, the handler will find
		return key
	}
	return own
}

// inPath replaces the id in a request's path by that of the thread that it means.
func (n names) inPath(c echo.Context, owner string) {
	for i, name := range c.ParamNames() {
		if name != "id" || c.Param("id") == "" {
			continue
		}
		values := c.ParamValues()
		values[i] = n.find(c.Request().Context(), thread.Key{Owner: owner, Thread: values[i]}).Thread
		c.SetParamValues(values...)
	}
}
