package web

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
)

type openAPI struct {
	OpenAPI    string `json:"openapi"`
	Paths      map[string]map[string]json.RawMessage
	Components map[string]map[string]json.RawMessage
}

func document(t *testing.T) (openAPI, string) {
	t.Helper()
	b := setup(t, tokens)
	r := b.do(t, "GET", "/openapi.json", "")
	wantStatus(t, r, 200)
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		t.Errorf("type %q", got)
	}
	body := r.body
	var doc openAPI
	must(t, json.Unmarshal([]byte(body), &doc))
	return doc, body
}

func TestOpenAPIDescribesExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	doc, _ := document(t)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %q", doc.OpenAPI)
	}
	described := map[string]bool{}
	for path, operations := range doc.Paths {
		for method := range operations {
			if method != "parameters" {
				described[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	b := setup(t, nil)
	registered := map[string]bool{}
	for _, r := range b.echo.Routes() {
		if name := strings.TrimPrefix(r.Path, "/"); b.pipeline.page.has(name) || r.Method == http.MethodHead {
			continue // the page's files, and what every GET has beside it
		}
		segments := strings.Split(r.Path, "/")
		for i, s := range segments {
			if name, ok := strings.CutPrefix(s, ":"); ok {
				segments[i] = "{" + name + "}"
			}
		}
		registered[r.Method+" "+strings.Join(segments, "/")] = true
	}
	for route := range registered {
		if !described[route] {
			t.Errorf("%s is registered and not described", route)
		}
	}
	for route := range described {
		if !registered[route] {
			t.Errorf("%s is described and not registered", route)
		}
	}
	if len(registered) < 20 {
		t.Errorf("there are only %d routes", len(registered))
	}
}

func TestOpenAPIReferencesLeadSomewhere(t *testing.T) {
	t.Parallel()
	doc, body := document(t)
	if before, _, cut := strings.Cut(body, `:null`); cut { // in {description: a, b}, b is a name without a value
		t.Errorf("a text with a comma is not in quotes: …%s", before[max(0, len(before)-60):])
	}
	for rest := body; ; {
		_, after, ok := strings.Cut(rest, `"$ref":"#/components/`)
		if !ok {
			break
		}
		ref, _, _ := strings.Cut(after, `"`)
		kind, name, _ := strings.Cut(ref, "/")
		if _, ok := doc.Components[kind][name]; !ok {
			t.Errorf("%s leads nowhere", ref)
		}
		rest = after
	}
	ids := map[string]string{}
	for path, operations := range doc.Paths {
		for _, method := range slices.Sorted(maps.Keys(operations)) {
			var op struct {
				OperationID string `json:"operationId"`
				Responses   map[string]any
			}
			if method == "parameters" {
				continue
			}
			must(t, json.Unmarshal(operations[method], &op))
			if other, taken := ids[op.OperationID]; taken || op.OperationID == "" || len(op.Responses) == 0 {
				t.Errorf("%s %s: operationId %q (also of %q), %d responses", method, path, op.OperationID, other, len(op.Responses))
			}
			ids[op.OperationID] = method + " " + path
		}
	}
}
