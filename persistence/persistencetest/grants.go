package persistencetest

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
)

func (s suite) grants(t *testing.T) {
	whole, ctx := Open(t, s.newURL(t), persistence.Options{}), t.Context()
	store := whole.Grants
	want := func(owner, server, sealed string) (version int64) {
		t.Helper()
		got, version, err := store.Grant(ctx, owner, server)
		if err != nil || got != sealed || (version == 0) != (sealed == "") {
			t.Errorf("Grant(%s, %s) = %q, version %d, %v; want %q", owner, server, got, version, err, sealed)
		}
		return version
	}
	must(t, store.SaveGrant(ctx, "ann", "mail", "a1"))
	must(t, store.SaveGrant(ctx, "bob", "mail", "b1"))
	must(t, store.SaveGrant(ctx, "ann", "files", "f1"))
	first := want("ann", "mail", "a1")
	want("ann", "calendar", "")
	want("carol", "mail", "")

	// What an owner erases is gone, and no other's.
	must(t, store.SaveGrant(ctx, "dora", "mail", "d1"))
	_, err := store.BeginSignIn(ctx, "state-of-dora", "dora", "files", "s1", time.Hour)
	must(t, err)
	for _, server := range []string{"mail of dora", "mail of dora the second", "mail", "mail of ann"} {
		must(t, whole.Admission.PinTools(ctx, server, map[string]string{"send": "{}"}))
	}
	must(t, store.EraseOwner(ctx, "dora"))
	want("dora", "mail", "")
	for server, kept := range map[string]int{"mail of dora": 0, "mail of dora the second": 1, "mail": 1, "mail of ann": 1} {
		if pins, err := whole.Admission.ToolPins(ctx, server); err != nil || len(pins) != kept {
			t.Errorf("pins of %s: %v, %v", server, pins, err)
		}
	}
	if dropped, err := store.DropSignIns(ctx, "dora", "files"); dropped || err != nil {
		t.Errorf("a sign-in of an erased owner is left: %t, %v", dropped, err)
	}

	// Of many that want to renew a grant, one does.
	var begun atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if one, err := store.BeginRenewal(ctx, "ann", "mail", first, time.Hour); err != nil {
				t.Error(err)
			} else if one {
				begun.Add(1)
			}
		})
	}
	all.Wait()
	if begun.Load() != 1 {
		t.Fatalf("%d renew one grant at once", begun.Load())
	}
	step := func(what string, do func() (bool, error), want bool) {
		t.Helper()
		if got, err := do(); err != nil || got != want {
			t.Errorf("%s: %t, %v; want %t", what, got, err, want)
		}
	}
	finish := func(version int64, sealed string) func() (bool, error) {
		return func() (bool, error) { return store.FinishRenewal(ctx, "ann", "mail", version, sealed) }
	}
	begin := func(version int64, lasting time.Duration) func() (bool, error) {
		return func() (bool, error) { return store.BeginRenewal(ctx, "ann", "mail", version, lasting) }
	}
	step("another version", finish(first+1, "x"), false)
	step("the renewal", finish(first, "a2"), true)
	step("a late one", finish(first, "x"), false)
	second := want("ann", "mail", "a2")
	step("to begin with an old version", begin(first, time.Hour), false)
	step("to begin", begin(second, time.Hour), true)
	step("to begin beside it", begin(second, time.Hour), false)
	must(t, store.AbandonRenewal(ctx, "ann", "mail", second))
	step("to begin after it was abandoned", begin(second, -time.Second), true)
	step("to begin after its time is up", begin(second, time.Hour), true)

	// What is given back and granted again is another grant.
	step("to delete another version", func() (bool, error) { return store.DeleteGrant(ctx, "ann", "mail", first) }, false)
	step("to delete it", func() (bool, error) { return store.DeleteGrant(ctx, "ann", "mail", 0) }, true)
	step("to delete it again", func() (bool, error) { return store.DeleteGrant(ctx, "ann", "mail", 0) }, false)
	must(t, store.SaveGrant(ctx, "ann", "mail", "a3"))
	step("the renewal of what was deleted", finish(second, "x"), false)
	third := want("ann", "mail", "a3")
	step("to begin anew", begin(third, time.Hour), true)
	must(t, store.SaveGrant(ctx, "ann", "mail", "a4"))
	step("the renewal of what was replaced", finish(third, "x"), false)
	step("to begin with what replaced it", begin(want("ann", "mail", "a4"), time.Hour), true)
	want("bob", "mail", "b1")
	want("ann", "files", "f1")

	for _, bad := range []string{"", "a\x00b", strings.Repeat("x", 10_000)} {
		if err := store.SaveGrant(ctx, bad, "mail", "x"); !errors.Is(err, persistence.ErrInvalid) {
			t.Errorf("owner of %d bytes: %v", len(bad), err)
		}
	}
}

func (s suite) signIns(t *testing.T) {
	store, ctx := Open(t, s.newURL(t), persistence.Options{}).Grants, t.Context()
	begin := func(state, owner, server string, lasting time.Duration) (again bool) {
		t.Helper()
		again, err := store.BeginSignIn(ctx, state, owner, server, "sealed "+state, lasting)
		must(t, err)
		return again
	}
	want := func(state, owner, server string) {
		t.Helper()
		gotOwner, gotServer, sealed, err := store.PendingSignIn(ctx, state)
		if owner == "" {
			if !errors.Is(err, persistence.ErrNotFound) {
				t.Errorf("%s: %v", state, err)
			}
			return
		}
		if err != nil || gotOwner != owner || gotServer != server || sealed != "sealed "+state {
			t.Errorf("%s: %s, %s, %s, %v", state, gotOwner, gotServer, sealed, err)
		}
	}
	if begin("s1", "ann", "mail", time.Hour) || begin("s2", "bob", "mail", time.Hour) || begin("s3", "ann", "files", time.Hour) {
		t.Error("first sign-ins count as further ones")
	}
	if !begin("s4", "ann", "mail", time.Hour) {
		t.Error("a second sign-in counts as the first")
	}
	want("s1", "", "")
	want("s4", "ann", "mail")
	begin("s5", "ann", "files", -time.Second)
	want("s5", "", "")
	want("s2", "bob", "mail")
	// It comes back once.
	var ended atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if one, err := store.EndSignIn(ctx, "s2"); err != nil {
				t.Error(err)
			} else if one {
				ended.Add(1)
			}
		})
	}
	all.Wait()
	testkit.Equal(t, ended.Load(), 1, "have ended one sign-")
	want("s2", "", "")
	if dropped, err := store.DropSignIns(ctx, "ann", "mail"); err != nil || !dropped {
		t.Error(dropped, err)
	}
	want("s4", "", "")

	if sealed, err := store.Client(ctx, "mail"); err != nil || sealed != "" {
		t.Error(sealed, err)
	}
	must(t, store.SaveClient(ctx, "mail", "c1"))
	must(t, store.SaveClient(ctx, "mail", "c2"))
	if sealed, err := store.Client(ctx, "mail"); err != nil || sealed != "c2" {
		t.Error(sealed, err)
	}
}
