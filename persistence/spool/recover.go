package spool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"voicebridge/persistence/filelock"
)

// Recover brings what dead processes left in dir into the database, on their behalf. Call
// Store.Recover afterwards, which closes what they left open. Files of live processes stay. An
// incomplete last record is ignored: nobody was told that it was saved. A file that is damaged
// elsewhere is renamed and kept, and what can be read of it is used.
func Recover(ctx context.Context, dir string, s store, log *slog.Logger) error {
	paths, err := list(dir)
	if err != nil {
		return fmt.Errorf("list spools: %w", err)
	}
	var errs []error
	for _, path := range paths {
		if err := recoverFile(ctx, path, s, log); err != nil {
			errs = append(errs, fmt.Errorf("recover spool %s: %w", path, err))
		}
	}
	return errors.Join(errs...)
}

func recoverFile(ctx context.Context, path string, s store, log *slog.Logger) error {
	f, err := openDead(path)
	switch {
	case errors.Is(err, filelock.ErrLocked), errors.Is(err, os.ErrNotExist):
		return nil // its process is alive, or another one was faster
	case err != nil:
		return err
	}
	n := 0
	for len(f.waiting) > 0 {
		groups, err := f.batch(batchBytes)
		if err != nil {
			return errors.Join(err, filelock.Close(f.f))
		}
		if _, err := s.ApplyAll(ctx, groups); err != nil {
			return errors.Join(err, filelock.Close(f.f))
		}
		for _, g := range groups {
			n += len(g.Changes)
		}
		f.pass()
	}
	if n > 0 {
		log.Info("saved changes from the spool of a dead process", "changes", n, "instance", f.instance)
	}
	if f.damage != nil {
		log.Error("spool damaged, file kept", "file", path, "error", f.damage)
		return errors.Join(os.Rename(path, path+".damaged"), filelock.Close(f.f))
	}
	return errors.Join(os.Remove(path), filelock.Close(f.f))
}
