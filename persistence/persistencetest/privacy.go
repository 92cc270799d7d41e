package persistencetest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"strings"
	"testing"

	"voicebridge/assistant"
	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/admission"
	"voicebridge/persistence/hooked"
	"voicebridge/persistence/privacy"
	"voicebridge/thread"
)

// privacy exports and erases an owner with many threads, one of which has an odd id, and leaves another alone.
func (s suite) privacy(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	odd := thread.Key{Owner: "anna", Thread: "../../etc/passwd"}
	must(t, errOf(b.store.EnsureThread(ctx, odd)))
	for range 250 {
		newThread(t, b.store, "anna")
	}
	other := newThread(t, b.store, "bert")
	for _, owner := range []string{"anna", "bert"} {
		must(t, errOf(b.store.Hooks.Add(ctx, hooked.Hook{Owner: owner, URL: "https://example.com/", Events: []string{"*"}, Enabled: true, Secret: "whsec_x"})))
		must(t, errOf(b.store.Assistants.Create(ctx, owner, assistant.Assistant{Name: "helper"}, false)))
		must(t, b.store.Admission.SaveToken(ctx, admission.Token{ID: "token of " + owner, Kind: "session", Owner: owner, Data: "{}", CreatedAt: start, ExpiresAt: start}, 10))
	}
	if err := privacy.Export(ctx, new(bytes.Buffer), "", privacy.Parts(b.store)); err == nil {
		t.Error("nobody's data are exported")
	}
	files := func(owner string) (names []string) {
		var out bytes.Buffer
		must(t, privacy.Export(ctx, &out, owner, privacy.Parts(b.store)))
		archive, err := zip.NewReader(bytes.NewReader(out.Bytes()), int64(out.Len()))
		must(t, err)
		for _, f := range archive.File {
			names = append(names, f.Name)
			if strings.Contains(f.Name, "..") && !strings.Contains(f.Name, "..%2F") || strings.HasPrefix(f.Name, "/") {
				t.Errorf("the archive has a file %q", f.Name)
			}
		}
		return names
	}
	testkit.Equal(t, len(files("anna")), 1+1+1+252, "the archive has files")
	must(t, privacy.Erase(ctx, "anna", privacy.Parts(b.store)))
	if got := files("anna"); fmt.Sprint(got) != "[owner.json]" {
		t.Errorf("after the end there are %q", got)
	}
	wantRows(t, b.url, "SELECT owner FROM threads WHERE owner <> '' UNION SELECT owner FROM hooks UNION SELECT owner FROM assistants UNION SELECT owner FROM access_tokens", "bert")
	if _, err := b.store.Thread(ctx, other); err != nil || len(files("bert")) != 4 {
		t.Errorf("bert has %q, %v", files("bert"), err)
	}
}

// shares shows a thread to whoever has its token, until it is withdrawn or deleted.
func (s suite) shares(t *testing.T) {
	b := s.setup(t)
	ctx := t.Context()
	stranger := thread.Key{Owner: "bert", Thread: b.key.Thread}
	wantErr(t, "a stranger's share", errOf(b.store.Shares.Share(ctx, stranger)), persistence.ErrNotFound)
	token, err := b.store.Shares.Share(ctx, b.key)
	must(t, err)
	if again, err := b.store.Shares.Share(ctx, b.key); err != nil || again != token || len(token) < 30 {
		t.Errorf("Share() = %q and %q, %v", token, again, err)
	}
	if shared, err := b.store.Shares.Shared(ctx, b.key); err != nil || shared != token {
		t.Errorf("Shared() = %q, %v, want %q", shared, err, token)
	}
	wantErr(t, "a stranger's Shared()", errOf(b.store.Shares.Shared(ctx, stranger)), persistence.ErrNotFound)
	wantErr(t, "a stranger's withdrawal", b.store.Shares.Withdraw(ctx, stranger), persistence.ErrNotFound)
	if key, err := b.store.Shares.Find(ctx, token); err != nil || key != b.key {
		t.Errorf("Find() = %v, %v", key, err)
	}
	for _, wrong := range []string{"", "\x00", token[1:], token + "=", "%", strings.Repeat("x", 10_000)} {
		wantErr(t, "Find()", errOf(b.store.Shares.Find(ctx, wrong)), persistence.ErrNotFound)
	}
	must(t, b.store.Shares.Withdraw(ctx, b.key))
	wantErr(t, "Shared() after the withdrawal", errOf(b.store.Shares.Shared(ctx, b.key)), persistence.ErrNotFound)
	wantErr(t, "Find() after the withdrawal", errOf(b.store.Shares.Find(ctx, token)), persistence.ErrNotFound)
	token, err = b.store.Shares.Share(ctx, b.key)
	must(t, err)
	must(t, b.store.DeleteThread(ctx, b.key))
	wantErr(t, "Find() after the end", errOf(b.store.Shares.Find(ctx, token)), persistence.ErrNotFound)
}
