package web

import (
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestOpenAPISaysWhatTypesSay compares what openapi.yaml says of each route with the types of its input and its answer, both ways: the
// names in the query, in the body and in the answer, their kinds, the limits of numbers, and that nothing is required of an answer which it may leave out.
func TestOpenAPISaysWhatTypesSay(t *testing.T) {
	t.Parallel()
	doc, err := described()
	must(t, err)
	for pattern, types := range setup(t, nil).types {
		method, path, _ := strings.Cut(pattern, " ")
		item := doc.Paths.Find(describedPath(path))
		if item == nil {
			continue // TestOpenAPIDescribesExactlyTheRoutes
		}
		op := item.GetOperation(method)
		wantQuery(t, pattern, append(item.Parameters, op.Parameters...), types[0])
		var body *openapi3.Schema
		if op.RequestBody != nil {
			if content := op.RequestBody.Value.Content.Get("application/json"); content != nil && content.Schema != nil {
				body = content.Schema.Value
			}
		}
		for f := range types[0].Fields() {
			switch {
			case f.Tag.Get("body") == "":
			case body == nil:
				t.Errorf("%s: the document has no body", pattern)
			default:
				wantShape(t, pattern+", body", body, f.Type, false)
			}
		}
		out := types[1]
		if strings.HasPrefix(out.Name(), "reply[") {
			f, _ := out.FieldByName("body")
			out = f.Type
		}
		if pattern == "POST /api/assistants" {
			out = reflect.TypeFor[secretOfAssistant]() // Assistant allows no property more, so the document names its own here
		}
		answered := false
		for status, response := range op.Responses.Map() {
			content := response.Value.Content.Get("application/json")
			if n, err := strconv.Atoi(status); err != nil || n >= http.StatusMultipleChoices || content == nil || content.Schema == nil {
				continue
			}
			answered = true
			wantShape(t, pattern+", "+status, content.Schema.Value, out, true)
		}
		if answered == (out == reflect.TypeFor[none]()) {
			t.Errorf("%s: the answer is %v, and described: %v", pattern, out, answered)
		}
	}
}

type secretOfAssistant struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

func wantQuery(t *testing.T, pattern string, described openapi3.Parameters, in reflect.Type) {
	t.Helper()
	left := map[string]*openapi3.Schema{}
	for _, p := range described {
		if p.Value.In == "query" {
			left[p.Value.Name] = p.Value.Schema.Value
		}
	}
	for f := range in.Fields() {
		name := f.Tag.Get("query")
		if name == "" {
			continue
		}
		schema := left[name]
		if schema == nil {
			t.Errorf("%s: the query's %s is not described", pattern, name)
			continue
		}
		delete(left, name)
		wantShape(t, pattern+", query "+name, schema, f.Type, false)
		if limits := f.Tag.Get("range"); limits != "" {
			var def, low, high float64
			_, err := fmt.Sscanf(limits, "%g,%g,%g", &def, &low, &high)
			must(t, err)
			if schema.Min == nil || *schema.Min != low || high < 1<<53 && (schema.Max == nil || *schema.Max != high) || schema.Default != nil && schema.Default != def {
				t.Errorf("%s: the query's %s is %s, and %v to %v, by default %v, in the document", pattern, name, limits, schema.Min, schema.Max, schema.Default)
			}
		}
	}
	if len(left) > 0 {
		t.Errorf("%s: the route does not know of the query %v", pattern, slices.Sorted(maps.Keys(left)))
	}
}

// wantShape compares a schema with the type of a value. What an answer may leave out must not be required of it.
func wantShape(t *testing.T, where string, s *openapi3.Schema, typ reflect.Type, answer bool) {
	t.Helper()
	for typ.Kind() == reflect.Pointer {
		typ = typ.Elem()
	}
	kind := map[reflect.Kind]string{
		reflect.String: "string", reflect.Bool: "boolean", reflect.Float64: "number", reflect.Slice: "array", reflect.Array: "array", reflect.Map: "object", reflect.Struct: "object",
		reflect.Int: "integer", reflect.Int64: "integer", reflect.Int32: "integer", reflect.Uint64: "integer", reflect.Uint: "integer",
	}[typ.Kind()]
	_, text := reflect.New(typ).Interface().(encoding.TextMarshaler)
	_, own := reflect.New(typ).Interface().(json.Marshaler)
	_, reads := reflect.New(typ).Interface().(json.Unmarshaler)
	switch {
	case typ == reflect.TypeFor[time.Time]():
		kind = "string"
	case own, reads, typ == reflect.TypeFor[json.RawMessage](), len(s.OneOf)+len(s.AnyOf) > 0:
		return // it has a form of its own
	case text:
		kind = "string"
	}
	if len(s.AllOf) == 0 && !(s.Type != nil && (s.Type.Includes(kind) || kind == "number" && s.Type.Includes("integer"))) {
		t.Errorf("%s: it is %v, which is %s, and %v in the document", where, typ, kind, s.Type)
		return
	}
	switch {
	case kind == "array" && s.Items != nil:
		wantShape(t, where+"[]", s.Items.Value, typ.Elem(), answer)
	case typ.Kind() == reflect.Struct && kind == "object":
		properties, required := propertiesOf(s)
		if len(properties) == 0 {
			return // it is described as an object only
		}
		fields := fieldsOf(typ)
		for name, f := range fields {
			p := properties[name]
			if p == nil {
				t.Errorf("%s.%s is not described", where, name)
				continue
			}
			if answer && required[name] && strings.Contains(f.Tag.Get("json"), ",omit") {
				t.Errorf("%s.%s may be missing, and is required in the document", where, name)
			}
			wantShape(t, where+"."+name, p, f.Type, answer)
		}
		for name := range properties {
			if _, ok := fields[name]; !ok {
				t.Errorf("%s: the type has no %s", where, name)
			}
		}
	}
}

// propertiesOf returns the properties of an object, and which of them are required.
func propertiesOf(s *openapi3.Schema) (map[string]*openapi3.Schema, map[string]bool) {
	properties, required := map[string]*openapi3.Schema{}, map[string]bool{}
	for _, one := range append(openapi3.SchemaRefs{{Value: s}}, s.AllOf...) {
		for name, p := range one.Value.Properties {
			properties[name] = p.Value
		}
		for _, name := range one.Value.Required {
			required[name] = true
		}
		if one.Value != s {
			more, musts := propertiesOf(one.Value)
			maps.Copy(properties, more)
			maps.Copy(required, musts)
		}
	}
	return properties, required
}

// fieldsOf returns the fields of a struct by their names in JSON, with those of embedded structs.
func fieldsOf(typ reflect.Type) map[string]reflect.StructField {
	fields := map[string]reflect.StructField{}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			maps.Copy(fields, fieldsOf(f.Type))
		case name == "-" || !f.IsExported():
		case name == "":
			fields[f.Name] = f
		default:
			fields[name] = f
		}
	}
	return fields
}
