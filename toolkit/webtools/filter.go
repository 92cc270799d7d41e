package webtools

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// An HTML parser repairs what it reads, and a few bytes can make it build a great deal: 27 kB with
// many unclosed <b> become a tree of 1.5 million nodes, and 250 kB of repeated <body> take half a
// minute. So a page is rewritten before it is parsed, with only the elements and attributes that
// matter for its text, and no more than a tree has room for.

const (
	// maxNodes is roughly how many nodes a page's tree may have; a long article has 50,000.
	maxNodes = 120_000
	// repairCost is how many nodes the parser may make to close one formatting element in
	// the wrong place (HTML standard, adoption agency algorithm).
	repairCost = 8
	// maxSame is how often the parser reopens equal formatting elements.
	maxSame      = 3
	maxAttribute = 2 << 10
	maxStack     = 256
)

// kept are the elements that are written; of all others only the content is written.
var kept = atomSet(
	"html head title meta body article section nav aside header footer main hgroup h1 h2 h3 h4 h5 h6 p div span br " +
		"hr pre blockquote ul ol li dl dt dd figure figcaption table caption thead tbody tfoot tr td th a b strong " +
		"i em code kbd samp var cite q dfn abbr time address sub sup del ins mark details summary form fieldset button")

// dropped are the elements that are removed with their content.
var dropped = atomSet("script style svg template noscript noembed noframes iframe object canvas audio video select " +
	"textarea plaintext xmp")

// formatting are the kept elements that the parser reopens after they were cut short.
var formatting = atomSet("a b strong i em code")

// void are the kept elements without an end.
var void = atomSet("meta br hr")

// attributes are those that are written: for links, dates and metadata, and to tell content from
// its surroundings.
var attributes = map[string]bool{
	"id": true, "class": true, "role": true, "hidden": true, "aria-hidden": true, "style": true, "itemprop": true,
	"rel": true, "property": true, "name": true, "content": true, "href": true, "datetime": true, "lang": true,
}

func atomSet(names string) map[atom.Atom]bool {
	set := map[atom.Atom]bool{}
	for name := range strings.FieldsSeq(names) {
		set[atom.Lookup([]byte(name))] = true
	}
	return set
}

// filter rewrites a page.
type filter struct {
	out  strings.Builder
	cost int
	// stack are the open elements according to the source: what the parser closes by itself stays
	// on it.
	stack []atom.Atom
	// unclosed counts the formatting elements without an end, by name, up to maxSame.
	unclosed map[atom.Atom]int
	// once holds which of the elements that may occur only once have been written: html, head, body,
	// title.
	once map[atom.Atom]bool
}

// filterPage returns the page, and whether it was cut.
func filterPage(source string) (page string, cut bool) {
	f := filter{unclosed: map[atom.Atom]int{}, once: map[atom.Atom]bool{}}
	z := html.NewTokenizer(strings.NewReader(source))
	skipping := atom.Atom(0)
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return f.out.String(), false
		}
		if f.cost > maxNodes {
			return f.out.String(), true
		}
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			token, linked := f.start(z, skipping != 0)
			if skipping != 0 {
				continue
			}
			switch {
			case linked:
				f.metadata(z)
			case dropped[token.DataAtom] && kind == html.StartTagToken:
				skipping = token.DataAtom
			case kept[token.DataAtom]:
				f.open(token)
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			a := atom.Lookup(name)
			switch {
			case skipping != 0:
				if a == skipping {
					skipping = 0
				}
			case kept[a]:
				f.close(a)
			}
		case html.TextToken:
			if skipping == 0 {
				f.cost += 1 + f.reopened()
				f.out.WriteString(html.EscapeString(string(z.Text())))
			}
		}
	}
}

// start reads a start tag with the kept attributes, each once. linked means that it begins a script
// with metadata (JSON-LD).
func (f *filter) start(z *html.Tokenizer, skipping bool) (token html.Token, linked bool) {
	name, more := z.TagName()
	token.DataAtom = atom.Lookup(name)
	if skipping || !kept[token.DataAtom] && token.DataAtom != atom.Script {
		return token, false
	}
	plain := formatting[token.DataAtom] && token.DataAtom != atom.A
	seen := map[string]bool{}
	for more {
		var key, value []byte
		key, value, more = z.TagAttr()
		if token.DataAtom == atom.Script {
			linked = linked ||
				string(key) == "type" && strings.EqualFold(strings.TrimSpace(string(value)), "application/ld+json")
			continue
		}
		if plain || !attributes[string(key)] || seen[string(key)] || len(value) > maxAttribute {
			continue
		}
		seen[string(key)] = true
		token.Attr = append(token.Attr, html.Attribute{Key: string(key), Val: string(value)})
	}
	return token, linked
}

// metadata copies a JSON-LD script, whose text is not markup.
func (f *filter) metadata(z *html.Tokenizer) {
	if z.Next() != html.TextToken {
		return
	}
	text := string(z.Raw())
	f.cost += 2
	// The following end tag is not kept; neither is the beginning of a comment, after which the
	// parser would look for the end elsewhere.
	if !strings.Contains(text, "<!--") {
		f.out.WriteString(`<script type="application/ld+json">` + text + `</script>`)
	}
}

func (f *filter) open(token html.Token) {
	a := token.DataAtom
	switch a {
	case atom.Html, atom.Head, atom.Body, atom.Title:
		if f.once[a] {
			return
		}
		f.once[a] = true
	}
	f.cost += 1 + f.reopened()
	if a == atom.A && f.unclosed[a] > 0 {
		f.cost += repairCost // a link ends the one before
		f.unclosed[a] = 0
	}
	f.out.WriteString("<" + a.String())
	for _, attribute := range token.Attr {
		f.out.WriteString(" " + attribute.Key + `="` + html.EscapeString(attribute.Val) + `"`)
	}
	f.out.WriteString(">")
	if void[a] {
		return
	}
	if formatting[a] {
		f.unclosed[a] = min(f.unclosed[a]+1, maxSame)
	}
	f.push(a)
}

// push keeps the stack short: the end of an element that is no longer on it makes the estimate too
// high, not too low.
func (f *filter) push(a atom.Atom) {
	if last := len(f.stack) - 1; last >= 0 && f.stack[last] == a && !formatting[a] && a != atom.Div && a != atom.Span {
		return // such as <li>: it ends the one before
	}
	if len(f.stack) == maxStack {
		f.stack = append(f.stack[:0], f.stack[maxStack/2:]...)
	}
	f.stack = append(f.stack, a)
}

func (f *filter) close(a atom.Atom) {
	if void[a] || a == atom.Html || a == atom.Head || a == atom.Body {
		return // the parser knows where these end
	}
	f.cost++
	last := len(f.stack) - 1
	at := last
	for at >= 0 && f.stack[at] != a {
		at--
	}
	if at >= 0 {
		f.stack = f.stack[:at]
	}
	if formatting[a] {
		if f.unclosed[a] == 0 {
			return // it closes nothing
		}
		f.unclosed[a]--
		if at != last {
			f.cost += repairCost
		}
	}
	f.out.WriteString("</" + a.String() + ">")
}

// reopened is how many formatting elements the parser may reopen before the next node: those that
// have no end and were, or may have been, cut short by another element.
func (f *filter) reopened() int {
	n := 0
	for _, open := range f.unclosed {
		n += open
	}
	if n == 0 {
		return 0
	}
	intact := map[atom.Atom]int{}
	for i := len(f.stack) - 1; i >= 0 && i >= len(f.stack)-2*maxSame && formatting[f.stack[i]]; i-- {
		if a := f.stack[i]; intact[a] < f.unclosed[a] {
			intact[a]++
			n--
		}
	}
	return n
}
