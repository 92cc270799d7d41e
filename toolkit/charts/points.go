package charts

import (
	"fmt"
	"slices"
)

// Scatter and radar charts.

type scatterInput struct {
	Title       string         `json:"title"`
	Data        []scatterGroup `json:"data"`
	ShowBubbles bool           `json:"showBubbles"`
	XAxisLabel  string         `json:"xAxisLabel,omitempty"`
	YAxisLabel  string         `json:"yAxisLabel,omitempty"`
	Description string         `json:"description,omitempty"`
}

type scatterGroup struct {
	Name   string         `json:"name,omitempty"`
	Series []scatterPoint `json:"series"`
}

type scatterPoint struct {
	SeriesName string   `json:"seriesName"`
	X          float64  `json:"x"`
	Y          float64  `json:"y"`
	Z          *float64 `json:"z,omitempty"`
}

var scatterChart = kind{
	name: "create_scatter_chart", chartType: "scatter", label: "scatter chart",
	description: "Draws points by two values, as bubbles when a third value z gives their size.",
	schema: object(titleField,
		required("data", list(object(
			optional("name", label),
			required("series", list(object(
				required("seriesName", label),
				required("x", number),
				required("y", number),
				optional("z", number.about("Size of the bubble")),
			), maxSeries)),
		), maxPoints)),
		optional("showBubbles", schema{"type": "boolean", "default": false, "description": "Draw bubbles of size z"}),
		xLabelField, yLabelField, descriptionField),
	build: build(checkScatter),
}

func checkScatter(in *scatterInput) (figure, error) {
	var series []string
	var x, y, z span
	for i, group := range in.Data {
		for j, p := range group.Series {
			if !slices.Contains(series, p.SeriesName) {
				series = append(series, p.SeriesName)
			}
			if len(series) > maxSeries {
				return figure{}, fmt.Errorf("data[%d].series[%d].seriesName: there are more than %d series", i, j,
					maxSeries)
			}
			x.add(p.X)
			y.add(p.Y)
			if p.Z == nil {
				continue
			}
			if in.ShowBubbles && *p.Z < 0 {
				return figure{}, fmt.Errorf("data[%d].series[%d].z is the size of a bubble and must not be negative", i,
					j)
			}
			z.add(*p.Z)
		}
	}
	f := figure{
		title: in.Title, points: new(x.n),
		metadata: map[string]any{
			"seriesCount": len(series), "seriesNames": series, "xRange": x.limits(),
			"yRange": y.limits(),
		},
		summary: fmt.Sprintf("%s in %d series (%s), x %s, y %s.", count(x.n, "point"), len(series), names(series), x,
			y),
	}
	if z.n > 0 {
		f.metadata["zRange"] = z.limits()
	}
	return f, nil
}

type radarInput struct {
	Title       string        `json:"title"`
	Data        []radarMetric `json:"data"`
	Description string        `json:"description,omitempty"`
}

type radarMetric struct {
	Metric string       `json:"metric"`
	Series []radarValue `json:"series"`
}

type radarValue struct {
	SeriesName string   `json:"seriesName"`
	Value      float64  `json:"value"`
	FullMark   *float64 `json:"fullMark,omitempty"`
}

var radarChart = kind{
	name: "create_radar_chart", chartType: "radar", label: "radar chart",
	description: "Draws a radar chart that compares series over several metrics.",
	schema: object(titleField,
		required("data", list(object(
			required("metric", label.about("Name of the metric, one axis of the radar")),
			required("series", list(object(
				required("seriesName", label),
				required("value", number),
				optional("fullMark", number.about("Highest value of this axis").with("exclusiveMinimum", 0)),
			), maxSeries).about("One value for each series")),
		), maxPoints)),
		descriptionField),
	build: build(checkRadar),
}

func checkRadar(in *radarInput) (figure, error) {
	var all seriesSet
	seen := map[string]int{}
	for i, m := range in.Data {
		if first, ok := seen[m.Metric]; ok {
			return figure{}, fmt.Errorf("data[%d].metric %q is the same as data[%d].metric", i, m.Metric, first)
		}
		seen[m.Metric] = i
		for j, v := range m.Series {
			if err := all.add(i, j, v.SeriesName, v.Value); err != nil {
				return figure{}, err
			}
		}
	}
	return all.figure(in.Title, len(in.Data), "metric"), nil
}
