package persistencetest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/admission"
	"voicebridge/thread"
)

func (s suite) accessTokens(t *testing.T) {
	store, ctx := Open(t, s.newURL(t), persistence.Options{}), t.Context()
	start := time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC)
	token := func(i int) admission.Token {
		return admission.Token{
			ID: fmt.Sprint("t", i), Kind: "session", Owner: "alice", Data: `{"a":"\u0000"}`,
			CreatedAt: start.Add(time.Duration(i) * time.Minute), ExpiresAt: start.Add(time.Hour),
		}
	}
	for i := range 4 {
		must(t, store.Admission.SaveToken(ctx, token(i), 3))
	}
	other := token(9)
	other.Owner = "bob"
	must(t, store.Admission.SaveToken(ctx, other, 3))
	if got, err := store.Admission.Token(ctx, "session", "t3"); err != nil || !cmp.Equal(got, token(3)) {
		t.Errorf("read %+v, %v", got, err)
	}
	// The oldest was evicted; a token of another kind does not count.
	for _, c := range []struct{ kind, id string }{{"session", "t0"}, {"client_secret", "t3"}, {"session", "\x00"}, {"session", "none"}} {
		if _, err := store.Admission.Token(ctx, c.kind, c.id); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("%q %q: %v", c.kind, c.id, err)
		}
	}
	for at, want := range map[time.Time]int{start: 3, start.Add(time.Hour): 0} {
		if n, err := store.Admission.CountTokens(ctx, "alice", "session", at); err != nil || n != want {
			t.Errorf("%d tokens at %v, %v, want %d", n, at, err, want)
		}
	}
	for _, of := range [][2]string{{"alice", "client_secret"}, {"bob", "session"}} {
		if err := store.Admission.TrimTokens(ctx, of[0], of[1], 0); err != nil {
			t.Error(err)
		}
	}
	if _, err := store.Admission.Token(ctx, "session", "t9"); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("read after it was revoked: %v", err)
	}
	must(t, store.Admission.SaveToken(ctx, other, 3))
	if err := store.Admission.DeleteToken(ctx, "bob", "session", "t3"); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("a stranger revokes: %v", err)
	}
	must(t, store.Admission.DeleteToken(ctx, "alice", "session", "t3"))
	for i, c := range []struct {
		since time.Time
		want  string
	}{{start.Add(2 * time.Minute), "not found"}, {start, `{"a":"\u0000"}`}, {start, "not found"}} { // t2 is from start+2 min
		got, err := store.Admission.UseToken(ctx, "session", "used", "t2", c.since)
		what := got.Data
		if errors.Is(err, persistence.ErrNotFound) {
			what = "not found"
		}
		testkit.Equal(t, what, c.want, "use %d", i)
	}
	if got, err := store.Admission.Token(ctx, "used", "t2"); err != nil || got.Data != "" {
		t.Errorf("what was used is %+v, %v", got, err)
	}
	if n, err := store.Admission.DeleteTokens(ctx, "alice"); err != nil || n != 2 {
		t.Errorf("%d revoked, %v", n, err)
	}
	late := token(0)
	late.ID, late.CreatedAt, late.ExpiresAt = "late", start.Add(2*time.Hour), start.Add(3*time.Hour)
	must(t, store.Admission.SaveToken(ctx, late, 3))
	if _, err := store.Admission.Token(ctx, "session", "t9"); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("an expired token is kept: %v", err)
	}
}

func (s suite) signingSecret(t *testing.T) {
	url := s.newURL(t)
	store := Open(t, url, persistence.Options{})
	first, err := store.Admission.SigningSecret(t.Context())
	if err != nil || len(first) < 32 {
		t.Fatalf("%q, %v", first, err)
	}
	must(t, store.Close())
	again, err := Open(t, url, persistence.Options{}).Admission.SigningSecret(t.Context())
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
