package web

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"voicebridge/persistence/hooked"
	"voicebridge/toolkit/webhook"
)

func (b *bundle) hook(t *testing.T, owner string) createdHook {
	t.Helper()
	r := b.do(t, "POST", "/api/hooks", `{"url":"https://example.com/hook","events":["call.*","message.completed"]}`, as(owner+"-token-of-tests"))
	wantStatus(t, r, http.StatusCreated)
	return decode[createdHook](t, r)
}

func TestHooks(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	alice := as("alice-token-of-tests")
	made := b.hook(t, "alice")
	if _, err := webhook.ParseSecret(made.Secret); err != nil || !strings.HasPrefix(made.Secret, webhook.Prefix) || !made.Enabled || made.ID == "" {
		t.Errorf("made %+v, %v", made, err)
	}
	path := "/api/hooks/" + made.ID
	for _, read := range []string{path, "/api/hooks"} {
		r := b.do(t, "GET", read, "", alice)
		wantStatus(t, r, 200)
		if strings.Contains(r.body, "whsec_") || strings.Contains(r.body, `"secret"`) || !strings.Contains(r.body, made.ID) {
			t.Errorf("%s: %s", read, r.body)
		}
	}
	r := b.do(t, "PATCH", path, `{"enabled":false,"events":["*"],"url":"http://internal.test:9000/x"}`, alice)
	wantStatus(t, r, 200)
	if got := decode[createdHook](t, r); got.Enabled || fmt.Sprint(got.Events) != "[*]" || got.URL != "http://internal.test:9000/x" || got.Secret != "" {
		t.Errorf("changed %+v", got)
	}
	r = b.do(t, "POST", path+"/test", "", alice)
	wantStatus(t, r, 202)
	sent := decode[deliveryAnswer](t, r)
	r = b.do(t, "GET", path+"/deliveries", "", alice)
	wantStatus(t, r, 200)
	list := decode[struct{ Deliveries []deliveryAnswer }](t, r).Deliveries
	if len(list) != 1 || list[0].ID != sent.ID || list[0].State != hooked.Waiting || list[0].Type != "hook.test" || list[0].LastStatus != nil || list[0].NextAt == nil {
		t.Errorf("deliveries %+v", list)
	}
	retry := path + "/deliveries/" + sent.ID + "/retry"
	wantStatus(t, b.do(t, "POST", retry, "", alice), 202)
	must(t, func() error {
		_, err := b.db.Hooks.Change(t.Context(), "alice", made.ID, func(h *hooked.Hook) error { h.Enabled = true; return nil })
		return err
	}())
	if _, claimed, err := b.db.Hooks.Claim(t.Context(), made.ID, 1, false); err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %v, %v", claimed, err)
	}
	wantError(t, b.do(t, "POST", retry, "", alice), 409, "delivery_busy")
}

// TestManyHooks has an owner with as many as they may have.
func TestManyHooks(t *testing.T) {
	t.Parallel()
	b := setup(t, tokens)
	for range hooked.MaxHooks {
		b.hook(t, "alice")
	}
	wantError(t, b.do(t, "POST", "/api/hooks", `{"url":"https://example.com/hook","events":["*"]}`, alice), 409, "too_many_hooks")
	b.hook(t, "bob")
}
