package spool

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"

	"voicebridge/persistence"
	"voicebridge/persistence/internal/filelock"
)

const (
	suffix = ".spool"
	// fresh is the suffix of a file that is not locked yet.
	fresh = ".new"
	// headBytes are the length and the checksum before each record.
	headBytes = 8
	// reserve is the space that is taken on the disk before it is needed, in bytes.
	reserve = 4 << 20
)

var (
	// ErrFull says that the spool holds as much as it may.
	ErrFull = errors.New("spool is full")
	// errDamaged says that a record cannot be read though others follow it.
	errDamaged = errors.New("damaged record")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// record is one entry of a file. The first has the instance. Of the others each
// has changes of a thread, or says that all records before the offset Applied
// are in the database. Changes that come from another instance than the first, because
// the process has begun again meanwhile, name it.
type record struct {
	Instance string              `json:"instance,omitempty"`
	Owner    string              `json:"owner,omitempty"`
	Thread   string              `json:"thread,omitempty"`
	Changes  persistence.Changes `json:"changes,omitempty"`
	Applied  int64               `json:"applied,omitempty"`
}

// file is a file of records. Each is 4 bytes of length, 4 bytes of CRC-32C, both
// little-endian, and a JSON object. A length of zero is the end: behind it is
// space that is reserved. One goroutine uses it.
type file struct {
	f        *os.File
	path     string
	instance string
	limit    int64
	first    int64 // offset of the first record after the instance
	head     int64 // offset of the first record that is not applied
	tail     int64 // offset behind the last record
	pending  int   // changes between head and tail
}

// create makes a file in dir. It gets its name only when it is locked, so that
// nobody takes it for that of a dead process.
func create(dir, instance string, limit int64) (*file, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "*"+fresh) // for this user alone: it holds what people say
	if err != nil {
		return nil, err
	}
	s := &file{f: f, path: strings.TrimSuffix(f.Name(), fresh) + suffix, instance: instance, limit: limit}
	err = filelock.Lock(f)
	if err == nil {
		reserveDisk(f, reserve)
		err = s.append(record{Instance: instance})
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	s.first, s.head, s.pending = s.tail, s.tail, 0
	return s, syncDir(dir)
}

// openDead opens the file of another process and finds its end. filelock.ErrLocked
// says that the process lives.
func openDead(path string) (*file, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &file{f: f, path: path}
	if err := filelock.Lock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, next, err := s.read(0)
	if err == nil && r.Instance == "" || errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: it does not say of which process it is", errDamaged)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read %s: %w", path, err), f.Close())
	}
	s.instance, s.first, s.head, s.tail = r.Instance, next, next, next
	for err == nil {
		if r, next, err = s.read(s.tail); err != nil {
			break
		}
		s.head = max(s.head, r.Applied)
		s.pending += len(r.Changes)
		s.tail = next
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return s, err // also when damaged: what is before that can be used
}

// append writes records behind the last one and returns when they are on the
// disk. None of them is there after an error.
func (s *file) append(records ...record) error {
	var buf []byte
	changes := 0
	for _, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		buf = binary.LittleEndian.AppendUint32(buf, uint32(len(data))) //nolint:gosec // the limit of the file is smaller
		buf = binary.LittleEndian.AppendUint32(buf, checksum(data))
		buf = append(buf, data...)
		changes += len(r.Changes)
	}
	if s.limit > 0 && s.tail+int64(len(buf)) > s.limit {
		return ErrFull
	}
	_, err := s.f.WriteAt(buf, s.tail)
	if err == nil {
		err = s.f.Sync()
	}
	if err != nil {
		// What was written of it must not be found behind shorter records.
		return errors.Join(err, s.f.Truncate(s.tail))
	}
	s.tail += int64(len(buf))
	s.pending += changes
	return nil
}

// read reads the record at an offset and gives the offset of the next. io.EOF is
// the end, also that of a record that was not written to its end.
func (s *file) read(at int64) (r record, next int64, err error) {
	var head [headBytes]byte
	if _, err := s.f.ReadAt(head[:], at); err != nil {
		return r, at, eof(err)
	}
	length, sum := int64(binary.LittleEndian.Uint32(head[:])), binary.LittleEndian.Uint32(head[4:])
	info, err := s.f.Stat()
	if err != nil {
		return r, at, err
	}
	next = at + headBytes + length
	if length == 0 || next > info.Size() {
		return r, at, io.EOF
	}
	data := make([]byte, length)
	if _, err := s.f.ReadAt(data, at+headBytes); err != nil {
		return r, at, err
	}
	if checksum(data) != sum {
		return r, at, s.torn(next)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, next, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, next, nil
}

// torn tells a last record that was not written to its end from a damaged one.
func (s *file) torn(next int64) error {
	var head [headBytes]byte
	n, err := s.f.ReadAt(head[:], next)
	if errors.Is(eof(err), io.EOF) && n == 0 || err == nil && binary.LittleEndian.Uint32(head[:]) == 0 {
		return io.EOF
	}
	return errors.Join(errDamaged, err)
}

func eof(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// batch reads the changes at the head, up to some bytes, and gives the offset
// behind them. Neighbours of the same thread and instance become one group.
func (s *file) batch(size int) (groups []persistence.ThreadChanges, next int64, err error) {
	for next = s.head; next < s.tail && size > 0; {
		r, after, err := s.read(next)
		if err != nil {
			return groups, next, err
		}
		next = after
		if len(r.Changes) == 0 {
			continue
		}
		for _, c := range r.Changes {
			size -= c.Size()
		}
		key, instance := persistence.Key{Owner: r.Owner, Thread: r.Thread}, cmp.Or(r.Instance, s.instance)
		if n := len(groups); n > 0 && groups[n-1].Key == key && groups[n-1].Instance == instance {
			groups[n-1].Changes = append(groups[n-1].Changes, r.Changes...)
			continue
		}
		groups = append(groups, persistence.ThreadChanges{Key: key, Changes: r.Changes, Instance: instance})
	}
	return groups, next, nil
}

// applied says that everything before an offset is in the database. That this is
// forgotten in a crash does no harm.
func (s *file) applied(groups []persistence.ThreadChanges, next int64) error {
	for _, g := range groups {
		s.pending -= len(g.Changes)
	}
	s.head = next
	if s.head < s.tail {
		limit := s.limit
		s.limit = 0 // this must not fail because the spool is full
		defer func() { s.limit = limit }()
		return s.append(record{Applied: next})
	}
	s.head, s.tail, s.pending = s.first, s.first, 0
	if err := s.f.Truncate(s.first); err != nil {
		return err
	}
	reserveDisk(s.f, reserve)
	return s.f.Sync()
}

// close removes the file unless something is left in it for the next start.
func (s *file) close() error {
	if s.pending > 0 {
		return s.f.Close()
	}
	return errors.Join(os.Remove(s.path), s.f.Close())
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// list gives the files that processes have left in dir, or use.
func list(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*"+suffix)) }
