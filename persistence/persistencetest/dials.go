package persistencetest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// dials keeps calls out: one for a key, a thread and a number, looked after by one process at a time, and told to hooks.
func (s suite) dials(t *testing.T) {
	b := s.setup(t)
	ctx, kept := t.Context(), b.store.Records
	hook, err := b.store.Hooks.Add(ctx, hooked.Hook{Owner: "anna", URL: "https://x.example/", Events: []string{"call.*"}, Enabled: true, Secret: "s"})
	must(t, err)
	other, err := b.store.CreateThread(ctx, "anna", "")
	must(t, err)
	d := records.Dial{
		ID: "d1", Key: b.key, Line: "desk", Number: "+4930111", Assistant: assistant.Ref{Owner: "anna", ID: "a"},
		Variables: map[string]string{"name": "Ada \U0001f600"}, Once: "k", Request: "r",
	}
	// Of several processes at once, one saves it.
	var saving sync.WaitGroup
	added := make(chan records.Dial, 8)
	for i := range 8 {
		saving.Go(func() {
			d := d
			d.ID = fmt.Sprint("d", i)
			if saved, ok, err := kept.AddDial(ctx, d); err != nil {
				t.Error(err)
			} else if ok {
				added <- saved
			}
		})
	}
	first := testkit.Take(t, "the call out", added)
	saving.Wait()
	testkit.Equal(t, len(added), 0, "more of the key")
	d.ID = first.ID
	again, _, err := kept.AddDial(ctx, d)
	if err != nil || diff(first, again) != "" {
		t.Errorf("AddDial() again = %v (-want +got):\n%s", err, diff(first, again))
	}
	if read, err := kept.DialOf(ctx, "anna", "k", "r"); err != nil || read.ID != first.ID {
		t.Errorf("DialOf() = %+v, %v", read, err)
	}
	for what, c := range map[string]struct {
		change func(*records.Dial)
		want   error
	}{
		"another request": {func(d *records.Dial) { d.Request = "q" }, records.ErrKeyTaken},
		"another key":     {func(d *records.Dial) { d.Once = "l" }, records.ErrDialing},
		"no key":          {func(d *records.Dial) { d.Once = "" }, records.ErrDialing},
		"another thread":  {func(d *records.Dial) { d.Once, d.Key.Thread = "", other.ID }, records.ErrDialing},
		"another number":  {func(d *records.Dial) { d.Once, d.Number = "", "+4930222" }, records.ErrDialing},
	} {
		next := d
		next.ID = "d9"
		c.change(&next)
		_, _, err := kept.AddDial(ctx, next)
		wantErr(t, what, err, c.want)
		wantErr(t, what, err, persistence.ErrConflict)
	}
	wantErr(t, "DialOf", errOf(kept.DialOf(ctx, "anna", "k", "q")), records.ErrKeyTaken)
	wantErr(t, "DialOf", errOf(kept.DialOf(ctx, "bert", "k", "r")), persistence.ErrNotFound)
	for _, name := range [][2]string{{"bert", d.ID}, {"anna", "none"}, {"", d.ID}, {"anna", ""}} {
		wantErr(t, fmt.Sprint("Dial ", name), errOf(kept.Dial(ctx, name[0], name[1])), persistence.ErrNotFound)
	}
	open, err := kept.Dials(ctx, "desk")
	if err != nil || open != 1 {
		t.Errorf("Dials() = %d, %v", open, err)
	}
	// Of several that look, one gets it, as it was before.
	claimed := make(chan records.Dial, 8)
	for range 8 {
		saving.Go(func() {
			list, err := kept.ClaimDials(ctx, 5)
			if err != nil {
				t.Error(err)
			}
			for _, c := range list {
				claimed <- c
			}
		})
	}
	c := testkit.Take(t, "a claim", claimed)
	saving.Wait()
	testkit.Equal(t, len(claimed), 0, "more claims")
	if diff(first, c) != "" {
		t.Errorf("claimed (-want +got):\n%s", diff(first, c))
	}
	read, err := kept.Dial(ctx, "anna", d.ID)
	if err != nil || read.AskedAt == nil || read.Attempts != 1 || read.NextAt.Sub(*read.AskedAt) != records.DialClaim {
		t.Errorf("after a claim: %+v, %v", read, err)
	}
	move := func(change func(d *records.Dial, now time.Time) bool) records.Dial {
		t.Helper()
		moved, err := kept.ChangeDial(ctx, d.Key, d.ID, change)
		must(t, err)
		return moved
	}
	for _, state := range []records.DialState{records.DialRinging, records.DialRinging, records.DialEnded} {
		move(func(d *records.Dial, now time.Time) bool {
			d.State, d.CarrierCall, d.EndReason, d.NextAt = state, "CA1", records.DialBusy, &now
			return true
		})
	}
	ended := move(func(*records.Dial, time.Time) bool { return false })
	if ended.State != records.DialEnded || ended.EndedAt == nil || ended.NextAt != nil || ended.CarrierCall != "CA1" {
		t.Errorf("ended %+v", ended)
	}
	if list, err := kept.ClaimDials(ctx, 5); err != nil || len(list) > 0 {
		t.Errorf("ClaimDials() of what has ended = %+v, %v", list, err)
	}
	never := func(*records.Dial, time.Time) bool { t.Error("it is not there"); return false }
	wantErr(t, "ChangeDial of bert", errOf(kept.ChangeDial(ctx, thread.Key{Owner: "bert", Thread: b.key.Thread}, d.ID, never)), persistence.ErrNotFound)
	testkit.Equal(t, b.got(t, hook.ID), []string{
		`call.ringing {"assistant_id":"a","call_id":"` + d.ID + `","line":"desk","to":"+4930111"}`,
		`call.ended {"assistant_id":"a","call_id":"` + d.ID + `","cost_usd":null,"duration_seconds":0,"end_reason":"busy","line":"desk","recording":false,"to":"+4930111","turns":0,` +
			`"usage":{"cached_tokens":0,"input_tokens":0,"output_tokens":0,"total_tokens":0},"variables":{"name":"Ada ` + "\U0001f600" + `"}}`,
	}, "told")
	d.ID, d.Once = "late", ""
	must(t, errOf2(kept.AddDial(ctx, d)))
	must(t, b.store.DeleteThread(ctx, b.key))
	if list, err := kept.ClaimDials(ctx, 5); err != nil || len(list) > 0 {
		t.Errorf("ClaimDials() of a deleted thread = %+v, %v", list, err)
	}
	if _, err := kept.ChangeDial(ctx, d.Key, d.ID, never); !errors.Is(err, persistence.ErrNotFound) || strings.Contains(err.Error(), "+4930111") {
		t.Errorf("ChangeDial() of a deleted thread = %v", err)
	}
}

func errOf2[A, B any](_ A, _ B, err error) error { return err }
