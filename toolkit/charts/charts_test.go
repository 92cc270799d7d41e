package charts

import (
	"bytes"
	std "cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"voicebridge/internal/testkit"
	"voicebridge/toolkit"
)

var update = flag.Bool("update", false, "write the golden files")

// newRouter returns a router over all charts, with fixed ids.
func newRouter(tb testing.TB) *toolkit.Router {
	tb.Helper()
	r := toolkit.NewRegistry()
	for i := range kinds {
		e := toolkit.Entry{Tool: tool{kind: &kinds[i], newID: func() string { return "chart-id" }}, Executor: toolkit.ExecutorApp}
		must(tb, r.Add(e))
	}
	return toolkit.NewRouter(r, toolkit.RouterConfig{})
}

func run(tb testing.TB, router *toolkit.Router, name, arguments string) (progress []toolkit.Chunk, result toolkit.Result) {
	tb.Helper()
	result = router.Call(tb.Context(), toolkit.Call{ID: "call", Name: name, Arguments: arguments},
		func(c toolkit.Chunk) { progress = append(progress, c) })
	return progress, result
}

// full are arguments of each tool with all fields, minimal with only the required ones.
var full = map[string]string{
	"create_bar_chart": `{"title":"Sales","data":[{"xAxisLabel":"Q1","series":[{"seriesName":"A","value":1},{"seriesName":"B","value":-2.5}]},
		{"xAxisLabel":"Q2","series":[{"seriesName":"A","value":3}]}],"description":"By quarter","yAxisLabel":"EUR"}`,
	"create_line_chart": `{"title":"Sales","data":[{"xAxisLabel":"Q1","series":[{"seriesName":"A","value":1}]}],"description":"d","yAxisLabel":"EUR"}`,
	"create_area_chart": `{"title":"Share","data":[{"xAxisLabel":"Q1","series":[{"seriesName":"A","value":1},{"seriesName":"B","value":2}]}],
		"areaType":"percent","xAxisLabel":"Quarter","yAxisLabel":"Share","description":"d"}`,
	"create_pie_chart":     `{"title":"Cake","canvasName":"Food","data":[{"label":"eaten","value":3},{"label":"left","value":1}],"description":"d","unit":"pieces"}`,
	"create_scatter_chart": `{"title":"Points","data":[{"name":"g","series":[{"seriesName":"A","x":1,"y":2,"z":3},{"seriesName":"A","x":-1,"y":0}]}],"showBubbles":true,"xAxisLabel":"x","yAxisLabel":"y","description":"d"}`,
	"create_radar_chart":   `{"title":"Skills","data":[{"metric":"speed","series":[{"seriesName":"A","value":5,"fullMark":10}]},{"metric":"power","series":[{"seriesName":"A","value":7}]}],"description":"d"}`,
	"create_funnel_chart":  `{"title":"Funnel","data":[{"stage":"bought","value":10,"fill":"#abc"},{"stage":"seen","value":100,"fill":"#00FF7f"}],"description":"d","unit":"people"}`,
	"create_treemap_chart": `{"title":"Disk","data":[{"name":"home","value":8,"children":[{"name":"a","value":5},{"name":"b","value":3}]},{"name":"var","value":2}],"description":"d"}`,
	"create_sankey_chart": `{"title":"Flow","nodes":[{"id":"a","name":"Start"},{"id":"b","name":"Middle"},{"id":"c","name":"End"}],
		"links":[{"source":"a","target":"b","value":5},{"source":"b","target":"c","value":3},{"source":"a","target":"c","value":2}],"description":"d"}`,
	"create_radial_bar_chart": `{"title":"Goals","data":[{"name":"a","value":50},{"name":"b","value":20,"maxValue":40}],"description":"d","innerRadius":20,"outerRadius":90}`,
	"create_composed_chart":   `{"title":"Mixed","data":[{"xAxisLabel":"Q1","series":[{"seriesName":"A","value":1,"chartType":"bar"},{"seriesName":"B","value":2,"chartType":"line"}]}],"xAxisLabel":"x","yAxisLabel":"y","description":"d"}`,
	"create_geographic_chart": `{"title":"Map","data":[{"regionCode":"DEU","regionName":"Germany","value":84},{"regionCode":"FRA","regionName":"France","value":68}],"geoType":"world","colorScale":"viridis","description":"d"}`,
	"create_gauge_chart": `{"title":"Load","value":70,"minValue":-10,"maxValue":150,"gaugeType":"speedometer","unit":"%",
		"thresholds":[{"value":90,"color":"#ff0000","label":"high"},{"value":50,"color":"#fa0"}],"description":"d"}`,
	"create_calendar_heatmap": `{"title":"Commits","data":[{"date":"2024-02-29","value":3},{"date":"2024-01-31","value":1}],"startDate":"2024-01-01","endDate":"2024-12-31","colorScale":"reds","description":"d"}`,
	"create_ban_chart":        `{"title":"Users","value":"1.2M","unit":"users","trend":{"value":-3.5,"direction":"down","label":"vs. May"},"comparison":{"value":100,"label":"goal"},"description":"d"}`,
	"createTable":             `{"title":"People","description":"d","columns":[{"key":"name","label":"Name"},{"key":"age","label":"Age","type":"number"}],"data":[{"name":"Ann","age":30},{"name":"Bob","age":null},{"name":"Joe < 5"}]}`,
}

var minimal = map[string]string{
	"create_bar_chart":        `{"title":"T","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":0}]}]}`,
	"create_line_chart":       `{"title":"T","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":0}]}]}`,
	"create_area_chart":       `{"title":"T","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":0}]}]}`,
	"create_pie_chart":        `{"title":"T","data":[{"label":"l","value":0.1}]}`,
	"create_scatter_chart":    `{"title":"T","data":[{"series":[{"seriesName":"s","x":0,"y":0}]}]}`,
	"create_radar_chart":      `{"title":"T","data":[{"metric":"m","series":[{"seriesName":"s","value":0}]}]}`,
	"create_funnel_chart":     `{"title":"T","data":[{"stage":"s","value":0}]}`,
	"create_treemap_chart":    `{"title":"T","data":[{"name":"n","value":1}]}`,
	"create_sankey_chart":     `{"title":"T","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B"}],"links":[{"source":"a","target":"b","value":0.5}]}`,
	"create_radial_bar_chart": `{"title":"T","data":[{"name":"n","value":0}]}`,
	"create_composed_chart":   `{"title":"T","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":0,"chartType":"area"}]}]}`,
	"create_geographic_chart": `{"title":"T","data":[{"regionCode":"06","regionName":"California","value":1}],"geoType":"usa-states"}`,
	"create_gauge_chart":      `{"title":"T","value":0,"gaugeType":"radial"}`,
	"create_calendar_heatmap": `{"title":"T","data":[{"date":"2024-03-01","value":1},{"date":"2024-02-28","value":0}]}`,
	"create_ban_chart":        `{"title":"T","value":0}`,
	"createTable":             `{"title":"T","columns":[{"key":"k","label":"K"}],"data":[{}]}`,
}

func TestSixteenTools(t *testing.T) {
	t.Parallel()
	tools := Tools()
	if len(tools) != 16 || len(full) != 16 || len(minimal) != 16 {
		t.Fatalf("got %d tools, %d and %d inputs, want 16", len(tools), len(full), len(minimal))
	}
	types := map[string]bool{}
	registry := toolkit.NewRegistry()
	for i, tool := range tools {
		def := tool.Definition()
		if err := registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}); err != nil {
			t.Error(err)
		}
		if full[def.Name] == "" || minimal[def.Name] == "" {
			t.Errorf("no input for %s", def.Name)
		}
		if len(def.Parameters) > 4<<10 || def.Description == "" {
			t.Errorf("%s: schema of %d bytes, description %q", def.Name, len(def.Parameters), def.Description)
		}
		if again := Tools()[i].Definition(); !bytes.Equal(again.Parameters, def.Parameters) {
			t.Errorf("%s: the definition is not stable", def.Name)
		}
		types[kinds[i].chartType] = true
	}
	testkit.Equal(t, len(types), 16, "chart types")
}

func TestGoldenResults(t *testing.T) {
	t.Parallel()
	router := newRouter(t)
	for suffix, inputs := range map[string]map[string]string{"full": full, "minimal": minimal} {
		for name, arguments := range inputs {
			t.Run(name+"/"+suffix, func(t *testing.T) {
				t.Parallel()
				progress, result := run(t, router, name, arguments)
				if result.Failed() {
					t.Fatal(result.Error)
				}
				checkProgress(t, progress)
				golden(t, filepath.Join("testdata", name+"."+suffix+".json"), result)
			})
		}
	}
}

// TestEmptyTexts has a model fill in empty texts where it has none: the chart is the same.
func TestEmptyTexts(t *testing.T) {
	t.Parallel()
	for name, empty := range map[string]string{
		"create_bar_chart":     `"yAxisLabel":"","description":""`,
		"create_area_chart":    `"xAxisLabel":"","yAxisLabel":""`,
		"create_pie_chart":     `"canvasName":"","unit":""`,
		"create_gauge_chart":   `"unit":"","thresholds":[]`,
		"create_scatter_chart": `"xAxisLabel":"","description":""`,
	} {
		_, want := run(t, newRouter(t), name, minimal[name])
		_, got := run(t, newRouter(t), name, strings.TrimSuffix(minimal[name], "}")+","+empty+"}")
		if got.Failed() || !bytes.Equal(got.Output, want.Output) {
			t.Errorf("%s: got %s %s, want %s", name, got.Error, got.Output, want.Output)
		}
	}
}

func checkProgress(t *testing.T, chunks []toolkit.Chunk) {
	t.Helper()
	type seen struct {
		Status   string
		Progress float64
	}
	var got []seen
	for _, c := range chunks {
		var s seen
		must(t, json.Unmarshal(c.Data, &s))
		if c.Message == "" || c.Percent != s.Progress {
			t.Errorf("chunk %q at %v does not fit its data %s", c.Message, c.Percent, c.Data)
		}
		got = append(got, s)
	}
	testkit.Equal(t, got, []seen{{"loading", 0}, {"processing", 50}}, "got")
}

func golden(t *testing.T, path string, result toolkit.Result) {
	t.Helper()
	both, err := json.Marshal(map[string]json.RawMessage{"output": result.Output, "model": json.RawMessage(result.Model)})
	must(t, err)
	var got bytes.Buffer
	must(t, json.Indent(&got, both, "", "  "))
	got.WriteByte('\n')
	if *update {
		must(t, os.WriteFile(path, got.Bytes(), 0o644))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	testkit.Equal(t, got.String(), string(want), "got.String()")
}

// Properties of every result, beside the golden files, which could be updated by mistake.
func TestResultShape(t *testing.T) {
	t.Parallel()
	router := newRouter(t)
	for i := range kinds {
		kind := &kinds[i]
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			_, result := run(t, router, kind.name, full[kind.name])
			var output struct {
				Status, Message, ChartID, Title, ChartType, CanvasName string
				ChartData                                              map[string]json.RawMessage
				DataPoints                                             *int
				ShouldCreateArtifact                                   bool
				Progress                                               int
			}
			decoder := json.NewDecoder(bytes.NewReader(result.Output))
			decoder.DisallowUnknownFields()
			must(t, decoder.Decode(&output))
			canvas := "Data Visualization"
			if kind.name == "create_pie_chart" {
				canvas = "Food"
			}
			if output.Status != "success" || output.ChartID != "chart-id" || output.ChartType != kind.chartType ||
				output.CanvasName != canvas || !output.ShouldCreateArtifact || output.Progress != 100 || output.Message == "" {
				t.Errorf("got %+v", output)
			}
			var input map[string]json.RawMessage
			must(t, json.Unmarshal([]byte(full[kind.name]), &input))
			for field := range input {
				if _, ok := output.ChartData[field]; !ok {
					t.Errorf("chartData lacks the input's field %s", field)
				}
			}
			for field, want := range map[string]string{"type": std.Or(kind.dataType, kind.chartType+"-chart"), "chartType": kind.chartType} {
				testkit.Equal(t, string(output.ChartData[field]), fmt.Sprintf("%q", want), "chartData.%s is, want %q", field, want)
			}
			if len(output.ChartData["metadata"]) < len(`{"a":1}`) {
				t.Errorf("metadata is %s", output.ChartData["metadata"])
			}
			var model map[string]string
			must(t, json.Unmarshal([]byte(result.Model), &model))
			if len(model) != 2 || model["summary"] == "" || model["chartId"] != "chart-id" {
				t.Errorf("the model receives %s", result.Model)
			}
		})
	}
}

func TestChartIDsAreUnique(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	registry := toolkit.NewRegistry()
	for _, tool := range Tools() {
		must(t, registry.Add(toolkit.Entry{Tool: tool, Executor: toolkit.ExecutorApp}))
	}
	router := toolkit.NewRouter(registry, toolkit.RouterConfig{})
	for range 50 {
		_, result := run(t, router, "create_ban_chart", minimal["create_ban_chart"])
		var model struct{ ChartID string }
		must(t, json.Unmarshal([]byte(result.Model), &model))
		if _, err := uuid.Parse(model.ChartID); err != nil || seen[model.ChartID] {
			t.Errorf("the id %q is not a UUID, or not new", model.ChartID)
		}
		seen[model.ChartID] = true
	}
}

func TestModelNeverGetsTheData(t *testing.T) {
	t.Parallel()
	var data strings.Builder
	for i := range 100 {
		if i > 0 {
			data.WriteByte(',')
		}
		fmt.Fprintf(&data, `{"xAxisLabel":%q,"series":[`, strings.Repeat("x", 255))
		for j := range 20 {
			if j > 0 {
				data.WriteByte(',')
			}
			fmt.Fprintf(&data, `{"seriesName":"%d%s","value":%d}`, j, strings.Repeat("n", 60), i*j)
		}
		data.WriteString(`]}`)
	}
	arguments := `{"title":"` + strings.Repeat("ä", 100) + `","data":[` + data.String() + `]}`
	_, result := run(t, newRouter(t), "create_bar_chart", arguments)
	if result.Failed() || len(result.Model) > 1<<10 {
		t.Errorf("failed %q, the model receives %d bytes", result.Error, len(result.Model))
	}
}

func TestCallStops(t *testing.T) {
	t.Parallel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tool := range Tools() {
		name := tool.Definition().Name
		for range tool.Call(t.Context(), toolkit.Call{Arguments: full[name]}) {
			break // the sequence must stop
		}
		var last error
		for c, err := range tool.Call(cancelled, toolkit.Call{Arguments: full[name]}) {
			if c.Result != nil {
				t.Errorf("%s: a result after ctx ended", name)
			}
			last = err
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("%s: got %v", name, last)
		}
	}
}

func FuzzArguments(f *testing.F) {
	i := 0
	for _, kind := range kinds {
		f.Add(i, full[kind.name])
		f.Add(i, minimal[kind.name])
		i++
	}
	f.Add(0, `{"title":"T","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":1e300}]}]}`)
	router := newRouter(f)
	f.Fuzz(func(t *testing.T, which int, arguments string) {
		kind := kinds[uint(which)%uint(len(kinds))]
		_, result := run(t, router, kind.name, arguments)
		if result.Failed() {
			if strings.Contains(result.Error, "internal error") || len(result.Error) > 8<<10 {
				t.Fatalf("%s(%s): %s", kind.name, arguments, result.Error)
			}
			return
		}
		if !json.Valid(result.Output) || len(result.Model) > 4<<10 {
			t.Fatalf("%s(%s): %s, model %s", kind.name, arguments, result.Output, result.Model)
		}
		if markup.Match(bytes.ReplaceAll(result.Output, []byte(`\u003c`), []byte("<"))) {
			t.Fatalf("%s(%s): markup in %s", kind.name, arguments, result.Output)
		}
	})
}

// A calendar with as many days as the page can draw.
func TestLongestCalendar(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]int{
		`{"title":"T","startDate":"2023-12-26","data":[{"date":"2024-12-31","value":1}]}`: maxDays,
		`{"title":"T","startDate":"0001-01-01","data":[{"date":"0001-01-01","value":1}]}`: 1,
	} {
		f, err := calendarHeatmap.build([]byte(arguments))
		if err != nil || f.metadata["daysCovered"] != want {
			t.Errorf("%s: got %v, %v, want %d days", arguments, f.metadata["daysCovered"], err, want)
		}
	}
}
