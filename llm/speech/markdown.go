package speech

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// filter leaves out of a text what is not read aloud: the signs of Markdown (https://spec.commonmark.org), fenced code,
// addresses, tables' rules, square brackets with what is in them, emoji. It decides once enough of the text has come
// that more of it makes no difference.
type filter struct {
	held   string   // what is not decided
	at     int      // where it begins in the text
	inLine bool     // and not at its beginning
	fence  string   // that ends the code
	links  int      // that are open
	before rune     // the one before
	last   rune     // that was read aloud
	space  int      // where the space before the next rune ends; 0 if there is none
	gap    bool     // something was left out since the last rune
	out    []placed // what is read aloud, and a line feed at the end of each line
}

// placed is a rune with the byte at which it ends.
type placed struct {
	r   rune
	end int
}

// maxHeld is how far a decision looks ahead, in bytes.
const maxHeld = 512

var (
	lineMarks = regexp.MustCompile("^[ \t\r>#*+=|:_~`-]*")
	brackets  = regexp.MustCompile(`^!?\[((?:[^\[\]\n]|\[[^\[\]\n]*\](?:\([^()\n]*\))?)*)\]` + target)
	linkEnd   = regexp.MustCompile(`^\]` + target)
	address   = regexp.MustCompile(`^(?i:https?://|www\.)(?:[^\s<>"()\]|` + wide + `]|\([^\s()]*\))*`)
	ends      = regexp.MustCompile(`[\s` + wide + `]`)
)

// wide are letters and signs of scripts that put no spaces between words.
const wide = `\x{2e80}-\x{fffc}\x{10000}-\x{10ffff}`

// target is that of a link.
const target = `(\((?:[^()\n]|\([^()\n]*\))*\)|\[[^\[\]\n]*\])?`

// write takes the next piece; a line feed ends the text.
func (f *filter) write(piece string) {
	f.held += piece
	for f.held != "" {
		n := f.decide()
		if n == 0 {
			return
		}
		f.before, _ = utf8.DecodeLastRuneInString(f.held[:n])
		f.at, f.held = f.at+n, f.held[n:]
	}
}

// decide takes what comes next, and returns how many bytes it has; 0 means that it is not decided.
func (f *filter) decide() int {
	text := f.held[:min(len(f.held), maxHeld)]
	line, _, over := strings.Cut(text, "\n")
	whole := over || len(text) == maxHeld // nothing waits any longer
	r, size := utf8.DecodeRuneInString(text)
	switch {
	case f.fence != "":
		if !whole {
			return 0
		}
		if bare := strings.Trim(line, " \t\r>"); strings.HasPrefix(bare, f.fence) && strings.Trim(bare, f.fence[:1]) == "" {
			f.fence = ""
		}
		return min(len(line)+1, len(text))
	case !f.inLine:
		marks := lineMarks.FindString(text)
		bare := strings.TrimLeft(marks, " \t>")
		fence := strings.HasPrefix(bare, "```") || strings.HasPrefix(bare, "~~~")
		if !whole && (fence || marks == text) {
			return 0
		}
		if fence && !strings.Contains(line[len(marks):], "`") {
			f.fence = bare[:len(bare)-len(strings.TrimLeft(bare, bare[:1]))]
			return min(len(line)+1, len(text))
		}
		f.inLine = true
		bare = strings.TrimRight(marks, "-+#=:")
		if rest := marks[len(bare):]; rest != "" && marks != strings.TrimRight(line, " \r") {
			marks = marks[:len(marks)-1] // the last belongs to the word
		}
		if marks != "" {
			return len(marks)
		}
	}
	switch {
	case r == '\n':
		f.inLine, f.space, f.links = false, f.at+1, 0
		f.out = append(f.out, placed{r, f.at + 1})
	case !utf8.FullRuneInString(text), r == '!' && len(text) == 1:
		return 0
	case r == '[', strings.HasPrefix(text, "!["):
		return f.bracket(text, whole)
	case r == ']':
		f.gap = true
		if f.links > 0 {
			f.links--
			return len(linkEnd.FindString(text))
		}
	case !isWord(f.before) && strings.ContainsRune("hHwW", r):
		if !whole && !ends.MatchString(text) {
			return 0
		}
		if found := strings.TrimRight(address.FindString(text), ".,;:!?*_"); found != "" {
			f.gap = true
			return len(found)
		}
		f.say(r, f.at+size)
	default:
		f.say(r, f.at+size)
	}
	return size
}

// bracket leaves out brackets. The text of a link is read.
func (f *filter) bracket(text string, whole bool) int {
	m := brackets.FindStringSubmatchIndex(text)
	if !whole && (m == nil || m[1] == len(text) || m[4] < 0 && strings.ContainsRune("([", rune(text[m[1]]))) {
		return 0
	}
	f.gap = true
	if m == nil {
		return 1
	}
	if m[4] < 0 || text[m[4]] == '[' && !strings.ContainsFunc(text[m[2]:m[3]], unicode.IsLetter) {
		return m[3] + 1
	}
	f.links++
	return m[2]
}

// say passes on a rune that is read aloud, with the space before it. A sign that follows what was left out joins on.
func (f *filter) say(r rune, end int) {
	switch {
	case unicode.IsSpace(r):
		f.space = end
		return
	case r == '|' && isWord(f.last):
		r, f.space = ',', 0
	case strings.ContainsRune("*_`~\\<>|", r), isEmoji(r), r == '\u200d' && f.gap, unicode.IsControl(r),
		r == unicode.ReplacementChar:
		if f.gap = true; r == '_' && isWord(f.last) || r == '|' || r == '*' && unicode.IsNumber(f.last) {
			f.space = end
		}
		return
	}
	if f.space > 0 && !(f.gap && strings.ContainsRune(".,;:!?)…。，、！？", r)) {
		f.out = append(f.out, placed{' ', f.space})
	}
	f.space, f.gap, f.last = 0, false, r
	f.out = append(f.out, placed{r, end})
}

func isEmoji(r rune) bool {
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2190 && r <= 0x21ff || r == 0xfe0f || r == 0x20e3 ||
		r >= 0xe0000 && r <= 0xe007f || r >= 0x2300 && r <= 0x2bff && unicode.Is(unicode.So, r)
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) }
