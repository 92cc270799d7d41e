package doctor

import (
	"os"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// TestNoPlaceForTheSpool cannot run beside others: it changes the working folder.
func TestNoPlaceForTheSpool(t *testing.T) {
	t.Chdir(t.TempDir())
	var got []string
	d := &doctor{report: func(f finding) { got = append(got, f.String()) }}
	d.spool()
	if len(got) > 0 {
		t.Errorf("in an empty folder: %q", got)
	}
	testkit.Must(t, os.WriteFile("data", nil, 0o600))
	d.spool()
	if len(got) != 1 || !strings.HasPrefix(got[0], "warning: database: the folder data/spool ") {
		t.Errorf("without a place: %q", got)
	}
}
