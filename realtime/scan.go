package realtime

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
)

// maxDepth is the deepest nesting of objects and arrays that Decode accepts. Real events nest about ten deep, for a
// tool's JSON schema inside a session.
const maxDepth = 64

// The errors of Decode, besides ErrNoType.
var (
	// ErrNotJSON means that the bytes are not one JSON object in valid UTF-8.
	ErrNotJSON = errors.New("event is not a JSON object")
	// ErrTooDeep means that objects and arrays nest more than 64 deep.
	ErrTooDeep = errors.New("event is nested too deeply")
)

// scanner checks JSON text (RFC 8259) from left to right and finds where each value ends. It does not allocate.
type scanner struct {
	buf []byte
	pos int
}

func (s *scanner) space() {
	for s.pos < len(s.buf) {
		switch s.buf[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

func (s *scanner) consume(c byte) bool {
	if s.pos < len(s.buf) && s.buf[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// open scans the opening bracket of the whole text.
func (s *scanner) open(bracket byte) error {
	s.space()
	if !s.consume(bracket) {
		return ErrNotJSON
	}
	return nil
}

// end checks that nothing follows.
func (s *scanner) end() error {
	s.space()
	if s.pos != len(s.buf) {
		return ErrNotJSON
	}
	return nil
}

// next goes to the next entry of an object or array, which bracket closes, and returns false at its end.
func (s *scanner) next(first bool, bracket byte) (more bool, err error) {
	s.space()
	if s.consume(bracket) {
		return false, nil
	}
	if !first && !s.consume(',') {
		return false, ErrNotJSON
	}
	s.space()
	return true, nil
}

// member scans the next "key": value of the outer object. Both are JSON text, the key without its quotes. At the end of
// the object, key is nil.
func (s *scanner) member(first bool) (key, val []byte, err error) {
	more, err := s.next(first, '}')
	if !more || err != nil {
		return nil, nil, err
	}
	if key, err = s.str(); err != nil {
		return nil, nil, err
	}
	s.space()
	if !s.consume(':') {
		return nil, nil, ErrNotJSON
	}
	s.space()
	start := s.pos
	if err := s.value(1); err != nil {
		return nil, nil, err
	}
	return key, s.buf[start:s.pos], nil
}

// element scans the next value of the outer array. At the end of the array, val is nil.
func (s *scanner) element(first bool) (val []byte, err error) {
	more, err := s.next(first, ']')
	if !more || err != nil {
		return nil, err
	}
	start := s.pos
	if err := s.value(1); err != nil {
		return nil, err
	}
	return s.buf[start:s.pos], nil
}

// members calls keep with each member of an object; null counts as an empty one. val is JSON text.
func members(raw []byte, keep func(key string, val []byte) error) error {
	if string(raw) == "null" {
		return nil
	}
	if !utf8.Valid(raw) {
		return ErrNotJSON
	}
	s := scanner{buf: raw}
	if err := s.open('{'); err != nil {
		return err
	}
	for first := true; ; first = false {
		key, val, err := s.member(first)
		if err != nil {
			return err
		}
		if key == nil {
			return s.end()
		}
		if err := keep(string(unescaped(key)), val); err != nil {
			return err
		}
	}
}

// elements calls keep with each value of an array, as JSON text.
func elements(raw []byte, keep func(val []byte) error) error {
	s := scanner{buf: raw}
	if err := s.open('['); err != nil {
		return err
	}
	for first := true; ; first = false {
		val, err := s.element(first)
		if err != nil {
			return err
		}
		if val == nil {
			return s.end()
		}
		if err := keep(val); err != nil {
			return err
		}
	}
}

// value scans one value inside depth objects and arrays.
func (s *scanner) value(depth int) error {
	if s.pos >= len(s.buf) {
		return ErrNotJSON
	}
	switch c := s.buf[s.pos]; {
	case c == '"':
		_, err := s.str()
		return err
	case c == '{' || c == '[':
		if depth >= maxDepth {
			return ErrTooDeep
		}
		s.pos++
		return s.composite(c, depth+1)
	case c == 't':
		return s.literal("true")
	case c == 'f':
		return s.literal("false")
	case c == 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

// composite scans the rest of an object or array after its opening bracket.
func (s *scanner) composite(open byte, depth int) error {
	end := open + 2 // ']' follows '[' and '}' follows '{' at this distance
	s.space()
	if s.consume(end) {
		return nil
	}
	for {
		if open == '{' {
			if _, err := s.str(); err != nil {
				return err
			}
			s.space()
			if !s.consume(':') {
				return ErrNotJSON
			}
			s.space()
		}
		if err := s.value(depth); err != nil {
			return err
		}
		s.space()
		if s.consume(end) {
			return nil
		}
		if !s.consume(',') {
			return ErrNotJSON
		}
		s.space()
	}
}

// str scans a string and returns its text between the quotes, still escaped.
func (s *scanner) str() ([]byte, error) {
	if !s.consume('"') {
		return nil, ErrNotJSON
	}
	start := s.pos
	for s.plain(); s.pos < len(s.buf); s.plain() {
		c := s.buf[s.pos]
		s.pos++
		switch {
		case c == '"':
			return s.buf[start : s.pos-1], nil
		case c < 0x20:
			return nil, ErrNotJSON
		case c == '\\':
			if !s.escape() {
				return nil, ErrNotJSON
			}
		}
	}
	return nil, ErrNotJSON
}

// plain skips bytes that stand for themselves, eight at a time; up to seven are left for str. It is worth it:
// transcripts are long, and the whole transcript of an answer is in four of its last events.
func (s *scanner) plain() {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; s.pos+8 <= len(s.buf); s.pos += 8 {
		x := binary.LittleEndian.Uint64(s.buf[s.pos:])
		quote, backslash := x^(ones*'"'), x^(ones*'\\')
		// A byte below n sets its top bit in (x - ones*n) &^ x; by a borrow it may set those of later bytes.
		if other := ((x-ones*0x20)&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & tops; other != 0 {
			s.pos += bits.TrailingZeros64(other) / 8
			return
		}
	}
}

// escape scans what follows a backslash.
func (s *scanner) escape() bool {
	if s.pos >= len(s.buf) {
		return false
	}
	c := s.buf[s.pos]
	s.pos++
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		if s.pos+4 > len(s.buf) || hex4(s.buf[s.pos:]) < 0 {
			return false
		}
		s.pos += 4
		return true
	}
	return false
}

func (s *scanner) literal(word string) error {
	if !bytes.HasPrefix(s.buf[s.pos:], []byte(word)) {
		return ErrNotJSON
	}
	s.pos += len(word)
	return nil
}

func (s *scanner) digits() bool {
	start := s.pos
	for s.pos < len(s.buf) && s.buf[s.pos] >= '0' && s.buf[s.pos] <= '9' {
		s.pos++
	}
	return s.pos > start
}

func (s *scanner) number() error {
	s.consume('-')
	if !s.consume('0') && !s.digits() {
		return ErrNotJSON
	}
	if s.consume('.') && !s.digits() {
		return ErrNotJSON
	}
	if s.consume('e') || s.consume('E') {
		if !s.consume('+') {
			s.consume('-')
		}
		if !s.digits() {
			return ErrNotJSON
		}
	}
	return nil
}

// isNull reports whether a value, which the scanner has checked, is null.
func isNull(val []byte) bool { return val[0] == 'n' }

// hex4 reads four hexadecimal digits. It returns -1 if there are none.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b[:4] {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// unescaped resolves the escapes of text that the scanner has checked. Text without a backslash is returned as it is.
// A lone surrogate becomes U+FFFD, as in encoding/json.
func unescaped(b []byte) []byte {
	i := bytes.IndexByte(b, '\\')
	if i < 0 {
		return b
	}
	out := make([]byte, i, len(b))
	copy(out, b)
	for i < len(b) {
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
		}
		c := b[i+1]
		i += 2
		switch c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(b[i:])
			i += 4
			if utf16.IsSurrogate(r) {
				full := rune(utf8.RuneError)
				if len(b) >= i+6 && b[i] == '\\' && b[i+1] == 'u' {
					full = utf16.DecodeRune(r, hex4(b[i+2:]))
				}
				if full != utf8.RuneError {
					i += 6
				}
				r = full
			}
			out = utf8.AppendRune(out, r)
		default: // quote, backslash, slash
			out = append(out, c)
		}
	}
	return out
}
