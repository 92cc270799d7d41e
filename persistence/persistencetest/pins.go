package persistencetest

import (
	"maps"
	"testing"

	"voicebridge/persistence"
)

func (s suite) toolPins(t *testing.T) {
	url := s.newURL(t)
	store, ctx := Open(t, url, persistence.Options{}), t.Context()
	pin := func(server string, definitions map[string]string) {
		t.Helper()
		must(t, store.Admission.PinTools(ctx, server, definitions))
	}
	want := func(server string, definitions map[string]string) {
		t.Helper()
		if got, err := store.Admission.ToolPins(ctx, server); err != nil || !maps.Equal(got, definitions) {
			t.Errorf("ToolPins(%s) = %q, %v, want %q", server, got, err, definitions)
		}
	}
	want("files", nil)
	pin("files", map[string]string{"read": `{"description":"Reads <é>"}`, "list": `{}`})
	pin("web", map[string]string{"read": `{"description":"other"}`})
	want("files", map[string]string{"read": `{"description":"Reads <é>"}`, "list": `{}`})
	pin("files", map[string]string{"read": `{"description":"Reads well"}`, "list": "", "gone": ""})
	pin("files", nil)
	must(t, store.Close())
	store = Open(t, url, persistence.Options{})
	want("files", map[string]string{"read": `{"description":"Reads well"}`})
	want("web", map[string]string{"read": `{"description":"other"}`})
}
