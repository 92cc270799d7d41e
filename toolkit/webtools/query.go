package webtools

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"voicebridge/toolkit"
)

const (
	maxAuthor          = 100
	maxResultLink      = 1 << 10 // bytes
	maxTitle           = 200     // runes
	searchOutputBudget = 400 << 10
)

// query is a checked search.
type query struct {
	text             string
	limit            int
	category         string // in lower case
	include, exclude []string
	start, end       time.Time // zero: unlimited
	maxCharacters    int
	now              time.Time
}

// searcher is a search service. Its results are not trusted: the tool checks, cuts and filters
// them, so a service may ignore filters that it does not know.
type searcher interface {
	// name is the service's name for people.
	name() string
	// search returns what the service finds. Errors are in words for the model and contain no key.
	search(ctx context.Context, q query) (findings, error)
}

type findings struct {
	results []found
	// answers are direct answers to the question; notes say what went wrong in part.
	answers, notes []string
}

// found is one result.
type found struct {
	Title         string   `json:"title"`
	URL           string   `json:"url"`
	PublishedDate string   `json:"publishedDate,omitempty"`
	Author        string   `json:"author,omitempty"`
	Score         *float64 `json:"score,omitempty"`
	Text          string   `json:"text"`
}

// operators returns the query with the domains in the syntax that most search engines understand.
func (q query) operators() string {
	var text strings.Builder
	text.WriteString(q.text)
	switch len(q.include) {
	case 0:
	case 1:
		text.WriteString(" site:" + q.include[0])
	default:
		text.WriteString(" (site:" + strings.Join(q.include, " OR site:") + ")")
	}
	for _, domain := range q.exclude {
		text.WriteString(" -site:" + domain)
	}
	return text.String()
}

// choose cleans, filters and cuts what a service has found.
func (q query) choose(all []found) []found {
	chosen := []found{}
	seen := map[string]bool{}
	budget := searchOutputBudget
	for _, f := range all {
		link, host, ok := resultLink(f.URL)
		if !ok || seen[link] || !q.wants(host, f.PublishedDate) {
			continue
		}
		seen[link] = true
		f.URL = link
		f.Title = toolkit.First(plainLine(plainText(f.Title)), maxTitle)
		f.Author = toolkit.First(plainLine(f.Author), maxAuthor)
		f.PublishedDate = toolkit.First(plainLine(f.PublishedDate), 40)
		f.Text = toolkit.Head(toolkit.First(plainText(f.Text), q.maxCharacters), budget)
		budget -= len(f.Text)
		if chosen = append(chosen, f); len(chosen) == q.limit {
			break
		}
	}
	return chosen
}

// resultLink accepts links that a person could follow.
func resultLink(raw string) (link, host string, ok bool) {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return "", "", false
	}
	link = u.String()
	return link, strings.ToLower(u.Hostname()), len(link) <= maxResultLink
}

// wants reports whether a result passes the filters. One without a readable date passes: most pages
// have none.
func (q query) wants(host, published string) bool {
	within := func(domain string) bool { return host == domain || strings.HasSuffix(host, "."+domain) }
	if len(q.include) > 0 && !slices.ContainsFunc(q.include, within) || slices.ContainsFunc(q.exclude, within) {
		return false
	}
	at, err := date("", published, false)
	if err != nil || at.IsZero() {
		return true
	}
	return (q.start.IsZero() || !at.Before(q.start.Truncate(24*time.Hour))) && (q.end.IsZero() || !at.After(q.end))
}

// date reads a day or a time in the forms of ISO 8601 that models write. A day as the end of a
// range means its last moment.
func date(field, text string, end bool) (time.Time, error) {
	text = strings.TrimSpace(text)
	if text == "" {
		return time.Time{}, nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		if end {
			day = day.Add(24*time.Hour - time.Millisecond)
		}
		return day, nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, refuse("%s: %.40q is not a date of the form 2026-01-31", field, text)
}
