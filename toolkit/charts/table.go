package charts

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

type tableInput struct {
	Title       string                       `json:"title"`
	Description string                       `json:"description,omitempty"`
	Columns     []tableColumn                `json:"columns"`
	Data        []map[string]json.RawMessage `json:"data"`
}

type tableColumn struct {
	Key   string `json:"key"`
	Label string `json:"label"`
	Type  string `json:"type"`
}

var table = kind{
	name: "createTable", chartType: "table", dataType: "table", label: "table",
	description: "Shows a table that can be sorted and searched. Each row is an object with the columns' keys; a " +
		"cell is a text, number, boolean or null.",
	schema: object(titleField, descriptionField,
		required("columns", list(object(
			required("key", label.about("Key of the column in the rows")),
			required("label", label),
			optional("type", enum("string", "number", "date", "boolean").with("default", "string")),
		), maxColumns).about("The columns, from left to right")),
		required("data", list(schema{
			"type": "object", "maxProperties": maxColumns,
			"additionalProperties": schema{
				"type": []string{"string", "number", "boolean", "null"}, "maxLength": maxDescription,
			},
		}, maxRows))),
	build: build(checkTable),
}

func checkTable(in *tableInput) (figure, error) {
	index := map[string]int{}
	headings := make([]string, len(in.Columns))
	for i := range in.Columns {
		c := &in.Columns[i]
		c.Type = cmp.Or(c.Type, "string")
		headings[i] = c.Label
		if first, ok := index[c.Key]; ok {
			return figure{}, fmt.Errorf("columns[%d].key %q is the same as columns[%d].key", i, c.Key, first)
		}
		index[c.Key] = i
	}
	for i, row := range in.Data {
		for _, key := range slices.Sorted(maps.Keys(row)) {
			if _, ok := index[key]; !ok {
				return figure{}, fmt.Errorf("data[%d] has the key %q, which no column has", i, key)
			}
		}
	}
	return figure{
		title: in.Title, points: new(len(in.Data)),
		metadata: map[string]any{"rowCount": len(in.Data), "columnCount": len(in.Columns)},
		summary: fmt.Sprintf("%s, %s (%s).", count(len(in.Data), "row"), count(len(in.Columns), "column"),
			names(headings)),
	}, nil
}
