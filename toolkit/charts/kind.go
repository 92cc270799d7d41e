package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// kind is what distinguishes a tool from the others.
type kind struct {
	name        string // of the tool
	chartType   string // in the result: bar, line, …
	dataType    string // chartData.type: bar-chart, …
	label       string // in sentences: "bar chart"
	description string // for the model
	schema      schema
	// build checks the arguments, which have passed the schema, and makes the figure. Its errors
	// name the field and are in words for the model.
	build func(arguments []byte) (figure, error)
}

// figure is a checked chart.
type figure struct {
	title      string
	canvasName string         // empty: the default
	input      any            // the input with its defaults, in the order of its fields
	metadata   map[string]any // counts and ranges for a legend
	points     *int           // nil: the chart has no points to count
	summary    string         // what the model reads, after the title
}

// build adapts the check of one input type to kind.build.
func build[T any](check func(*T) (figure, error)) func([]byte) (figure, error) {
	return func(arguments []byte) (figure, error) {
		var input T
		decoder := json.NewDecoder(bytes.NewReader(arguments))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&input); err != nil {
			return figure{}, fmt.Errorf("the arguments do not fit: %w", err)
		}
		f, err := check(&input)
		f.input = &input
		return f, err
	}
}
