package charts

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// The charts of parts of a whole: pie, funnel, treemap.

var errNothing = errors.New("data: the values add up to 0, there is nothing to divide")

type pieInput struct {
	Title       string     `json:"title"`
	CanvasName  string     `json:"canvasName,omitempty"`
	Data        []pieSlice `json:"data"`
	Description string     `json:"description,omitempty"`
	Unit        string     `json:"unit,omitempty"`
}

type pieSlice struct {
	Label string  `json:"label"`
	Value float64 `json:"value"`
}

var pieChart = kind{
	name: "create_pie_chart", chartType: "pie", label: "pie chart",
	description: "Draws a pie chart of the parts of a whole. Values must not be negative, and their sum not 0.",
	schema: object(titleField,
		optional("canvasName", label),
		required("data", list(object(
			required("label", label),
			required("value", number.with("minimum", 0)),
		), maxPoints)),
		descriptionField, unitField),
	build: build(checkPie),
}

func checkPie(in *pieInput) (figure, error) {
	all := spanOf(in.Data, func(s pieSlice) float64 { return s.Value })
	if all.sum == 0 {
		return figure{}, errNothing
	}
	largest := slices.MaxFunc(in.Data, func(a, b pieSlice) int { return cmp.Compare(a.Value, b.Value) })
	f := all.figure(in.Title, fmt.Sprintf("%s, total %s; the largest is %s with %s%%.", count(all.n, "slice"),
		plain(all.sum), names([]string{largest.Label}), plain(100*largest.Value/all.sum)))
	f.canvasName = in.CanvasName
	return f, nil
}

type funnelInput struct {
	Title       string        `json:"title"`
	Data        []funnelStage `json:"data"`
	Description string        `json:"description,omitempty"`
	Unit        string        `json:"unit,omitempty"`
}

type funnelStage struct {
	Stage string  `json:"stage"`
	Value float64 `json:"value"`
	Fill  string  `json:"fill,omitempty"`
}

var funnelChart = kind{
	name: "create_funnel_chart", chartType: "funnel", label: "funnel chart",
	description: "Draws a funnel of stages, such as a conversion. The stages are sorted by value, largest first.",
	schema: object(titleField,
		required("data", list(object(
			required("stage", label),
			required("value", number.with("minimum", 0)),
			optional("fill",
				schema{"type": "string", "pattern": hexColour, "description": "Colour, for example #1f77b4"}),
		), maxPoints)),
		descriptionField, unitField),
	build: build(checkFunnel),
}

func checkFunnel(in *funnelInput) (figure, error) {
	slices.SortStableFunc(in.Data, func(a, b funnelStage) int { return cmp.Compare(b.Value, a.Value) })
	all := spanOf(in.Data, func(s funnelStage) float64 { return s.Value })
	first, last := in.Data[0], in.Data[len(in.Data)-1]
	f := all.figure(in.Title, fmt.Sprintf("%s, from %s (%s) to %s (%s).", count(all.n, "stage"),
		names([]string{first.Stage}), plain(first.Value), names([]string{last.Stage}), plain(last.Value)))
	if first.Value > 0 {
		f.metadata["conversionRate"] = last.Value / first.Value
	}
	return f, nil
}

type treemapInput struct {
	Title       string        `json:"title"`
	Data        []treemapNode `json:"data"`
	Description string        `json:"description,omitempty"`
}

type treemapNode struct {
	Name     string        `json:"name"`
	Value    float64       `json:"value"`
	Children []treemapNode `json:"children,omitempty"` // which have none
}

var treemapChart = kind{
	name: "create_treemap_chart", chartType: "treemap", label: "treemap",
	description: "Draws a treemap: rectangles by size, each with children if there is a second level.",
	schema: object(titleField,
		required("data", list(object(
			required("name", label),
			required("value", number.with("minimum", 0)),
			optional("children", schema{"type": "array", "maxItems": maxPoints, "items": object(
				required("name", label),
				required("value", number.with("minimum", 0)),
			)}),
		), maxPoints)),
		descriptionField),
	build: build(checkTreemap),
}

func checkTreemap(in *treemapInput) (figure, error) {
	all := spanOf(in.Data, func(n treemapNode) float64 { return n.Value })
	parts := 0
	for _, n := range in.Data {
		parts += len(n.Children)
	}
	if all.sum == 0 {
		return figure{}, errNothing
	}
	f := all.figure(in.Title,
		fmt.Sprintf("%s with %s, total %s.", count(all.n, "rectangle"), count(parts, "part"), plain(all.sum)))
	f.metadata["childCount"] = parts
	return f, nil
}
