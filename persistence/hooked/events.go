package hooked

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"voicebridge/persistence/internal/database"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
	"voicebridge/thread"
)

// Tx writes what is to be delivered in the transaction that causes it.
type Tx struct{ tx *database.Tx }

// In returns what writes in a transaction.
func In(tx *database.Tx) Tx { return Tx{tx} }

// Event is something that hooks get.
type Event struct {
	Type string
	// About names what happened, so that an event that is told twice is delivered once.
	About string
	// Data returns the event's own fields. It is called only if a hook gets the event.
	Data func() (map[string]any, error)
}

// body is what is posted.
type body struct {
	Type      string         `json:"type"`
	Timestamp time.Time      `json:"timestamp"`
	Data      map[string]any `json:"data"`
}

// Tell adds an event of the thread to what is to be delivered, and returns the hooks that get it.
func (w Tx) Tell(e Event) (hooks []string, err error) {
	err = w.tx.Do("tell hooks of "+e.Type, func() error {
		group, _, _ := strings.Cut(e.Type, ".")
		found, err := w.tx.Q.ListHooksFor(w.tx.Ctx, w.tx.Key.Owner, "% "+e.Type+" %", "% "+group+".* %")
		if err != nil || len(found) == 0 {
			return err
		}
		if err := w.tx.Lock(); err != nil { // the thread is there, and stays
			return err
		}
		data, err := e.Data()
		if err != nil {
			return err
		}
		data["owner"], data["thread_id"] = w.tx.Key.Owner, w.tx.Key.Thread
		text, err := thread.Encode(body{e.Type, w.tx.Now().UTC(), data})
		if err != nil {
			return err
		}
		id, posted := eventID(w.tx.Key, e), thread.CleanText(string(text))
		for _, hook := range found {
			n, err := w.tx.Q.AddDelivery(w.tx.Ctx, pgdb.AddDeliveryParams{
				HookID: hook, ID: id, ThreadID: &w.tx.Key.Thread, Type: e.Type, Body: posted, Size: int64(len(posted)),
				CreatedAt: dbtype.At(w.tx.Now()),
			})
			if err != nil {
				return err
			}
			if n > 0 {
				hooks = append(hooks, hook)
			}
		}
		return nil
	})
	return hooks, err
}

// eventID returns the id of an event, the same each time it is told.
func eventID(key thread.Key, e Event) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{key.Owner, key.Thread, e.Type, e.About}, "\n")))
	return "msg_" + hex.EncodeToString(sum[:16])
}
