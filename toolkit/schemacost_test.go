package toolkit

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func property(schema string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"a":` + schema + `}}`)
}

// TestSchemaSizes has schemas that are small in bytes, and large once they are compiled.
func TestSchemaSizes(t *testing.T) {
	t.Parallel()
	repeated := func(count, n int) string { // n alternatives of different letters
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("%c{%d}", '一'+i, count))
		}
		return strings.Join(all, "|")
	}
	for name, c := range map[string]struct{ schema, err string }{
		"alternatives":          {`{"pattern":"` + repeated(1000, 100) + `"}`, "#/properties/a/pattern"},
		"repeated repetition":   {`{"pattern":"(ab{30}){31}(cd{30}){31}(ef{30}){31}(gh{30}){31}(ij{30}){31}(kl{30}){31}(mn{30}){31}(op{30}){31}(qr{30}){31}(st{30}){31}"}`, "#/properties/a/pattern"},
		"open repetition":       {`{"pattern":"(abcdefghijkl){1000,}"}`, "#/properties/a/pattern"},
		"long":                  {`{"pattern":"` + strings.Repeat("a", maxPattern+1) + `"}`, "more than 2048 bytes"},
		"names":                 {`{"patternProperties":{"` + repeated(999, 20) + `":{}}}`, "#/properties/a/patternProperties"},
		"many small":            {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"a{990}"},`, 21), ",") + `]}`, "#/properties/a/allOf/"},
		"classes of letters":    {`{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"pattern":"`+strings.Repeat(`\\pL`, 400)+`"},`, 12), ",") + `]}`, "#/properties/a/allOf/"},
		"classes in any case":   {`{"pattern":"(?i)` + strings.Repeat(`\\pL`, 400) + `"}`, "#/properties/a/pattern"},
		"classes of others":     {`{"pattern":"` + strings.Repeat(`\\PL`, 400) + `"}`, "#/properties/a/pattern"},
		"never used":            {`{"$defs":{"x":{"pattern":"` + repeated(900, 20) + `"}}}`, "#/properties/a/$defs/x/pattern"},
		"a property default":    {`{"properties":{"default":{"pattern":"` + repeated(900, 20) + `"}}}`, "properties/default/pattern"},
		"a thousand truths":     {`{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`true,`, 2100), ",") + `]}`, "more than 2000 subschemas"},
		"many empty ones":       {`{"anyOf":[` + strings.TrimSuffix(strings.Repeat(`{},`, 2100), ",") + `]}`, "more than 2000 subschemas"},
		"an email":              {`{"pattern":"^[\\w.+-]{1,64}@[\\w-]{1,63}(\\.[\\w-]{1,63}){1,8}$"}`, ""},
		"letters of any script": {`{"pattern":"^[\\p{L}\\p{M}' -]{1,200}$"}`, ""},
		"a pattern as a value":  {`{"default":{"pattern":"(("},"enum":[{"pattern":"a{1000}{1000}"}]}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := CheckParameters(property(c.schema))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("got %v, want %q", err, c.err)
			}
		})
	}
}

// TestSchemaMemory compiles the largest schemas that are taken, again and again and different ones: what is kept stays small.
func TestSchemaMemory(t *testing.T) { //nolint:paralleltest // it measures memory
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 20 {
		must(t, CheckParameters(property(fmt.Sprintf(`{"title":"%d","anyOf":[%s{}],"pattern":"a{900}b{900}c{900}"}`, i, strings.Repeat(`{},`, 1900)))))
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 2*maxCheckers {
		t.Errorf("%d MB are kept", grown>>20)
	}
}

// TestChecksEnd has small schemas and small arguments whose check would take seconds to minutes.
func TestChecksEnd(t *testing.T) {
	t.Parallel()
	doubled := func(leaf string) json.RawMessage {
		var defs strings.Builder
		for i := range 10 {
			fmt.Fprintf(&defs, `"d%d":{"anyOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%[2]d"}]},`, i, i+1)
		}
		return json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/$defs/d0"}},"$defs":{` + defs.String() + `"d10":` + leaf + `}}`)
	}
	letters := strings.Repeat("a", 2000)
	list := "[" + strings.TrimSuffix(strings.Repeat(`"aaaaaaaaaaaaaaaaaaaa",`, 2000), ",") + "]"
	for name, c := range map[string]struct {
		schema    json.RawMessage
		value     string
		tooCostly bool
	}{
		"alternatives of patterns": {doubled(`{"pattern":"(a{0,80}){2}b"}`), `"` + letters + `"`, true},
		"alternatives of texts":    {doubled(`{"type":"integer"}`), `"` + strings.Repeat(letters, 30) + `"`, true},
		"alternatives of lists":    {doubled(`{"type":"string"}`), list, true},
		"items":                    {property(`{"items":{"pattern":"(a{0,90}){10}b"}}`), list, true},
		"contains":                 {property(`{"contains":{"pattern":"(a{0,90}){10}b"}}`), list, true},
		"names":                    {property(`{"patternProperties":{"(a{0,90}){10}b":{}}}`), `{"` + strings.Repeat(letters, 20) + `":1}`, true},
		"names of properties":      {property(`{"propertyNames":{"pattern":"(a{0,90}){10}b"}}`), `{"` + strings.Repeat(letters, 20) + `":1}`, true},
		"large enum":               {property(`{"items":{"enum":["` + strings.Repeat("x", 60_000) + `"]}}`), list, true},
		"a long text":              {property(`{"type":"string","pattern":"^[^\\s].{0,50}"}`), `"` + strings.Repeat(letters, 80) + `"`, false},
		"many rows":                {property(`{"items":{"anyOf":[{"type":"integer"},{"type":"string","minLength":1}]}}`), list, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			object := json.RawMessage(`{"a":` + c.value + `}`)
			began := time.Now()
			err := CheckObject(c.schema, object)
			if costly := err != nil && strings.Contains(err.Error(), "take too long"); costly != c.tooCostly {
				t.Errorf("got %v", err)
			}
			if took := time.Since(began); took > 20*time.Second { // not minutes, however busy the machine is
				t.Errorf("it took %v", took)
			}
		})
	}
}

// TestDefaultsStaySmall has a default that each of many objects lacks.
func TestDefaultsStaySmall(t *testing.T) {
	t.Parallel()
	schema := fmt.Sprintf(`{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","required":["x"],
		"properties":{"x":{"type":"object","default":{"text":%q},"required":["y"],"properties":{"y":{"default":1}}}}}}}}`, strings.Repeat("x", 30_000))
	r := NewRegistry()
	must(t, r.Add(Entry{Tool: recorder{schema}, Executor: ExecutorMCP}))
	arguments := `{"rows":[` + strings.TrimSuffix(strings.Repeat("{},", 20_000), ",") + `]}`
	got := NewRouter(r, RouterConfig{}).Call(t.Context(), Call{Name: "heard", Arguments: arguments}, nil)
	if len(got.Output) > 2*MaxArguments || got.Error == "" {
		t.Errorf("%d bytes of output, %q", len(got.Output), got.Error)
	}
}
