package webtools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"voicebridge/toolkit"
)

const (
	maxURLs       = 10
	sideBySide    = 5 // pages of one call that are read at the same time
	contentBudget = 400 << 10
	maxPageURL    = 2 << 10
	// reserve is the part of the call's time that is kept for the pages already read.
	reserve = time.Second
)

const contentSchema = `{"type":"object","properties":{
"urls":{"type":"array","items":{"type":"string","minLength":1,"maxLength":8192},"minItems":1,"maxItems":10,
	"description":"Full addresses, beginning with https:// or http://"},
"maxCharacters":{"type":"integer","minimum":1,"maximum":100000,"default":3000,
	"description":"Longest text of one page, in characters"},
"livecrawl":{"type":"string","enum":["always","fallback","preferred"],"default":"preferred",
	"description":"always asks for a fresh copy, past all caches"}
},"required":["urls"],"additionalProperties":false}`

type contentInput struct {
	URLs          []string `json:"urls"`
	MaxCharacters whole    `json:"maxCharacters"`
	LiveCrawl     string   `json:"livecrawl"`
}

// pageOutput is one page, or why it failed.
type pageOutput struct {
	URL           string `json:"url"`
	Title         string `json:"title,omitempty"`
	Author        string `json:"author,omitempty"`
	SiteName      string `json:"siteName,omitempty"`
	PublishedDate string `json:"publishedDate,omitempty"`
	Text          string `json:"text"`
	// Truncated means that the page has more text.
	Truncated bool   `json:"truncated,omitempty"`
	Error     string `json:"error,omitempty"`
}

type contentOutput struct {
	Notice  string       `json:"notice"`
	Results []pageOutput `json:"results"`
}

func newContent(c Config, g *client) tool {
	t := contentTool{
		guard: g, limit: c.maxPage, timeout: min(c.pageTimeout, c.Timeout),
		// Reading a page occupies a processor for a moment; half of them stay free for calls.
		readers: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)),
	}
	return tool{
		definition: toolkit.Definition{
			Name: "webContent",
			Description: "Read web pages: the text of each one as Markdown, without menus and advertisements. " +
				"Several at once are quicker than one by one. Pages that fail are reported beside those that do not.",
			Parameters: json.RawMessage(contentSchema),
		},
		run: t.run,
	}
}

type contentTool struct {
	guard   *client
	limit   int
	timeout time.Duration
	readers chan struct{}
}

func (t contentTool) run(ctx context.Context, arguments []byte, report reporter) (*toolkit.Result, error) {
	var in contentInput
	if err := decode(arguments, &in); err != nil {
		return nil, err
	}
	urls := unique(in.URLs)
	if !report(fmt.Sprintf("Reading %s…", pages(len(urls))), 0) {
		return nil, context.Canceled
	}
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, deadline.Add(-reserve))
		defer cancel()
	}
	results := t.readAll(ctx, urls, in.LiveCrawl == "always", func(done int) bool {
		return report(fmt.Sprintf("Read %d of %s", done, pages(len(urls))), 90*float64(done)/float64(len(urls)))
	})
	if err := ctx.Err(); errors.Is(err, context.Canceled) {
		return nil, err
	}
	return contentResult(results, int(cmp.Or(in.MaxCharacters, defaultMaxCharacters)))
}

// unique keeps the first of equal urls.
func unique(urls []string) []string {
	var out []string
	for _, u := range urls {
		if u = strings.TrimSpace(u); !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	return out
}

func pages(n int) string {
	if n == 1 {
		return "1 page"
	}
	return fmt.Sprintf("%d pages", n)
}

// readAll reads the pages concurrently and returns when all have ended. It calls done after each
// one, on this goroutine.
func (t contentTool) readAll(ctx context.Context, urls []string, fresh bool, done func(int) bool) []pageOutput {
	results := make([]pageOutput, len(urls))
	slots, finished := make(chan struct{}, sideBySide), make(chan struct{}, len(urls))
	for i := range urls {
		go func() {
			slots <- struct{}{}
			results[i] = t.readOne(ctx, urls[i], fresh)
			<-slots
			finished <- struct{}{}
		}()
	}
	for n := range urls {
		<-finished
		done(n + 1) // after a stop ctx is done, and the rest ends at once
	}
	return results
}

// readOne never fails: errors are in the page.
func (t contentTool) readOne(ctx context.Context, address string, fresh bool) (page pageOutput) {
	page.URL = toolkit.Head(clean(address), maxPageURL)
	header := http.Header{
		"Accept": {
			"text/html,application/xhtml+xml,text/markdown,text/plain," +
				"application/json;q=0.9,application/xml;q=0.8,*/*;q=0.5",
		},
		"Accept-Language": {"*"},
	}
	if fresh {
		header.Set("Cache-Control", "no-cache")
	}
	fetching, cancel := context.WithTimeout(ctx, t.timeout)
	defer cancel()
	resp, err := t.guard.fetch(fetching, request{method: http.MethodGet, url: address, header: header, limit: t.limit})
	if err != nil {
		page.Error = err.Error()
		return page
	}
	page.URL = toolkit.Head(resp.url.String(), maxPageURL)
	if resp.status < 200 || resp.status > 299 {
		page.Error = fmt.Sprintf("%s answered %d %s", resp.url.Hostname(), resp.status, http.StatusText(resp.status))
		return page
	}
	select {
	case t.readers <- struct{}{}:
		defer func() { <-t.readers }()
	case <-ctx.Done():
		page.Error = "the page arrived, but there was no time left to read it"
		return page
	}
	a, err := readSafely(resp)
	if err != nil {
		page.Error = err.Error()
		return page
	}
	page.Title, page.PublishedDate = toolkit.First(a.title, maxTitle), a.published
	page.Author, page.SiteName = toolkit.First(a.author, maxAuthor), toolkit.First(a.site, maxAuthor)
	page.Text, page.Truncated = a.text, a.cut || resp.cut
	return page
}

// readSafely keeps a page that makes a library panic from crashing the process: this goroutine is
// not the router's.
func readSafely(resp *response) (a article, err error) {
	defer func() {
		if p := recover(); p != nil {
			a, err = article{}, errors.New("the page cannot be read: it is malformed")
		}
	}()
	return readPage(resp.url, resp.header, resp.body)
}

// contentResult cuts the pages and fails if none of them could be read.
func contentResult(results []pageOutput, limit int) (*toolkit.Result, error) {
	failed := 0
	var reasons []string
	for i := range results {
		p := &results[i]
		if p.Error != "" {
			failed++
			reasons = append(reasons, fmt.Sprintf("%s: %s", toolkit.First(p.URL, 200), p.Error))
			continue
		}
		short := toolkit.Head(toolkit.First(p.Text, limit), contentBudget/len(results))
		p.Truncated = p.Truncated || len(short) < len(p.Text)
		p.Text = short
	}
	if failed == len(results) {
		return nil, errors.New(strings.Join(reasons, "; "))
	}
	return forModel(contentOutput{notice, results}, len(results), func(room int) any {
		short := slices.Clone(results)
		for i := range short {
			text := fitBytes(short[i].Text, room)
			short[i].Truncated = short[i].Truncated || len(text) < len(short[i].Text)
			short[i].Text = text
		}
		return contentOutput{notice, short}
	}), nil
}
