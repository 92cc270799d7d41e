package webtools

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

func countNodes(doc *html.Node) (n int) {
	for range doc.Descendants() {
		n++
	}
	return n
}

func repeatTo(size int, text string) string { return strings.Repeat(text, size/len(text)+1) }

func numberedTo(size int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// hostilePages make parsers and converters do much with little.
func hostilePages(size int) map[string]string {
	var unclosed strings.Builder
	for i := range 490 {
		fmt.Fprintf(&unclosed, "<b a%d>", i)
	}
	equal := strings.Repeat("<b><i><em><strong><code>", 50) + "<a href=x>"
	return map[string]string{
		"unclosed formatting":      "<p>" + unclosed.String() + "</p>" + repeatTo(size, "<p>x</p>"),
		"unclosed equal":           "<p>" + equal + "</p>" + repeatTo(size, "<p>x</p>"),
		"implied ends":             "<p>" + equal + repeatTo(size, "<p>x"),
		"crossed formatting":       repeatTo(size, "<b><i><em><p></b></i></em>"),
		"crossed links":            repeatTo(size, "<a href=/x>y<p>"),
		"foster parents":           "<table>" + repeatTo(size, "<b>x<p>"),
		"many bodies":              numberedTo(size, "<body a%d>"),
		"many kept on body":        numberedTo(size, "<body id=%d class=x>"),
		"many attributes":          "<p " + numberedTo(size, "a%d ") + ">text",
		"deep":                     repeatTo(size, "<div>"),
		"deep often":               repeatTo(size, strings.Repeat("<div>", 400)+"x"+strings.Repeat("</div>", 400)),
		"deep tables":              repeatTo(size, strings.Repeat("<table><tr><td>", 100)+"x"+strings.Repeat("</table>", 100)),
		"tables around much":       strings.Repeat("<table><tr><td>", 8) + repeatTo(size, "<p>x"),
		"deep text":                strings.Repeat("<div>", 490) + repeatTo(size, "some words, "),
		"deep text in sections":    strings.Repeat("<section>", 490) + repeatTo(size, "some words, "),
		"deep texts":               strings.Repeat("<div>", 400) + repeatTo(size, "some words, <p>"),
		"deep in cells":            repeatTo(size, "<div><table><tr><td></div>some words, "),
		"style in svg":             "<svg><style>" + unclosed.String() + repeatTo(size, "<p>x</p>"),
		"title in svg":             "<svg><title><p>" + unclosed.String() + "</p>" + repeatTo(size, "<p>x</p>"),
		"comment in script":        "<script><!--</script><p>" + unclosed.String() + "</p>" + repeatTo(size, "<p>x</p>"),
		"comment in JSON-LD":       `<script type="application/ld+json"><!--<script></script><p>` + unclosed.String() + "</p>" + repeatTo(size, "<p>x</p>"),
		"JSON-LD in a template":    `<template><script type="application/ld+json">x</template>` + unclosed.String() + repeatTo(size, "<p>x</p>"),
		"deep JSON-LD":             `<script type="application/ld+json">` + repeatTo(size, "[") + "</script>",
		"much JSON-LD":             repeatTo(size, `<script type="application/ld+json">{"@context":"https://schema.org","@type":"Article"}</script>`),
		"brackets":                 "<p>" + repeatTo(size, "["),
		"stars":                    "<p>" + repeatTo(size, "*"),
		"ticks":                    "<pre>" + repeatTo(size, "`"),
		"line breaks":              repeatTo(size, "a<br><br>"),
		"less than":                repeatTo(size, "<"),
		"long link":                repeatTo(size, "<a href='"+strings.Repeat("/..", 600)+"'>x</a>"),
		"wide table":               "<table><tr><td>" + strings.Repeat("x", 20000) + repeatTo(size, "<tr><td>y"),
		"one long row":             "<table><tr>" + repeatTo(size/2, "<td>x") + repeatTo(size/2, "<tr><td>y"),
		"rows in rows":             "<table>" + strings.Repeat("<tr><td><table><tr>"+strings.Repeat("<td>x", 40), 5) + repeatTo(size, "<tr><td>y"),
		"lists in lists":           repeatTo(size, strings.Repeat("<ul><li>x", 200)+strings.Repeat("<li>y", 2000)+strings.Repeat("</ul>", 200)),
		"quotes in quotes":         strings.Repeat("<blockquote>x", 400) + repeatTo(size, "<p>y"),
		"ordered lists":            strings.Repeat("<ol><li>x", 200) + repeatTo(size, "<li>y"),
		"lists and table cells":    repeatTo(size, "<ul><table><tr><td></ul></table>x"),
		"long rows":                "<table>" + repeatTo(size, "<tr>"+strings.Repeat("<td>x", 300)),
		"list items":               repeatTo(size, "<li>x"),
		"selects":                  repeatTo(size, "<select><option>x"),
		"plaintext":                "<plaintext>" + repeatTo(size, "<p>"),
		"title that never ends":    "<title>" + repeatTo(size, "a | b - "),
		"words in one long line":   "<p>" + repeatTo(size, "word word "),
		"nested lists":             repeatTo(size, "<ul><li>x"),
		"invalid bytes":            repeatTo(size, "\xff\xc0"),
		"end tags":                 repeatTo(size, "</p></b></div>"),
		"forms and buttons":        repeatTo(size, "<form><button><fieldset>x"),
		"conditional comments":     repeatTo(size, "<!--[if IE]><p>x<![endif]-->"),
		"many metadata":            numberedTo(size, "<meta name=author content=x%d>"),
		"classes of advertisement": repeatTo(size, "<p class='comment sidebar share'>x, y</p>"),
	}
}

// What a page costs is bounded by its tree: how many nodes it has, how deep its text is, and how
// often a table is tried. So the tree is looked at, and no clock.
func TestHostilePagesAreBounded(t *testing.T) {
	t.Parallel()
	address := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	many := hostilePages(768 << 10)
	for name, page := range hostilePages(8 << 10) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			large := many[name]
			filtered, _ := filterPage(large)
			// When the parser refuses it, its text is taken without a tree.
			if doc, err := html.Parse(strings.NewReader(filtered)); err == nil {
				if n := countNodes(doc); n > 2*maxNodes {
					t.Errorf("the parser makes %d nodes of %d bytes", n, len(large))
				}
				flatten(doc)
				checkTree(t, doc)
			}
			a, err := readSafely(&response{url: address, header: http.Header{"Content-Type": {"text/html"}}, body: []byte(page)})
			if err != nil && err != errNoText { //nolint:errorlint // it is not wrapped
				t.Error(err)
			}
			if len(a.text) > 16*len(page) {
				t.Errorf("%d bytes became %d", len(page), len(a.text))
			}
		})
	}
}

// checkTree fails when a tree is too much work for those who read it, or a table holds a table.
func checkTree(t *testing.T, doc *html.Node) {
	t.Helper()
	work, nested := 0, false
	var walk func(node *html.Node, depth int, inTable bool)
	walk = func(node *html.Node, depth int, inTable bool) {
		work += nodeWeight * depth
		if node.Type == html.TextNode {
			work += len(node.Data) * depth
		}
		isTable := node.DataAtom == atom.Table
		nested = nested || inTable && isTable
		for child := range node.ChildNodes() {
			walk(child, depth+1, inTable || isTable)
		}
	}
	walk(doc, 0, false)
	if work > maxWork {
		t.Errorf("the work is %d, the limit is %d", work, maxWork)
	}
	if nested {
		t.Error("a table holds a table")
	}
}

// textIn is how much text a tree holds.
func textIn(doc *html.Node) (n int) {
	for node := range doc.Descendants() {
		if node.Type == html.TextNode {
			n += len(node.Data)
		}
	}
	return n
}

// A page whose tree is too much work is shortened at its end.
func TestDeepPagesAreCut(t *testing.T) {
	t.Parallel()
	words := repeatTo(defaultMaxPage, "some words, and more of them. ")
	for name, tc := range map[string]struct {
		page     string
		short    bool
		min, max int
	}{
		"as deep as pages are": {strings.Repeat("<div>", 25) + repeatTo(400<<10, "<p>some words, and more of them</p>"), false, 300 << 10, 400 << 10},
		"one long text":        {strings.Repeat("<div>", 100) + "<pre>" + words, true, maxWork/105 - 100, maxWork / 100},
		"490 elements":         {strings.Repeat("<div>", 490) + words, true, maxWork/500 - 4000, maxWork / 490},
		"490 sections":         {strings.Repeat("<section>", 490) + words, true, maxWork/500 - 4000, maxWork / 490},
		"what comes after":     {strings.Repeat("<div>", 490) + words + strings.Repeat("</div>", 490) + "<p>after", true, maxWork/500 - 4000, maxWork / 490},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			filtered, _ := filterPage(tc.page)
			doc, err := html.Parse(strings.NewReader(filtered))
			must(t, err)
			short := flatten(doc)
			checkTree(t, doc)
			if n := textIn(doc); short != tc.short || n < tc.min || n > tc.max {
				t.Errorf("%d bytes of text are left, shortened %v; want %d to %d, shortened %v", n, short, tc.min, tc.max, tc.short)
			}
		})
	}
}

func TestTableInsideOfLayout(t *testing.T) {
	t.Parallel()
	page := "<table><tr><td>left<td><table><tr><th>a<th>b<tr><td>1<td>2</table>" + strings.Repeat("<p>words, of the page</p>", 20) + "</table>"
	a := readHTML(&url.URL{Scheme: "https", Host: "example.com", Path: "/"}, page)
	if !strings.Contains(a.text, "| a | b |") || !strings.Contains(a.text, "words") {
		t.Errorf("got %q", a.text)
	}
}

func TestFilterPage(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ page, want string }{
		"kept":            {`<p class="x" onclick="y">a<b>c</b></p>`, `<p class="x">a<b>c</b></p>`},
		"unknown":         {`<foo>a</foo><my-element>b</my-element>`, `ab`},
		"dropped":         {`a<script>b</script><style>c</style><svg><path d="x"/><text>d</text></svg><noscript>e</noscript>f`, `af`},
		"self-closing":    {`a<svg/>b`, `ab`},
		"inside math":     {`<math><mi>a</mi><mo>&lt;</mo></math>`, `a&lt;`},
		"attributes once": {`<a href="x" href="javascript:y" HREF=z>a</a>`, `<a href="x">a</a>`},
		"quotes":          {`<a href='"><script>x</script>'>a</a>`, `<a href="&#34;&gt;&lt;script&gt;x&lt;/script&gt;">a</a>`},
		"text":            {`a &lt;script&gt; &amp; b`, `a &lt;script&gt; &amp; b`},
		"broken tag":      {`a < b <p`, `a &lt; b `},
		"second title":    {`<title>a</title><title>b</title>`, `<title>a</title>b</title>`},
		"title is text":   {`<title><b>a</b></title>`, `<title>&lt;b&gt;a&lt;/b&gt;</title>`},
		"metadata":        {`<script type=" Application/LD+json">{"a":"<b>"}</script>c`, `<script type="application/ld+json">{"a":"<b>"}</script>c`},
		"metadata, hurt":  {`<script type="application/ld+json">{"a":"<!--"}</script>c`, `c`},
		"empty metadata":  {`<script type="application/ld+json"></script>c`, `c`},
		"comments":        {`a<!-- b --><!doctype html><?php c ?>d`, `ad`},
		"stray ends":      {`</b>a</p></nothing></svg>`, `a</p>`},
		"long attribute":  {`<p id="` + strings.Repeat("x", 3000) + `" class=y>a`, `<p class="y">a`},
		"not ended":       {`a<svg><p>b`, `a`},
		"one body":        {`<body id=a>x<body id=b>y</body></html>z`, `<body id="a">xyz`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, cut := filterPage(tc.page); got != tc.want || cut {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	ordinary := articlePage(3000)
	if got, cut := filterPage(ordinary); cut || len(got) < len(ordinary)*9/10 {
		t.Errorf("an ordinary page of %d bytes was cut to %d", len(ordinary), len(got))
	}
}

func FuzzReadPage(f *testing.F) {
	for _, page := range hostilePages(2000) {
		f.Add("text/html", []byte(page))
	}
	f.Add("text/html; charset=shift_jis", []byte(articlePage(2)))
	f.Add("application/xhtml+xml", []byte("<p>x"))
	f.Add("", []byte("\xff\xfeh\x00"))
	address := &url.URL{Scheme: "https", Host: "example.com", Path: "/a/b"}
	f.Fuzz(func(t *testing.T, contentType string, page []byte) {
		if len(page) > 64<<10 {
			return
		}
		filtered, _ := filterPage(string(page))
		if doc, err := html.Parse(strings.NewReader(filtered)); err == nil {
			if n := countNodes(doc); n > 2*maxNodes {
				t.Errorf("the parser makes %d nodes of %d bytes", n, len(page))
			}
			flatten(doc)
			checkTree(t, doc)
		}
		if again, _ := filterPage(filtered); strings.Count(again, "<") > strings.Count(filtered, "<") {
			t.Errorf("the filter does not read its own page: %q became %q", filtered, again)
		}
		a, err := readSafely(&response{url: address, header: http.Header{"Content-Type": {contentType}}, body: page})
		if err == nil && (a.text == "" || clean(a.text) != a.text) {
			t.Errorf("got %q", a.text)
		}
	})
}
