package toolkit

import (
	"context"
	"encoding/json"
	"iter"
	"testing"
)

// recorder is a tool that answers with its arguments.
type recorder struct{ schema string }

func (h recorder) Definition() Definition {
	return Definition{Name: "heard", Parameters: json.RawMessage(h.schema)}
}

func (recorder) Call(_ context.Context, call Call) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		yield(Chunk{Result: &Result{Output: json.RawMessage(call.Arguments)}}, nil)
	}
}

// TestDefaults has schemas that require properties with a default, as Playwright's
// screenshot tool does.
func TestDefaults(t *testing.T) {
	t.Parallel()
	const screenshot = `{"type":"object","properties":{"type":{"type":"string","enum":["png","jpeg"],"default":"png"},"file":{"type":"string","default":"x"},
		"clip":{"type":"object","properties":{"scale":{"type":"integer","default":2}},"required":["scale"]}},"required":["type"]}`
	const rows = `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"x":{"type":["number","null"]},"y":{"type":"number"},"z":{"type":"number"}},"required":["y"]}},
		"any":{},"word":{"type":["string","array"]}}}`
	for name, c := range map[string]struct{ schema, arguments, want, err string }{
		"left out":       {schema: screenshot, arguments: `{}`, want: `{"type":"png"}`},
		"nothing at all": {schema: screenshot, want: `{"type":"png"}`},
		"given":          {schema: screenshot, arguments: `{ "type" : "jpeg"}`, want: `{ "type" : "jpeg"}`},
		"below":          {schema: screenshot, arguments: `{"clip":{}}`, want: `{"clip":{"scale":2},"type":"png"}`},
		"given wrongly":  {schema: screenshot, arguments: `{"type":"gif"}`, err: `type: enum: gif does not equal any of: [png jpeg]`},
		"no default":     {schema: `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`, arguments: `{}`, err: `required: missing properties: ["a"]`},
		"wrong default":  {schema: `{"type":"object","properties":{"a":{"type":"string","default":5}},"required":["a"]}`, arguments: `{}`, err: `a: type: 5 has type "integer", want "string"`},
		"null":           {schema: screenshot, arguments: `{"type":"png","file":null,"clip":null,"other":null}`, want: `{"other":null,"type":"png"}`},
		"nulls in lists": {schema: rows, arguments: `{"any":null,"word":null,"rows":[{"x":null,"y":1.50,"z":null},{"y":2}]}`, want: `{"any":null,"rows":[{"x":null,"y":1.50},{"y":2}]}`},
		"needed null":    {schema: rows, arguments: `{"rows":[{"y":null}]}`, err: `rows[].y: type: null has type "null", want "number"`},
		"exact numbers":  {schema: screenshot, arguments: `{"n":12345678901234567890}`, want: `{"n":12345678901234567890,"type":"png"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRegistry()
			must(t, r.Add(Entry{Tool: recorder{c.schema}, Executor: ExecutorMCP}))
			got := NewRouter(r, RouterConfig{}).Call(t.Context(), Call{Name: "heard", Arguments: c.arguments}, nil)
			if string(got.Output) != c.want || got.Error != c.err {
				t.Errorf("got %s, %q", got.Output, got.Error)
			}
		})
	}
}
