package webtools

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"
)

// nodesOf parses a page and counts its nodes; ok is false when the parser refuses it.
func nodesOf(page string) (n int, ok bool) {
	doc, err := html.Parse(strings.NewReader(page))
	if err != nil {
		return 0, false
	}
	for range doc.Descendants() {
		n++
	}
	return n, true
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

func TestHostilePagesAreBounded(t *testing.T) {
	t.Parallel()
	address := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	many := hostilePages(768 << 10)
	for name, page := range hostilePages(32 << 10) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			large := many[name]
			filtered, _ := filterPage(large)
			if n, ok := nodesOf(filtered); ok && n > 2*maxNodes {
				t.Errorf("the parser makes %d nodes of %d bytes", n, len(large))
			}
			started := time.Now()
			a, err := readSafely(&response{url: address, header: http.Header{"Content-Type": {"text/html"}}, body: []byte(page)})
			// Each takes less than a second alone; what the filter is there against took minutes.
			if took := time.Since(started); took > 60*time.Second {
				t.Errorf("it took %v", took)
			}
			if err != nil && err != errNoText { //nolint:errorlint // it is not wrapped
				t.Error(err)
			}
			if len(a.text) > 16*len(page) {
				t.Errorf("%d bytes became %d", len(page), len(a.text))
			}
		})
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
		if n, ok := nodesOf(filtered); ok && n > 2*maxNodes {
			t.Errorf("the parser makes %d nodes of %d bytes", n, len(page))
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
