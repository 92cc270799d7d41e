package persistencetest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
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
		testkit.Equal(t, strings.Join(ids, " "), want, "List(%s)", owner)
	}
	list("anna", "fixed assistant fixed-2 shared")
	list("bert", "fixed shared")
	must(t, room.Delete(ctx, "anna", "fixed-2"))
	wantErr(t, "Delete() again", room.Delete(ctx, "anna", "fixed-2"), persistence.ErrNotFound)
	list("anna", "fixed assistant shared")
	// A page that ended with an operator's assistant that is gone since.
	gone := base64.RawURLEncoding.EncodeToString([]byte(`{"At":"2026-01-02T03:04:05Z","Owner":"","ID":"gone"}`))
	if page, _, err := room.List(ctx, "anna", gone, 5); err != nil || len(page) != 2 || page[0].ID != made.ID {
		t.Errorf("List() after one that is gone = %+v, %v", page, err)
	}
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

// assistantLent has an owner change an assistant that another owner's thread uses: its addresses may not be those that
// were chosen, so they are asked for. What it says of a thread's cost and its recording does not hold there.
func (s suite) assistantLent(t *testing.T) {
	b, ctx := s.setup(t), t.Context()
	room, ref := b.store.Assistants, assistant.Ref{Owner: "eve", ID: "desk"}
	yes := true
	desk := assistant.Assistant{ID: "desk", Name: "Desk", Shared: true, Recording: &yes, HTTPTools: []assistant.HTTPTool{{Name: "look", URL: "https://a.example"}}}
	must(t, errOf(room.Create(ctx, "eve", desk, true)))
	use := func(owner string) thread.Key {
		key := newThread(t, b.store, owner)
		must(t, errOf(b.store.SetAssistant(ctx, key, ref, nil)))
		return key
	}
	want := func(when string, key thread.Key, approve string, records bool) {
		t.Helper()
		a, err := room.Of(ctx, key)
		if got := strings.Join(a.Tools.Approve, " "); err != nil || got != approve || a.Records() != records {
			t.Errorf("%s, the assistant of %s's thread asks for %q, records: %v, %v", when, key.Owner, got, a.Records(), err)
		}
	}
	own, lent := use("eve"), use("anna")
	want("as it was chosen", own, "", true)
	want("as it was chosen", lent, "", false)
	must(t, errOf(room.Change(ctx, "eve", "desk", func(a assistant.Assistant) (assistant.Assistant, error) {
		a.HTTPTools = append(a.HTTPTools, assistant.HTTPTool{Name: "send", URL: "https://b.example"})
		return a, nil
	})))
	want("with another address", own, "", true)
	want("with another address", lent, "look send", false)
	want("chosen after that", use("anna"), "", false)
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

// assistantHands has ids of assistants change hands: a thread keeps the one that it was given, or has none.
func (s suite) assistantHands(t *testing.T) {
	url, ctx := s.newURL(t), t.Context()
	store := Open(t, url, persistence.Options{Assistants: []assistant.Assistant{{ID: "house", Name: "House"}}})
	room := store.Assistants
	create := func(owner, id string, shared bool) {
		t.Helper()
		must(t, errOf(room.Create(ctx, owner, assistant.Assistant{ID: id, Name: owner, Shared: shared}, true)))
	}
	keys := map[string]thread.Key{}
	choose := func(name, owner, id string) {
		t.Helper()
		a, err := room.Find(ctx, owner, id)
		must(t, err)
		keys[name] = newThread(t, store, owner)
		must(t, errOf(store.SetAssistant(ctx, keys[name], a.Ref(), nil)))
	}
	want := func(when string, of map[string]string) {
		t.Helper()
		for name, want := range of {
			if got, err := room.Of(ctx, keys[name]); err != nil || got.Name != want {
				t.Errorf("%s, the thread of %s has the assistant of %q, %v, want %q", when, name, got.Name, err, want)
			}
		}
	}
	create("anna", "sales", false)
	create("bert", "desk", true)
	choose("own", "anna", "sales")
	choose("shared", "anna", "desk")
	choose("operator's", "anna", "house")
	must(t, room.Delete(ctx, "anna", "sales"))
	create("eve", "sales", true)
	withdraw := func(a assistant.Assistant) (assistant.Assistant, error) { a.Shared = !a.Shared; return a, nil }
	must(t, errOf(room.Change(ctx, "bert", "desk", withdraw)))
	create("eve", "desk", true)
	want("after they changed hands", map[string]string{"own": "", "shared": "", "operator's": "House"})
	if a, err := room.Find(ctx, "anna", "sales"); err != nil || a.Owner != "eve" {
		t.Errorf("whoever chooses now gets that of %q, %v", a.Owner, err)
	}
	must(t, errOf(room.Change(ctx, "bert", "desk", withdraw)))
	create("anna", "desk", false)
	want("once it is shared again", map[string]string{"shared": "bert"})
	create("fred", "tours", false)
	create("eve", "tours", true)
	must(t, errOf(room.Change(ctx, "fred", "tours", withdraw)))
	listed, _, err := room.List(ctx, "anna", "", 10)
	must(t, err)
	for _, a := range listed {
		if a.ID == "tours" && a.Owner != "eve" {
			t.Errorf("that of %q is listed, which was made first and shared last", a.Owner)
		}
	}
	if a, err := room.Find(ctx, "anna", "tours"); err != nil || a.Owner != "eve" {
		t.Errorf("that of %q was made first and shared last, %v", a.Owner, err)
	}
	must(t, room.EraseOwner(ctx, "bert"))
	want("once its owner is erased", map[string]string{"shared": ""})
	if rows := Rows(t, url, "SELECT count(*) FROM threads WHERE assistant_owner = 'bert'"); rows[0][0] != "0" {
		t.Errorf("%s threads of others name who was erased", rows[0][0])
	}
	later := Open(t, url, persistence.Options{Assistants: []assistant.Assistant{{ID: "sales", Name: "Operator"}}})
	if got, err := later.Assistants.Of(ctx, keys["operator's"]); err != nil || got.ID != "" {
		t.Errorf("one that the operator removed: %q, %v", got.ID, err)
	}
	if got, err := later.Assistants.Of(ctx, keys["own"]); err != nil || got.ID != "" {
		t.Errorf("a twin of the operator's: %q, %v", got.ID, err)
	}
}

// assistantPages has more that others share than a page holds: one's own come first, and what is long in them is not
// there.
func (s suite) assistantPages(t *testing.T) {
	b, ctx := s.setup(t), t.Context()
	room := b.store.Assistants
	long := strings.Repeat("x", 30_000)
	for i := range 12 {
		a := assistant.Assistant{ID: fmt.Sprintf("s%02d", i), Name: "S", Shared: true, Instructions: long, Description: "d", HTTPTools: []assistant.HTTPTool{{Name: "t", URL: "https://h/?key=k"}}}
		must(t, errOf(room.Create(ctx, "eve", a, true)))
	}
	must(t, errOf(room.Create(ctx, "bert", assistant.Assistant{ID: "s03", Name: "Twin", Shared: true}, true)))
	must(t, errOf(room.Create(ctx, "anna", assistant.Assistant{ID: "mine", Name: "M", Instructions: long}, true)))
	must(t, errOf(room.Create(ctx, "anna", assistant.Assistant{ID: "s05", Name: "Mine, too"}, true)))
	var got []string
	for cursor, pages := "", 0; cursor != "" || pages == 0; pages++ {
		page, next, err := room.List(ctx, "anna", cursor, 5)
		must(t, err)
		if len(page) > 5 || next != "" && next == cursor {
			t.Fatalf("a page of %d, followed by %q", len(page), next)
		}
		for _, a := range page {
			got = append(got, a.Owner+" "+a.ID)
			if a.Instructions != "" || a.HTTPTools != nil || a.Owner == "eve" && a.Description != "d" || a.ReadOnly != (a.Owner != "anna") {
				t.Errorf("listed: %+v", a)
			}
		}
		cursor = next
	}
	var want strings.Builder
	want.WriteString("anna mine,anna s05")
	for i := range 12 {
		if i != 5 {
			fmt.Fprintf(&want, ",eve s%02d", i)
		}
	}
	testkit.Equal(t, strings.Join(got, ","), want.String(), "listed %q", got)
	for _, bad := range []string{"x", "e30", "!"} {
		_, _, err := room.List(ctx, "anna", bad, 5)
		wantErr(t, "List() after "+bad, err, persistence.ErrInvalid)
	}
	own, err := room.OwnedBy(ctx, "anna")
	if err != nil || len(own) != 2 || own[0].Instructions != long {
		t.Errorf("OwnedBy() = %d, %v", len(own), err)
	}
}
