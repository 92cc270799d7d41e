package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/internal/dbtype"
	"voicebridge/persistence/internal/pgdb"
)

func TestMembers(t *testing.T) {
	t.Parallel()
	at := time.Now()
	type look struct {
		after time.Duration // since the previous look
		beats int64
		dead  bool
	}
	for name, looks := range map[string][]look{
		"it beats":                           {{0, 1, false}, {10 * time.Second, 2, false}, {10 * time.Second, 3, false}},
		"it stops":                           {{0, 1, false}, {8 * time.Second, 1, false}, {8 * time.Second, 1, true}},
		"a failover of 13 seconds":           {{0, 1, false}, {2900 * time.Millisecond, 1, false}, {13 * time.Second, 1, false}, {3 * time.Second, 2, false}},
		"one that does not survive it":       {{0, 1, false}, {2900 * time.Millisecond, 1, false}, {13 * time.Second, 1, false}, {8 * time.Second, 1, false}, {8 * time.Second, 1, true}},
		"a freeze of five seconds":           {{0, 1, false}, {5 * time.Second, 1, false}, {3 * time.Second, 2, false}},
		"it comes back":                      {{0, 1, false}, {10 * time.Second, 1, false}, {10 * time.Second, 2, false}, {14 * time.Second, 2, false}},
		"the database was away for everyone": {{0, 1, false}, {10 * time.Second, 1, false}, {time.Minute, 1, false}, {3 * time.Second, 2, false}},
		"afterwards one does not come back":  {{0, 1, false}, {time.Minute, 1, false}, {8 * time.Second, 1, false}, {8 * time.Second, 1, true}},
		"this process has just begun":        {{0, 1, false}},
		"a beat at the very last moment":     {{0, 1, false}, {14 * time.Second, 1, false}, {time.Second, 2, false}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMembers("", 0)
			at := at
			for i, look := range looks {
				at = at.Add(look.after)
				m.look([]pgdb.Instance{{ID: "other", Beats: look.beats}, {ID: "ended", EndedAt: new(dbtype.At(at))}}, at)
				if _, dead := m.dead("other"); dead != look.dead {
					t.Errorf("after look %d dead is %v", i, dead)
				}
				if _, dead := m.dead("ended"); !dead {
					t.Error("an ended instance is not dead")
				}
			}
		})
	}
}

func TestProcessGone(t *testing.T) {
	t.Parallel()
	_, process := thisProcess()
	if processGone(process) {
		t.Errorf("this process, %q, is gone", process)
	}
	// kill(2) finds 0, and /proc does not: so it is with another user's process if /proc hides those.
	for _, other := range []string{"", "x", "1", "99999999999999999999 1", "0 1"} {
		if processGone(other) {
			t.Errorf("processGone(%q) = true, though nothing is known about it", other)
		}
	}
	if process == "" {
		return // this system does not tell
	}
	child := exec.CommandContext(t.Context(), "sleep", "1000")
	testkit.Must(t, child.Start())
	began, err := processStart(child.Process.Pid)
	testkit.Must(t, err)
	name := fmt.Sprint(child.Process.Pid, " ", began)
	if processGone(name) {
		t.Error("a living child is gone")
	}
	testkit.Must(t, child.Process.Kill())
	_ = child.Wait() // it was killed
	if !processGone(name) {
		t.Error("a dead child is not gone")
	}
	if !processGone(fmt.Sprint(os.Getpid(), " 1")) {
		t.Error("a process whose id was reused is not gone")
	}
}
