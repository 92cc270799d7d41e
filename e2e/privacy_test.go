package e2e

import (
	"archive/zip"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
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
	testkit.Equal(t, names("anna"), []string{"owner.json", thread(anna)}, "anna")
	if code, _, _ := runCommand(t, environ, "erase"); code == 0 {
		t.Error("erase needs no owner")
	}
	if code, _, errs := runCommand(t, environ, "erase", "--owner", "anna"); code != 0 {
		t.Errorf("erase: %d, %s", code, errs)
	}
	testkit.Equal(t, names("anna"), []string{"owner.json"}, "anna still")
	testkit.Equal(t, names("bert"), []string{"owner.json", thread(bert)}, "bert")
}
