package persistence_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// victimURL is the environment variable that gives the process to be killed its database.
const victimURL = "PERSISTENCE_TEST_VICTIM_URL"

// TestKill kills a process in the middle of an answer. Everything it reported as saved
// must be there, once and in order, and nothing stays open.
func TestKill(t *testing.T) {
	t.Parallel()
	for name, newURL := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			threadID, saved, flushed := kill(t, url, 40)
			s := persistencetest.Open(t, url, persistence.Options{DeadAfter: 1})
			must(t, s.Serve(t.Context()))
			calls, err := s.Recover(t.Context())
			if err != nil || len(calls) != 1 || calls[0].UpstreamCallID != "rtc_1" {
				t.Errorf("Recover() = %+v, %v, want the call", calls, err)
			}
			messages, err := s.Messages(t.Context(), thread.Key{Owner: "anna", Thread: threadID}, 0, 1000)
			must(t, err)
			answer := messages[0]
			if answer.Metadata.Status != thread.StatusInterrupted || len(answer.Text()) < flushed {
				t.Errorf("the answer is %s with %d bytes, want interrupted with %d", answer.Metadata.Status, len(answer.Text()), flushed)
			}
			// One more may have been saved without being reported.
			messages = messages[1:]
			if n := len(messages); n != len(saved) && n != len(saved)+1 {
				t.Fatalf("%d messages, want %d or one more", n, len(saved))
			}
			for i, id := range saved {
				if messages[i].ID != id {
					t.Fatalf("message %d is %s, want %s", i, messages[i].ID, id)
				}
			}
		})
	}
}

// kill starts a victim, reads what it reports as saved, and kills it after n messages.
func kill(t *testing.T, url string, n int) (thread string, saved []string, flushed int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victimURL+"="+url)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, value, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "thread":
			thread = value
		case "flushed":
			if _, err := fmt.Sscan(value, &flushed); err != nil {
				t.Fatal(err)
			}
		case "saved":
			saved = append(saved, value)
		}
		if len(saved) == n {
			must(t, cmd.Process.Kill())
			n = -1 // what is still in the pipe counts as reported
		}
	}
	if err := cmd.Wait(); err == nil || n != -1 {
		t.Fatalf("the victim ended by itself: %v after %d messages", err, len(saved))
	}
	return thread, saved, flushed
}

// TestVictim is the process that gets killed. In a normal test run it does nothing.
func TestVictim(t *testing.T) {
	url := os.Getenv(victimURL)
	if url == "" {
		return
	}
	ctx := context.Background()
	s, err := persistence.Open(ctx, url, persistence.Options{Instance: "victim"})
	must(t, err)
	must(t, s.Serve(ctx))
	row, err := s.CreateThread(ctx, "anna", "")
	must(t, err)
	key := thread.Key{Owner: "anna", Thread: row.ID}
	must(t, s.Records.SaveCall(ctx, key, records.Call{ID: "c", UpstreamCallID: "rtc_1"}))
	fmt.Println("thread", row.ID)
	answer := thread.Message{Role: thread.RoleAssistant, Parts: []thread.Part{thread.TextPart("")}}
	answer.Metadata.Status = thread.StatusInProgress
	if answer, err = persistencetest.AppendMessage(ctx, s, key, answer); err != nil {
		t.Fatal(err)
	}
	for {
		m := thread.Message{Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart("x")}}
		if m, err = persistencetest.AppendMessage(ctx, s, key, m); err != nil {
			t.Fatal(err)
		}
		fmt.Println("saved", m.ID)
		answer.Parts[0].Text += "word "
		if answer, err = persistencetest.UpdateMessage(ctx, s, key, answer); err != nil {
			t.Fatal(err)
		}
		fmt.Println("flushed", len(answer.Text()))
	}
}
