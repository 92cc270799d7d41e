package charts

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"voicebridge/internal/testkit"
)

// points returns n data points as JSON.
func points(n int, point func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = point(i)
	}
	return "[" + strings.Join(all, ",") + "]"
}

func axis(series string) string {
	return `{"title":"T","data":[{"xAxisLabel":"x","series":[` + series + `]}]}`
}

func TestRefusalsNameTheField(t *testing.T) {
	t.Parallel()
	bar := func(i int) string {
		return fmt.Sprintf(`{"xAxisLabel":"%d","series":[{"seriesName":"s","value":1}]}`, i)
	}
	refusals := []struct{ tool, arguments, want string }{
		// What all tools check, each on one of them.
		{"create_bar_chart", `{}`, `["title" "data"]`},
		{"create_bar_chart", `{"title":"","data":` + points(1, bar) + `}`, "title: minLength"},
		{"create_bar_chart", `{"title":"` + strings.Repeat("ä", 101) + `","data":` + points(1, bar) + `}`, "title: maxLength"},
		{"create_bar_chart", `{"title":"T","data":[]}`, "data: minItems"},
		{"create_bar_chart", `{"title":"T","data":` + points(101, bar) + `}`, "data: maxItems"},
		{"create_bar_chart", `{"title":"T","extra":1,"data":` + points(1, bar) + `}`, `"extra"`},
		{"create_bar_chart", `{"title":"T","areaType":"stacked","data":` + points(1, bar) + `}`, `"areaType"`},
		{"create_bar_chart", `{"title":"T","description":"` + strings.Repeat("x", 501) + `","data":` + points(1, bar) + `}`, "description: maxLength"},
		{"create_bar_chart", `{"title":"<script>alert(1)</script>","data":` + points(1, bar) + `}`, "title must be plain text"},
		{"create_bar_chart", `{"title":"<<b>x","data":` + points(1, bar) + `}`, "title must be plain text"},
		{"create_bar_chart", `{"title":"a\u0000b","data":` + points(1, bar) + `}`, "title contains a control character"},
		{"create_bar_chart", axis(`{"seriesName":"<img src=x onerror=y>","value":1}`), "data[0].series[0].seriesName must be plain text"},
		{"create_bar_chart", axis(`{"seriesName":"s","value":"1"}`), "data[].series[].value: type"},
		{"create_bar_chart", axis(`{"seriesName":"s","value":null}`), "data[].series[].value: type"},
		{"create_bar_chart", axis(`{"seriesName":"s","value":1e31}`), "data[0].series[0].value is out of range"},
		{"create_bar_chart", axis(`{"seriesName":"s","value":1},{"seriesName":"s","value":2}`), `data[0].series[1].seriesName: the point has the series "s" twice`},
		{"create_bar_chart", `{"title":"T","data":` + points(21, func(i int) string {
			return fmt.Sprintf(`{"xAxisLabel":"x","series":[{"seriesName":"s%d","value":1}]}`, i)
		}) + `}`, "data[20].series[0].seriesName: there are more than 20 series"},
		{"create_line_chart", axis(strings.Trim(points(21, func(i int) string { return fmt.Sprintf(`{"seriesName":"s%d","value":1}`, i) }), "[]")), "data[].series: maxItems"},
		{"create_line_chart", axis(``), "data[].series: minItems"},
		{"create_line_chart", axis(`{"seriesName":"` + strings.Repeat("x", 256) + `","value":1}`), "data[].series[].seriesName: maxLength"},

		{"create_area_chart", strings.Replace(axis(`{"seriesName":"s","value":1}`), "{", `{"areaType":"round",`, 1), "areaType: enum"},
		{"create_area_chart", strings.Replace(axis(`{"seriesName":"s","value":-1}`), "{", `{"areaType":"percent",`, 1), "data[0].series[0].value must not be negative"},
		{"create_composed_chart", axis(`{"seriesName":"s","value":1}`), `["chartType"]`},
		{"create_composed_chart", axis(`{"seriesName":"s","value":1,"chartType":"pie"}`), "chartType: enum"},
		{"create_composed_chart", `{"title":"T","data":[{"xAxisLabel":"x","series":[{"seriesName":"s","value":1,"chartType":"bar"}]},{"xAxisLabel":"y","series":[{"seriesName":"s","value":1,"chartType":"line"}]}]}`, "data[1].series[0].chartType"},

		{"create_pie_chart", `{"title":"T","data":[]}`, "data: minItems"},
		{"create_pie_chart", `{"title":"T","data":[{"label":"a","value":-1}]}`, "data[].value: minimum"},
		{"create_pie_chart", `{"title":"T","data":[{"label":"a","value":0},{"label":"b","value":0}]}`, "data: the values add up to 0"},

		{"create_scatter_chart", `{"title":"T","data":[{"series":[{"seriesName":"s","x":1}]}]}`, `["y"]`},
		{"create_scatter_chart", `{"title":"T","showBubbles":true,"data":[{"series":[{"seriesName":"s","x":1,"y":1,"z":-1}]}]}`, "data[0].series[0].z"},
		{"create_scatter_chart", `{"title":"T","showBubbles":"yes","data":[{"series":[{"seriesName":"s","x":1,"y":1}]}]}`, "showBubbles: type"},

		{"create_radar_chart", `{"title":"T","data":[{"metric":"m","series":[{"seriesName":"s","value":1,"fullMark":0}]}]}`, "fullMark: exclusiveMinimum"},
		{"create_radar_chart", `{"title":"T","data":[{"metric":"m","series":[{"seriesName":"s","value":1}]},{"metric":"m","series":[{"seriesName":"s","value":1}]}]}`, `data[1].metric "m"`},

		{"create_funnel_chart", `{"title":"T","data":[{"stage":"s","value":1,"fill":"red"}]}`, "fill: pattern"},
		{"create_funnel_chart", `{"title":"T","data":[{"stage":"s","value":1,"fill":"#ab"}]}`, "fill: pattern"},
		{"create_funnel_chart", `{"title":"T","data":[{"stage":"s","value":-1}]}`, "data[].value: minimum"},

		{"create_treemap_chart", `{"title":"T","data":[{"name":"n","value":0}]}`, "data: the values add up to 0"},
		{"create_treemap_chart", `{"title":"T","data":[{"name":"n","value":1,"children":[{"name":"c","value":-1}]}]}`, "children[].value: minimum"},
		{"create_treemap_chart", `{"title":"T","data":[{"name":"n","value":1,"children":[{"name":"c","value":1,"children":[]}]}]}`, `"children"`},

		{"create_sankey_chart", `{"title":"T","nodes":[{"id":"a","name":"A"},{"id":"a","name":"B"}],"links":[{"source":"a","target":"b","value":1}]}`, `nodes[1].id "a"`},
		{"create_sankey_chart", sankey(`{"source":"x","target":"b","value":1}`), `links[0].source "x"`},
		{"create_sankey_chart", sankey(`{"source":"a","target":"b","value":1},{"source":"a","target":"x","value":1}`), `links[1].target "x"`},
		{"create_sankey_chart", sankey(`{"source":"a","target":"a","value":1}`), `links[0] joins the node "a" to itself`},
		{"create_sankey_chart", sankey(`{"source":"a","target":"b","value":0}`), "links[].value: exclusiveMinimum"},
		{"create_sankey_chart", sankey(``), "links: minItems"},
		{"create_sankey_chart", sankey(`{"source":"a","target":"b","value":1},{"source":"b","target":"c","value":1},{"source":"c","target":"b","value":1}`), "links form a cycle: b → c → b"},

		{"create_radial_bar_chart", `{"title":"T","data":[{"name":"n","value":-1}]}`, "data[].value: minimum"},
		{"create_radial_bar_chart", `{"title":"T","data":[{"name":"n","value":1,"maxValue":0}]}`, "maxValue: exclusiveMinimum"},
		{"create_radial_bar_chart", `{"title":"T","data":[{"name":"n","value":1}],"innerRadius":80}`, "innerRadius 80 must be less than outerRadius 80"},
		{"create_radial_bar_chart", `{"title":"T","data":[{"name":"n","value":1}],"outerRadius":20}`, "innerRadius 30 must be less than outerRadius 20"},
		{"create_radial_bar_chart", `{"title":"T","data":[{"name":"n","value":1}],"outerRadius":101}`, "outerRadius: maximum"},

		{"create_geographic_chart", `{"title":"T","data":[{"regionCode":"a","regionName":"A","value":1}]}`, `["geoType"]`},
		{"create_geographic_chart", `{"title":"T","geoType":"mars","data":[{"regionCode":"a","regionName":"A","value":1}]}`, "geoType: enum"},
		{"create_geographic_chart", `{"title":"T","geoType":"world","colorScale":"pink","data":[{"regionCode":"a","regionName":"A","value":1}]}`, "colorScale: enum"},
		{"create_geographic_chart", `{"title":"T","geoType":"world","data":[{"regionCode":"a","regionName":"A","value":1},{"regionCode":"a","regionName":"B","value":1}]}`, "data[1].regionCode"},

		{"create_gauge_chart", `{"title":"T","value":101,"gaugeType":"radial"}`, "value 101 must be from minValue 0 to maxValue 100"},
		{"create_gauge_chart", `{"title":"T","value":1,"minValue":100,"gaugeType":"radial"}`, "minValue 100 must be less than maxValue 100"},
		{"create_gauge_chart", `{"title":"T","value":1}`, `["gaugeType"]`},
		{"create_gauge_chart", `{"title":"T","value":1,"gaugeType":"radial","thresholds":[{"value":200,"color":"#fff"}]}`, "thresholds[0].value 200"},
		{"create_gauge_chart", `{"title":"T","value":1,"gaugeType":"radial","thresholds":[{"value":2,"color":"url(x)"}]}`, "thresholds[].color: pattern"},

		{"create_calendar_heatmap", `{"title":"T","data":[{"date":"2024-1-1","value":1}]}`, "data[].date: pattern"},
		{"create_calendar_heatmap", `{"title":"T","data":[{"date":"2023-02-29","value":1}]}`, `data[0].date "2023-02-29"`},
		{"create_calendar_heatmap", `{"title":"T","data":[{"date":"2024-01-01","value":1},{"date":"2024-01-01","value":2}]}`, "data[1].date 2024-01-01 is the same"},
		{"create_calendar_heatmap", `{"title":"T","startDate":"2024-13-01","data":[{"date":"2024-01-01","value":1}]}`, `startDate "2024-13-01"`},
		{"create_calendar_heatmap", `{"title":"T","startDate":"2024-02-01","endDate":"2024-01-01","data":[{"date":"2024-01-15","value":1}]}`, "startDate 2024-02-01 must not be after endDate 2024-01-01"},
		{"create_calendar_heatmap", `{"title":"T","startDate":"2024-02-01","data":[{"date":"2024-02-02","value":1},{"date":"2024-01-01","value":1}]}`, "data[1].date 2024-01-01 is before startDate"},
		{"create_calendar_heatmap", `{"title":"T","endDate":"2023-12-31","startDate":"2023-01-01","data":[{"date":"2024-01-01","value":1}]}`, "data[0].date 2024-01-01 is after endDate"},
		{"create_calendar_heatmap", `{"title":"T","data":[{"date":"2023-12-25","value":1},{"date":"2024-12-31","value":1}]}`, "2023-12-25 to endDate 2024-12-31 is too long: a calendar covers 372 days"},
		{"create_calendar_heatmap", `{"title":"T","startDate":"0001-01-01","data":[{"date":"2024-12-31","value":1}]}`, "0001-01-01 to endDate 2024-12-31 is too long"},

		{"create_ban_chart", `{"title":"T"}`, `["value"]`},
		{"create_ban_chart", `{"title":"T","value":true}`, "value: type"},
		{"create_ban_chart", `{"title":"T","value":""}`, "value: minLength"},
		{"create_ban_chart", `{"title":"T","value":"<b>1</b>"}`, "value must be plain text"},
		{"create_ban_chart", `{"title":"T","value":1,"trend":{"value":1,"direction":"sideways"}}`, "trend.direction: enum"},
		{"create_ban_chart", `{"title":"T","value":1,"comparison":{"value":1}}`, `["label"]`},

		{"createTable", `{"title":"T","columns":[],"data":[{}]}`, "columns: minItems"},
		{"createTable", `{"title":"T","columns":[{"key":"a","label":"A"},{"key":"a","label":"B"}],"data":[{}]}`, `columns[1].key "a"`},
		{"createTable", `{"title":"T","columns":[{"key":"a","label":"A","type":"html"}],"data":[{}]}`, "columns[].type: enum"},
		{"createTable", `{"title":"T","columns":[{"key":"a","label":"A"}],"data":[{"b":1}]}`, `data[0] has the key "b"`},
		{"createTable", `{"title":"T","columns":[{"key":"a","label":"A"}],"data":[{"a":{"x":1}}]}`, "data[].*: type"},
		{"createTable", `{"title":"T","columns":[{"key":"a","label":"A"}],"data":[{"a":"<a href=x>"}]}`, "data[0].a must be plain text"},
		{"createTable", `{"title":"T","columns":[{"key":"<b>","label":"A"}],"data":[{"<b>":1}]}`, "must be plain text"},
	}
	router := newRouter(t)
	covered := map[string]bool{}
	for i, r := range refusals {
		covered[r.tool] = true
		t.Run(fmt.Sprintf("%s/%d", r.tool, i), func(t *testing.T) {
			t.Parallel()
			progress, result := run(t, router, r.tool, r.arguments)
			if !strings.Contains(result.Error, r.want) {
				t.Errorf("got %q, want %q", result.Error, r.want)
			}
			if len(progress) > 1 {
				t.Errorf("got %d progress chunks of a refused chart", len(progress))
			}
			if result.Output != nil && !strings.Contains(string(result.Output), `"status":"error"`) {
				t.Errorf("the output is %s", result.Output)
			}
		})
	}
	for _, kind := range kinds {
		if !covered[kind.name] {
			t.Errorf("no refusal by %s is tested", kind.name)
		}
	}
}

func TestPlainAngleBracketsAreText(t *testing.T) {
	t.Parallel()
	_, result := run(t, newRouter(t), "create_pie_chart", `{"title":"a < b, 3 <4, x > y, <","data":[{"label":"<5 min","value":1},{"label":"&lt;b&gt;","value":1}]}`)
	if result.Failed() {
		t.Error(result.Error)
	}
}

func sankey(links string) string {
	return `{"title":"T","nodes":[{"id":"a","name":"A"},{"id":"b","name":"B"},{"id":"c","name":"C"}],"links":[` + links + `]}`
}

// Any links that lead forward in some order of the nodes are accepted; adding one that
// leads back is refused.
func TestSankeyCyclesProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 2 + random.IntN(30)
		order := random.Perm(n)
		in := sankeyInput{Title: "T"}
		for i := range n {
			in.Nodes = append(in.Nodes, sankeyNode{ID: fmt.Sprint(i), Name: "n"})
		}
		link := func(from, to int) sankeyLink {
			return sankeyLink{Source: fmt.Sprint(order[from]), Target: fmt.Sprint(order[to]), Value: 1}
		}
		reach := make([][]bool, n)
		for i := range reach {
			reach[i] = make([]bool, n)
		}
		for range 1 + random.IntN(3*n) {
			from := random.IntN(n - 1)
			to := from + 1 + random.IntN(n-from-1)
			in.Links = append(in.Links, link(from, to))
			reach[from][to] = true
		}
		for k := range n {
			for i := range n {
				for j := range n {
					reach[i][j] = reach[i][j] || reach[i][k] && reach[k][j]
				}
			}
		}
		if _, err := checkSankey(&in); err != nil {
			t.Fatalf("seed %d: %v refused: %v", seed, in.Links, err)
		}
		// Every link back closes a cycle, and the error names a real cycle.
		for i := range n {
			for j := range n {
				if !reach[i][j] {
					continue
				}
				closed := in
				closed.Links = append(closed.Links[:len(closed.Links):len(closed.Links)], link(j, i))
				_, err := checkSankey(&closed)
				if err == nil {
					t.Fatalf("seed %d: the cycle through %d and %d is not found", seed, order[i], order[j])
				}
				checkCycle(t, closed, err)
			}
		}
	}
}

func checkCycle(t *testing.T, in sankeyInput, err error) {
	t.Helper()
	ids := strings.Split(strings.TrimPrefix(err.Error(), "links form a cycle: "), " → ")
	if len(ids) < 3 || ids[0] != ids[len(ids)-1] {
		t.Fatalf("no cycle in %q", err)
	}
	links := map[string]bool{}
	for _, l := range in.Links {
		links[l.Source+">"+l.Target] = true
	}
	for i := range ids[1:] {
		if !links[ids[i]+">"+ids[i+1]] {
			t.Fatalf("there is no link %s to %s: %q", ids[i], ids[i+1], err)
		}
	}
}

func TestFunnelIsSortedStably(t *testing.T) {
	t.Parallel()
	in := funnelInput{Data: []funnelStage{{Stage: "a", Value: 1}, {Stage: "b", Value: 3}, {Stage: "c", Value: 1}, {Stage: "d", Value: 3}}}
	if _, err := checkFunnel(&in); err != nil {
		t.Fatal(err)
	}
	var order strings.Builder
	for _, s := range in.Data {
		order.WriteString(s.Stage)
	}
	testkit.Equal(t, order.String(), "bdac", "got the order")
}

func TestRadialMaxValue(t *testing.T) {
	t.Parallel()
	_, result := run(t, newRouter(t), "create_radial_bar_chart", `{"title":"T","data":[{"name":"a","value":50},{"name":"b","value":100},{"name":"c","value":1,"maxValue":7}]}`)
	var output struct {
		ChartData struct {
			Data                     []struct{ MaxValue float64 }
			InnerRadius, OuterRadius float64
		}
	}
	must(t, json.Unmarshal(result.Output, &output))
	got := output.ChartData
	if got.Data[0].MaxValue != 120 || got.Data[1].MaxValue != 120 || got.Data[2].MaxValue != 7 || got.InnerRadius != 30 || got.OuterRadius != 80 {
		t.Errorf("got %+v", got)
	}
}
