package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/persistencetest"
	"voicebridge/realtime"
)

// TestNeighbourTakesThread kills a process while the database is away, with what was said in its spool, and calls again on
// the thread, on another process. One that runs in the same folder brings the words into the thread first, and its
// model is told them. If the folder is another one, they come when their process starts again, and still stand before what
// was said in the later call.
func TestNeighbourTakesThread(t *testing.T) {
	t.Parallel()
	for name, shared := range map[string]bool{"same folder": true, "another folder": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			neighbourTakesThread(t, shared)
		})
	}
}

func neighbourTakesThread(t *testing.T, shared bool) {
	server := persistencetest.NewServer(t)
	c := newCluster(t, 1, rigConfig{database: server.URL()})
	second := &node{path: persistencetest.NewPath(t, c.database), dir: t.TempDir()}
	if shared {
		second.dir = c.nodes[0].dir
	}
	c.nodes = append(c.nodes, second)
	c.launch(1)
	c.at(0)
	first := c.dial(t, request{})
	first.next("bridge.ready")
	var want []string
	echo := func(to *caller, text string) {
		t.Helper()
		to.say("Echo: " + text)
		to.next(realtime.TypeOutputBufferStopped) // heard to its end
		want = append(want, "user text completed: Echo: "+text, "assistant voice completed: Yes.")
	}
	server.Crash()
	for n := range 3 {
		echo(first, fmt.Sprint("first ", n))
	}
	waitSpooled(t, c.nodes[0].dir, 3)
	c.nodes[0].kill()
	server.Start()

	c.at(1)
	later := c.dial(t, request{thread: first.thread})
	var ready struct{ Replayed int }
	must(t, json.Unmarshal(later.next("bridge.ready").Raw, &ready))
	testkit.Equal(t, map[bool]int{true: len(want)}[shared], ready.Replayed, "messages were replayed")
	if !shared {
		c.launch(0) // before anything is said in the later call
	}
	later.session.SimulateSpeech()
	later.next(realtime.TypeOutputBufferStopped)
	want = append(want, "user voice completed: "+spokenWords, "assistant voice completed: "+spokenAnswer)
	echo(later, "second 0")
	later.hangUp()
	c.untilSaved(later)
	c.wantScript(t, first.thread, want...)
}
