package speech

import (
	"regexp"
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
	if n := int(share * float64(len(c.ends))); n < len(c.ends) {
		return c.ends[n]
	}
	return c.End
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
	filter  filter
	size    int // of the text so far
	start   int // of the clause
	text    []rune
	ends    []int
	stopped bool // after the last letter there may be the end of a sentence
	later   bool // a clause has come
	clauses []Clause
}

// Write returns the clauses that a piece completes.
func (c *Cutter) Write(piece string) []Clause {
	c.size += len(piece)
	return c.write(piece)
}

// Close returns the last clauses. The last of all ends where the text does.
func (c *Cutter) Close() []Clause {
	clauses := c.write("\n")
	c.cut(len(c.text))
	clauses = append(clauses, c.clauses...)
	if len(clauses) == 0 && c.start < c.size {
		clauses = []Clause{{Start: c.start}}
	}
	if n := len(clauses); n > 0 {
		clauses[n-1].End = c.size
	}
	return clauses
}

func (c *Cutter) write(piece string) []Clause {
	c.clauses, c.filter.out = nil, nil
	c.filter.write(piece)
	for _, p := range c.filter.out {
		n := len(c.text)
		switch {
		case p.r != '\n':
			c.add(p.r, p.end)
		case n >= minClause || !strings.ContainsFunc(string(c.text), isWord):
			c.cut(n)
		case p.end <= c.size && isWord(c.text[n-1]): // not the end of the text
			c.add(',', c.ends[n-1])
		}
	}
	clauses := c.clauses
	c.clauses = nil
	return clauses
}

// add adds a rune that is read aloud and ends at a byte of the text.
func (c *Cutter) add(r rune, end int) {
	n, letter := len(c.text), unicode.IsLetter(r)
	switch {
	case n == 0 && unicode.IsSpace(r):
		return
	case letter && c.stopped && c.cutSentence(r):
	case isWord(r) && n >= minClause && (!c.later || n >= longSoft) && !isWord(c.text[n-1]) && c.cutSoft(r):
	case n == maxClause:
		c.cutLong(r)
	}
	c.text, c.ends = append(c.text, r), append(c.ends, end)
	c.stopped = unicode.Is(unicode.STerm, r) || c.stopped && !letter
}

// cutSentence cuts where the last sentence begins, if the next letter shows that there is another one.
func (c *Cutter) cutSentence(next rune) bool {
	text, last := string(c.text)+string(next), ""
	for rest, state := text, -1; rest != ""; {
		last, rest, state = uniseg.FirstSentenceInString(rest, state)
	}
	text = strings.TrimRight(strings.TrimSuffix(text, last), openers)
	n := utf8.RuneCountInString(text)
	if n < minClause || abbreviated.MatchString(text) {
		return false
	}
	c.cut(n)
	return true
}

// cutSoft cuts before the next letter or digit if it follows a comma or the like, or a space in scripts that put spaces
// only there.
func (c *Cutter) cutSoft(next rune) bool {
	text := string(c.text) + string(next)
	m := soft.FindStringSubmatchIndex(text)
	if m != nil {
		c.cut(utf8.RuneCountInString(text[:max(m[2], m[4])]))
	}
	return m != nil
}

// cutLong cuts where a line may break, else between two characters.
func (c *Cutter) cutLong(next rune) {
	var word, n int
	for rest, state := string(c.text)+string(next), -1; ; {
		var cluster string
		var is int
		cluster, rest, is, state = uniseg.StepString(rest, state)
		size := utf8.RuneCountInString(cluster)
		if rest == "" || n+size > maxClause {
			break
		}
		if n += size; is&uniseg.MaskLine == uniseg.LineCanBreak {
			word = n
		}
	}
	for _, n := range []int{word, n, maxClause} {
		if n >= longSoft {
			c.cut(n)
			return
		}
	}
}

// cut makes a clause of the first n runes, if there is something to say in them.
func (c *Cutter) cut(n int) {
	text := strings.TrimRight(string(c.text[:n]), " ")
	if strings.ContainsFunc(text, isWord) {
		end := c.ends[n-1]
		c.clauses = append(c.clauses, Clause{text, c.start, end, c.ends[:utf8.RuneCountInString(text)]})
		c.start, c.later = end, true
	}
	c.text, c.ends = c.text[n:], c.ends[n:]
}

// openers are opening quotation marks.
const openers = "“„‘«‹(「『【《¿¡"

var (
	soft = regexp.MustCompile(`(?:[，、；：]["'”’»)）」』】》]* *|[,;:–—…،؛]["'”’»)]* +)([` + openers + `"']*.)$|` +
		`[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}] +([\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}])$`)
	// abbreviated matches what ends with the full stop of an initial, an ordinal or a word that a name or a number
	// follows then.
	abbreviated = regexp.MustCompile(`(?i)(?:^|[^\pL\pN\pM])(?:\pL\pM*|\d{1,2}|mr|mrs|ms|dr|prof|st|sr|jr|rev|gen|sen|` +
		`rep|capt|sgt|lt|hr|fr|nr|bzw|ca|vgl|inkl|evtl|ggf|str|abs|mme|mlle|mgr|sra|dra|srta|dott|sig|vs|approx|` +
		`fig)\.\s*$`)
)
