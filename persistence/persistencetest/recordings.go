package persistencetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/recordings"
	"voicebridge/persistence/records"
)

// recordings keeps recordings for the owners of their calls. They outlive the calls, so that their files can be
// deleted.
func (s suite) recordings(t *testing.T) {
	store, ctx := Open(t, s.newURL(t), persistence.Options{}), t.Context()
	kept := store.Recordings
	key, other := NewThread(t, store, "anna", ""), NewThread(t, store, "anna", "")
	began := time.Now().Add(-48 * time.Hour).Truncate(time.Millisecond).UTC()
	must(t, store.Records.SaveCall(ctx, key, records.Call{ID: "call-1", StartedAt: began, EndedAt: &began}))
	must(t, store.Records.SaveCall(ctx, other, records.Call{ID: "call-2", StartedAt: began, EndedAt: &began}))
	rec := recordings.Recording{CallID: "call-1", StartedAt: began, Duration: 90 * time.Second, Bytes: 4711}
	for _, owner := range []string{"bert", "", "a\x00"} {
		if err := kept.Save(ctx, owner, rec); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("%q saves another's recording: %v", owner, err)
		}
	}
	must(t, kept.Save(ctx, "anna", rec))
	rec.Bytes++
	must(t, kept.Save(ctx, "anna", rec)) // finished again after a crash
	must(t, kept.Save(ctx, "anna", recordings.Recording{CallID: "call-2", StartedAt: began.Add(24 * time.Hour)}))
	if got, err := kept.Recording(ctx, "anna", "call-1"); err != nil || !got.StartedAt.Equal(began) || got.Duration != rec.Duration || got.Bytes != rec.Bytes {
		t.Errorf("Recording() = %+v, %v", got, err)
	}
	for _, who := range [][2]string{{"bert", "call-1"}, {"anna", "call-3"}, {"anna", ""}} {
		if _, err := kept.Recording(ctx, who[0], who[1]); !errors.Is(err, persistence.ErrNotFound) {
			t.Errorf("%s reads %q: %v", who[0], who[1], err)
		}
	}
	over := func(before time.Time, want ...string) {
		t.Helper()
		if got, err := kept.Over(ctx, before); err != nil || !slices.Equal(got, want) {
			t.Errorf("Over(%s) = %q, %v, want %q", before, got, err, want)
		}
	}
	over(time.Time{})
	over(began.Add(time.Hour), "call-1")
	must(t, store.DeleteThread(ctx, other))
	over(time.Time{}, "call-2")
	if err := kept.Save(ctx, "anna", recordings.Recording{CallID: "call-2", StartedAt: began}); !errors.Is(err, persistence.ErrNotFound) {
		t.Errorf("a deleted call is recorded: %v", err)
	}
	for _, call := range []string{"call-1", "call-2", "call-2"} {
		must(t, kept.Delete(ctx, call))
	}
	over(time.Now())
}
