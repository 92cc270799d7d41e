// Package charts provides the tools that draw: fifteen charts and a table. Each checks the model's
// input, and yields {"status":"loading"}, {"status":"processing"} and then a result for the page to
// draw. Nothing is rendered here.
package charts

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"sync"

	"github.com/google/uuid"

	"voicebridge/toolkit"
)

// defaultCanvas is the canvas of a chart that names none.
const defaultCanvas = "Data Visualization"

// Tools returns the sixteen tools, each time the same values in the same order.
func Tools() []toolkit.Tool {
	all := make([]toolkit.Tool, len(kinds))
	for i := range kinds {
		all[i] = tool{kind: &kinds[i], newID: uuid.NewString}
	}
	return all
}

// kinds is the table of all tools.
var kinds = []kind{
	barChart, lineChart, pieChart, areaChart, scatterChart, radarChart, funnelChart, treemapChart,
	sankeyChart, radialBarChart, composedChart, geographicChart, gaugeChart, calendarHeatmap, banChart, table,
}

// tool is one chart tool.
type tool struct {
	kind  *kind
	newID func() string
}

func (t tool) Definition() toolkit.Definition { return definitions()[t.kind.name] }

// definitions are made once, because each session needs them all.
var definitions = sync.OnceValue(func() map[string]toolkit.Definition {
	all := make(map[string]toolkit.Definition, len(kinds))
	for _, k := range kinds {
		parameters, err := json.Marshal(k.schema)
		if err != nil {
			panic(fmt.Sprintf("charts: schema of %s: %v", k.name, err)) // the schemas are constants; a test makes each
		}
		all[k.name] = toolkit.Definition{Name: k.name, Description: k.description, Parameters: parameters}
	}
	return all
})

// Call yields loading, processing, and the result. An error comes after loading.
func (t tool) Call(ctx context.Context, call toolkit.Call) iter.Seq2[toolkit.Chunk, error] {
	return func(yield func(toolkit.Chunk, error) bool) {
		if !yield(toolkit.Progress("Preparing the "+t.kind.label+"…", 0), nil) {
			return
		}
		f, err := t.figure([]byte(call.Arguments))
		if err != nil {
			yield(toolkit.Chunk{Result: t.refusal(err)}, nil)
			return
		}
		if !yield(toolkit.Progress(fmt.Sprintf("Creating the %s %q…", t.kind.label, f.title), 50), nil) {
			return
		}
		if ctx.Err() != nil {
			yield(toolkit.Chunk{}, context.Cause(ctx))
			return
		}
		result, err := t.result(f)
		if err != nil {
			yield(toolkit.Chunk{}, err)
			return
		}
		yield(toolkit.Chunk{Result: result}, nil)
	}
}

func (t tool) figure(arguments []byte) (figure, error) {
	if err := checkValues(arguments); err != nil {
		return figure{}, err
	}
	return t.kind.build(arguments)
}

func (t tool) refusal(err error) *toolkit.Result {
	message := fmt.Sprintf("the %s was not created: %v", t.kind.label, err)
	output, _ := json.Marshal(struct {
		Status    string `json:"status"`
		Message   string `json:"message"`
		ChartType string `json:"chartType"`
	}{"error", message, t.kind.chartType})
	return &toolkit.Result{Output: output, Error: message}
}

// success is the result that the thread stores and the page draws.
type success struct {
	Status               string          `json:"status"`
	Message              string          `json:"message"`
	ChartID              string          `json:"chartId"`
	Title                string          `json:"title"`
	ChartType            string          `json:"chartType"`
	CanvasName           string          `json:"canvasName"`
	ChartData            json.RawMessage `json:"chartData"`
	DataPoints           *int            `json:"dataPoints,omitempty"`
	ShouldCreateArtifact bool            `json:"shouldCreateArtifact"`
	Progress             int             `json:"progress"`
}

func (t tool) result(f figure) (*toolkit.Result, error) {
	id := t.newID()
	data, err := t.chartData(f)
	if err != nil {
		return nil, fmt.Errorf("write chart data: %w", err)
	}
	s := success{
		Status: "success", Message: fmt.Sprintf("Created the %s %q", t.kind.label, f.title), ChartID: id,
		Title: f.title, ChartType: t.kind.chartType, CanvasName: cmp.Or(f.canvasName, defaultCanvas), ChartData: data,
		DataPoints: f.points, ShouldCreateArtifact: true, Progress: 100,
	}
	output, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("write chart: %w", err)
	}
	model, _ := json.Marshal(struct { // texts can always be encoded
		Summary string `json:"summary"`
		ChartID string `json:"chartId"`
	}{fmt.Sprintf("%s: %s", s.Message, f.summary), id})
	return &toolkit.Result{Output: output, Model: string(model)}, nil
}

// chartData returns the input's own fields after type and chartType, and before metadata.
func (t tool) chartData(f figure) (json.RawMessage, error) {
	kind := struct {
		Type      string `json:"type"`
		ChartType string `json:"chartType"`
	}{cmp.Or(t.kind.dataType, t.kind.chartType+"-chart"), t.kind.chartType}
	if f.points != nil {
		f.metadata["dataPoints"] = *f.points
	}
	data := []byte("{")
	for _, part := range []any{kind, f.input, map[string]any{"metadata": f.metadata}} { // none of them is ever empty
		object, err := json.Marshal(part)
		if err != nil {
			return nil, err
		}
		data = append(append(data, object[1:len(object)-1]...), ',')
	}
	data[len(data)-1] = '}'
	return data, nil
}
