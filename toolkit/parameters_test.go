package toolkit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// TestParametersForModels checks what a model's API gets of schemas that it would reject. The tool's
// arguments are checked as the tool says.
func TestParametersForModels(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	for i := range 30 {
		fmt.Fprintf(&bomb, `,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1)
	}
	for name, c := range map[string]struct{ schema, want string }{
		"nothing to change": {`{ "type":"object", "properties":{"n":{"type":"number","maximum":1.0},"a":{"type":"array","items":{}}} }`, ""},
		"no properties":     {`{"type":"object","additionalProperties":false}`, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		"null properties":   {`{"type":"object","properties":null}`, `{"properties":{},"type":"object"}`},
		"alternatives": {`{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"anyOf":[{"required":["a"],"properties":{"a":{"maximum":1.50}}},{"properties":{"b":{},"id":{}}}]}`,
			`{"properties":{"a":{"maximum":1.50},"b":{},"id":{"type":"string"}},"required":["id"],"type":"object"}`},
		"only alternatives": {`{"type":"object","oneOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"$ref":"#/$defs/b"}],"$defs":{"b":{"properties":{"b":{}}}}}`,
			`{"$defs":{"b":{"properties":{"b":{}}}},"properties":{"a":{},"b":{}},"type":"object"}`},
		"all of them": {`{"type":"object","required":["c"],"allOf":[{"properties":{"a":{}},"required":["a","c",{},{}]},{"anyOf":[{"properties":{"b":{}},"required":["b"]}]},true,{"if":{},"then":{}}]}`,
			`{"properties":{"a":{},"b":{}},"required":["c","a","b"],"type":"object"}`},
		"a reference":  {`{"type":"object","$ref":"#/definitions/in","definitions":{"in":{"properties":{"a":{}},"required":["a"]}}}`, `{"definitions":{"in":{"properties":{"a":{}},"required":["a"]}},"properties":{"a":{}},"required":["a"],"type":"object"}`},
		"itself":       {`{"type":"object","$ref":"#","allOf":[{"$ref":"#"},{"$ref":"#/allOf/0"},{"$ref":"https://x"}]}`, `{"properties":{},"type":"object"}`},
		"not and enum": {`{"type":"object","properties":{"not":{},"enum":{}},"not":{"required":["x"]},"enum":[{}]}`, `{"properties":{"enum":{},"not":{}},"type":"object"}`},
		"lists": {`{"type":"object","properties":{"a":{"type":"array"},"type":{"type":["array","null"]},"b":{"anyOf":[{"type":"array"}],"default":{"type":"array"}}},"$defs":{"c":{"type":"array"}}}`,
			`{"$defs":{"c":{"items":{},"type":"array"}},"properties":{"a":{"items":{},"type":"array"},"b":{"anyOf":[{"items":{},"type":"array"}],"default":{"type":"array"}},"type":{"items":{},"type":["array","null"]}},"type":"object"}`},
		"older lists": {`{"type":"object","properties":{"a":{"type":"array","items":[{"type":"array"}],"additionalItems":false},"b":{"items":[]}}}`,
			`{"properties":{"a":{"items":false,"prefixItems":[{"items":{},"type":"array"}],"type":"array"},"b":{"prefixItems":[]}},"type":"object"}`},
		"wrong forms": {`{"type":"object","required":null,"title":null,"properties":{"type":"object","a":{"type":"any","required":true,"default":null},"b":{"type":["integer","null"],"exclusiveMinimum":true,"enum":[null]},"c":{"type":"object","properties":[]},"d":true},"$defs":[]}`,
			`{"properties":{"a":{"default":null},"b":{"enum":[null],"type":["integer","null"]},"c":{"type":"object"},"d":true,"type":{}},"type":"object"}`},
		"a bomb": {`{"type":"object","$ref":"#/$defs/d0","$defs":{"d30":{"properties":{"a":{}}}` + bomb.String() + `}}`, "properties"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := NewRegistry()
			tool := named("a")
			tool.def.Parameters = json.RawMessage(c.schema)
			mustAdd(t, r, Entry{Tool: tool, Executor: ExecutorMCP, Unchecked: CheckParameters(tool.def.Parameters) != nil})
			got := string(r.Definitions()[0].Parameters)
			switch {
			case name == "a bomb" && strings.Contains(got, `"properties":{"a":{}},"type":"object"}`):
			case c.want == "" && got == c.schema:
			case got != c.want:
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if string(tool.Definition().Parameters) != c.schema {
				t.Error("the tool's own definition has changed")
			}
		})
	}
	check, err := newChecker(json.RawMessage(`{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}]}`))
	must(t, err)
	if check.check(map[string]any{}) == nil || check.check(map[string]any{"b": 1.0}) != nil {
		t.Error("the arguments are not checked against the whole schema")
	}
}
