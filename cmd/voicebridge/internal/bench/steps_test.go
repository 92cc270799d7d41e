package bench

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestSteps reads steps from a log that grows, and draws them.
func TestSteps(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "log")
	add := func(lines string) {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		must(t, err)
		_, err = file.WriteString(lines)
		must(t, err)
		must(t, file.Close())
	}
	log := traces{log: path}
	if _, err := log.next(); err == nil {
		t.Error("there is no log")
	}
	add(`{"msg":"call set up","browser.ice":"900.0-900.0"}` + "\n" + `{"msg":"call set up","browser.ice":"1`)
	if _, err := log.next(); err != nil {
		t.Error(err)
	}
	add(`0.0-30.0","call_id":"1.5-2.5"}` + "\n" + `{"msg":"call set up","browser.ice":"12.0-40.0","call.gate":"40.0-41.5"}` + "\nno JSON\n" +
		`{"msg":"call ended","browser.ice":"1.0-2.0"}` + "\n" + `{"msg":"call set up","browser.ice":"11.0-20.0","call.gate":"x"}` + "\n")
	steps, err := log.next()
	must(t, err)
	if diff := cmp.Diff([]Step{{"browser.ice", 11, 30}, {"call.gate", 40, 41.5}}, steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	var drawn strings.Builder
	must(t, SetUpReport{Rounds: []SetUpRound{{Steps: steps}}}.WriteTable(&drawn))
	for _, line := range []string{
		"browser.ice           11    30  " + strings.Repeat(" ", 15) + strings.Repeat("█", 28) + "\n",
		"call.gate             40    42  " + strings.Repeat(" ", 57) + strings.Repeat("█", 3) + "\n",
	} {
		if !strings.Contains(drawn.String(), line) {
			t.Errorf("no %q in\n%s", line, &drawn)
		}
	}
}
