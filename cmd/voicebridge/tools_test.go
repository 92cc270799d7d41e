package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"voicebridge/assistant"
	"voicebridge/chat"
	"voicebridge/chat/chattest"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/persistence/persistencetest"
	"voicebridge/thread"
	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
	"voicebridge/toolkit/webtools"
)

// toolInputs are arguments for a tool. WEB stands for the address of a local server, CLOSED for one
// that is off limits.
type toolInputs struct {
	// valid holds arguments and part of the output.
	valid [][2]string
	// invalid holds arguments and part of the error.
	invalid [][2]string
	// mayLack is set if some machines lack the tool.
	mayLack bool
}

// badInputs must fail with every tool.
var badInputs = [][2]string{
	{`{"title":`, "not valid JSON"}, {`[]`, "must be a JSON object, not an array"}, {`null`, "must be a JSON object, not null"},
	{`"hello"`, "must be a JSON object, not a string"}, {`{} {}`, "not valid JSON"}, {`{"a":1e999}`, "out of range"},
	{`{"noSuchField":true}`, "noSuchField"}, {`{"a":1,"a":1}`, `"a" twice`}, {strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat(`}`, 65), "nest deeper"},
	{`{"a":"` + strings.Repeat("x", 256<<10) + `"}`, "the limit is 262144"},
}

func series(extra string) string {
	return `{"title":"T","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":1` + extra + `}]}]}`
}

// everyTool has an entry for each tool that the program may offer.
var everyTool = map[string]toolInputs{
	"create_bar_chart": {
		valid:   [][2]string{{series(""), `"chartType":"bar"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[]}`, "data: minItems"}, {strings.Replace(series(""), `:1}`, `:"1"}`, 1), "value: type"}, {`{"title":"<b>","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":1}]}]}`, "plain text"}},
	},
	"create_line_chart": {
		valid:   [][2]string{{series(""), `"chartType":"line"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[{"xAxisLabel":"x","series":[]}]}`, "minItems"}},
	},
	"create_area_chart": {
		valid:   [][2]string{{series(""), `"chartType":"area"`}, {`{"areaType":"percent",` + series("")[1:], `"chartType":"area"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"areaType":"round",` + series("")[1:], "areaType: enum"}},
	},
	"create_pie_chart": {
		valid:   [][2]string{{`{"title":"A","data":[{"label":"a","value":1},{"label":"b","value":2}]}`, `"chartType":"pie"`}},
		invalid: [][2]string{{`{"title":"T","data":[]}`, "minItems"}, {`{"title":"T","data":[{"label":"a","value":-1}]}`, "minimum"}, {`{"title":"T","data":[{"label":"a","value":0}]}`, "add up to 0"}},
	},
	"create_scatter_chart": {
		valid:   [][2]string{{`{"title":"T","data":[{"series":[{"seriesName":"s","x":0,"y":1}]}]}`, `"chartType":"scatter"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[{"series":[{"seriesName":"s","x":1}]}]}`, `"y"`}},
	},
	"create_radar_chart": {
		valid:   [][2]string{{`{"title":"T","data":[{"metric":"m","series":[{"seriesName":"s","value":1}]}]}`, `"chartType":"radar"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[{"metric":"m","series":[{"seriesName":"s","value":1,"fullMark":0}]}]}`, "fullMark"}},
	},
	"create_funnel_chart": {
		valid:   [][2]string{{`{"title":"T","data":[{"stage":"a","value":1},{"stage":"b","value":5,"fill":"#abc"}]}`, `"chartType":"funnel"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[{"stage":"s","value":1,"fill":"red"}]}`, "fill: pattern"}},
	},
	"create_treemap_chart": {
		valid:   [][2]string{{`{"title":"T","data":[{"name":"n","value":1,"children":[{"name":"c","value":1}]}]}`, `"chartType":"treemap"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[{"name":"n","value":0}]}`, "add up to 0"}},
	},
	"create_sankey_chart": {
		valid: [][2]string{{`{"title":"T","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B"}],"links":[{"source":"a","target":"b","value":1}]}`, `"chartType":"sankey"`}},
		invalid: [][2]string{
			{`{}`, "title"}, {`{"title":"T","nodes":[{"id":"a","name":"A"}],"links":[{"source":"a","target":"a","value":1}]}`, "to itself"},
			{`{"title":"T","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B"}],"links":[{"source":"a","target":"x","value":1}]}`, `"x"`},
			{`{"title":"T","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B"}],"links":[{"source":"a","target":"b","value":1},{"source":"b","target":"a","value":1}]}`, "cycle"},
		},
	},
	"create_radial_bar_chart": {
		valid:   [][2]string{{`{"title":"T","data":[{"name":"n","value":5}]}`, `"chartType":"radial-bar"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[{"name":"n","value":1}],"innerRadius":80}`, "innerRadius 80 must be less"}},
	},
	"create_composed_chart": {
		valid:   [][2]string{{series(`,"chartType":"line"`), `"chartType":"composed"`}},
		invalid: [][2]string{{series(""), "chartType"}, {series(`,"chartType":"pie"`), "chartType: enum"}},
	},
	"create_geographic_chart": {
		valid:   [][2]string{{`{"title":"T","geoType":"world","data":[{"regionCode":"DEU","regionName":"Germany","value":84}]}`, `"chartType":"geographic"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","geoType":"mars","data":[{"regionCode":"a","regionName":"A","value":1}]}`, "geoType: enum"}},
	},
	"create_gauge_chart": {
		valid:   [][2]string{{`{"title":"T","value":70,"gaugeType":"semi-circle"}`, `"chartType":"gauge"`}},
		invalid: [][2]string{{`{"title":"T","value":1}`, "gaugeType"}, {`{"title":"T","value":101,"gaugeType":"radial"}`, "must be from minValue 0 to maxValue 100"}},
	},
	"create_calendar_heatmap": {
		valid:   [][2]string{{`{"title":"T","data":[{"date":"2024-02-29","value":1}]}`, `"chartType":"calendar-heatmap"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","data":[{"date":"2023-02-29","value":1}]}`, "2023-02-29"}},
	},
	"create_ban_chart": {
		valid:   [][2]string{{`{"title":"T","value":"1.2M"}`, `"chartType":"ban"`}},
		invalid: [][2]string{{`{"title":"T"}`, "value"}, {`{"title":"T","value":true}`, "value: type"}},
	},
	"createTable": {
		valid:   [][2]string{{`{"title":"T","columns":[{"key":"a","label":"A"}],"data":[{"a":1}]}`, `"chartType":"table"`}},
		invalid: [][2]string{{`{}`, "title"}, {`{"title":"T","columns":[{"key":"a","label":"A"}],"data":[{"b":1}]}`, `"b"`}},
	},
	"mini-javascript-execution": {
		valid: [][2]string{{`{"code":"console.log('hi'); 6*7"}`, `42`}},
		invalid: [][2]string{
			{`{}`, "code"}, {`{"code":5}`, "code: type"}, {`{"code":""}`, "code"}, {`{"code":"throw new Error('oh')"}`, "(exception): Error: oh"},
			{`{"code":"fetch('WEB/echo')"}`, "fetch"},
		},
	},
	"python-execution": {
		valid: [][2]string{{`{"code":"print(6*7)"}`, `42`}},
		invalid: [][2]string{
			{`{}`, "code"}, {`{"code":["x"]}`, "code: type"}, {`{"code":"1/0"}`, "ZeroDivisionError"}, {`{"code":"import urllib.request as r; r.urlopen('WEB/echo')"}`, "(exception)"},
		},
		mayLack: true,
	},
	"webSearch": {
		valid: [][2]string{{`{"query":"bees"}`, "All about bees"}, {`{"query":"bees","numResults":1,"type":"keyword","includeDomains":["example.com"],"maxCharacters":100}`, "https://example.com/a"}},
		invalid: [][2]string{
			{`{}`, "query"}, {`{"query":""}`, "query"}, {`{"query":"x","numResults":0}`, "numResults: minimum"}, {`{"query":"x","numResults":21}`, "numResults: maximum"},
			{`{"query":"x","type":"magic"}`, "type: enum"}, {`{"query":"x","maxCharacters":99}`, "maxCharacters: minimum"}, {`{"query":"x","startPublishedDate":"soon"}`, "startPublishedDate"},
			{`{"query":"x","includeDomains":"example.com"}`, "includeDomains: type"},
		},
	},
	"webContent": {
		valid: [][2]string{{`{"urls":["WEB/page"]}`, "Bees are busy"}, {`{"urls":["WEB/page","CLOSED/"],"maxCharacters":100}`, "Bees are busy"}},
		invalid: [][2]string{
			{`{}`, "urls"}, {`{"urls":[]}`, "urls: minItems"}, {`{"urls":["ftp://example.com/"]}`, "http"}, {`{"urls":["CLOSED/"]}`, "not"},
			{`{"urls":["WEB/page"],"livecrawl":"never"}`, "livecrawl: enum"}, {`{"urls":["WEB/missing"]}`, "404"},
		},
	},
	"http": {
		valid: [][2]string{
			{`{"url":"WEB/echo"}`, `"status":200`}, {`{"url":"WEB/echo","method":"POST","headers":{"Content-Type":"application/json","X-A":"b"},"body":"{\"n\":1}"}`, `POST b {\"n\":1}`},
			{`{"url":"WEB/missing"}`, `"ok":false`}, {`{"url":"WEB/echo","method":"HEAD"}`, `"status":200`},
		},
		invalid: [][2]string{
			{`{}`, "url"}, {`{"url":"WEB/echo","method":"BREW"}`, "method: enum"}, {`{"url":"file:///etc/passwd"}`, "http"}, {`{"url":"CLOSED/"}`, "not"},
			{`{"url":"WEB/echo","headers":{"Host":"x"}}`, "Host must not be set"}, {`{"url":"WEB/echo","headers":{"X-A":5}}`, "type"}, {`{"url":"WEB/echo","timeout":0}`, "timeout"},
			{`{"url":"WEB/echo","headers":{"X-A":"a\r\nX-B: c"}}`, "characters that cannot be sent"},
		},
	},
	chat.AskAgentName: {
		valid:   [][2]string{{`{"question":"Hello!"}`, "I am the simulator"}, {`{"question":"Draw a pie chart."}`, "Here is your chart"}},
		invalid: [][2]string{{`{}`, "question"}, {`{"question":""}`, "question: minLength"}, {`{"question":" "}`, "the question is empty"}, {`{"question":"Fail with quota."}`, "the agent failed"}},
	},
	"changeBrowserTheme": {
		valid:   [][2]string{{`{"theme":"dark"}`, `changed`}},
		invalid: [][2]string{{`{}`, "theme"}, {`{"theme":"pink"}`, "theme: enum"}},
	},
}

// webServer is what the tools connect to: a search service, a page, an echo.
func webServer(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/search", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("format") != "json" {
			t.Errorf("search %s", r.URL)
		}
		_, _ = io.WriteString(w, `{"results":[{"title":"Bees","url":"https://example.com/a","content":"All about bees"}]}`)
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, `<html><title>Bees</title><body><article><h1>Bees</h1><p>Bees are busy in the garden, all day long.</p></article></body></html>`)
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/plain")
		_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.Header.Get("X-A"), body)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// toolBench is the real registry of a voice call, with a client tool in it.
type toolBench struct {
	registry *toolkit.Registry
	router   *toolkit.Router
	client   *clienttool.Toolkit
	key      thread.Key
	web      string
}

func testLogger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// spokenTools returns the tools of a voice call with some settings, and its thread.
func spokenTools(t *testing.T, change func(*config.Tools)) (*toolkit.Registry, thread.Key) {
	t.Helper()
	cfg := config.Defaults()
	cfg.Text.Provider, cfg.MCPConfig = config.ProviderSimulator, emptyMCP(t)
	change(&cfg.Tools)
	all, err := openTools(t.Context(), cfg, nil, testLogger(t))
	must(t, err)
	t.Cleanup(func() { _ = all.close() })
	store := persistencetest.SQLite(t)
	writer, _ := chattest.Writer(t, store)
	_, err = openChat(cfg, store, writer, all, nil, nil, testLogger(t))
	must(t, err)
	key := persistencetest.NewThread(t, store, "anna", "")
	typed, err := all.registry(t.Context(), key.Owner, assistant.Assistant{})
	must(t, err)
	if _, ok := typed.Lookup(chat.AskAgentName); ok {
		t.Error("a typed turn may ask the agent")
	}
	spoken, err := all.spoken(t.Context(), key.Owner, assistant.Assistant{})
	must(t, err)
	return spoken, key
}

func TestWhichCallsMayAskTheAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*config.Tools)
		want   bool
	}{
		"by default":      {func(*config.Tools) {}, true},
		"another toolkit": {func(c *config.Tools) { c.Toolkits = []string{config.ToolkitArtifacts} }, false},
		"its toolkit":     {func(c *config.Tools) { c.Toolkits = []string{config.ToolkitAgent} }, true},
		"denied":          {func(c *config.Tools) { c.Deny = toolkit.MustNames(chat.AskAgentName) }, false},
		"another allowed": {func(c *config.Tools) { c.Allow = toolkit.MustNames("http") }, false},
		"allowed":         {func(c *config.Tools) { c.Allow = toolkit.MustNames(chat.AskAgentName) }, true},
	} {
		registry, _ := spokenTools(t, c.change)
		if _, ok := registry.Lookup(chat.AskAgentName); ok != c.want {
			t.Errorf("%s: the call may ask: %t", name, ok)
		}
	}
}

// newToolBench returns a bench on which no program that ends by itself runs into its limit, however slow the machine is,
// unless brief is set, which is the limit of programs that do not.
func newToolBench(t *testing.T, brief time.Duration) *toolBench {
	t.Helper()
	b := &toolBench{web: webServer(t)}
	address, err := url.Parse(b.web)
	must(t, err)
	port, err := strconv.Atoi(address.Port())
	must(t, err)
	b.registry, b.key = spokenTools(t, func(c *config.Tools) {
		c.Code.Timeout, c.Code.PythonEnabled = cmp.Or(brief, time.Hour), true
		c.Web = webtools.Config{SearXNGURL: b.web, AllowPrefixes: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}, AllowPorts: []int{port}}
	})
	b.client = clienttool.New(b.registry, clienttool.Config{})
	err = b.client.Declare([]toolkit.Definition{{Name: "changeBrowserTheme", Description: "Changes the theme.", Parameters: json.RawMessage(
		`{"type":"object","properties":{"theme":{"type":"string","enum":["light","dark"]}},"required":["theme"],"additionalProperties":false}`)}})
	must(t, err)
	b.router = toolkit.NewRouter(b.registry, toolkit.RouterConfig{Timeout: time.Hour, Logger: testLogger(t)})
	return b
}

// call runs one call.
func (b *toolBench) call(t *testing.T, id, name, arguments string) toolkit.Result {
	t.Helper()
	arguments = strings.NewReplacer("WEB", b.web, "CLOSED", "http://127.0.0.2:9").Replace(arguments)
	if e, ok := b.registry.Lookup(name); ok && e.Executor == toolkit.ExecutorClient {
		must(t, errors.Join(b.client.Expect(id), b.client.Deliver(id, `"changed"`)))
		defer b.client.Forget(id)
	}
	return b.router.Call(t.Context(), toolkit.Call{ID: id, Name: name, Arguments: arguments, Owner: b.key.Owner, ThreadID: b.key.Thread}, nil)
}

// TestEveryTool calls every tool of the real registry through the router, with good and bad input.
func TestEveryTool(t *testing.T) {
	t.Parallel()
	b := newToolBench(t, 0)
	for _, d := range b.registry.Definitions() {
		if _, ok := everyTool[d.Name]; !ok {
			t.Errorf("the tool %s has no inputs here", d.Name)
		}
	}
	for name, inputs := range everyTool {
		if _, ok := b.registry.Lookup(name); !ok {
			if !inputs.mayLack {
				t.Errorf("there is no tool %s", name)
			}
			continue
		}
		t.Run(name, func(t *testing.T) {
			if len(inputs.valid) == 0 || len(inputs.invalid) < 2 {
				t.Error("too few inputs")
			}
			for i, c := range inputs.valid {
				r := b.call(t, fmt.Sprintf("%s_good_%d", name, i), name, c[0])
				if r.Failed() || !json.Valid(r.Output) || !strings.Contains(string(r.Output), c[1]) || r.ForModel() == "" {
					t.Errorf("%.200s: error %q, output %.500s, want %q in it", c[0], r.Error, r.Output, c[1])
				}
			}
			for i, c := range append(inputs.invalid, badInputs...) {
				r := b.call(t, fmt.Sprintf("%s_bad_%d", name, i), name, c[0])
				if !r.Failed() || !strings.Contains(r.Error, c[1]) || !strings.HasPrefix(r.ForModel(), "Error: ") || len(r.Error) > 8000 {
					t.Errorf("%.200s: error %q, want %q in it", c[0], r.Error, c[1])
				}
			}
		})
	}
	t.Run("a program that does not end", func(t *testing.T) {
		r := newToolBench(t, time.Second).call(t, "endless", "mini-javascript-execution", `{"code":"for(;;){}"}`)
		if !strings.Contains(r.Error, "(timeout)") {
			t.Errorf("error %q", r.Error)
		}
	})
	t.Run("no such tool", func(t *testing.T) {
		for i, name := range []string{"", "nothing", "create_bar_chart ", strings.Repeat("x", 1000)} {
			if r := b.call(t, fmt.Sprintf("none_%d", i), name, `{}`); !strings.Contains(r.Error, "there is no tool named") || len(r.Error) > 8000 {
				t.Errorf("%.40q: %q", name, r.Error)
			}
		}
	})
}
