package webtools

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

const testKey = "key-canary-81f3"

// fixed is the time of the tests.
var fixed = time.Date(2026, 3, 15, 12, 0, 0, 0, time.UTC)

// sent is what a search service was asked.
type sent struct{ target, key string }

// serviceServer answers every search and returns what it was asked.
func serviceServer(t *testing.T, status int, answer string) (address string, asked chan sent) {
	asked = make(chan sent, 10)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- sent{r.Method + " " + r.URL.RequestURI(), r.Header.Get("X-Subscription-Token")}
		w.WriteHeader(status)
		io.WriteString(w, answer)
	})
	return s.URL, asked
}

func providerConfig(name, address string) Config {
	c := Config{now: func() time.Time { return fixed }}
	switch name {
	case ProviderSearXNG:
		c.SearXNGURL = address
	case ProviderBrave:
		c.braveURL, c.BraveKey = address, testKey
	}
	return c
}

func TestSearchServices(t *testing.T) {
	t.Parallel()
	all := object{
		"query": "  bees\nat work ", "numResults": 3.0, "type": "keyword", "category": "News", "includeDomains": []string{"https://www.Example.com/x", "b.org"}, "excludeDomains": []string{"bad.example.com"},
		"startPublishedDate": "2026-03-01", "endPublishedDate": "2026-03-10T00:00:00.000Z", "maxCharacters": 100,
	}
	first := found{Title: "Bees & flowers", URL: "https://example.com/a", PublishedDate: "2026-03-02T00:00:00Z", Text: "All about bees"}
	withScore := first
	withScore.Score = new(0.5)
	for name, tc := range map[string]struct {
		answer       string
		minimal, all sent
		want         searchOutput
	}{
		ProviderSearXNG: {
			answer: `{"query":"x","number_of_results":0,"results":[{"title":"Bees &amp; flowers","url":"https://example.com/a","content":"All about <b>bees</b>","publishedDate":"2026-03-02T00:00:00Z","score":0.5,"author":null,"engines":["a"]},
				{"title":"x","url":"https://bad.example.com/","content":""}],"answers":["42",{"answer":"43","url":null},5],"unresponsive_engines":[["google","CAPTCHA"]]}`,
			minimal: sent{"GET /search?format=json&q=bees", ""},
			all:     sent{"GET /search?categories=news&format=json&q=bees+at+work+%28site%3Aexample.com+OR+site%3Ab.org%29+-site%3Abad.example.com&time_range=month", ""},
			want:    searchOutput{Provider: "SearXNG", Answers: []string{"42", "43"}, Results: []found{withScore}, Notes: []string{"a search engine did not answer: google: CAPTCHA"}},
		},
		ProviderBrave: {
			answer:  `{"type":"search","web":{"results":[{"title":"Bees &amp; flowers","url":"https://example.com/a","description":"All about <strong>bees</strong>","page_age":"2026-03-02T00:00:00","extra_snippets":["More."]}]}}`,
			minimal: sent{"GET /res/v1/web/search?count=5&extra_snippets=true&q=bees&result_filter=web&text_decorations=false", testKey},
			all:     sent{"GET /res/v1/web/search?count=3&extra_snippets=true&freshness=2026-03-01to2026-03-10&q=bees+at+work+%28site%3Aexample.com+OR+site%3Ab.org%29+-site%3Abad.example.com&result_filter=web&text_decorations=false", testKey},
			want:    searchOutput{Provider: "Brave", Results: []found{{Title: first.Title, URL: first.URL, PublishedDate: "2026-03-02T00:00:00", Text: first.Text + "\nMore."}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, asked := serviceServer(t, http.StatusOK, tc.answer)
			router := newRouter(t, providerConfig(name, address+"/"))
			if result := call(t, router, "webSearch", object{"query": "bees"}); result.Failed() {
				t.Fatal(result.Error)
			}
			if diff := cmp.Diff(tc.minimal, testkit.Take(t, "a request", asked), cmp.AllowUnexported(sent{})); diff != "" {
				t.Errorf("minimal request (-want +got):\n%s", diff)
			}
			result, seen := callWithProgress(t, t.Context(), router, "webSearch", all)
			if result.Failed() {
				t.Fatal(result.Error)
			}
			if diff := cmp.Diff(tc.all, testkit.Take(t, "a request", asked), cmp.AllowUnexported(sent{})); diff != "" {
				t.Errorf("full request (-want +got):\n%s", diff)
			}
			tc.want.Query, tc.want.Notice = "bees at work", notice
			testkit.Equal(t, parse[searchOutput](t, result.Output), tc.want, "result")
			if len(seen) != 2 || seen[0].Percent != 0 || seen[1].Message != "Found 1 results" {
				t.Errorf("got the progress %+v", seen)
			}
		})
	}
}

func TestSearchServicesThatFail(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{ProviderSearXNG, ProviderBrave} {
		for _, tc := range []struct {
			status       int
			answer, want string
		}{
			{401, testKey, "refused access"},
			{403, "Forbidden", "refused access"},
			{429, "", "too many searches"},
			{402, "", "used up"},
			{302, "", "redirects (302)"},
			{500, "<html><b>broken</b> for " + testKey + "\x1b[0m</html>", "answered 500: broken for"},
			{200, "<html>", "not the JSON"},
			{200, "", "not the JSON"},
			{200, `{"results":{}}`, ""},
			{200, `[]`, "not the JSON"},
			{200, `{"results":[` + strings.Repeat(" ", maxServiceBody) + `]}`, "longer than"},
			{200, strings.Repeat(`{"results":`, 20000), "not the JSON"},
		} {
			t.Run(fmt.Sprintf("%s/%d/%.10s", provider, tc.status, tc.answer), func(t *testing.T) {
				t.Parallel()
				address, _ := serviceServer(t, tc.status, tc.answer)
				result := call(t, newRouter(t, providerConfig(provider, address)), "webSearch", object{"query": "bees"})
				if tc.want != "" && !strings.Contains(result.Error, tc.want) {
					t.Errorf("got %q, want %q", result.Error, tc.want)
				}
				if strings.Contains(result.Error, testKey) && provider != ProviderSearXNG {
					t.Errorf("the error holds the key: %q", result.Error)
				}
			})
		}
	}
	result := call(t, newRouter(t, Config{SearXNGURL: "http://127.0.0.1:1"}), "webSearch", object{"query": "bees"})
	testkit.Equal(t, result.Error, "no connection to SearXNG could be made", "result.Error")
}

// The search service may have a private address, but only for searches.
func TestSearXNGIsTrustedForSearchesOnly(t *testing.T) {
	t.Parallel()
	address, asked := serviceServer(t, http.StatusOK, `{"results":[]}`)
	c := Config{SearXNGURL: address, AllowPorts: []int{portNumber(t, address)}}
	router := newRouter(t, c)
	if result := call(t, router, "webSearch", object{"query": "bees"}); result.Failed() || !strings.Contains(string(result.Output), "nothing was found") {
		t.Errorf("got %v", result)
	}
	testkit.Take(t, "a request", asked)
	for name, input := range map[string]object{"http": {"url": address}, "webContent": {"urls": []string{address + "/search?q=x"}}} {
		if result := call(t, router, name, input); !strings.Contains(result.Error, "not a public one") {
			t.Errorf("%s: got %v", name, result)
		}
	}
	if len(asked) != 0 {
		t.Error("a model reached the search service")
	}
	// The service cannot redirect elsewhere either.
	other, reached := serviceServer(t, http.StatusOK, `{"results":[]}`)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other+r.URL.Path, http.StatusFound) })
	if result := call(t, newRouter(t, Config{SearXNGURL: s.URL}), "webSearch", object{"query": "bees"}); !strings.Contains(result.Error, "redirects") {
		t.Errorf("got %v", result)
	}
	if len(reached) != 0 {
		t.Error("a redirect of the search service was followed")
	}
}

func TestSearchRefusals(t *testing.T) {
	t.Parallel()
	address, asked := serviceServer(t, http.StatusOK, `{}`)
	router := newRouter(t, providerConfig(ProviderBrave, address))
	with := func(field string, value any) object { return object{"query": "x", field: value} }
	twentyOne := make([]string, 21)
	for i := range twentyOne {
		twentyOne[i] = fmt.Sprintf("a%d.example", i)
	}
	for name, tc := range map[string]struct {
		input any
		want  string
	}{
		"no query":        {object{}, `["query"]`},
		"empty":           {object{"query": ""}, "query: minLength"},
		"blank":           {object{"query": " \n\t"}, "query: it is empty"},
		"long":            {object{"query": strings.Repeat("x", 1001)}, "query: maxLength"},
		"words for Brave": {object{"query": strings.Repeat("x ", 60)}, "query: Brave takes"},
		"zero results":    {with("numResults", 0), "numResults: minimum"},
		"many results":    {with("numResults", 21), "numResults: maximum"},
		"half a result":   {with("numResults", 2.5), "numResults: type"},
		"type":            {with("type", "magic"), "type: enum"},
		"category":        {with("category", []string{"news"}), "category: type"},
		"few characters":  {with("maxCharacters", 99), "maxCharacters: minimum"},
		"many characters": {with("maxCharacters", 10001), "maxCharacters: maximum"},
		"no domain":       {with("includeDomains", []string{"example.com", "not a domain"}), `includeDomains[1]: "not a domain" is not a domain`},
		"operator":        {with("excludeDomains", []string{"x.com OR site:y"}), "excludeDomains[0]"},
		"address":         {with("includeDomains", []string{"10.0.0.1"}), "includeDomains[0]"},
		"one label":       {with("includeDomains", []string{"localhost"}), "includeDomains[0]"},
		"many domains":    {with("includeDomains", twentyOne), "includeDomains: maxItems"},
		"start":           {with("startPublishedDate", "yesterday"), `startPublishedDate: "yesterday" is not a date`},
		"end":             {with("endPublishedDate", "2026-02-30"), "endPublishedDate"},
		"end first":       {object{"query": "x", "startPublishedDate": "2026-02-02", "endPublishedDate": "2026-02-01"}, "before startPublishedDate"},
		"unknown field":   {with("safesearch", 0), "safesearch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if result := call(t, router, "webSearch", tc.input); !strings.Contains(result.Error, tc.want) {
				t.Errorf("got %q, want %q", result.Error, tc.want)
			}
		})
	}
	t.Cleanup(func() {
		if len(asked) != 0 {
			t.Error("a refused search was sent")
		}
	})
}

func TestSearchResultsAreBounded(t *testing.T) {
	t.Parallel()
	var many []object
	for i := range 40 {
		many = append(many, object{
			"url": fmt.Sprintf("https://example.com/%d", i/2), "title": strings.Repeat("<b>ü</b>", 400), "author": strings.Repeat("ü", 2000),
			"page_age": strings.Repeat("x", 9999), "description": strings.Repeat("\"\\\n\u0001ü", 3000),
		})
	}
	many = append([]object{{"url": "javascript:alert(1)"}, {"url": "https://user@example.com/"}, {"url": ""}, {"url": "https://example.com/" + strings.Repeat("x", 3000)}}, many...)
	answer, err := json.Marshal(object{"web": object{"results": many}})
	must(t, err)
	address, _ := serviceServer(t, http.StatusOK, string(answer))
	result := call(t, newRouter(t, providerConfig(ProviderBrave, address)), "webSearch", object{"query": "x", "numResults": 20, "maxCharacters": 10000})
	if result.Failed() {
		t.Fatal(result.Error)
	}
	got := parse[searchOutput](t, result.Output)
	if len(got.Results) != 20 || got.Results[1].URL != "https://example.com/1" {
		t.Errorf("got %d results, the second one %q", len(got.Results), got.Results[1].URL)
	}
	for _, r := range got.Results {
		if n := len([]rune(r.Text)); n > 10000 || len([]rune(r.Title)) > maxTitle {
			t.Errorf("a text of %d characters, a title of %d", n, len([]rune(r.Title)))
		}
	}
	model := parse[searchOutput](t, []byte(result.Model))
	if len(result.Model) > maxModelOutput || len(model.Results) != 20 || len(model.Results[19].Text) < 100 {
		t.Errorf("the model gets %d bytes, %d results", len(result.Model), len(model.Results))
	}
}

func TestTimeRange(t *testing.T) {
	t.Parallel()
	for days, want := range map[int]string{-5: "day", 1: "day", 2: "week", 7: "week", 8: "month", 31: "month", 32: "year", 366: "year", 367: ""} {
		testkit.Equal(t, timeRange(fixed.AddDate(0, 0, -days), fixed), want, "%d days", days)
	}
	if timeRange(time.Time{}, fixed) != "" {
		t.Error("an open start gives a range")
	}
}

func TestWhichTools(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]Config{
		"webContent http":            {},
		"webContent http webSearch":  {SearXNGURL: "http://10.0.0.1:8888/searxng"},
		"webContent http webSearch ": {Provider: "brave", SearXNGURL: "http://10.0.0.1", BraveKey: "k"},
	} {
		var names []string
		for _, tool := range New(config) {
			names = append(names, tool.Definition().Name)
		}
		if strings.Join(names, " ") != strings.TrimSpace(want) {
			t.Errorf("got %v, want %s", names, want)
		}
	}
}

func TestFirstConfiguredProvider(t *testing.T) {
	t.Parallel()
	c := Config{SearXNGURL: "http://x", BraveKey: "k"}
	for _, want := range []string{ProviderSearXNG, ProviderBrave, ""} {
		testkit.Equal(t, c.provider(), want, "c.provider()")
		switch want {
		case ProviderSearXNG:
			c.SearXNGURL = ""
		case ProviderBrave:
			c.BraveKey = ""
		}
	}
}

func TestKeysDoNotShow(t *testing.T) {
	t.Parallel()
	c := Config{BraveKey: testKey}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("configured", "web", c)
	for _, text := range []string{fmt.Sprintf("%v %+v %#v %s", c, c, c, c), logged.String()} {
		if strings.Contains(text, testKey) || !strings.Contains(text, "brave") {
			t.Errorf("got %s", text)
		}
	}
}

func TestSchemas(t *testing.T) {
	t.Parallel()
	for _, tool := range New(Config{BraveKey: "k"}) {
		def := tool.Definition()
		if err := toolkit.CheckParameters(def.Parameters); err != nil {
			t.Errorf("%s: %v", def.Name, err)
		}
		if len(def.Parameters) > 3<<10 || len(def.Description) < 50 {
			t.Errorf("%s: a schema of %d bytes, description %q", def.Name, len(def.Parameters), def.Description)
		}
	}
}
