package speech

import (
	"slices"
	"strings"
	"unicode"
)

// filter leaves out of a text what is not read aloud: the signs of Markdown (https://spec.commonmark.org), fenced code,
// addresses, tables' rules, square brackets with what is in them, emoji. It decides by runes, each at the same one
// however the text is cut into pieces.
type filter struct {
	state state
	held  []placed // what may turn out to be something else
	fence string   // that ends the code
	depth int      // of brackets
	last  rune     // that was read aloud
	space int      // where the space before the next rune ends; 0 if there is none
	gap   bool     // something was left out since the last rune
	tail  []placed // signs at the end of an address, which may not belong to it
	out   []placed // what is read aloud, and a line feed at the end of each line
}

// placed is a rune with the byte at which it ends.
type placed struct {
	r   rune
	end int
}

type state int

const (
	begins state = iota // a line
	inText
	inWord    // that may be an address
	afterBang // that may begin an image
	inAddress // of which nothing is read
	inBrackets
	afterBrackets
	inTarget // of a link
	inInfo   // of code
	inCode
)

// maxHeld is for how many runes a bracket stays open.
const maxHeld = 500

const lineMarks = " \t\r>#-*+=|:_~`"

var schemes = []string{"https://", "http://", "www."}

// close passes on what is held.
func (f *filter) close() {
	for slices.Contains([]state{inBrackets, inWord, afterBang, inAddress, afterBrackets}, f.state) {
		f.release()
	}
}

// release decides that what is held is nothing else than text.
func (f *filter) release() {
	held, state := f.held, f.state
	f.held, f.state = nil, inText
	switch state {
	case inBrackets:
		for _, p := range held {
			f.add(p.r, p.end)
		}
	case inWord, afterBang:
		for _, p := range held {
			f.say(p)
		}
	case inAddress:
		for _, p := range f.tail {
			f.say(p)
		}
		f.tail = nil
	}
}

func (f *filter) add(r rune, end int) {
	p := placed{r, end}
	switch f.state {
	case begins:
		f.begin(p)
	case inText:
		f.text(p)
	case inWord:
		f.word(p)
	case afterBang:
		if r == '[' {
			f.held = nil
		}
		f.release()
		f.add(r, end)
	case inAddress:
		f.address(p)
	case inBrackets:
		f.bracket(p)
	case afterBrackets:
		f.afterBracket(p)
	case inTarget:
		switch r {
		case '(':
			f.depth++
		case ')':
			f.depth--
		}
		if f.depth == 0 {
			f.state = inText
		} else if r == '\n' {
			f.state = inText
			f.add(r, end)
		}
	case inInfo, inCode:
		f.code(r)
	}
}

// begin takes the signs at the beginning of a line.
func (f *filter) begin(p placed) {
	if strings.ContainsRune(lineMarks, p.r) && len(f.held) < maxHeld {
		f.held = append(f.held, p)
		return
	}
	var signs strings.Builder
	for _, h := range f.held {
		signs.WriteRune(h.r)
	}
	bare := strings.TrimLeft(signs.String(), " \t>")
	if strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~") {
		f.fence = bare[:len(bare)-len(strings.TrimLeft(bare, bare[:1]))]
		f.held, f.state = nil, inInfo
		f.code(p.r)
		return
	}
	if n := len(f.held); n > 0 && p.r != '\n' && strings.ContainsRune("-+#=:", f.held[n-1].r) {
		f.say(f.held[n-1]) // it belongs to the word
	}
	f.held, f.state = nil, inText
	if p.r != '\n' {
		f.text(p)
		return
	}
	f.state = begins
	f.out = append(f.out, p)
}

// code takes runes of fenced code.
func (f *filter) code(r rune) {
	switch {
	case r == '`' && f.state == inInfo && f.fence[0] == '`': // code in one line
		f.state = inText
	case r == '\n' && f.state == inCode && isFence(f.held, f.fence):
		f.held, f.state = nil, begins
	case r == '\n':
		f.held, f.state = nil, inCode
	case f.state == inCode && len(f.held) < maxHeld:
		f.held = append(f.held, placed{r: r})
	}
}

// isFence reports whether a line of code ends the code.
func isFence(line []placed, fence string) bool {
	var b strings.Builder
	for _, p := range line {
		b.WriteRune(p.r)
	}
	text := strings.Trim(b.String(), " \t>\r")
	return strings.HasPrefix(text, fence) && strings.Trim(text, fence[:1]) == ""
}

func (f *filter) text(p placed) {
	switch {
	case p.r == '\n':
		f.space, f.state = p.end, begins
		f.out = append(f.out, p)
	case p.r == '[':
		f.state, f.depth = inBrackets, 1
	case p.r == '!':
		f.held, f.state = []placed{p}, afterBang
	case strings.ContainsRune("hHwW", p.r) && (f.space > 0 || !isWord(f.last)):
		f.state = inWord
		f.word(p)
	default:
		f.say(p)
	}
}

// word takes runes that may begin an address.
func (f *filter) word(p placed) {
	f.held = append(f.held, p)
	var b strings.Builder
	for _, h := range f.held {
		b.WriteRune(unicode.ToLower(h.r))
	}
	for _, scheme := range schemes {
		switch {
		case scheme == b.String():
			f.held, f.state, f.gap, f.depth = nil, inAddress, true, 0
			return
		case strings.HasPrefix(scheme, b.String()):
			return
		}
	}
	f.held = f.held[:len(f.held)-1]
	f.release()
	f.add(p.r, p.end)
}

// address takes runes of an address, up to a space, a closing sign or one of a script that has none of its own.
func (f *filter) address(p placed) {
	switch {
	case p.r == '(':
		f.depth++
	case p.r == ')':
		f.depth--
	}
	switch {
	case unicode.IsSpace(p.r), strings.ContainsRune(`<>"]|`, p.r), p.r >= 0x2e80, f.depth < 0:
		f.release()
		f.add(p.r, p.end)
	case strings.ContainsRune(".,;:!?*_", p.r):
		f.tail = append(f.tail, p)
	default:
		f.tail = nil
	}
}

func (f *filter) bracket(p placed) {
	switch p.r {
	case '[':
		f.depth++
	case ']':
		f.depth--
	}
	switch {
	case f.depth == 0:
		f.state = afterBrackets
	case p.r == '\n', len(f.held) >= maxHeld:
		f.release()
		f.add(p.r, p.end)
	default:
		f.held = append(f.held, p)
	}
}

// afterBracket decides whether brackets are a link, whose text is read.
func (f *filter) afterBracket(p placed) {
	f.gap = true
	words := slices.ContainsFunc(f.held, func(h placed) bool { return unicode.IsLetter(h.r) })
	if p.r != '(' && (p.r != '[' || !words) {
		f.release()
		f.add(p.r, p.end)
		return
	}
	f.state = inBrackets
	f.release()
	f.close()
	f.state, f.depth = inTarget, 1
	if p.r == '[' {
		f.state = inBrackets
	}
}

// say passes on a rune that is read aloud, but for signs.
func (f *filter) say(p placed) {
	switch r := p.r; {
	case unicode.IsSpace(r):
		f.space = p.end
		return
	case r == '|':
		if f.space = 0; isWord(f.last) {
			f.pass(placed{',', p.end})
		}
		f.space, f.gap = p.end, true
		return
	case strings.ContainsRune("*_`~\\<>", r), isEmoji(r), r == '\u200d' && f.gap, unicode.IsControl(r),
		r == unicode.ReplacementChar:
		if f.gap = true; r == '_' && isWord(f.last) || r == '*' && unicode.IsNumber(f.last) {
			f.space = p.end
		}
		return
	}
	f.pass(p)
}

// pass passes on a rune, with the space before it. A sign that follows what was left out joins on.
func (f *filter) pass(p placed) {
	if f.space > 0 && !(f.gap && strings.ContainsRune(".,;:!?)…。，、！？", p.r)) {
		f.out = append(f.out, placed{' ', f.space})
	}
	f.space, f.gap, f.last = 0, false, p.r
	f.out = append(f.out, p)
}

func isEmoji(r rune) bool {
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x21ff || r == 0xfe0f || r == 0x20e3 ||
		r >= 0xe0000 && r <= 0xe007f || r >= 0x2300 && r <= 0x2bff && unicode.Is(unicode.So, r)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
