package webtools

import (
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"voicebridge/internal/testkit"
)

// articlePage is a page with what surrounds an article in practice.
func articlePage(paragraphs int) string {
	return `<!doctype html><html lang=en><head><title>Bees at work | The Daily</title><meta name=author content="Ann Bee">
<script type="application/ld+json">{"@context":"https://schema.org","@type":"NewsArticle","headline":"Bees at work","datePublished":"2026-03-01T10:00:00Z"}</script>
<script>document.write("<b>tracker</b>")</script><style>p{}</style></head><body>
<nav><ul><li><a href=/>Home</a><li><a href=/sports>Sports</a></ul></nav><div class="ad sidebar">Buy now!</div>
<article><h1>Bees at work</h1>` + strings.Repeat(`<p>Bees fly from flower to flower, and they carry pollen, as <a href="/wiki/Pollen">everyone knows</a>. They are <b>busy</b> animals, and 3 &lt; 4.</p>
`, paragraphs) + `<h2>Table</h2><table><tr><th>Day</th><th>Bees</th></tr><tr><td>Mon</td><td>7</td></tr></table><img src="data:image/png;base64,AAAA" alt="x">
<pre><code>if a &lt; b {}</code></pre></article><footer>Imprint</footer><svg><title>icon</title><style>x</style></svg></body></html>`
}

func contentServer(t *testing.T) string {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/article":
			io.WriteString(w, articlePage(20))
		case "/utf16":
			w.Header().Set("Content-Type", "text/html; charset=utf-16be")
			for _, r := range "<p>Grüße aus Köln an alle, die dort wohnen.</p>" {
				w.Write([]byte{byte(r >> 8), byte(r)})
			}
		case "/text":
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, strings.Repeat("ü", 5000))
		case "/json":
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"a":"<b>"}`)
		case "/pdf":
			w.Header().Set("Content-Type", "application/pdf")
			io.WriteString(w, "%PDF-1.7")
		case "/packed":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "br")
			w.Write([]byte{0x8b, 0x03, 0x80, 'h', 'e', 'l', 'l', 'o', 0x03})
		case "/empty":
			w.Header().Set("Content-Type", "text/html")
		case "/script":
			io.WriteString(w, "<html><body><div id=root></div><script>app()</script></body></html>")
		case "/gone":
			http.Error(w, "gone", http.StatusGone)
		case "/moved":
			http.Redirect(w, r, "/json", http.StatusMovedPermanently)
		case "/cache":
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "cache-control: "+r.Header.Get("Cache-Control"))
		case "/bomb":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 64 {
				if _, err := z.Write([]byte(strings.Repeat("<div><p>text, and more text</p>", 1<<15))); err != nil {
					return
				}
			}
			z.Close()
		case "/deep":
			io.WriteString(w, "<html>"+strings.Repeat("<div>", 5000)+"deep text")
		case "/slow":
			<-r.Context().Done()
		}
	})
	return s.URL
}

func contentConfig(t *testing.T, address string) Config {
	c := loopback(t)
	c.AllowPorts = []int{portNumber(t, address)}
	return c
}

func TestWebContent(t *testing.T) {
	t.Parallel()
	address := contentServer(t)
	router := newRouter(t, contentConfig(t, address))
	result, seen := callWithProgress(t, t.Context(), router, "webContent", object{"urls": []string{address + "/article", address + "/gone", address + "/moved", " " + address + "/article"}, "maxCharacters": 9000.0})
	if result.Failed() {
		t.Fatal(result.Error)
	}
	got := parse[contentOutput](t, result.Output)
	if len(got.Results) != 3 || got.Notice == "" {
		t.Fatalf("got %d results", len(got.Results))
	}
	article := got.Results[0]
	want := pageOutput{URL: address + "/article", Title: "Bees at work", Author: "Ann Bee", PublishedDate: "2026-03-01T10:00:00Z"}
	if diff := cmp.Diff(want, article, cmpopts.IgnoreFields(pageOutput{}, "Text", "SiteName")); diff != "" {
		t.Errorf("article (-want +got):\n%s", diff)
	}
	for _, part := range []string{"[everyone knows](" + address + "/wiki/Pollen)", "**busy**", "3 < 4", "| Day | Bees |", "if a < b {}", "## Table"} {
		if !strings.Contains(article.Text, part) {
			t.Errorf("the text has no %q", part)
		}
	}
	for _, part := range []string{"Sports", "Buy now", "tracker", "Imprint", "base64", "icon", "\\"} {
		if strings.Contains(article.Text, part) {
			t.Errorf("the text has %q", part)
		}
	}
	if want := (pageOutput{URL: address + "/gone", Error: "127.0.0.1 answered 410 Gone"}); got.Results[1] != want {
		t.Errorf("got %+v", got.Results[1])
	}
	if want := (pageOutput{URL: address + "/json", Text: `{"a":"<b>"}`}); got.Results[2] != want {
		t.Errorf("got %+v", got.Results[2])
	}
	if len(seen) != 4 || seen[3].Percent != 90 || seen[0].Percent != 0 || !strings.Contains(seen[3].Message, "3 of 3 pages") {
		t.Errorf("got the progress %+v", seen)
	}
}

func TestWebContentPages(t *testing.T) {
	t.Parallel()
	address := contentServer(t)
	router := newRouter(t, contentConfig(t, address))
	for path, tc := range map[string]struct {
		max       int
		live      string
		text, err string
		truncated bool
	}{
		"/utf16":  {max: 100, text: "Grüße aus Köln an alle, die dort wohnen."},
		"/text":   {max: 7, text: "üüüüüüü", truncated: true},
		"/pdf":    {max: 100, err: "it is not text: application/pdf"},
		"/packed": {max: 100, err: `it is not text: text/html, compressed by "br", which was not asked for`},
		"/empty":  {max: 100, err: "no text that can be read"},
		"/script": {max: 100, err: "no text that can be read"},
		"/deep":   {max: 100, text: "deep text"},
		"/cache":  {max: 100, live: "always", text: "cache-control: no-cache"},
		"/json":   {max: 100, live: "fallback", text: `{"a":"<b>"}`},
	} {
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			input := object{"urls": []string{address + path}, "maxCharacters": tc.max}
			if tc.live != "" {
				input["livecrawl"] = tc.live
			}
			result := call(t, router, "webContent", input)
			if tc.err != "" {
				if !strings.Contains(result.Error, tc.err) || !strings.Contains(result.Error, path) {
					t.Errorf("got %q, want %q", result.Error, tc.err)
				}
				return
			}
			if result.Failed() {
				t.Fatal(result.Error)
			}
			if got := parse[contentOutput](t, result.Output).Results[0]; got.Text != tc.text || got.Truncated != tc.truncated {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestWebContentLimits(t *testing.T) {
	t.Parallel()
	address := contentServer(t)
	c := contentConfig(t, address)
	c.maxPage = 128 << 10
	router := newRouter(t, c)
	urls := make([]string, maxURLs)
	for i := range urls {
		urls[i] = fmt.Sprintf("%s/bomb?%d", address, i)
	}
	result := call(t, router, "webContent", object{"urls": urls, "maxCharacters": 100000})
	if result.Failed() {
		t.Fatal(result.Error)
	}
	for _, data := range []string{string(result.Output), result.Model} {
		got := parse[contentOutput](t, []byte(data))
		for _, page := range got.Results {
			if page.Error != "" || !page.Truncated || len(page.Text) < maxModelOutput/maxURLs/2 || !utf8.ValidString(page.Text) {
				t.Errorf("got %d bytes, truncated %v, error %q", len(page.Text), page.Truncated, page.Error)
			}
		}
	}
	if len(result.Model) > maxModelOutput {
		t.Errorf("the model gets %d bytes", len(result.Model))
	}
}

// A page that waits for its reader has arrived in time, however long it waits.
func TestPageWaitsForItsReader(t *testing.T) {
	t.Parallel()
	came := make(chan struct{}, 2)
	s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "words")
		came <- struct{}{}
	})
	config := loopback(t, s).withDefaults()
	const limit = 5 * time.Second
	tool := contentTool{guard: newGuard(config), limit: config.maxPage, timeout: limit, readers: make(chan struct{}, 1)}
	tool.readers <- struct{}{}
	read := make(chan pageOutput, 1)
	go func() { read <- tool.readOne(t.Context(), s.URL, false) }()
	testkit.Take(t, "that it came", came)
	<-time.After(limit + 100*time.Millisecond) // waits for the real limit, which is short
	testkit.Take(t, "a reader", tool.readers)
	if page := testkit.Take(t, "that it is read", read); page.Error != "" || page.Text != "words" {
		t.Errorf("got %+v", page)
	}

	tool.readers <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	go func() { read <- tool.readOne(ctx, s.URL, false) }()
	testkit.Take(t, "that it came", came)
	cancel()
	// The end of the page may not have been read yet.
	if page := testkit.Take(t, "that it is read", read); page.Text != "" || page.Error != "the page arrived, but there was no time left to read it" && !strings.Contains(page.Error, "cancel") {
		t.Errorf("got %+v", page)
	}
}

// A slow page must not discard those already read.
func TestWebContentKeepsWhatWasRead(t *testing.T) {
	t.Parallel()
	address := contentServer(t)
	router := newRouter(t, contentConfig(t, address))
	const tries = 5
	for range tries {
		ctx, cancel := context.WithTimeout(t.Context(), reserve+5*time.Second)
		result, _ := callWithProgress(t, ctx, router, "webContent", object{"urls": []string{address + "/slow", address + "/json"}})
		late := ctx.Err() != nil
		if cancel(); late {
			continue // a machine that stood still while there was a reserve
		}
		if result.Failed() {
			t.Fatal(result.Error)
		}
		got := parse[contentOutput](t, result.Output).Results
		if got[0].Error != "127.0.0.1 did not answer in time" || got[1].Text == "" {
			t.Errorf("got %+v", got)
		}
		return
	}
	t.Error("each result came after the call's time")
}

func TestWebContentRefusals(t *testing.T) {
	t.Parallel()
	router := newRouter(t, Config{})
	eleven := make([]string, 11)
	for i := range eleven {
		eleven[i] = fmt.Sprintf("https://example.com/%d", i)
	}
	for name, tc := range map[string]struct {
		input any
		want  string
	}{
		"no urls":       {object{}, `["urls"]`},
		"empty":         {object{"urls": []string{}}, "urls: minItems"},
		"a text":        {object{"urls": "https://example.com"}, "urls: type"},
		"many":          {object{"urls": eleven}, "urls: maxItems"},
		"a number":      {object{"urls": []int{1}}, "urls[]: type"},
		"live":          {object{"urls": []string{"x"}, "livecrawl": "never"}, "livecrawl: enum"},
		"zero":          {object{"urls": []string{"x"}, "maxCharacters": 0}, "maxCharacters: minimum"},
		"half":          {object{"urls": []string{"x"}, "maxCharacters": 1.5}, "maxCharacters: type"},
		"unknown field": {object{"urls": []string{"x"}, "proxy": 1}, "proxy"},
		"all refused":   {object{"urls": []string{"http://127.0.0.1", "file:///etc/passwd"}}, "http://127.0.0.1: the address is not a public one, or is closed by the operator; file:///etc/passwd: URLs of the scheme"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if result := call(t, router, "webContent", tc.input); !strings.Contains(result.Error, tc.want) {
				t.Errorf("got %q, want %q", result.Error, tc.want)
			}
		})
	}
}

func TestPanicIsOnePage(t *testing.T) {
	t.Parallel()
	// Without an address the page cannot have links: the libraries do not expect that.
	_, err := readSafely(&response{header: http.Header{"Content-Type": {"text/html"}}, body: []byte("<p>text")})
	if err == nil || !strings.Contains(err.Error(), "malformed") {
		t.Errorf("got %v", err)
	}
}
