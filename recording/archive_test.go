package recording

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"voicebridge/persistence"
	"voicebridge/persistence/persistencetest"
	"voicebridge/persistence/recordings"
	"voicebridge/persistence/records"
	"voicebridge/thread"
)

// late is a Store at whose n-th Put from now something else happens first.
type late struct {
	Store

	n      int
	before func()
}

func (l *late) Put(ctx context.Context, folder, name string, r io.Reader, size int64) error {
	if l.n--; l.n == 0 {
		l.before()
	}
	return l.Store.Put(ctx, folder, name, r, size)
}

// archived returns an archive with the recording of a call.
func archived(t *testing.T) (a *Archive, files *late, store *persistence.Store, key thread.Key, folder string) {
	t.Helper()
	store = persistencetest.SQLite(t)
	made, err := store.CreateThread(t.Context(), "anna", "")
	must(t, err)
	key = thread.Key{Owner: "anna", Thread: made.ID}
	must(t, store.Records.SaveCall(t.Context(), key, records.Call{ID: "c"}))
	folder = t.TempDir()
	files = &late{Store: Folder(folder)}
	a, err = New(Config{Tapes: t.TempDir(), Store: files, Records: store.Recordings})
	must(t, err)
	must(t, os.WriteFile(filepath.Join(a.cfg.Tapes, "c"+tapeExt), []byte("as after a crash"), 0o600))
	return a, files, store, key, folder
}

// TestDeletedWhileMixing deletes a recording, its thread and all of its owner while what is made of it is being kept.
func TestDeletedWhileMixing(t *testing.T) {
	t.Parallel()
	for name, remove := range map[string]func(t *testing.T, a *Archive, store *persistence.Store, key thread.Key) error{
		"recording": func(t *testing.T, a *Archive, _ *persistence.Store, key thread.Key) error {
			return a.Delete(t.Context(), key.Owner, "c")
		},
		"thread": func(t *testing.T, a *Archive, store *persistence.Store, key thread.Key) error {
			return errors.Join(store.DeleteThread(t.Context(), key), a.RemoveOver(t.Context()))
		},
		"owner": func(t *testing.T, a *Archive, store *persistence.Store, key thread.Key) error {
			return errors.Join(store.DeleteThread(t.Context(), key), a.Part().Erase(t.Context(), key.Owner))
		},
	} {
		for put, what := range map[int]string{1: "both", 2: "peaks"} {
			t.Run(name+" before "+what, func(t *testing.T) {
				t.Parallel()
				a, files, store, key, folder := archived(t)
				must(t, store.Recordings.Save(t.Context(), key.Owner, recordings.Recording{CallID: "c"}))
				for _, track := range trackNames {
					must(t, os.MkdirAll(filepath.Join(folder, "c"), 0o700))
					must(t, keepTone(t, filepath.Join(folder, "c", track+".ogg")))
				}
				files.n, files.before = put, func() { must(t, remove(t, a, store, key)) }
				_, _, err := a.Open(t.Context(), key.Owner, "c", Both)
				if !errors.Is(err, persistence.ErrNotFound) && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("Open() = %v", err)
				}
				if left, err := os.ReadDir(filepath.Join(folder, "c")); len(left) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v are left, %v", left, err)
				}
			})
		}
	}
}

// keepTone writes a track.
func keepTone(t *testing.T, path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := newOgg(file, 1, preSkip)
	for _, packet := range tone(t, 440, 20) {
		must(t, out.put(packet, frame))
	}
	return errors.Join(out.close(), file.Close())
}

// TestDeletedThread deletes a thread: the files of its calls go at once, and a tape of one does not bring them back.
func TestDeletedThread(t *testing.T) {
	t.Parallel()
	a, _, store, key, folder := archived(t)
	must(t, store.Recordings.Save(t.Context(), key.Owner, recordings.Recording{CallID: "c"}))
	must(t, os.MkdirAll(filepath.Join(folder, "c"), 0o700))
	must(t, keepTone(t, filepath.Join(folder, "c", "user.ogg")))
	must(t, store.DeleteThread(t.Context(), key))
	select {
	case <-store.Recordings.Woken():
	default:
		t.Error("nobody learns that the thread was deleted")
	}
	must(t, a.RemoveOver(t.Context()))
	for _, path := range []string{filepath.Join(folder, "c"), filepath.Join(a.cfg.Tapes, "c"+tapeExt)} {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", path, err)
		}
	}
}
