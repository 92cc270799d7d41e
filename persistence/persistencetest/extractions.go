package persistencetest

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
	"voicebridge/persistence/extractions"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// claimed claims a call to read, of which there is one if id names it.
func (b bundle) claimed(t *testing.T, id string) extractions.Claim {
	t.Helper()
	c, ok, err := b.store.Extractions.Claim(t.Context(), true)
	if must(t, err); ok != (id != "") || c.CallID != id {
		t.Fatalf("claimed %+v, %t, want %q", c, ok, id)
	}
	return c
}

// found reads what there is of a call: state, error, summary and facts.
func (b bundle) found(t *testing.T, id string) []string {
	t.Helper()
	c, err := b.store.Records.Call(t.Context(), b.key.Owner, id)
	must(t, err)
	return []string{string(c.Extraction), c.ExtractionError, c.Summary, string(c.Extracted)}
}

// extractions has calls read once they have ended: with success, given back, and with failures.
func (s suite) extractions(t *testing.T) {
	b := s.setup(t)
	hook, ctx := b.hook(t, hooked.CallExtracted), t.Context()
	at := time.Now().Add(-time.Hour)
	waits := records.Call{ID: "first", StartedAt: at, AssistantID: "desk", AssistantOwner: "anna", Extraction: records.ExtractionWaiting}
	must(t, b.store.Records.SaveCall(ctx, b.key, waits))
	must(t, b.store.Records.SaveCall(ctx, b.key, records.Call{ID: "plain", StartedAt: at, EndedAt: &at}))
	b.claimed(t, "")
	waits.EndedAt = &at
	must(t, b.store.Records.SaveCall(ctx, b.key, waits))
	claim := b.claimed(t, "first")
	if claim.Key != b.key || claim.Assistant != (assistant.Ref{Owner: "anna", ID: "desk"}) || claim.Attempt != 1 {
		t.Errorf("claimed %+v", claim)
	}
	must(t, b.store.Records.SaveCall(ctx, b.key, waits)) // once more, from a spool
	must(t, b.store.Extractions.GiveBack(ctx, claim))
	if claim = b.claimed(t, "first"); claim.Attempt != 1 {
		t.Errorf("after it was given back: %+v", claim)
	}
	result := extractions.Result{Summary: "They spoke.\x00", Extracted: json.RawMessage(`{"city":"Bonn\u0000","n":1}`)}
	for i, want := range []bool{true, false} { // the second time the claim is over
		if found, err := b.store.Extractions.Done(ctx, claim, result); err != nil || found != want {
			t.Errorf("Done() number %d = %t, %v", i, found, err)
		}
	}
	facts := map[string]any{}
	got := b.found(t, "first")
	must(t, json.Unmarshal([]byte(got[3]), &facts))
	if diff := cmp.Diff([]string{"done", "", "They spoke."}, got[:3]); diff != "" || facts["city"] != "Bonn" {
		t.Errorf("found (-want +got):\n%s and %v", diff, facts)
	}
	testkit.Equal(t, b.got(t, hook.ID), []string{`call.extracted {"call_id":"first","extracted":{"city":"Bonn","n":1},"summary":"They spoke."}`}, "told")
	b.claimed(t, "")

	waits.ID = "second"
	must(t, b.store.Records.SaveCall(ctx, b.key, waits))
	for attempt := range extractions.MaxAttempts {
		claim := b.claimed(t, "second")
		again, err := b.store.Extractions.Failed(ctx, claim, "no answer", false)
		if must(t, err); again != (attempt < extractions.MaxAttempts-1) {
			t.Errorf("attempt %d: again %t", attempt, again)
		}
		if b.claimed(t, ""); again {
			_, err := rawDB(t, b.url).ExecContext(ctx, "UPDATE calls SET extraction_at = started_at WHERE id = 'second'") // its pause is over
			must(t, err)
		}
	}
	testkit.Equal(t, b.found(t, "second"), []string{"failed", "no answer", "", ""}, "after all attempts")
	waits.ID = "third"
	must(t, b.store.Records.SaveCall(ctx, b.key, waits))
	if again, err := b.store.Extractions.Failed(ctx, b.claimed(t, "third"), "never", true); err != nil || again {
		t.Errorf("a failure for good: again %t, %v", again, err)
	}
	b.claimed(t, "")
	waits.ID = "fourth"
	must(t, b.store.Records.SaveCall(ctx, b.key, waits))
	claim = b.claimed(t, "fourth")
	must(t, b.store.DeleteThread(ctx, b.key))
	if found, err := b.store.Extractions.Done(ctx, claim, result); err != nil || found {
		t.Errorf("of a deleted thread: %t, %v", found, err)
	}
}

// recoverExtractions has another process read what a dead one was reading.
func (s suite) recoverExtractions(t *testing.T) {
	b := s.serving(t)
	at := time.Now().Add(-time.Hour)
	must(t, b.store.Records.SaveCall(t.Context(), b.key, records.Call{ID: "call", StartedAt: at, EndedAt: &at, Extraction: records.ExtractionWaiting}))
	lost := b.claimed(t, "call")
	again := b.claimed(t, "call") // as when it does not know of its claim
	if lost.Attempt != 1 || again.Attempt != 2 {
		t.Errorf("attempts %d and %d", lost.Attempt, again.Attempt)
	}
	b = b.restart(t)
	b.claimed(t, "")
	must(t, errOf(b.store.Recover(t.Context())))
	taken := b.claimed(t, "call")
	for _, c := range []struct {
		claim extractions.Claim
		want  bool
	}{{again, false}, {taken, true}} {
		if found, err := b.store.Extractions.Done(t.Context(), c.claim, extractions.Result{Summary: "s", Extracted: json.RawMessage("{}")}); err != nil || found != c.want {
			t.Errorf("Done(%+v) = %t, %v", c.claim, found, err)
		}
	}
	if _, err := b.store.CallMessages(t.Context(), b.key, "call", 0, 0); err == nil {
		t.Error("a page without messages")
	}
}

// extractionsOfSeveral has calls of two owners: one of each is read at a time.
func (s suite) extractionsOfSeveral(t *testing.T) {
	b, ctx := s.setup(t), t.Context()
	at := time.Now().Add(-time.Hour)
	other := newThread(t, b.store, "bert")
	for i, key := range []thread.Key{b.key, b.key, b.key, other, newThread(t, b.store, b.key.Owner)} {
		call := records.Call{ID: string(rune('a' + i)), StartedAt: at.Add(time.Duration(i) * time.Second), EndedAt: &at, Extraction: records.ExtractionWaiting}
		must(t, b.store.Records.SaveCall(ctx, key, call))
	}
	claim := func(want string) (c extractions.Claim) {
		t.Helper()
		c, _, err := b.store.Extractions.Claim(ctx, false)
		if must(t, err); c.CallID != want {
			t.Errorf("claimed %q, want %q", c.CallID, want)
		}
		return c
	}
	first := claim("a")
	second := claim("d")
	claim("")
	for _, c := range []extractions.Claim{second, first} {
		if found, err := b.store.Extractions.Done(ctx, c, extractions.Result{Summary: "s", Extracted: json.RawMessage("{}")}); err != nil || !found {
			t.Errorf("Done(%s) = %t, %v", c.CallID, found, err)
		}
	}
	claim("b")
}
