package queue_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/chat"
	"voicebridge/chat/queue"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/queued"
)

// stuck hangs in the first attempts to say something.
type stuck struct {
	queue.Door
	attempts atomic.Int64
}

func (s *stuck) Say(ctx context.Context, req chat.TurnRequest, mode chat.Mode) (chat.Answer, error) {
	if s.attempts.Add(-1) >= 0 {
		<-ctx.Done()
		return chat.Answer{}, context.Cause(ctx)
	}
	return s.Door.Say(ctx, req, mode)
}

// TestStuckSend: a message whose sending hangs goes back to the head of its queue after a while, and is sent once that works
// again.
func TestStuckSend(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	synctest.Test(t, func(t *testing.T) {
		b := prepare(t, persistencetest.Open(t, url, persistence.Options{}), &provider{}, queue.Config{Enabled: true})
		door := &stuck{Door: b.door}
		door.attempts.Store(2)
		b.door = door
		stop := b.run()
		b.add("one")
		b.add("two")
		time.Sleep(20*time.Second + 100*time.Millisecond)
		if list, _ := b.list(); len(list) != 2 || list[0].State != queued.Waiting || list[0].Error != "The message took too long to send." {
			t.Errorf("List() = %+v", list)
		}
		b.waitFor(b.key, "user completed: one\nassistant completed: ok\nuser completed: two\nassistant completed: ok\n")
		stop()
	})
}

// TestForgottenClaim: a message that this process has claimed without learning of it, because the connection broke, is sent
// all the same.
func TestForgottenClaim(t *testing.T) {
	t.Parallel()
	persistencetest.Engines(t, func(t *testing.T, open func(*testing.T) *persistence.Store) {
		b := prepare(t, open(t), &provider{}, queue.Config{Enabled: true})
		b.add("one")
		if _, err := b.store.Queued.Claim(t.Context(), b.key, queued.ClaimOptions{}); err != nil {
			t.Fatal(err)
		}
		b.run()
		b.waitFor(b.key, "user completed: one\nassistant completed: ok\n")
	})
}
