package spool

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/filelock"
	"voicebridge/persistence/persistencetest"
)

// shortEnv passes the folder and the thread to the process whose files may not grow.
const shortEnv = "SPOOL_TEST_SHORT"

// TestShortWrite: of records that did not fit on the disk, whose changes were refused, none is found behind a shorter
// one that did fit.
func TestShortWrite(t *testing.T) {
	t.Parallel()
	store, dir := persistencetest.SQLite(t), t.TempDir()
	b := &bundle{T: t, store: &flaky{Store: store}, key: persistencetest.NewThread(t, store, "anna", ""), dir: dir}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShortVictim$")
	cmd.Env = append(os.Environ(), shortEnv+"="+dir+" "+b.key.Thread)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	must(t, Recover(t.Context(), dir, store, quiet))
	testkit.Equal(t, b.words(), "1 2", "the thread")
	if files := b.files(); len(files) != 0 {
		t.Errorf("the files %v are left", files)
	}
}

// TestShortVictim is the process whose files may not grow. In a normal test run it does nothing.
func TestShortVictim(t *testing.T) {
	dir, thread, ok := strings.Cut(os.Getenv(shortEnv), " ")
	if !ok {
		return
	}
	said := func(words string) record {
		return record{Owner: "anna", Thread: thread, Changes: persistence.Changes{put(words[:1], words, persistence.PlaceLast)}}
	}
	f, err := create(dir, "dead", 0)
	must(t, err)
	must(t, f.append(said("1")))
	long, whole := said("a"+strings.Repeat("!", 100)), said("b")
	room := f.tail + 100
	for _, r := range []record{long, whole} {
		data, err := json.Marshal(r)
		must(t, err)
		room += headBytes + int64(len(data))
	}
	signal.Ignore(syscall.SIGXFSZ)                                                                          // the error is enough
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(room), Max: uint64(room)})) //nolint:gosec // a few kilobytes
	if err := f.append(long, whole, said("c")); !errors.Is(err, syscall.EFBIG) {
		t.Fatalf("append() = %v", err)
	}
	must(t, errors.Join(f.append(said("2")), filelock.Close(f.f)))
}
