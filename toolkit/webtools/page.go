package webtools

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"codeberg.org/readeck/go-readability/v2"
	"github.com/JohannesKaufmann/html-to-markdown/v2/converter"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/base"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/commonmark"
	"github.com/JohannesKaufmann/html-to-markdown/v2/plugin/table"
	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"voicebridge/toolkit"
)

// minArticle is how many characters an article must have; if it has fewer, the whole page is used.
const minArticle = 200

// article is the readable part of a page.
type article struct {
	title, author, site, published string
	text                           string
	cut                            bool // there is more on the page
}

var errNoText = errors.New("the page has no text that can be read; it may need a browser")

// readPage turns the body of an answer into text. Errors are in words for the model. It may panic
// on pages that the libraries do not expect.
func readPage(address *url.URL, header http.Header, body []byte) (article, error) {
	text, ok := textOf(header, body)
	if !ok {
		return article{}, errors.New("it is not text: " + describe(header, body))
	}
	var a article
	if isHTML(mediaType(header, body)) {
		a = readHTML(address, text)
	} else {
		a.text = strings.TrimSpace(text)
	}
	if a.text == "" {
		return article{}, errNoText
	}
	return a, nil
}

func readHTML(address *url.URL, source string) article {
	source, cut := filterPage(source)
	doc, err := html.Parse(strings.NewReader(source))
	if err != nil { // it nests too deep
		return article{text: textTokens(source), cut: cut}
	}
	short := flatten(doc)
	address = shortBase(address)
	a := article{cut: cut || short}
	parser := readability.NewParser()
	found, err := parser.ParseDocument(doc, address)
	if err == nil && found.Node != nil {
		a.title, a.author = plainLine(found.Title()), plainLine(found.Byline())
		a.site = plainLine(found.SiteName())
		if at, err := found.PublishedTime(); err == nil {
			a.published = at.UTC().Format(time.RFC3339)
		}
		a.text = markdown(found.Node, address)
	}
	if len(a.text) < minArticle {
		if whole := markdown(doc, address); len(whole) > len(a.text) {
			a.text = whole
		}
	}
	if a.text == "" {
		a.text, a.cut = textTokens(source), cut
	}
	return a
}

// maxIndent is how deep lists and quotations may be nested. Markdown indents every line of an inner
// one, once for each outer one.
const maxIndent = 8

// maxColumns limits the width of a table: Markdown gives every row as many cells as the longest
// has.
const maxColumns = 30

var (
	indenting = atomSet("ul ol dl blockquote table")
	tableRows = atomSet("table thead tbody tfoot tr td th caption")
)

// maxWork limits the sum over all nodes of a tree of their weight times their depth. Finding the
// article means reading all text below each element, so that text is read as often as it is deep:
// two megabytes in 490 elements took 17 seconds. A long article of 400 kB in 30 elements is at a
// third of this.
const maxWork = 32 << 20

// nodeWeight is a node's weight besides its text, in bytes.
const nodeWeight = 8

// flatten brings a tree into a form that readers need. short means that part of the page was left
// out.
func flatten(doc *html.Node) (short bool) {
	f := flattener{layout: layoutTables(doc), room: maxWork}
	f.flatten(doc, location{})
	return f.short
}

// layoutTables are tables that contain others. Markdown has no such thing, and the converter tries
// twice for each level, so that eight of them take 256 times as long as one.
func layoutTables(doc *html.Node) map[*html.Node]bool {
	found := map[*html.Node]bool{}
	var walk func(node, around *html.Node)
	walk = func(node, around *html.Node) {
		if node.DataAtom == atom.Table {
			if around != nil {
				found[around] = true
			}
			around = node
		}
		for child := range node.ChildNodes() {
			walk(child, around)
		}
	}
	walk(doc, nil)
	return found
}

// flattener turns what is nested too deep, and tables that Markdown cannot express, into plain
// blocks, and leaves out what a tree has no room for.
type flattener struct {
	layout map[*html.Node]bool
	room   int  // what is left of maxWork
	short  bool // something was left out
}

// location is where a node is: its total depth, its depth in lists and the like, and whether the table
// around it has become plain blocks.
type location struct {
	depth, indent int
	plain         bool
}

func (f *flattener) flatten(node *html.Node, at location) {
	for child := node.FirstChild; child != nil; {
		next := child.NextSibling
		inner := location{at.depth + 1, at.indent, at.plain}
		if !f.fit(child, inner.depth) {
			node.RemoveChild(child)
			child = next
			continue
		}
		if child.DataAtom == atom.Table {
			inner.plain = f.layout[child] || isWide(child)
		}
		if indenting[child.DataAtom] {
			inner.indent++
		}
		if inner.indent > maxIndent && inner.indent > at.indent || inner.plain && tableRows[child.DataAtom] {
			child.DataAtom, child.Data = atom.Div, "div"
		}
		f.flatten(child, inner)
		child = next
	}
}

// fit uses the room for a node, and reports whether there was any. A text is shortened to fit.
func (f *flattener) fit(node *html.Node, depth int) bool {
	if node.Type == html.TextNode {
		if fits := max(0, f.room/depth-nodeWeight); len(node.Data) > fits {
			node.Data, f.short = toolkit.Head(node.Data, fits), true
		}
		f.room -= len(node.Data) * depth
	}
	f.room -= nodeWeight * depth
	f.short = f.short || f.room < 0
	return f.room >= 0
}

// isWide reports whether a table has too many columns. The parser puts its rows into a body.
func isWide(table *html.Node) bool {
	for body := range table.ChildNodes() {
		for row := range body.ChildNodes() {
			cells := 0
			for range row.ChildNodes() {
				if cells++; cells > 2*maxColumns { // with white space between them
					return true
				}
			}
		}
	}
	return false
}

// shortBase is the base of relative links: a long path would be repeated in each.
func shortBase(address *url.URL) *url.URL {
	short := *address
	short.RawQuery = ""
	if len(short.EscapedPath()) > maxBasePath {
		short.Path, short.RawPath = "/", ""
	}
	return &short
}

const maxBasePath = 256

// toMarkdown is made once; it is safe for concurrent use.
var toMarkdown = sync.OnceValue(func() *converter.Converter {
	c := converter.NewConverter(
		// The text is for a model: backslashes only cost. Escaping also takes quadratic time for
		// some texts.
		converter.WithEscapeMode(converter.EscapeModeDisabled),
		converter.WithPlugins(base.NewBasePlugin(), commonmark.NewCommonmarkPlugin(),
			table.NewTablePlugin(table.WithCellPaddingBehavior(table.CellPaddingBehaviorMinimal))))
	for _, name := range []string{"form", "button", "fieldset", "nav"} {
		c.Register.TagType(name, converter.TagTypeRemove, converter.PriorityStandard)
	}
	return c
})

// markdown returns the text of a node, empty if it cannot be converted.
func markdown(node *html.Node, address *url.URL) string {
	text, err := toMarkdown().ConvertNode(node, converter.WithDomain(address.Scheme+"://"+address.Host))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(unescape.Replace(clean(string(text))))
}

// unescape reverses what the converter still writes for HTML inside Markdown.
var unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">")

// textTokens returns all text of a page, without markup.
func textTokens(source string) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(source))
	inScript := false
	for {
		switch z.Next() {
		case html.ErrorToken:
			return strings.Join(strings.Fields(b.String()), " ")
		case html.StartTagToken:
			name, _ := z.TagName()
			inScript = string(name) == "script"
			b.WriteByte(' ')
		case html.EndTagToken:
			inScript = false
		case html.TextToken:
			if !inScript {
				b.Write(z.Text())
			}
		}
	}
}
