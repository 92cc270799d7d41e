package persistencetest

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"

	"voicebridge/assistant"
	"voicebridge/persistence"
	"voicebridge/persistence/assistants"
	"voicebridge/thread"
)

func (s suite) assistants(t *testing.T) {
	url, ctx := s.newURL(t), t.Context()
	store := Open(t, url, persistence.Options{Assistants: []assistant.Assistant{{ID: "fixed", Name: "Fixed"}}})
	room := store.Assistants
	parsed, err := assistant.Parse([]byte(`{"name":"Ünited \u0000","instructions":"a"}`))
	if err == nil {
		t.Errorf("Parse() of a zero byte = %+v", parsed)
	}
	parsed, err = assistant.Parse([]byte(`{"name":"Ü","variables":{"x":"1"},"tools":{"allow":[]},"extract":{"type":"object","properties":{"a\u0000":{}}}}`))
	must(t, err)
	made, err := room.Create(ctx, "anna", parsed, false)
	must(t, err)
	if made.ID != "assistant" || made.Owner != "anna" || made.ReadOnly || !strings.HasPrefix(made.Secret, "whsec_") || made.CreatedAt.IsZero() {
		t.Errorf("Create() = %+v", made)
	}
	got, err := room.Find(ctx, "anna", made.ID)
	if string(got.Extract) == "" || strings.Contains(string(got.Extract), "u0000") {
		t.Errorf("Find() has the schema %s", got.Extract)
	}
	got.Extract, made.Extract = nil, nil
	if err != nil || !reflect.DeepEqual(got, made) || got.Tools.Allow == nil {
		t.Errorf("Find() = %+v, %v, want %+v", got, err, made)
	}
	wantErr(t, "Find() of another's", errOf(room.Find(ctx, "bert", made.ID)), persistence.ErrNotFound)
	wantErr(t, "Find() of a bad id", errOf(room.Find(ctx, "anna", "a\x00")), persistence.ErrNotFound)
	wantErr(t, "Delete() of another's", room.Delete(ctx, "bert", made.ID), persistence.ErrNotFound)
	same := func(a assistant.Assistant) (assistant.Assistant, error) { return a, nil }
	wantErr(t, "Change() of another's", errOf(room.Change(ctx, "bert", made.ID, same)), persistence.ErrNotFound)
	wantErr(t, "Change() of the operator's", errOf(room.Change(ctx, "anna", "fixed", same)), assistants.ErrReadOnly)
	wantErr(t, "Delete() of the operator's", room.Delete(ctx, "anna", "fixed"), assistants.ErrReadOnly)
	wantErr(t, "Create() with the operator's id", errOf(room.Create(ctx, "anna", assistant.Assistant{ID: "fixed", Name: "x"}, true)), persistence.ErrConflict)
	wantErr(t, "Create() with a taken id", errOf(room.Create(ctx, "anna", assistant.Assistant{ID: made.ID, Name: "x"}, true)), persistence.ErrConflict)
	second, err := room.Create(ctx, "anna", assistant.Assistant{ID: "fixed", Name: "x"}, false)
	if err != nil || second.ID != "fixed-2" {
		t.Errorf("Create() = %+v, %v", second, err)
	}
	must(t, errOf(room.Create(ctx, "bert", assistant.Assistant{ID: "shared", Name: "x", Shared: true}, true)))
	wantErr(t, "Change() of one that is shared", errOf(room.Change(ctx, "anna", "shared", same)), assistants.ErrReadOnly)
	list := func(owner, want string) {
		t.Helper()
		var ids []string
		for cursor := ""; len(ids) == 0 || cursor != ""; {
			page, next, err := room.List(ctx, owner, cursor, 1)
			must(t, err)
			for _, a := range page {
				ids = append(ids, a.ID)
			}
			cursor = next
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("List(%s) = %s, want %s", owner, got, want)
		}
	}
	list("anna", "fixed assistant fixed-2 shared")
	list("bert", "fixed shared")
	must(t, room.Delete(ctx, "anna", "fixed-2"))
	wantErr(t, "Delete() again", room.Delete(ctx, "anna", "fixed-2"), persistence.ErrNotFound)
	list("anna", "fixed assistant shared")
}

func (s suite) assistantsOfThreads(t *testing.T) {
	b, ctx := s.setup(t), t.Context()
	room, own := b.store.Assistants, assistant.Ref{Owner: "anna", ID: "a"}
	of := func(id, x string) {
		t.Helper()
		got, err := room.Of(ctx, b.key)
		if err != nil || got.ID != id || got.Values["x"] != x {
			t.Errorf("Of() = %q with %v, %v, want %q with %q", got.ID, got.Values, err, id, x)
		}
	}
	of("", "")
	must(t, errOf(room.Create(ctx, "anna", assistant.Assistant{ID: "a", Name: "A"}, true)))
	got, err := b.store.SetAssistant(ctx, b.key, own, map[string]string{"x": "1\x00"})
	if err != nil || got.AssistantID != "a" || got.Variables["x"] != "1" {
		t.Errorf("SetAssistant() = %+v, %v", got, err)
	}
	of("a", "1")
	must(t, errOf(b.store.SetAssistant(ctx, b.key, own, nil)))
	of("a", "1") // values stay unless others are given
	must(t, room.Delete(ctx, "anna", "a"))
	of("", "")
	must(t, errOf(room.Create(ctx, "anna", assistant.Assistant{ID: "a", Name: "A"}, true)))
	of("a", "1")
	stranger := thread.Key{Owner: "bert", Thread: b.key.Thread}
	wantErr(t, "SetAssistant() of a stranger", errOf(b.store.SetAssistant(ctx, stranger, own, nil)), persistence.ErrNotFound)
	wantErr(t, "Of() of a stranger", errOf(room.Of(ctx, stranger)), persistence.ErrNotFound)
}

// assistantChanges has many changes at once, of which none is lost.
func (s suite) assistantChanges(t *testing.T) {
	b := s.setup(t)
	room := b.store.Assistants
	must(t, errOf(room.Create(t.Context(), "anna", assistant.Assistant{ID: "a", Name: "A"}, true)))
	const writers = 4
	var all sync.WaitGroup
	for i := range writers {
		all.Go(func() {
			patch, _ := json.Marshal(map[string]any{"variables": map[string]string{string(rune('a' + i)): "x"}})
			for {
				_, err := room.Change(context.WithoutCancel(t.Context()), "anna", "a", func(a assistant.Assistant) (assistant.Assistant, error) { return a.Patch(patch) })
				if !errors.Is(err, persistence.ErrConflict) {
					if err != nil {
						t.Errorf("Change() = %v", err)
					}
					return
				}
			}
		})
	}
	all.Wait()
	if got, err := room.Find(t.Context(), "anna", "a"); err != nil || len(got.Variables) != writers {
		t.Errorf("after %d changes: %+v, %v", writers, got.Variables, err)
	}
}
