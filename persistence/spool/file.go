package spool

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"voicebridge/persistence"
	"voicebridge/persistence/filelock"
	"voicebridge/thread"
)

const (
	suffix = ".spool"
	// tempSuffix is the suffix of a file that is not locked yet.
	tempSuffix = ".new"
	// headBytes are the length and checksum before each record.
	headBytes = 8
	// reserve is how much disk space is allocated ahead of need, in bytes.
	reserve = 4 << 20
	// defaultLimit is that of Config.Limit.
	defaultLimit = 256 << 20
	// maxRecord limits the JSON of one record, and maxFile what is read of a file: what a process writes is smaller.
	maxRecord = 128 << 20
	maxFile   = 2 * defaultLimit
	// maxSearch limits how many bytes are read to tell heads of records from what only looks like one.
	maxSearch = maxFile
)

var (
	// ErrFull means that the spool has reached its limit.
	ErrFull = errors.New("spool is full")
	// errTorn means that what is there is not a whole record: it is damaged or, if no record follows, was
	// never completely written.
	errTorn = errors.New("incomplete record")
	// errDamaged means that changes are lost: a record cannot be read although it is whole, or although
	// others follow it.
	errDamaged = errors.New("damaged record")
	// errHopeless means that too much looks like a record and is none: what follows is not read.
	errHopeless = errors.New("too damaged to find the next record")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// record is one entry of a file. The first one names the instance. Each other one holds changes of
// a thread, or says that all of its records up to the offset Saved are in the database. Instance is also
// set for changes that the process made under a new id, after it was fenced and rejoined.
type record struct {
	Instance string              `json:"instance,omitempty"`
	Owner    string              `json:"owner,omitempty"`
	Thread   string              `json:"thread,omitempty"`
	Changes  persistence.Changes `json:"changes,omitempty"`
	Saved    int64               `json:"saved,omitempty"`
}

// line is where the records of a thread are that are not in the database.
type line struct {
	key   thread.Key
	at    []int64
	taken int // how many of them the latest batch has
}

// file is a file of records. Each is 4 bytes of length, 4 bytes of CRC-32C, both little-endian, and
// a JSON object. A length of zero marks the end; reserved space follows it. It is not safe for
// concurrent use.
type file struct {
	f        *os.File
	path     string
	instance string
	limit    int64
	first    int64   // offset of the first record after the instance
	tail     int64   // offset after the last record
	waiting  []*line // whose turn is first
	pending  int     // changes in these
	damage   error   // of a record that was left out; nil if there was none
	searched int64   // bytes read in search of the next record, see maxSearch
}

// create makes a file in dir. It gets its final name only once locked, so that nobody takes it for
// a dead process's.
func create(dir, instance string, limit int64) (*file, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "*"+tempSuffix) // readable by this user only: it holds conversations
	if err != nil {
		return nil, err
	}
	s := &file{f: f, path: strings.TrimSuffix(f.Name(), tempSuffix) + suffix, instance: instance, limit: limit}
	err = filelock.Lock(f)
	if err == nil {
		err = s.append(record{Instance: instance})
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	reserveDisk(f, reserve) // of a process that ends here, the next one removes it
	s.first = s.tail
	return s, syncDir(dir)
}

// openDead opens another process's file and finds its end. filelock.ErrLocked means that the
// process is alive.
func openDead(path string) (*file, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	s := &file{f: f, path: path}
	if err := lockDead(f, path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	r, next, err := s.next(0)
	if r.Instance == "" && s.damage == nil {
		s.damage = fmt.Errorf("%w: it does not name its process", errDamaged)
	}
	// An id that nobody has: what the changes leave open is closed as a dead process's.
	s.instance, s.tail = cmp.Or(r.Instance, persistence.NewID()), next
	for err == nil {
		if r, next, err = s.next(s.tail); err == nil {
			s.note(r)
			s.tail = next
		}
	}
	if !errors.Is(err, io.EOF) {
		s.damage = err // what comes before can be used
	}
	if size, err := s.size(); err != nil || size == maxFile {
		s.damage = errors.Join(s.damage, err, fmt.Errorf("%w: the file is larger than any spool", errDamaged))
	}
	return s, nil
}

// lockDead locks a file that was opened at path. os.ErrNotExist means that it is no longer there: another
// process has just recovered it.
func lockDead(f *os.File, path string) error {
	if err := filelock.Lock(f); err != nil {
		return err
	}
	opened, err := f.Stat()
	if err != nil {
		return err
	}
	there, err := os.Stat(path)
	if err == nil && !os.SameFile(opened, there) {
		err = os.ErrNotExist
	}
	return err
}

// append writes records after the last one and returns once they are on disk. After an error none of
// them is there.
func (s *file) append(records ...record) error {
	var buf []byte
	var ends []int64
	for _, r := range records {
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		if len(data) > maxRecord {
			return ErrFull
		}
		buf = binary.LittleEndian.AppendUint32(buf, uint32(len(data))) //nolint:gosec // maxRecord is smaller
		buf = binary.LittleEndian.AppendUint32(buf, checksum(data))
		buf = append(buf, data...)
		ends = append(ends, s.tail+int64(len(buf)))
	}
	if s.limit > 0 && s.tail+int64(len(buf)) > s.limit {
		return ErrFull
	}
	_, err := s.f.WriteAt(buf, s.tail)
	if err == nil {
		err = s.f.Sync()
	}
	if err != nil {
		// What was written must not be found after shorter records, which may still fit on a full disk.
		err = errors.Join(err, s.f.Truncate(s.tail))
		reserveDisk(s.f, reserve)
		return err
	}
	for i, r := range records {
		s.note(r)
		s.tail = ends[i]
	}
	return nil
}

// note takes note of a record at the tail.
func (s *file) note(r record) {
	key := thread.Key{Owner: r.Owner, Thread: r.Thread}
	i := slices.IndexFunc(s.waiting, func(l *line) bool { return l.key == key })
	if i < 0 {
		i, s.waiting = len(s.waiting), append(s.waiting, &line{key: key})
	}
	l := s.waiting[i]
	if r.Saved > 0 {
		l.at = slices.DeleteFunc(l.at, func(at int64) bool { return at <= r.Saved })
	} else if len(r.Changes) > 0 {
		l.at = append(l.at, s.tail)
		s.pending += len(r.Changes)
	}
}

// next is read, but leaves out damaged records, which it notes in damage.
func (s *file) next(at int64) (r record, next int64, err error) {
	r, next, err = s.read(at)
	if errors.Is(err, errTorn) {
		if next, err = s.after(at); err == nil {
			err = errDamaged
		}
	}
	if errors.Is(err, errDamaged) {
		r, s.damage, err = record{}, err, nil
	}
	return r, next, err
}

// after returns the offset of the first whole record after an offset, or io.EOF. Each record has the
// brace of its JSON after its head, and what looks like a head in the middle of JSON, which is text,
// has a length that no record has. It reads what it passes over once.
func (s *file) after(at int64) (int64, error) {
	size, err := s.size()
	if err != nil {
		return at, err
	}
	rest := bufio.NewReaderSize(io.NewSectionReader(s.f, at+1, size-at-1), 64<<10)
	for found := at + 1; ; {
		if _, err := rest.Peek(headBytes + 1); err != nil {
			return at, err
		}
		window, err := rest.Peek(rest.Buffered())
		if err != nil {
			return at, err
		}
		passed := len(window) - headBytes
		if brace := bytes.IndexByte(window[headBytes:], '{'); brace >= 0 {
			length := int64(binary.LittleEndian.Uint32(window[brace:]))
			if start := found + int64(brace); fits(start, length, size) {
				if s.searched += length; s.searched > maxSearch {
					return at, errHopeless
				}
				if _, _, err := s.read(start); !errors.Is(err, errTorn) {
					return start, err
				}
			}
			passed = brace + 1
		}
		if _, err := rest.Discard(passed); err != nil {
			return at, err
		}
		found += int64(passed)
	}
}

// size returns the file's size, but not more than is read of it.
func (s *file) size() (int64, error) {
	info, err := s.f.Stat()
	if err != nil {
		return 0, err
	}
	return min(info.Size(), maxFile), nil
}

// fits reports whether a record of that length may be at an offset of a file.
func fits(at, length, size int64) bool {
	return length > 0 && length <= maxRecord && at+headBytes+length <= size
}

// read reads the record at an offset and returns the next offset. io.EOF means the end.
func (s *file) read(at int64) (r record, next int64, err error) {
	var head [headBytes]byte
	if _, err := s.f.ReadAt(head[:], at); err != nil {
		return r, at, eof(err)
	}
	length, sum := int64(binary.LittleEndian.Uint32(head[:])), binary.LittleEndian.Uint32(head[4:])
	size, err := s.size()
	if err != nil {
		return r, at, err
	}
	if !fits(at, length, size) {
		return r, at, errTorn
	}
	next = at + headBytes + length
	data := make([]byte, length)
	if _, err := s.f.ReadAt(data, at+headBytes); err != nil {
		return r, at, err
	}
	if checksum(data) != sum {
		return r, at, errTorn
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, next, fmt.Errorf("%w: %w", errDamaged, err)
	}
	return r, next, nil
}

func eof(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

// batch reads changes that wait, in turn a record of each thread, about size bytes of them and at least one record.
// Changes of the same thread and instance form one group.
func (s *file) batch(size int) (groups []persistence.ThreadChanges, err error) {
	for _, l := range s.waiting {
		l.taken = 0
	}
	for none := 0; size > 0 && none < len(s.waiting); none++ {
		l := s.waiting[0]
		s.waiting = append(s.waiting[1:], l)
		if l.taken == len(l.at) {
			continue
		}
		r, _, err := s.next(l.at[l.taken])
		if err != nil {
			return groups, err
		}
		l.taken, none = l.taken+1, -1
		for _, c := range r.Changes {
			size -= c.Size()
		}
		g := persistence.ThreadChanges{Key: l.key, Changes: r.Changes, Instance: cmp.Or(r.Instance, s.instance)}
		i := slices.IndexFunc(groups, func(of persistence.ThreadChanges) bool {
			return of.Key == g.Key && of.Instance == g.Instance
		})
		if i >= 0 {
			groups[i].Changes = append(groups[i].Changes, r.Changes...)
		} else {
			groups = append(groups, g)
		}
	}
	return groups, nil
}

// applied records that the latest batch is in the database. Losing these records in a crash does no harm.
func (s *file) applied(groups []persistence.ThreadChanges) error {
	for _, g := range groups {
		s.pending -= len(g.Changes)
	}
	saved := s.pass()
	if len(s.waiting) > 0 {
		limit := s.limit
		s.limit = 0 // a full spool must not make this fail
		defer func() { s.limit = limit }()
		return s.append(saved...)
	}
	s.tail, s.pending = s.first, 0
	if err := s.f.Truncate(s.first); err != nil {
		return err
	}
	reserveDisk(s.f, reserve)
	return s.f.Sync()
}

// pass forgets what the latest batch has, and returns the records that say so.
func (s *file) pass() (saved []record) {
	s.waiting = slices.DeleteFunc(s.waiting, func(l *line) bool {
		if n := l.taken; n > 0 {
			saved = append(saved, record{Owner: l.key.Owner, Thread: l.key.Thread, Saved: l.at[n-1]})
			l.at, l.taken = l.at[n:], 0
		}
		return len(l.at) == 0
	})
	return saved
}

// close removes the file unless it holds something for the next start.
func (s *file) close() error {
	if s.pending > 0 {
		return filelock.Close(s.f)
	}
	err := os.Remove(s.path)
	if errors.Is(err, os.ErrNotExist) {
		err = nil // somebody has removed it, and with it nothing that is needed
	}
	return errors.Join(err, filelock.Close(s.f))
}

func checksum(data []byte) uint32 { return crc32.Checksum(data, castagnoli) }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// list returns the files in dir that processes left or are using.
func list(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*"+suffix)) }
