package e2e

import (
	"archive/zip"
	"slices"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// TestOwnerCommands exports and erases an owner by the command line, and looks into the file.
func TestOwnerCommands(t *testing.T) {
	t.Parallel()
	url := persistencetest.SQLiteURL(t)
	store := persistencetest.Open(t, url, persistence.Options{})
	anna, bert := persistencetest.NewThread(t, store, "anna", "hers"), persistencetest.NewThread(t, store, "bert", "his")
	environ := append(environment(t), "DATABASE_URL="+url)
	names := func(owner string) (names []string) {
		code, out, errs := runCommand(t, environ, "export", "--owner", owner)
		archive, err := zip.NewReader(strings.NewReader(out), int64(len(out)))
		if code != 0 || err != nil {
			t.Fatalf("export of %s: %d, %v, %s", owner, code, err, errs)
		}
		for _, f := range archive.File {
			names = append(names, f.Name)
		}
		return names
	}
	thread := func(key thread.Key) string { return "threads/" + key.Thread + "/thread.json" }
	if got := names("anna"); !slices.Equal(got, []string{"owner.json", thread(anna)}) {
		t.Errorf("anna has %q", got)
	}
	if code, _, _ := runCommand(t, environ, "erase"); code == 0 {
		t.Error("erase needs no owner")
	}
	if code, _, errs := runCommand(t, environ, "erase", "--owner", "anna"); code != 0 {
		t.Errorf("erase: %d, %s", code, errs)
	}
	if got := names("anna"); !slices.Equal(got, []string{"owner.json"}) {
		t.Errorf("anna still has %q", got)
	}
	if got := names("bert"); !slices.Equal(got, []string{"owner.json", thread(bert)}) {
		t.Errorf("bert has %q", got)
	}
}
