package charts

import (
	"fmt"
	"maps"
	"strings"

	"voicebridge/toolkit"
)

// Limits of the inputs.
const (
	maxTitle       = 100 // in characters, like the next two
	maxLabel       = 255
	maxDescription = 500
	maxPoints      = 100
	maxSeries      = 20

	maxLinks      = 200 // of a sankey chart
	maxRegions    = 300 // of a geographic chart: the world has about 250 countries
	maxDays       = 372 // of a calendar heatmap, from first to last: the page draws no more
	maxRows       = 500 // of a table
	maxColumns    = 30  // of a table
	maxThresholds = 20  // of a gauge
)

const (
	hexColour  = `^#([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$`
	dateFormat = `^[0-9]{4}-[0-9]{2}-[0-9]{2}$`
)

// schema is one node of a JSON Schema.
type schema map[string]any

// field is a property of an object.
type field struct {
	name     string
	schema   schema
	required bool
}

func required(name string, s schema) field { return field{name, s, true} }

// optional is a field that may be missing. A text may also be empty, which is how many models write
// that.
func optional(name string, s schema) field {
	s = maps.Clone(s)
	delete(s, "minLength")
	return field{name, s, false}
}

// properties keeps the order of the fields: models fill them in this order.
type properties []field

func (p properties) MarshalJSON() ([]byte, error) {
	each := make([]string, len(p))
	for i, f := range p {
		each[i] = fmt.Sprintf("%q:%s", f.name, toolkit.Encode(f.schema))
	}
	return []byte("{" + strings.Join(each, ",") + "}"), nil
}

// object returns a closed object schema: other fields are rejected.
func object(fields ...field) schema {
	names := []string{}
	for _, f := range fields {
		if f.required {
			names = append(names, f.name)
		}
	}
	return schema{"type": "object", "properties": properties(fields), "required": names, "additionalProperties": false}
}

func list(items schema, limit int) schema {
	return schema{"type": "array", "items": items, "minItems": 1, "maxItems": limit}
}

var (
	label  = schema{"type": "string", "minLength": 1, "maxLength": maxLabel}
	number = schema{"type": "number"}
)

func enum(values ...string) schema { return schema{"type": "string", "enum": values} }

// about adds a description, for what a field's name does not say: each session sends every schema,
// and the model reads all of them again for each answer.
func (s schema) about(description string) schema { return s.with("description", description) }

// with returns a schema with another keyword.
func (s schema) with(key string, value any) schema {
	s = maps.Clone(s)
	s[key] = value
	return s
}

// Fields that many inputs share.
var (
	titleField       = required("title", label.with("maxLength", maxTitle))
	descriptionField = optional("description",
		schema{"type": "string", "maxLength": maxDescription, "description": "What the chart shows, in a sentence"})
	xLabelField = optional("xAxisLabel", label)
	yLabelField = optional("yAxisLabel", label)
	unitField   = optional("unit", label)
)
