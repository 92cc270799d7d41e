package charts

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// The charts whose points carry one value for each series.

type axisInput struct {
	Title       string      `json:"title"`
	Data        []axisPoint `json:"data"`
	AreaType    string      `json:"areaType,omitempty"`
	XAxisLabel  string      `json:"xAxisLabel,omitempty"`
	YAxisLabel  string      `json:"yAxisLabel,omitempty"`
	Description string      `json:"description,omitempty"`
}

type axisPoint struct {
	XAxisLabel string      `json:"xAxisLabel"`
	Series     []axisValue `json:"series"`
}

type axisValue struct {
	SeriesName string  `json:"seriesName"`
	Value      float64 `json:"value"`
	ChartType  string  `json:"chartType,omitempty"`
}

func axisData(more ...field) field {
	value := append([]field{
		required("seriesName", label),
		required("value", number),
	}, more...)
	return required("data", list(object(
		required("xAxisLabel", label),
		required("series", list(object(value...), maxSeries).about("One value for each series")),
	), maxPoints).about("The points, from left to right"))
}

var barChart = kind{
	name: "create_bar_chart", chartType: "bar", label: "bar chart",
	description: "Draws a bar chart that compares categories, with one or more series.",
	schema:      object(titleField, axisData(), descriptionField, yLabelField),
	build:       build(checkAxis),
}

var lineChart = kind{
	name: "create_line_chart", chartType: "line", label: "line chart",
	description: "Draws a line chart that shows how values change, with one or more series.",
	schema:      object(titleField, axisData(), descriptionField, yLabelField),
	build:       build(checkAxis),
}

var areaChart = kind{
	name: "create_area_chart", chartType: "area", label: "area chart",
	description: "Draws an area chart that shows amounts over time, side by side, stacked, or as shares of the whole.",
	schema: object(titleField, axisData(),
		optional("areaType", enum("standard", "stacked", "percent").about("How the areas relate to each other").with(
			"default", "standard")),
		xLabelField, yLabelField, descriptionField),
	build: build(checkArea),
}

var composedChart = kind{
	name: "create_composed_chart", chartType: "composed", label: "composed chart",
	description: "Draws bars, lines and areas in one chart; each series has its own form.",
	schema: object(titleField, axisData(required("chartType", enum("bar", "line", "area"))),
		xLabelField, yLabelField, descriptionField),
	build: build(checkComposed),
}

func checkArea(in *axisInput) (figure, error) {
	in.AreaType = cmp.Or(in.AreaType, "standard")
	if in.AreaType == "percent" {
		for i, p := range in.Data {
			for j, v := range p.Series {
				if v.Value < 0 {
					return figure{}, fmt.Errorf(
						"data[%d].series[%d].value must not be negative when areaType is percent", i, j)
				}
			}
		}
	}
	return checkAxis(in)
}

func checkComposed(in *axisInput) (figure, error) {
	form := map[string]string{}
	for i, p := range in.Data {
		for j, v := range p.Series {
			if old, ok := form[v.SeriesName]; ok && old != v.ChartType {
				return figure{}, fmt.Errorf("data[%d].series[%d].chartType is %s, but the series %q was %s before", i,
					j, v.ChartType, v.SeriesName, old)
			}
			form[v.SeriesName] = v.ChartType
		}
	}
	f, err := checkAxis(in)
	if err == nil {
		f.metadata["seriesTypes"] = form
	}
	return f, err
}

func checkAxis(in *axisInput) (figure, error) {
	var all seriesSet
	for i, p := range in.Data {
		for j, v := range p.Series {
			if err := all.add(i, j, v.SeriesName, v.Value); err != nil {
				return figure{}, err
			}
		}
	}
	return all.figure(in.Title, len(in.Data), "point"), nil
}

// seriesSet collects the series of a chart, point by point.
type seriesSet struct {
	names  []string
	totals []float64
	at     []int // the last point, from 1, that had the series
	values span
}

// add takes the value of data[point].series[index].
func (s *seriesSet) add(point, index int, name string, value float64) error {
	i := slices.Index(s.names, name)
	if i < 0 {
		i = len(s.names)
		if i == maxSeries {
			return fmt.Errorf("data[%d].series[%d].seriesName: there are more than %d series", point, index, maxSeries)
		}
		s.names, s.totals = append(s.names, name), append(s.totals, 0)
		s.at = append(s.at, 0)
	}
	if s.at[i] == point+1 {
		return fmt.Errorf("data[%d].series[%d].seriesName: the point has the series %q twice", point, index, name)
	}
	s.at[i] = point + 1
	s.totals[i] += value
	s.values.add(value)
	return nil
}

// figure names the series, with their totals if there are few.
func (s *seriesSet) figure(title string, points int, noun string) figure {
	const few = 4
	listed := names(s.names)
	if len(s.names) <= few {
		each := short(s.names)
		for i, total := range s.totals {
			each[i] += " total " + plain(total)
		}
		listed = strings.Join(each, ", ")
	}
	return figure{
		title: title, points: &points,
		metadata: map[string]any{
			"seriesCount": len(s.names), "seriesNames": s.names, "totals": s.totals, "valueRange": s.values.limits(),
		},
		summary: fmt.Sprintf("%s, %d series (%s), values %s.", count(points, noun), len(s.names), listed, s.values),
	}
}
