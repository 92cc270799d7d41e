package spool

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

// victimEnv passes the database and the folder to the process to be killed.
const victimEnv = "SPOOL_TEST_VICTIM"

// TestKill kills a process whose database is away and whose spool is full, in the middle
// of an answer. The next start saves everything, once and in order, and leaves nothing
// open.
func TestKill(t *testing.T) {
	t.Parallel()
	for name, newURL := range persistencetest.URLs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, dir := newURL(t), t.TempDir()
			threadID, saved := kill(t, url, dir)
			store := persistencetest.Open(t, url, persistence.Options{})
			for range 2 { // the second run finds nothing
				must(t, Recover(t.Context(), dir, store, quiet))
			}
			messages, err := store.Messages(t.Context(), thread.Key{Owner: "anna", Thread: threadID}, 0, 1000)
			must(t, err)
			ids := make([]string, 0, len(messages))
			for _, m := range messages {
				ids = append(ids, m.ID)
			}
			testkit.Equal(t, ids, append([]string{"answer"}, saved...), "the thread has, want the answer and %v", saved)
			if got, want := messages[0].Text(), saved[len(saved)-1]; got != want {
				t.Errorf("the answer is %q, want %q", got, want)
			}
			if files, err := list(dir); err != nil || len(files) != 0 {
				t.Errorf("the files %v are left, %v", files, err)
			}
			rows := persistencetest.Rows(t, url, "SELECT count(*) FROM messages WHERE instance = 'victim'")
			testkit.Equal(t, rows[0][0], fmt.Sprint(len(ids)), "messages are the victim's, which Store.Recover will close")
		})
	}
}

func kill(t *testing.T, url, dir string) (thread string, saved []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
	cmd.Env = append(os.Environ(), victimEnv+"="+url+" "+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	full := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, value, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "thread":
			thread = value
		case "saved":
			saved = append(saved, value)
		case "full":
			full = true
			must(t, cmd.Process.Kill())
		}
	}
	if err := cmd.Wait(); err == nil || !full {
		t.Fatalf("the victim ended by itself: %v", err)
	}
	return thread, saved
}

// TestVictim is the process that gets killed. In a normal test run it does nothing.
func TestVictim(t *testing.T) {
	url, dir, ok := strings.Cut(os.Getenv(victimEnv), " ")
	if !ok {
		return
	}
	ctx := context.Background()
	s, err := persistence.Open(ctx, url, persistence.Options{Instance: "victim"})
	must(t, err)
	store := &flaky{Store: s}
	attempts := make(chan Attempt, 10_000)
	w, err := New(Config{Store: store, Dir: dir, Limit: 64 << 10, Observe: func(a Attempt) { attempts <- a }})
	must(t, err)
	go func() { _ = w.Run(ctx) }() // it is killed
	key := persistencetest.NewThread(t, s, "anna", "")
	fmt.Println("thread", key.Thread)
	answer := func(text string, how persistence.Placing) persistence.Change {
		c := put("answer", text, how).(persistence.PutMessage)
		c.Message.Role, c.Message.Metadata.Status = thread.RoleAssistant, thread.StatusInProgress
		return c
	}
	must(t, w.Save(ctx, key, answer("", persistence.PlaceLast)))
	testkit.Take(t, "an attempt", attempts)
	store.away.Store(true)
	for i := 0; ; i++ {
		id := fmt.Sprint("m", i)
		w.Push(key, put(id, id, persistence.PlaceLast), answer(id, persistence.PlaceKept))
		a := testkit.Take(t, "an attempt", attempts)
		if errors.Is(a.Err, ErrFull) {
			fmt.Println("full")
			select {}
		}
		must(t, a.Err)
		fmt.Println("saved", id)
	}
}
