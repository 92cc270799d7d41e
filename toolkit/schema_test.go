package toolkit

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"voicebridge/internal/testkit"
)

func TestCheckParameters(t *testing.T) {
	t.Parallel()
	// Each definition names the next one twice: 2^30 subschemas in a few lines.
	var bomb strings.Builder
	for i := range 30 {
		fmt.Fprintf(&bomb, `,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i, i+1, i+1)
	}
	for name, tc := range map[string]struct{ schema, want string }{
		"smallest":            {`{"type":"object"}`, ""},
		"local reference":     {`{"type":"object","properties":{"a":{"$ref":"#/$defs/x~1y"}},"$defs":{"x/y":{"type":"string"}}}`, ""},
		"draft 7":             {`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","definitions":{"a":{"type":"string"}},"properties":{"a":{"$ref":"#/definitions/a"}}}`, ""},
		"property named $id":  {`{"type":"object","properties":{"$id":{"type":"string"}}}`, ""},
		"booleans as schemas": {`{"type":"object","properties":{"a":true},"additionalProperties":false}`, ""},
		"empty":               {``, "not a JSON Schema"},
		"null":                {`null`, `"type":"object"`},
		"array":               {`[]`, "not a JSON Schema"},
		"other type":          {`{"type":"array"}`, `"type":"object"`},
		"two types":           {`{"type":["object","null"]}`, `"type":"object"`},
		"bad keyword":         {`{"type":"object","properties":{"a":{"type":"nonsense"}}}`, "no type nonsense"},
		"bad pattern":         {`{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`, "not a JSON Schema"},
		"unknown draft":       {`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object"}`, "unknown JSON Schema draft"},
		"refers to itself":    {`{"type":"object","$ref":"#"}`, "refers to itself"},
		"through allOf":       {`{"type":"object","allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"}]}}}`, "refers to itself"},
		"recursive":           {`{"type":"object","properties":{"child":{"$ref":"#"}}}`, "refers to itself"},
		"remote reference":    {`{"type":"object","properties":{"a":{"$ref":"https://example.com/s.json"}}}`, "not of the form"},
		"file reference":      {`{"type":"object","$ref":"file:///etc/passwd"}`, "not of the form"},
		"anchor":              {`{"type":"object","properties":{"a":{"$ref":"#here"}}}`, "not of the form"},
		"dangling":            {`{"type":"object","properties":{"a":{"$ref":"#/$defs/nowhere"}}}`, "leads nowhere"},
		"dynamic":             {`{"type":"object","$dynamicAnchor":"a","$dynamicRef":"#a"}`, "$dynamicRef"},
		"moved base":          {`{"type":"object","$defs":{"a":{"$id":"x","properties":{"b":{"$ref":"#"}}}},"properties":{"a":{"$ref":"#/$defs/a/properties/b"}}}`, "$id"},
		"bomb":                {`{"type":"object","$ref":"#/$defs/d0","$defs":{"d30":{}` + bomb.String() + `}}`, "expands to more than"},
		"too deep":            {`{"type":"object","x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, "deeper than"},
		"too large":           {`{"type":"object","description":"` + strings.Repeat("x", 70000) + `"}`, "the limit is 65536"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckParameters(json.RawMessage(tc.schema))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestSchemaErrorsNameTheField(t *testing.T) {
	t.Parallel()
	check, err := newChecker(json.RawMessage(`{"type":"object","required":["title"],"additionalProperties":false,"properties":{
		"title":{"type":"string","maxLength":5},
		"a/b":{"type":"object","properties":{"c":{"enum":["x","y"]}},"additionalProperties":{"type":"number"}},
		"data":{"type":"array","maxItems":2,"items":{"type":"object","required":["v"],"properties":{"v":{"type":"number"}},"additionalProperties":false}},
		"pair":{"type":"array","prefixItems":[{"type":"string"},{"type":"number"}]},
		"any":{"anyOf":[{"type":"string"},{"type":"number"}]}}}`))
	must(t, err)
	for arguments, want := range map[string]string{
		`{}`:                                   `required: missing properties: ["title"]`,
		`{"title":"123456"}`:                   `title: maxLength: `,
		`{"title":"a","x":1}`:                  `unexpected additional properties ["x"]`,
		`{"title":"a","data":[1,2,3]}`:         `data[]: type: 1`,
		`{"title":"a","data":[{},{}]}`:         `data[]: required: missing properties: ["v"]`,
		`{"title":"a","data":[{"v":"1"}]}`:     `data[].v: type: 1`,
		`{"title":"a","data":[{"v":1,"w":2}]}`: `data[]: unexpected additional properties ["w"]`,
		`{"title":"a","a/b":{"c":"z"}}`:        `a/b.c: enum: z`,
		`{"title":"a","a/b":{"d":"z"}}`:        `a/b.*: type: z`,
		`{"title":"a","pair":["a","b"]}`:       `pair[1]: type: b`,
		`{"title":"a","any":true}`:             `any: anyOf: `,
	} {
		_, object, err := parseArguments(arguments)
		must(t, err)
		if err := check.check(object); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %q, want %q…", arguments, err, want)
		}
	}
	err = check.check(map[string]any{"title": strings.Repeat("ü", 1000)})
	if err == nil || !strings.HasSuffix(err.Error(), " contains 1000 Unicode code points, more than 5") || utf8.RuneCountInString(err.Error()) > 420 {
		t.Errorf("a long value: got %q", err)
	}
}

func TestDepth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		``: 0, `1`: 0, `"[["`: 0, `"\"[["`: 0, `"\\"`: 0, `{}`: 1, `[[],[[]]]`: 3, `{"a":[{"b":"}"}]}`: 3, `]]][`: 0, `[[[`: 3,
	} {
		testkit.Equal(t, Depth([]byte(text)), want, "Depth(%s)", text)
	}
}

// TestShape counts values, of which a text may have many more than its bytes let one think.
func TestShape(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{`1`: 1, `"a,{[\",{"`: 1, `[0,0,0]`: 4, `[{},{}]`: 5, `{"a":[1,2],"b":{}}`: 6} {
		if _, got := Shape([]byte(text)); got != want {
			t.Errorf("Shape(%s) = %d values, want %d", text, got, want)
		}
	}
}

func FuzzArguments(f *testing.F) {
	for _, seed := range []string{``, `{}`, `{"a":[1,{"b":null}]}`, `{"a":1e999}`, `[`, "\xff", `{"a":{"a":{}}}`} {
		f.Add(seed)
	}
	check, err := newChecker(json.RawMessage(`{"type":"object","properties":{"a":{"type":["array","number"],"items":{"type":"object"}}},"additionalProperties":false}`))
	must(f, err)
	f.Fuzz(func(t *testing.T, text string) {
		clean, object, err := parseArguments(text)
		if err != nil {
			if len(err.Error()) > 500 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		if !json.Valid([]byte(clean)) || object == nil {
			t.Errorf("%q was accepted as %q", text, clean)
		}
		if err := check.check(object); err != nil && len(err.Error()) > 4<<10 {
			t.Errorf("the refusal has %d bytes", len(err.Error()))
		}
	})
}

func FuzzCheckParameters(f *testing.F) {
	for _, seed := range []string{`{"type":"object"}`, `{"type":"object","$ref":"#/$defs/a","$defs":{"a":{"not":{"$ref":"#"}}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/properties/b"},"b":{"items":[true]}}}`} {
		f.Add(seed)
	}
	values := []map[string]any{{}, {"a": map[string]any{"a": map[string]any{}}, "b": []any{1.0, nil}}}
	f.Fuzz(func(t *testing.T, schema string) {
		check, err := newChecker(json.RawMessage(schema))
		if err != nil {
			return
		}
		for _, v := range values { // must end, whatever the schema
			_ = check.check(v)
		}
	})
}
