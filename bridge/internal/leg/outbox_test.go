package leg

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"voicebridge/bridge/internal/task"
	"voicebridge/internal/testkit"
	"voicebridge/realtime/media"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// slowLeg accepts one event per token, and records them.
type slowLeg struct {
	tokens chan struct{}
	mu     sync.Mutex
	got    []string
	limit  int
	closed bool
	quick  bool // events need no token
}

func (l *slowLeg) TrySend(data []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.quick {
		l.got = append(l.got, string(data))
	}
	return l.quick
}

func (l *slowLeg) Send(ctx context.Context, data []byte) error {
	select {
	case <-l.tokens:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return media.ErrClosed
	case len(data) > l.limit:
		return fmt.Errorf("send: %w", media.ErrTooLarge)
	}
	l.got = append(l.got, string(data[:min(len(data), 8)]))
	return nil
}

func TestOutboxDropsDraftsNeverFacts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dropped := 0
		leg := &slowLeg{tokens: make(chan struct{}), limit: 1 << 20}
		o := newOutbox("browser", quiet(), func(n int) { dropped += n })
		draft := []byte("draft   " + strings.Repeat(".", 64<<10))
		var facts []string
		for i := range 10 {
			if !o.push(draft, true) {
				t.Fatal("a draft stalls the leg")
			}
			fact := fmt.Sprintf("fact %03d", i)
			facts = append(facts, fact)
			if !o.push([]byte(fact), false) {
				t.Fatal("a small fact stalls the leg")
			}
		}
		o.close()
		if !o.push([]byte("late"), false) {
			t.Error("a closed outbox stalls the leg")
		}
		done := task.Go(func() { o.run(t.Context(), leg) })
		close(leg.tokens)
		<-done
		got := slices.DeleteFunc(slices.Clone(leg.got), func(s string) bool { return strings.HasPrefix(s, "draft") })
		testkit.Equal(t, got, facts, "facts")
		if drafts := len(leg.got) - len(got); drafts+dropped != 10 || dropped < 5 {
			t.Errorf("%d drafts sent, %d counted as dropped", drafts, dropped)
		}
	})
}

func TestOutboxLimits(t *testing.T) {
	t.Parallel()
	o := newOutbox("browser", quiet(), func(int) {})
	fact := make([]byte, 1<<20)
	n := 0
	for o.push(fact, false) {
		n++
	}
	testkit.Equal(t, n, maxFacts>>20, "MiB of facts are kept")

	leg := &slowLeg{tokens: make(chan struct{}, 3), limit: 4}
	small := newOutbox("browser", quiet(), func(int) {})
	for _, text := range []string{"too large", "fits", "last"} {
		small.push([]byte(text), false)
		leg.tokens <- struct{}{}
	}
	small.close()
	small.run(t.Context(), leg)
	testkit.Equal(t, leg.got, []string{"fits", "last"}, "leg.got")
}

// TestOutboxEndsWithItsLeg runs in bubbles, where a run that never ends fails at once.
func TestOutboxEndsWithItsLeg(t *testing.T) {
	t.Parallel()
	t.Run("closed", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			leg := &slowLeg{tokens: make(chan struct{}, 2), closed: true}
			leg.tokens <- struct{}{}
			leg.tokens <- struct{}{}
			o := newOutbox("browser", quiet(), func(int) {})
			o.push([]byte("first"), false)
			o.push([]byte("second"), false)
			o.run(t.Context(), leg)
			if len(leg.tokens) != 1 {
				t.Error("a closed leg was tried again")
			}
		})
	})
	t.Run("idle", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			o := newOutbox("browser", quiet(), func(int) {})
			done := task.Go(func() { o.run(ctx, new(slowLeg)) })
			synctest.Wait()
			cancel()
			<-done
		})
	})
}

func TestOutboxSendsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		leg := &slowLeg{tokens: make(chan struct{}), limit: 1 << 20, quick: true}
		o := newOutbox("browser", quiet(), func(int) {})
		o.push([]byte("1"), false) // before run
		if len(leg.got) != 0 {
			t.Error("sent before run")
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := task.Go(func() { o.run(ctx, leg) })
		leg.tokens <- struct{}{}
		synctest.Wait()
		o.push([]byte("2"), true)
		testkit.Equal(t, leg.got, []string{"1", "2"}, "leg.got")
		leg.quick = false
		o.push([]byte("3"), false)
		synctest.Wait() // it is being sent
		leg.quick = true
		o.push([]byte("4"), false) // must wait for it
		close(leg.tokens)
		synctest.Wait()
		o.push([]byte("5"), false)
		testkit.Equal(t, leg.got, []string{"1", "2", "3", "4", "5"}, "leg.got")
		cancel()
		<-done
		o.push([]byte("6"), false)
		if len(leg.got) != 5 {
			t.Error("sent after run")
		}
	})
}
