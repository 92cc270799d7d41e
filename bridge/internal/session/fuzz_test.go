package session

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
)

// FuzzReduce feeds a call arbitrary events from both sides. It must neither panic nor ask
// to be woken endlessly, and every call ends when it is told to, with nothing left in
// progress.
func FuzzReduce(f *testing.F) {
	files, err := filepath.Glob("testdata/calls/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no transcripts", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		testkit.Must(f, err)
		f.Add([]byte(section(txtar.Parse(data), "call")))
	}
	f.Fuzz(func(t *testing.T, script []byte) {
		s := newTestState(t, Config{Settings: Settings{Limits: Limits{RenewBefore: time.Minute}}})
		now := epoch
		messages := make(map[string]string)
		note := func(effects []Effect) {
			for _, e := range effects {
				if w, ok := e.(Write); ok {
					if m, ok := w.Change.(persistence.PutMessage); ok {
						messages[m.Message.ID] = string(m.Message.Metadata.Status)
					}
				}
			}
		}
		for line := range bytes.Lines(script) {
			text := strings.TrimSpace(string(line))
			now = now.Add(10 * time.Millisecond)
			switch {
			case strings.HasPrefix(text, "up "):
				note(s.Reduce(now, UpstreamEvent{Gen: s.up.gen, Data: []byte(text[3:])}))
			case strings.HasPrefix(text, "up2 "):
				note(s.Reduce(now, UpstreamEvent{Gen: s.up.gen + 1, Data: []byte(text[4:])}))
			case text == "lost":
				note(s.Reduce(now, UpstreamState{Gen: s.up.gen, State: Failed}))
			case strings.HasPrefix(text, "br "):
				note(s.Reduce(now, BrowserEvent{Gen: 1, Data: []byte(text[3:])}))
			case text == "s1 joins":
				note(s.Reduce(now, SidebandJoined{ID: 1}))
			case text == "s1 goes":
				note(s.Reduce(now, SidebandGone{ID: 1}))
			case strings.HasPrefix(text, "s1 "):
				note(s.Reduce(now, BrowserEvent{Side: 1, Data: []byte(text[3:])}))
			case strings.HasPrefix(text, "+"):
				now = now.Add(3 * time.Second)
				note(s.Reduce(now, Tick{}))
			}
		}
		note(s.Reduce(now, Stop{Reason: EndHangup}))
		for range 100 {
			if s.Over() {
				break
			}
			at := s.Deadline()
			if at.IsZero() {
				t.Fatal("the call waits for nothing")
			}
			now = at
			note(s.Reduce(now, Tick{}))
		}
		if !s.Over() {
			t.Fatal("the call does not end")
		}
		for id, status := range messages {
			if status == "in_progress" {
				t.Errorf("message %s is left in progress", id)
			}
		}
	})
}
