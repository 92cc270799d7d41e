package persistencetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/persistence"
	"voicebridge/thread"
)

func (s suite) accessTokens(t *testing.T) {
	store, ctx := Open(t, s.newURL(t), persistence.Options{}), t.Context()
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	token := func(i int) persistence.AccessToken {
		return persistence.AccessToken{
			ID: fmt.Sprint("t", i), Kind: "session", Owner: "alice", Data: `{"a":"\u0000"}`,
			CreatedAt: start.Add(time.Duration(i) * time.Minute), ExpiresAt: start.Add(time.Hour),
		}
	}
	for i := range 4 {
		must(t, store.SaveAccessToken(ctx, token(i), 3))
	}
	other := token(9)
	other.Owner = "bob"
	must(t, store.SaveAccessToken(ctx, other, 3))
	if got, err := store.AccessToken(ctx, "session", "t3"); err != nil || !cmp.Equal(got, token(3)) {
		t.Errorf("read %+v, %v", got, err)
	}
	// The oldest was evicted; a token of another kind does not count.
	for _, c := range []struct{ kind, id string }{{"session", "t0"}, {"client_secret", "t3"}, {"session", "\x00"}, {"session", "none"}} {
		if _, err := store.AccessToken(ctx, c.kind, c.id); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("%q %q: %v", c.kind, c.id, err)
		}
	}
	for at, want := range map[time.Time]int{start: 3, start.Add(time.Hour): 0} {
		if n, err := store.CountAccessTokens(ctx, "alice", "session", at); err != nil || n != want {
			t.Errorf("%d tokens at %v, %v, want %d", n, at, err, want)
		}
	}
	for _, of := range [][2]string{{"alice", "client_secret"}, {"bob", "session"}} {
		if err := store.TrimAccessTokens(ctx, of[0], of[1], 0); err != nil {
			t.Error(err)
		}
	}
	if _, err := store.AccessToken(ctx, "session", "t9"); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("read after it was revoked: %v", err)
	}
	must(t, store.SaveAccessToken(ctx, other, 3))
	if err := store.DeleteAccessToken(ctx, "bob", "session", "t3"); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("a stranger revokes: %v", err)
	}
	must(t, store.DeleteAccessToken(ctx, "alice", "session", "t3"))
	if n, err := store.DeleteAccessTokens(ctx, "alice"); err != nil || n != 2 {
		t.Errorf("%d revoked, %v", n, err)
	}
	late := token(0)
	late.ID, late.CreatedAt, late.ExpiresAt = "late", start.Add(2*time.Hour), start.Add(3*time.Hour)
	must(t, store.SaveAccessToken(ctx, late, 3))
	if _, err := store.AccessToken(ctx, "session", "t9"); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("an expired token is kept: %v", err)
	}
}

func (s suite) signingSecret(t *testing.T) {
	url := s.newURL(t)
	store := Open(t, url, persistence.Options{})
	first, err := store.SigningSecret(t.Context())
	if err != nil || len(first) < 32 {
		t.Fatalf("%q, %v", first, err)
	}
	must(t, store.Close())
	again, err := Open(t, url, persistence.Options{}).SigningSecret(t.Context())
	if err != nil || again != first {
		t.Errorf("the secret has changed, %v", err)
	}
}

func (s suite) ensureThread(t *testing.T) {
	store, ctx := Open(t, s.newURL(t), persistence.Options{}), t.Context()
	key := thread.Key{Owner: "alice", Thread: "my-own_id"}
	for i, want := range []bool{true, false} {
		if created, err := store.EnsureThread(ctx, key); err != nil || created != want {
			t.Errorf("time %d: created %v, %v", i, created, err)
		}
	}
	if thread, err := store.Thread(ctx, key); err != nil || thread.ID != key.Thread {
		t.Errorf("thread %+v, %v", thread, err)
	}
	if _, err := store.EnsureThread(ctx, thread.Key{Owner: "bob", Thread: key.Thread}); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("a stranger gets %v", err)
	}
	if _, err := store.EnsureThread(ctx, thread.Key{Owner: "alice", Thread: "a\x00"}); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("an odd id gives %v", err)
	}
}
