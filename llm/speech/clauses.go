package speech

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Clause is what is spoken at once.
type Clause struct {
	Text       string // without what is not read aloud; at the end of a text it may be empty
	Start, End int    // where it stands in the text, in bytes

	ends []int // where each rune of Text ends in the text
}

// Spoken returns up to where the text is spoken after a share of the clause's sound.
func (c Clause) Spoken(share float64) int {
	n := int(share*float64(len(c.ends))) + 1
	if n > len(c.ends) {
		return c.End
	}
	return c.ends[n-1]
}

// The lengths of clauses, in runes.
const (
	minClause = 12
	maxClause = 200
	longSoft  = 80 // from here on a clause ends at a comma, which only the first one does before
)

// Cutter cuts a text that grows into clauses: by sentences (UAX #29), also by commas for the first one and for long
// ones, and if need be where a line may break (UAX #14). How the text is cut into pieces makes no difference: a clause
// ends once the next letter shows that it does. The zero value is ready.
type Cutter struct {
	filter filter
	rest   string // the beginning of a rune
	at     int    // bytes so far

	start   int // of the clause
	text    []rune
	ends    []int
	stopped bool // after the last letter there may be the end of a sentence
	later   bool // a clause has come
	clauses []Clause
}

// Write returns the clauses that a piece completes.
func (c *Cutter) Write(piece string) []Clause {
	c.rest += piece
	for c.rest != "" && utf8.FullRuneInString(c.rest) {
		r, size := utf8.DecodeRuneInString(c.rest)
		c.rest = c.rest[size:]
		c.at += size
		c.filter.add(r, c.at)
		c.read()
	}
	return c.take()
}

// Close returns the last clauses. The last of all ends where the text does.
func (c *Cutter) Close() []Clause {
	c.at += len(c.rest)
	c.filter.close()
	c.read()
	c.cut(len(c.text))
	clauses := c.take()
	if n := len(clauses); n > 0 {
		clauses[n-1].End = c.at
	} else if c.start < c.at {
		clauses = []Clause{{Start: c.start, End: c.at}}
	}
	return clauses
}

func (c *Cutter) take() []Clause {
	clauses := c.clauses
	c.clauses = nil
	return clauses
}

// read takes what is read aloud.
func (c *Cutter) read() {
	for _, p := range c.filter.out {
		if p.r == '\n' {
			c.line()
		} else {
			c.add(p.r, p.end)
		}
	}
	c.filter.out = c.filter.out[:0]
}

// add adds a rune that is read aloud and ends at a byte of the text.
func (c *Cutter) add(r rune, end int) {
	n := len(c.text)
	if n == 0 && unicode.IsSpace(r) {
		return
	}
	if letter := unicode.IsLetter(r); letter || unicode.IsNumber(r) {
		switch {
		case letter && c.stopped && c.cutSentence(r):
		case n >= minClause && (!c.later || n >= longSoft) && !isWord(c.text[n-1]) && isSoft(string(c.text), r):
			c.cutBefore(string(c.text))
		}
		c.stopped = c.stopped && !letter
	}
	if len(c.text) == maxClause {
		c.cutLong(r)
	}
	c.text, c.ends = append(c.text, r), append(c.ends, end)
	c.stopped = c.stopped || unicode.Is(unicode.STerm, r)
}

// line ends a line, and with it a sentence.
func (c *Cutter) line() {
	switch n := len(c.text); {
	case n >= minClause || !strings.ContainsFunc(string(c.text), isWord):
		c.cut(n)
	case n > 0 && isWord(c.text[n-1]):
		c.add(',', c.ends[n-1])
	}
}

// cutSentence cuts where the last sentence begins that there is with the next letter, if that is no mistake.
func (c *Cutter) cutSentence(next rune) bool {
	before := string(c.text)
	text, at, last := before+string(next), 0, 0
	for rest, state := text, -1; rest != ""; {
		var sentence string
		sentence, rest, state = uniseg.FirstSentenceInString(rest, state)
		last, at = at, at+len(sentence)
	}
	if utf8.RuneCountInString(text[:last]) < minClause || isAbbreviated(text[:last]) {
		return false
	}
	c.cutBefore(text[:last])
	return true
}

// cutBefore cuts at the end of a text, but before opening quotation marks there.
func (c *Cutter) cutBefore(text string) { c.cut(utf8.RuneCountInString(trimOpeners(text))) }

func trimOpeners(text string) string {
	text = strings.TrimRight(text, openers)
	if bare := strings.TrimRight(text, `"'`); strings.HasSuffix(bare, " ") {
		return bare
	}
	return text
}

// cutLong cuts what is long: after a comma, else where a line may break, else between two characters.
func (c *Cutter) cutLong(next rune) {
	var soft, word, at, n int
	for rest, state := string(c.text)+string(next), -1; ; {
		var cluster string
		var is int
		cluster, rest, is, state = uniseg.StepString(rest, state)
		if rest == "" || n+utf8.RuneCountInString(cluster) > maxClause {
			break
		}
		n += utf8.RuneCountInString(cluster)
		at = n
		if following, _ := utf8.DecodeRuneInString(rest); is&uniseg.MaskLine == uniseg.LineCanBreak {
			word = n
			if isSoft(string(c.text[:n]), following) {
				soft = n
			}
		}
	}
	for _, n := range []int{soft, word, at, maxClause} {
		if n >= longSoft || n == maxClause {
			c.cut(n)
			return
		}
	}
}

// cut makes a clause of the first n runes, if there is something to say in them.
func (c *Cutter) cut(n int) {
	text, ends := c.text[:n], c.ends[:n]
	c.text, c.ends = c.text[n:], c.ends[n:]
	for len(text) > 0 && unicode.IsSpace(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	if !strings.ContainsFunc(string(text), isWord) {
		return
	}
	c.clauses = append(c.clauses, Clause{
		Text: string(text), Start: c.start, End: ends[n-1], ends: ends[:len(text):len(text)],
	})
	c.start = ends[n-1]
	c.later = true
}

const (
	openers   = "“„‘«‹(「『【《¿¡"
	closers   = `"'”’»)）」』】》`
	softs     = ",;:–—…،؛" // if a space follows
	softsWide = "，、；："
)

// isSoft reports whether a clause may end after a text that goes on with a letter or digit: after a comma or the like,
// or at a space in scripts that put spaces only there.
func isSoft(text string, next rune) bool {
	text = trimOpeners(text)
	bare := strings.TrimRight(text, " ")
	spaced := len(bare) < len(text)
	last, _ := utf8.DecodeLastRuneInString(strings.TrimRight(bare, closers))
	return strings.ContainsRune(softsWide, last) ||
		spaced && (strings.ContainsRune(softs, last) || isUnspaced(last) && isUnspaced(next))
}

// isUnspaced reports whether a rune is of a script that puts no spaces between words, and no full stops.
func isUnspaced(r rune) bool {
	return unicode.In(r, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

// isAbbreviated reports whether a text ends with the full stop of a title, an initial or an ordinal.
func isAbbreviated(text string) bool {
	text, ok := strings.CutSuffix(strings.TrimSpace(text), ".")
	words := strings.FieldsFunc(text, func(r rune) bool { return !isWord(r) && !unicode.IsMark(r) })
	if !ok || len(words) == 0 {
		return false
	}
	word := strings.ToLower(words[len(words)-1])
	return utf8.RuneCountInString(word) == 1 || len(word) == 2 && word[1] <= '9' || titles[word]
}

// titles are words that are followed by a name or a number if a full stop follows.
var titles = func() map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields("mr mrs ms dr prof st sr jr rev gen sen rep capt sgt lt hr fr nr bzw ca vgl inkl " +
		"evtl ggf str abs mme mlle mgr sra dra srta dott sig vs approx fig") {
		set[word] = true
	}
	return set
}()
