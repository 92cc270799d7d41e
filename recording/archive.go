package recording

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"voicebridge/persistence"
	"voicebridge/persistence/filelock"
	"voicebridge/persistence/recordings"
)

// The files of a call.
const (
	bothFile  = Both + ".ogg"
	peaksFile = "peaks.json"
	tapeExt   = ".tape"
)

func trackFile(t Track) string { return t.String() + ".ogg" }

const (
	// sweepTime is how often the Archive looks for tapes that nobody finishes and for recordings whose time is over.
	sweepTime = time.Minute
	// lastTime is how long an Archive that is told to stop goes on with recordings that have ended.
	lastTime = 3 * time.Second
)

// Config configures an Archive. All but Days, OnReady, OnLost and Logger are required.
type Config struct {
	// Tapes is the folder of the recordings that run. Processes of one machine may share it.
	Tapes string
	// Store keeps those of ended calls, Records what is known of them.
	Store   Store
	Records *recordings.Store
	// Days is how long recordings are kept; 0 means for as long as their calls.
	Days int
	// OnLost counts packets that could not be kept.
	OnLost func(packets int)
	Logger *slog.Logger // nil discards the log
}

// Archive keeps the recordings of calls. Run must run.
type Archive struct {
	cfg   Config
	log   *slog.Logger
	ended chan string // tapes to be finished
	mixes sync.Mutex  // held while one is made, which takes the processor
}

// New returns an Archive. It fails if the folder of tapes cannot be made.
func New(cfg Config) (*Archive, error) {
	if err := os.MkdirAll(cfg.Tapes, 0o700); err != nil {
		return nil, fmt.Errorf("make folder of recordings: %w", err)
	}
	a := &Archive{cfg: cfg, log: cfg.Logger, ended: make(chan string, 64)}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	if a.cfg.OnLost == nil {
		a.cfg.OnLost = func(int) {}
	}
	return a, nil
}

// Recording is one that runs.
type Recording struct {
	*Recorder

	archive *Archive
	tape    *os.File
}

// Begin prepares the recording of a call, which begins with Run. failed is called if later nothing more can be kept.
func (a *Archive) Begin(owner, callID string, failed func()) (*Recording, error) {
	path := filepath.Join(a.cfg.Tapes, callID+tapeExt)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("begin recording: %w", err)
	}
	if err := filelock.Lock(file); err != nil {
		return nil, errors.Join(fmt.Errorf("begin recording: %w", err), file.Close(), os.Remove(path))
	}
	recorder := newRecorder(file, head{CallID: callID, Owner: owner}, a.log.With("call_id", callID), a.cfg.OnLost, failed)
	return &Recording{recorder, a, file}, nil
}

// End ends the recording; its files are made in the background.
func (r *Recording) End() {
	r.Close()
	if !r.flushed.begun {
		if err := errors.Join(os.Remove(r.tape.Name()), filelock.Close(r.tape)); err != nil {
			r.archive.log.Error("empty recording not deleted", "error", err)
		}
		return
	}
	if err := filelock.Close(r.tape); err != nil {
		r.archive.log.Error("recording not closed", "error", err)
	}
	select {
	case r.archive.ended <- r.tape.Name():
	default: // the next sweep finds it
	}
}

// Run finishes recordings, also those of processes that are gone, and deletes those whose time is over, until ctx ends.
// Then it finishes those that have ended before, if that does not take long.
func (a *Archive) Run(ctx context.Context) {
	finishing, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(lastTime, giveUp) })()
	tick := time.NewTicker(sweepTime)
	defer tick.Stop()
	a.sweep(ctx)
	for {
		select {
		case path := <-a.ended:
			a.finish(finishing, path)
		case <-tick.C:
			a.sweep(ctx)
		case <-a.cfg.Records.Woken():
			a.removeOver(ctx)
		case <-ctx.Done():
			for {
				select {
				case path := <-a.ended:
					a.finish(finishing, path)
				default:
					return
				}
			}
		}
	}
}

func (a *Archive) sweep(ctx context.Context) {
	paths, err := filepath.Glob(filepath.Join(a.cfg.Tapes, "*"+tapeExt))
	if err != nil {
		a.log.Error("recordings not listed", "error", err)
	}
	for _, path := range paths {
		a.finish(ctx, path)
	}
	a.removeOver(ctx)
}

// removeOver deletes recordings whose call is deleted, or whose time is over.
func (a *Archive) removeOver(ctx context.Context) {
	if err := a.RemoveOver(ctx); err != nil && ctx.Err() == nil {
		a.log.Warn("recordings not deleted", "error", err)
	}
}

// RemoveOver deletes the files and the records of recordings whose call is deleted, or whose time is over.
func (a *Archive) RemoveOver(ctx context.Context) error {
	var before time.Time
	if a.cfg.Days > 0 {
		before = time.Now().AddDate(0, 0, -a.cfg.Days)
	}
	for {
		ids, err := a.cfg.Records.Over(ctx, before)
		for _, id := range ids {
			err = errors.Join(err, a.remove(ctx, id))
		}
		if err != nil || len(ids) == 0 {
			return err
		}
	}
}

// finish makes the files of a tape, unless a process still writes or finishes it, and then its record.
func (a *Archive) finish(ctx context.Context, path string) {
	err := a.finishTape(ctx, path)
	switch {
	case err == nil, ctx.Err() != nil, errors.Is(err, fs.ErrNotExist), errors.Is(err, filelock.ErrLocked):
	case errors.Is(err, errTape):
		a.log.Error("recording lost: its file is damaged", "file", path, "error", err)
		if err := os.Rename(path, path+".damaged"); err != nil {
			a.log.Error("recording not put aside", "error", err)
		}
	default:
		a.log.Warn("recording not kept yet", "file", path, "error", err)
	}
}

func (a *Archive) finishTape(ctx context.Context, path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	if err := filelock.Lock(file); err != nil {
		return errors.Join(err, file.Close())
	}
	defer func() { err = errors.Join(err, filelock.Close(file)) }()
	if _, err := os.Stat(path); err != nil {
		return err // another process has just finished it
	}
	t, err := openTape(file)
	if err != nil {
		return err
	}
	size, err := a.keep(ctx, t)
	if err != nil {
		return err
	}
	err = a.cfg.Records.Save(ctx, t.Owner, recordings.Recording{
		CallID: t.CallID, StartedAt: t.Started, Duration: t.length, Bytes: size,
	})
	if errors.Is(err, persistence.ErrNotFound) { // the call was deleted meanwhile
		err = a.cfg.Store.Delete(ctx, t.CallID)
	}
	if err != nil {
		return err
	}
	return os.Remove(path)
}

// keep puts a tape's tracks into the store, and returns their size.
func (a *Archive) keep(ctx context.Context, t *tape) (size int64, err error) {
	var files [tracks]*os.File
	var lines [tracks]*timeline
	var out [tracks]*oggWriter
	for i := range files {
		file, err := os.CreateTemp(a.cfg.Tapes, ".ogg")
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
		files[i], out[i] = file, newOgg(file, 1, preSkip)
		lines[i] = newTimeline(out[i].put)
	}
	for p, ok := t.next(); ok; p, ok = t.next() {
		if err := lines[p.track].add(p); err != nil {
			return 0, err
		}
	}
	for i, file := range files {
		if err := errors.Join(lines[i].finish(t.length), out[i].close()); err != nil {
			return 0, err
		}
		n, err := a.put(ctx, t.CallID, trackFile(Track(i)), file)
		if err != nil {
			return 0, err
		}
		size += n
	}
	return size, nil
}

// Open opens a file of a call's recording: "user", "assistant", or "both" for a file of two channels, the caller left
// and the assistant right, which is made when it is first asked for. The error is persistence.ErrNotFound if the owner
// has no such recording.
func (a *Archive) Open(
	ctx context.Context, owner, callID, track string,
) (io.ReadSeekCloser, recordings.Recording, error) {
	return a.open(ctx, owner, callID, track+".ogg")
}

// Peaks opens the peaks of a call's recording, as JSON.
func (a *Archive) Peaks(ctx context.Context, owner, callID string) (io.ReadSeekCloser, recordings.Recording, error) {
	return a.open(ctx, owner, callID, peaksFile)
}

// open opens a file of a recording. One that is made of both tracks is made first if it is not there.
func (a *Archive) open(
	ctx context.Context, owner, callID, name string,
) (io.ReadSeekCloser, recordings.Recording, error) {
	rec, err := a.cfg.Records.Recording(ctx, owner, callID)
	if err != nil {
		return nil, rec, err
	}
	file, err := a.cfg.Store.Open(ctx, callID, name)
	if name != bothFile && name != peaksFile || !errors.Is(err, fs.ErrNotExist) {
		return file, rec, err
	}
	a.mixes.Lock()
	defer a.mixes.Unlock()
	if file, err = a.cfg.Store.Open(ctx, callID, name); errors.Is(err, fs.ErrNotExist) {
		if err := a.keepIfThere(ctx, owner, callID, a.mix(ctx, callID)); err != nil {
			return nil, rec, err
		}
		file, err = a.cfg.Store.Open(ctx, callID, name)
	}
	return file, rec, err
}

// keepIfThere deletes what was made of a recording that was deleted meanwhile.
func (a *Archive) keepIfThere(ctx context.Context, owner, callID string, made error) error {
	ctx = context.WithoutCancel(ctx)
	if _, err := a.cfg.Records.Recording(ctx, owner, callID); errors.Is(err, persistence.ErrNotFound) {
		return errors.Join(err, a.cfg.Store.Delete(ctx, callID))
	}
	return made
}

func (a *Archive) mix(ctx context.Context, callID string) (err error) {
	var in [tracks]io.ReadSeekCloser
	for i := range in {
		file, err := a.cfg.Store.Open(ctx, callID, trackFile(Track(i)))
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, file.Close()) }()
		in[i] = file
	}
	out, err := os.CreateTemp(a.cfg.Tapes, ".ogg")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close(), os.Remove(out.Name())) }()
	levels, err := mix(ctx, out, in[User], in[Assistant])
	if err != nil {
		return err
	}
	data, err := json.Marshal(levels)
	if err != nil {
		return err
	}
	_, err = a.put(ctx, callID, bothFile, out)
	return errors.Join(err, a.cfg.Store.Put(ctx, callID, peaksFile, bytes.NewReader(data), int64(len(data))))
}

// put puts a file that was just written into the store, and returns its size.
func (a *Archive) put(ctx context.Context, callID, name string, file *os.File) (size int64, err error) {
	size, err = file.Seek(0, io.SeekCurrent)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err == nil {
		err = a.cfg.Store.Put(ctx, callID, name, file, size)
	}
	return size, err
}

// Cut returns a part of a track as a file of its own.
func (a *Archive) Cut(
	ctx context.Context, owner, callID string, track Track, from, to time.Duration,
) (part []byte, err error) {
	file, _, err := a.Open(ctx, owner, callID, track.String())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	var out bytes.Buffer
	err = cut(&out, file, samples(from), samples(to))
	return out.Bytes(), err
}

// Delete removes a recording. The error is persistence.ErrNotFound if the owner has no such one.
func (a *Archive) Delete(ctx context.Context, owner, callID string) error {
	if _, err := a.cfg.Records.Recording(ctx, owner, callID); err != nil {
		return err
	}
	return a.remove(ctx, callID)
}

// remove deletes a recording's files, with a tape that would bring them back, and then its record: if that fails, it is
// tried again. What was made of them in between, by whoever saw the record, is deleted last.
func (a *Archive) remove(ctx context.Context, callID string) error {
	err := os.Remove(filepath.Join(a.cfg.Tapes, callID+tapeExt))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err = errors.Join(err, a.cfg.Store.Delete(ctx, callID)); err != nil {
		return err
	}
	if err := a.cfg.Records.Delete(ctx, callID); err != nil {
		return err
	}
	return a.cfg.Store.Delete(ctx, callID)
}

// Both is the name of the file of two channels, which Open takes beside those of the tracks.
const Both = "both"

// IsTrack reports whether Open takes a name.
func IsTrack(name string) bool { return name == Both || slices.Contains(trackNames[:], name) }
