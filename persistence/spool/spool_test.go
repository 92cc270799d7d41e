package spool

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"voicebridge/internal/testkit"
	"voicebridge/persistence"
	"voicebridge/persistence/filelock"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
)

var must = testkit.Must

func TestMain(m *testing.M) { persistencetest.Main(m) }

var (
	errAway = errors.New("the database is away")
	quiet   = slog.New(slog.DiscardHandler)
)

// flaky is a store that fails when the test says so.
type flaky struct {
	*persistence.Store
	away   atomic.Bool
	groups atomic.Int64 // of the largest transaction
	// If not nil, each transaction sends on entered and then waits for hold.
	entered, hold chan struct{}
}

func (f *flaky) ApplyAll(ctx context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	if f.entered != nil {
		f.entered <- struct{}{}
		<-f.hold
	}
	if f.away.Load() {
		return nil, errAway
	}
	f.groups.Store(max(f.groups.Load(), int64(len(groups))))
	return f.Store.ApplyAll(ctx, groups)
}

type bundle struct {
	*testing.T
	store *flaky
	key   thread.Key
	dir   string
	w     *Writer
	stop  func()
	// pending gets the arguments of Delayed.
	pending  chan int
	saved    chan string // the texts passed to Saved
	attempts chan Attempt
}

func setup(t *testing.T, cfg Config) *bundle {
	t.Helper()
	store := &flaky{Store: persistencetest.SQLite(t)}
	b := &bundle{T: t, store: store, key: persistencetest.NewThread(t, store.Store, "anna", ""), dir: t.TempDir(), pending: make(chan int, 10_000), saved: make(chan string, 10_000), attempts: make(chan Attempt, 10_000)}
	b.start(cfg)
	return b
}

func (b *bundle) start(cfg Config) {
	b.Helper()
	cfg.Store, cfg.Dir = b.store, b.dir
	cfg.Slow = cmp.Or(cfg.Slow, time.Minute) // so that a busy machine does not count as a slow database
	cfg.Delayed = func(n int) { b.pending <- n }
	cfg.Observe = func(a Attempt) { b.attempts <- a }
	cfg.Saved = func(_ thread.Key, messages []thread.Message) {
		for _, m := range messages {
			b.saved <- m.Text()
		}
	}
	w, err := New(cfg)
	must(b, err)
	b.w, b.stop = w, persistencetest.Start(b, w.Run)
}

func put(id, words string, how persistence.Placing) persistence.Change {
	return persistence.PutMessage{
		Message: thread.Message{ID: id, Role: thread.RoleUser, Parts: []thread.Part{thread.TextPart(words)}},
		Place:   persistence.Place{How: how},
	}
}

// commit pushes changes and returns how they were saved.
func (b *bundle) commit(changes ...persistence.Change) Attempt {
	b.Helper()
	a := b.try(changes...)
	must(b, a.Err)
	must(b, b.w.Await(b.Context(), b.key))
	return a
}

// try pushes changes and returns the first attempt to save them.
func (b *bundle) try(changes ...persistence.Change) Attempt {
	b.Helper()
	if !b.w.Push(b.key, changes...) {
		b.Fatal("Push() = false")
	}
	return <-b.attempts
}

// words returns the texts of the thread.
func (b *bundle) words() string {
	b.Helper()
	messages, err := b.store.Messages(b.Context(), b.key, 0, 1000)
	must(b, err)
	var texts []string
	for _, m := range messages {
		texts = append(texts, m.Text())
	}
	return strings.Join(texts, " ")
}

// empty waits until the spool is empty.
func (b *bundle) empty() {
	for n := range b.pending {
		if n == 0 {
			return
		}
	}
}

func (b *bundle) files() []string {
	b.Helper()
	files, err := os.ReadDir(b.dir)
	must(b, err)
	var names []string
	for _, f := range files {
		names = append(names, f.Name())
	}
	return names
}

func TestWriter(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	r := b.commit(put("1", "one", persistence.PlaceLast))
	if r.InFile || r.Ended.Before(r.Due) || r.Due.IsZero() {
		t.Errorf("saved: %+v", r)
	}
	b.store.away.Store(true)
	for i := 2; i <= 4; i++ {
		r := b.commit(put(fmt.Sprint(i), fmt.Sprint(i), persistence.PlaceLast), put("1", fmt.Sprint("one", i), persistence.PlaceKept))
		if !r.InFile {
			t.Errorf("commit() while the database is away = %+v", r)
		}
	}
	testkit.Equal(t, b.w.Pending(), 6, "Pending()")
	testkit.Equal(t, b.words(), "one", "the thread")
	b.store.away.Store(false)
	b.empty()
	testkit.Equal(t, b.words(), "one4 2 3 4", "the thread")
	for _, want := range []string{"one", "2", "one2", "3", "one3", "4", "one4"} {
		testkit.Equal(t, testkit.Take(t, "that it is saved", b.saved), want, "Saved()")
	}
	if r := b.commit(put("5", "5", persistence.PlaceLast)); r.InFile || b.w.Pending() != 0 {
		t.Errorf("commit() after the outage = %+v", r)
	}
	b.stop()
	if files := b.files(); len(files) != 0 {
		t.Errorf("the files %v are left", files)
	}
	if err := b.w.Save(t.Context(), b.key, put("6", "6", persistence.PlaceLast)); err == nil {
		t.Error("Save() after the end = nil")
	}
}

// sleepy is a store that takes its time.
type sleepy time.Duration

func (d sleepy) ApplyAll(_ context.Context, groups []persistence.ThreadChanges) ([]persistence.Applied, error) {
	time.Sleep(time.Duration(d))
	return make([]persistence.Applied, len(groups)), nil
}

func (sleepy) Instance() string { return "sleepy" }

// TestSlowAgain has each transaction take nearly as long as one may: what has waited for one does not wait as long
// again.
func TestSlowAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		attempts := make(chan Attempt, 10)
		w, err := New(Config{Store: sleepy(900 * time.Millisecond), Dir: dir, Observe: func(a Attempt) { attempts <- a }})
		must(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- w.Run(ctx) }()
		for i := range 2 {
			w.Push(one, put(fmt.Sprint(i), "words", persistence.PlaceLast))
			time.Sleep(time.Nanosecond) // the first one is being written
		}
		for i, want := range []time.Duration{900 * time.Millisecond, time.Second} {
			if a := <-attempts; a.Err != nil || a.Ended.Sub(a.Due).Round(time.Millisecond) != want || a.InFile != (i > 0) {
				t.Errorf("attempt %d: %+v after %v, want %v", i, a, a.Ended.Sub(a.Due), want)
			}
		}
		cancel()
		must(t, <-ran)
	})
}

// What a slow database has not saved in time stays in the file until it has, and later
// changes queue up behind it.
func TestSlowDatabase(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]bool{"saved late": false, "not saved": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Config{Slow: time.Nanosecond})
			b.stop()
			b.store.entered, b.store.hold = make(chan struct{}), make(chan struct{})
			b.start(Config{Slow: time.Nanosecond})
			go func() { <-b.store.entered }()
			if r := b.commit(put("1", "one", persistence.PlaceLast)); !r.InFile {
				t.Errorf("commit() = %+v", r)
			}
			if r := b.commit(put("2", "two", persistence.PlaceLast)); !r.InFile || b.w.Pending() != 2 {
				t.Errorf("commit() of what comes next = %+v, and %d wait", r, b.w.Pending())
			}
			testkit.Equal(t, len(b.pending), 0, "Delayed() was called times, though the database is only slow")
			b.store.away.Store(away)
			b.store.hold <- struct{}{} // the first transaction ends
			go func() {
				for range b.store.entered { // the next ones do not wait
					b.store.away.Store(false)
					b.store.hold <- struct{}{}
				}
			}()
			if away {
				testkit.Equal(t, testkit.Take(t, "what is pending", b.pending), 2, "Delayed()")
			}
			b.empty()
			testkit.Equal(t, b.words(), "one two", "the thread")
			if first, second := testkit.Take(t, "that it is saved", b.saved), testkit.Take(t, "that it is saved", b.saved); first != "one" || second != "two" {
				t.Errorf("Saved() got %q, %q", first, second)
			}
			b.stop()
			close(b.store.entered)
			if files := b.files(); len(files) != 0 {
				t.Errorf("the files %v are left", files)
			}
		})
	}
}

// What the last attempt does not save stays in the file, and the log says so.
func TestEndWhileAway(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.stop()
	b.store.entered, b.store.hold = make(chan struct{}), make(chan struct{})
	var log strings.Builder
	b.start(Config{Slow: time.Nanosecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	go func() {
		for range b.store.entered {
		}
	}()
	b.store.away.Store(true)
	if r := b.commit(put("1", "one", persistence.PlaceLast)); !r.InFile {
		t.Errorf("commit() = %+v", r)
	}
	time.AfterFunc(time.Millisecond, func() { close(b.store.hold) }) // the attempt ends after Run was told to
	b.stop()
	close(b.store.entered)
	if !strings.Contains(log.String(), "stay in the spool until the next start") || len(b.files()) != 1 {
		t.Errorf("the files are %v, and the log is %s", b.files(), &log)
	}
}

// Many calls that write at once share transactions, each keeps its order, and an outage in
// the middle does not change that.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	const calls, each = 20, 30
	keys := make([]thread.Key, calls)
	for i := range keys {
		keys[i] = persistencetest.NewThread(t, b.store.Store, "anna", "")
	}
	var writing sync.WaitGroup
	for i, key := range keys {
		writing.Go(func() {
			for j := range each {
				if i == 0 && j%10 == 3 {
					b.store.away.Store(true)
				}
				if i == 0 && j%10 == 8 {
					b.store.away.Store(false)
				}
				if err := b.w.Save(t.Context(), key, put(fmt.Sprintf("%d.%d", i, j), fmt.Sprint(j), persistence.PlaceLast)); err != nil {
					t.Errorf("Save() = %v", err)
				}
			}
		})
	}
	writing.Wait()
	b.store.away.Store(false)
	for b.w.Pending() > 0 {
		testkit.Take(t, "what is pending", b.pending)
	}
	b.stop()
	for _, key := range keys {
		messages, err := b.store.Messages(t.Context(), key, 0, 1000)
		if err != nil || len(messages) != each {
			t.Fatalf("Messages() = %d, %v, want %d", len(messages), err, each)
		}
		for j, m := range messages {
			if m.Text() != fmt.Sprint(j) {
				t.Fatalf("message %d is %q", j, m.Text())
			}
		}
	}
	if n := b.store.groups.Load(); n < 2 {
		t.Errorf("the largest transaction had %d commits", n)
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Limit: 2000})
	b.store.away.Store(true)
	var err error
	n := 0
	for ; err == nil; n++ {
		err = b.try(put(fmt.Sprint(n), fmt.Sprint(n), persistence.PlaceLast)).Err
	}
	if !errors.Is(err, ErrFull) || !b.w.Full() || n < 3 {
		t.Errorf("the attempt to save message %d: %v", n, err)
	}
	b.store.away.Store(false)
	b.empty()
	// What did not fit has waited.
	if err := b.w.Save(t.Context(), b.key, put("last", "last", persistence.PlaceLast)); err != nil || b.w.Full() {
		t.Errorf("Save() = %v", err)
	}
	if got := strings.Fields(b.words()); len(got) != n+1 || got[n-1] != fmt.Sprint(n-1) || got[n] != "last" {
		t.Errorf("the thread is %q, want %d messages", got, n+1)
	}
}

// TestNoRoom: while changes cannot be written anywhere, new calls should be refused, and no longer once the database
// takes them again.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	store := &flaky{Store: persistencetest.SQLite(t)}
	attempts := make(chan Attempt, 10_000)
	w, err := New(Config{Store: store, Dir: t.TempDir(), Slow: time.Minute, Observe: func(a Attempt) { attempts <- a }})
	must(t, err)
	if err := w.file.f.Close(); err != nil { // it fails as on a full disk
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	key := persistencetest.NewThread(t, store.Store, "anna", "")
	store.away.Store(true)
	w.Push(key, put("1", "1", persistence.PlaceLast))
	if a := testkit.Take(t, "an attempt", attempts); a.Err == nil || !w.Full() {
		t.Errorf("while the database is away: %v, Full() = %t", a.Err, w.Full())
	}
	store.away.Store(false)
	if err := w.Await(ctx, key); err != nil || w.Full() {
		t.Errorf("Await() = %v, Full() = %t", err, w.Full())
	}
	stop()
	if err := testkit.Take(t, "the end", done); !errors.Is(err, os.ErrClosed) {
		t.Errorf("Run() = %v", err)
	}
}

// Changes that arrive while the file is being written to the database must wait behind it.
func TestOrderWhileDraining(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.store.away.Store(true)
	b.commit(put("1", "1", persistence.PlaceLast))
	b.stop() // leaves a file that the next Writer does not know
	b.store.away.Store(false)
	b.start(Config{})
	testkit.Equal(t, b.words(), "", "the thread")
	must(t, Recover(t.Context(), b.dir, b.store, quiet))
	b.store.away.Store(true)
	b.commit(put("2", "2", persistence.PlaceLast))
	b.stop()
	b.store.entered, b.store.hold = make(chan struct{}), make(chan struct{})
	b.start(Config{})
	done := make(chan Attempt)
	go func() { done <- b.commit(put("3", "3", persistence.PlaceLast)) }()
	testkit.Take(t, "the beginning", b.store.entered) // directly, which fails
	b.store.hold <- struct{}{}
	if r := testkit.Take(t, "the end", done); !r.InFile {
		t.Errorf("commit() = %+v", r)
	}
	testkit.Take(t, "the beginning", b.store.entered) // from the file, which takes long
	b.store.away.Store(false)
	for i := 4; i < 8; i++ {
		if r := b.commit(put(fmt.Sprint(i), fmt.Sprint(i), persistence.PlaceLast)); !r.InFile {
			t.Errorf("commit() while the file is read = %+v", r)
		}
	}
	close(b.store.hold)
	go func() {
		for range b.store.entered { // nobody waits any more
		}
	}()
	b.empty()
	b.stop()
	close(b.store.entered)
	testkit.Equal(t, b.words(), "1 3 4 5 6 7", "the thread")
	b.store.entered = nil
	if err := Recover(t.Context(), b.dir, b.store, quiet); err != nil || len(b.files()) != 0 {
		t.Errorf("Recover() = %v, left %v", err, b.files())
	}
	testkit.Equal(t, b.words(), "1 3 4 5 6 7 2", "the thread")
}

func TestRecoverLeavesLiving(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.store.away.Store(true)
	b.commit(put("1", "1", persistence.PlaceLast))
	before := b.files()
	must(t, Recover(t.Context(), b.dir, b.store.Store, quiet))
	if got := b.words(); got != "" || len(b.files()) != len(before) {
		t.Errorf("the thread is %q, the files %v", got, b.files())
	}
}

// leave makes a file with three messages, as a dead process would.
func leave(t *testing.T, dir string, key thread.Key) *file {
	t.Helper()
	f, err := create(dir, "dead", 0)
	must(t, err)
	for _, id := range []string{"1", "2", "3"} {
		must(t, f.append(record{Owner: key.Owner, Thread: key.Thread, Changes: persistence.Changes{put(id, id, persistence.PlaceLast)}}))
	}
	return f
}

func TestRecoverDamaged(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		harm func(f *file) error
		want string
		kept bool
	}{
		"nothing":           {func(*file) error { return nil }, "1 2 3", false},
		"no reserved space": {func(f *file) error { return f.f.Truncate(f.tail) }, "1 2 3", false},
		"torn":              {func(f *file) error { return f.f.Truncate(f.tail - 5) }, "1 2", false},
		"torn in the head":  {func(f *file) error { return f.f.Truncate(f.tail + 3) }, "1 2 3", false},
		"torn in reserved space": {func(f *file) error {
			return over(f, f.tail-9, strings.Repeat("\x00", 9))
		}, "1 2", false},
		"a nonsense length": {func(f *file) error {
			return over(f, f.tail, "\xff\xff\xff\xff1234")
		}, "1 2 3", false},
		"damaged in the middle": {overSecond(headBytes+3, "?"), "1 3", true},
		"too long a length":     {overSecond(0, "\xff\xff\xff\xff"), "1 3", true},
		"a wrong length":        {overSecond(0, "\x09"), "1 3", true},
		"no length":             {overSecond(0, "\x00\x00\x00\x00"), "1 3", true},
		"no head":               {overSecond(0, strings.Repeat("\x00", headBytes+40)), "1 3", true},
		"already applied in part": {func(f *file) error {
			r, _, err := f.read(f.first)
			return errors.Join(err, f.append(record{Owner: r.Owner, Thread: r.Thread, Saved: f.first}))
		}, "2 3", false},
		"not ours":     {func(f *file) error { return errors.Join(f.f.Truncate(0), over(f, 0, "SQLite format 3")) }, "", true},
		"damaged at 0": {func(f *file) error { return over(f, 0, "SQLite format 3") }, "1 2 3", true},
		"empty":        {func(f *file) error { return f.f.Truncate(0) }, "", true},
		"bad contents": {func(f *file) error { f.tail = f.first; return raw(f, `{"changes":[{"kind":"?"}]}`) }, "2 3", true},
		"only bad ones": {func(f *file) error {
			f.tail = f.first
			return errors.Join(f.f.Truncate(f.first), raw(f, `{"changes":[{"kind":"?"}]}`))
		}, "", true},
		"no instance": {func(f *file) error { f.tail = 0; return raw(f, `{}`) }, "1 2 3", true},
		"braces":      {func(f *file) error { return over(f, f.tail, strings.Repeat("{", 3<<20)) }, "1 2 3", false},
		"braces, and a record after them": {func(f *file) error {
			r, _, err := f.read(f.first)
			err = errors.Join(err, over(f, f.tail, strings.Repeat("{", 3<<20)))
			f.tail += 3 << 20
			r.Changes = persistence.Changes{put("4", "4", persistence.PlaceLast)}
			return errors.Join(err, f.append(r))
		}, "1 2 3 4", true},
		"what looks like records everywhere": {func(f *file) error {
			return over(f, f.tail, strings.Repeat("\x00\x00\x20\x00sum?{", 1<<20))
		}, "1 2 3", true},
		"a record of 3 GB": {func(f *file) error {
			return errors.Join(over(f, f.tail, "\x00\x00\x00\xc0sum?{"), f.f.Truncate(f.tail+3<<30+headBytes))
		}, "1 2 3", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := persistencetest.SQLite(t)
			b := &bundle{T: t, store: &flaky{Store: store}, key: persistencetest.NewThread(t, store, "anna", ""), dir: t.TempDir()}
			f := leave(t, b.dir, b.key)
			must(t, errors.Join(test.harm(f), filelock.Close(f.f)))
			for range 2 {
				if err := Recover(t.Context(), b.dir, b.store, quiet); err != nil {
					t.Errorf("Recover() = %v", err)
				}
			}
			testkit.Equal(t, b.words(), test.want, "the thread")
			files := b.files()
			if kept := len(files) == 1 && strings.HasSuffix(files[0], ".damaged"); kept != test.kept || !kept && len(files) > 0 {
				t.Errorf("the files %v are left", files)
			}
		})
	}
}

// overSecond writes over the record of the second message.
func overSecond(offset int64, data string) func(*file) error {
	return func(f *file) error {
		at, err := second(f)
		return errors.Join(err, over(f, at+offset, data))
	}
}

func over(f *file, at int64, data string) error {
	_, err := f.f.WriteAt([]byte(data), at)
	return err
}

// second returns the offset of the second message.
func second(f *file) (int64, error) {
	_, next, err := f.read(f.first)
	return next, err
}

// raw appends a record with the given content.
func raw(f *file, data string) error {
	buf := binary.LittleEndian.AppendUint32(nil, uint32(len(data)))
	buf = binary.LittleEndian.AppendUint32(buf, checksum([]byte(data)))
	_, err := f.f.WriteAt(append(buf, data...), f.tail)
	return err
}

// If the database is away at the start, the file stays.
func TestRecoverWhileAway(t *testing.T) {
	t.Parallel()
	store := persistencetest.SQLite(t)
	b := &bundle{T: t, store: &flaky{Store: store}, key: persistencetest.NewThread(t, store, "anna", ""), dir: t.TempDir()}
	must(t, filelock.Close(leave(t, b.dir, b.key).f))
	b.store.away.Store(true)
	if err := Recover(t.Context(), b.dir, b.store, quiet); !errors.Is(err, errAway) {
		t.Errorf("Recover() = %v", err)
	}
	b.store.away.Store(false)
	if err := Recover(t.Context(), b.dir, b.store, quiet); err != nil || b.words() != "1 2 3" {
		t.Errorf("Recover() = %v, the thread is %q", err, b.words())
	}
	must(t, Recover(t.Context(), filepath.Join(b.dir, "nowhere"), b.store, quiet))
}

// A Save whose caller gives up returns; its changes may still be saved.
func TestSaveGivesUp(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{Timeout: time.Hour})
	b.store.entered, b.store.hold = make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		done <- b.w.Save(ctx, b.key, put("1", "1", persistence.PlaceLast))
	}()
	testkit.Take(t, "the beginning", b.store.entered)
	cancel()
	if err := testkit.Take(t, "the end", done); !errors.Is(err, context.Canceled) {
		t.Errorf("commit() = %v", err)
	}
	close(b.store.hold)
	b.stop()
	testkit.Equal(t, b.words(), "1", "the thread")
}

func TestNewNeedsItsFolder(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(path, nil, 0o600))
	store := persistencetest.SQLite(t)
	if _, err := New(Config{Store: store, Dir: path}); err == nil {
		t.Error("New() with a file for its folder = nil")
	}
}

// TestRecoveredMeanwhile: a file that another process has recovered, between the opening and the
// locking of it here, is not recovered again.
func TestRecoveredMeanwhile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		meanwhile func(path string) error
		want      error
	}{
		"nothing": {func(string) error { return nil }, nil},
		"removed": {os.Remove, os.ErrNotExist},
		"kept":    {func(path string) error { return os.Rename(path, path+".damaged") }, os.ErrNotExist},
		"replaced": {func(path string) error {
			return errors.Join(os.Rename(path, path+".old"), os.WriteFile(path, nil, 0o600))
		}, os.ErrNotExist},
	} {
		path := filepath.Join(t.TempDir(), "a"+suffix)
		f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
		must(t, err)
		must(t, c.meanwhile(path))
		if err := lockDead(f, path); !errors.Is(err, c.want) {
			t.Errorf("%s: lockDead() = %v, want %v", name, err, c.want)
		}
		if err := filelock.Close(f); err != nil {
			t.Error(err)
		}
	}
}
