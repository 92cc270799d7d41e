package recording

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Store keeps files by name: those of a call are in a folder of its own.
type Store interface {
	// Put keeps what r has, of size bytes. Nobody reads a file that is not whole.
	Put(ctx context.Context, folder, name string, r io.Reader, size int64) error
	// Open opens a file. The error is fs.ErrNotExist if there is none.
	Open(ctx context.Context, folder, name string) (io.ReadSeekCloser, error)
	// Delete removes a folder. One that does not exist is not an error.
	Delete(ctx context.Context, folder string) error
}

// Folder is a Store in a folder of the file system, which only its owner may read.
type Folder string

// Put writes a file beside its place and then renames it.
func (f Folder) Put(_ context.Context, folder, name string, r io.Reader, _ int64) (err error) {
	dir := filepath.Join(string(f), folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("keep recording: %w", err)
	}
	file, err := os.CreateTemp(dir, "."+name)
	if err != nil {
		return fmt.Errorf("keep recording: %w", err)
	}
	_, err = io.Copy(file, r)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), filepath.Join(dir, name))
	}
	if err != nil {
		return errors.Join(fmt.Errorf("keep recording: %w", err), os.Remove(file.Name()))
	}
	return nil
}

// Open opens a file.
func (f Folder) Open(_ context.Context, folder, name string) (io.ReadSeekCloser, error) {
	file, err := os.Open(filepath.Join(string(f), folder, name))
	if err != nil {
		return nil, fmt.Errorf("open recording: %w", err)
	}
	return file, nil
}

// Delete removes a folder and what is in it.
func (f Folder) Delete(_ context.Context, folder string) error {
	if !filepath.IsLocal(folder) || folder == "." {
		return fmt.Errorf("delete recording %q: %w", folder, fs.ErrInvalid)
	}
	if err := os.RemoveAll(filepath.Join(string(f), folder)); err != nil {
		return fmt.Errorf("delete recording: %w", err)
	}
	return nil
}
