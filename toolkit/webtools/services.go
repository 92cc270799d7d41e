package webtools

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// hit is one result of either service: some names are those of [found], others their own.
type hit struct {
	found

	Author        any      `json:"author"`      // SearXNG's is not always a text
	Content       string   `json:"content"`     // of SearXNG
	Description   string   `json:"description"` // of Brave, like the rest
	PageAge       string   `json:"page_age"`
	ExtraSnippets []string `json:"extra_snippets"`
}

func foundIn(hits []hit) []found {
	all := make([]found, len(hits))
	for i, h := range hits {
		all[i] = h.found
		all[i].Author, _ = h.Author.(string)
		all[i].PublishedDate = cmp.Or(h.PublishedDate, h.PageAge)
		texts := append([]string{cmp.Or(h.Content, h.Description)}, h.ExtraSnippets...)
		all[i].Text = strings.Join(texts, "\n")
	}
	return all
}

// searXNG asks a SearXNG instance (docs.searxng.org/dev/search_api.html). It must have json in its
// search.formats, and always returns about twenty results.
type searXNG struct{ service }

// searXNGCategories are the categories whose results are pages with text.
var searXNGCategories = []string{"general", "news", "science", "it", "map", "social media"}

// searXNGAliases are names that models use for some of them.
var searXNGAliases = map[string]string{
	"research paper": "science", "github": "it", "tweet": "social media", "publication": "science",
}

func (s searXNG) search(ctx context.Context, q query) (findings, error) {
	values := url.Values{"q": {q.operators()}, "format": {"json"}}
	category := cmp.Or(searXNGAliases[q.category], q.category)
	if slices.Contains(searXNGCategories, category) {
		values.Set("categories", category)
	}
	if span := timeRange(q.start, q.now); span != "" {
		values.Set("time_range", span)
	}
	var answer struct {
		Results             []hit             `json:"results"`
		Answers             []json.RawMessage `json:"answers"`
		UnresponsiveEngines [][]any           `json:"unresponsive_engines"`
	}
	if err := s.get(ctx, "/search", values, http.Header{}, &answer); err != nil {
		if errors.Is(err, errRefused) {
			return findings{}, refuse("SearXNG refused access; the operator must add json to search.formats in its " +
				"settings.yml, and check its limiter")
		}
		return findings{}, err
	}
	f := findings{results: foundIn(answer.Results)}
	for _, raw := range answer.Answers {
		if text := searXNGAnswer(raw); text != "" {
			f.answers = append(f.answers, text)
		}
	}
	for _, engine := range answer.UnresponsiveEngines {
		var words []string
		for _, word := range engine {
			if text, ok := word.(string); ok {
				words = append(words, text)
			}
		}
		f.notes = append(f.notes, "a search engine did not answer: "+strings.Join(words, ": "))
	}
	return f, nil
}

// searXNGAnswer reads a direct answer: a text in older versions, an object in newer ones.
func searXNGAnswer(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var object struct {
		Answer string `json:"answer"`
	}
	if json.Unmarshal(raw, &object) != nil {
		return ""
	}
	return object.Answer
}

// timeRange returns the shortest of SearXNG's ranges back from now that contains start.
func timeRange(start, now time.Time) string {
	if start.IsZero() {
		return ""
	}
	const day = 24 * time.Hour
	switch age := now.Sub(start); {
	case age <= day:
		return "day"
	case age <= 7*day:
		return "week"
	case age <= 31*day:
		return "month"
	case age <= 366*day:
		return "year"
	default:
		return ""
	}
}

// brave asks Brave (api-dashboard.search.brave.com, Web Search). A query has 400 characters
// and 50 words at most.
type brave struct{ service }

const (
	maxBraveQuery = 400
	maxBraveWords = 50
)

func (s brave) search(ctx context.Context, q query) (findings, error) {
	text := q.operators()
	if len([]rune(text)) > maxBraveQuery || len(strings.Fields(text)) > maxBraveWords {
		return findings{}, refuse("query: Brave takes %d characters and %d words at most, domains included",
			maxBraveQuery, maxBraveWords)
	}
	values := url.Values{
		"q": {text}, "count": {strconv.Itoa(q.limit)}, "text_decorations": {"false"}, "extra_snippets": {"true"},
		"result_filter": {"web"},
	}
	if !q.start.IsZero() || !q.end.IsZero() {
		start, end := q.start, q.end
		if start.IsZero() {
			start = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		if end.IsZero() {
			end = q.now.UTC()
		}
		values.Set("freshness", stamp(start, time.DateOnly)+"to"+stamp(end, time.DateOnly))
	}
	var answer struct {
		Web struct {
			Results []hit `json:"results"`
		} `json:"web"`
	}
	if err := s.get(ctx, "/res/v1/web/search", values, http.Header{"X-Subscription-Token": {s.key}},
		&answer); err != nil {
		return findings{}, err
	}
	return findings{results: foundIn(answer.Web.Results)}, nil
}

// stamp formats a time in a layout, empty if it is not set.
func stamp(t time.Time, layout string) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(layout)
}
