package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"

	"voicebridge/internal/testkit"
	"voicebridge/persistence/hooked"
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
	testkit.Equal(t, r.Header.Get("Content-Type"), "application/json", "type")
	body := r.body
	var doc openAPI
	must(t, json.Unmarshal([]byte(body), &doc))
	return doc, body
}

// described is the document as a validator of answers has it.
var described = sync.OnceValues(func() (*openapi3.T, error) {
	source, err := openAPIDocument()
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(source)
})

// anyRoute are the statuses of which the document says once that any route may answer with them.
var anyRoute = []int{http.StatusForbidden, http.StatusTooManyRequests, http.StatusInternalServerError, http.StatusServiceUnavailable}

// wantDescribed compares an answer with what the document says of its route.
func (b *bundle) wantDescribed(t *testing.T, r *http.Request, w *httptest.ResponseRecorder) {
	t.Helper()
	doc, err := described()
	must(t, err)
	c := b.echo.NewContext(r, w)
	b.echo.Router().Find(r.Method, r.URL.Path, c)
	item := doc.Paths.Find(describedPath(c.Path()))
	if item == nil || item.GetOperation(r.Method) == nil {
		return // the page, and what no route answers
	}
	if w.Code == http.StatusSwitchingProtocols || w.Code == statusClientClosed {
		return // there is no answer, or nobody who gets it
	}
	what := fmt.Sprintf("%s %s with %d", r.Method, c.Path(), w.Code)
	responses := item.GetOperation(r.Method).Responses
	response := responses.Status(w.Code)
	if response == nil && slices.Contains(anyRoute, w.Code) {
		response = cmp.Or(responses.Status(http.StatusBadRequest), doc.Components.Responses["Error"]) // in the form of the route
	}
	if response == nil {
		t.Errorf("%s: the document has no such answer", what)
		return
	}
	media, _, _ := mime.ParseMediaType(w.Header().Get("Content-Type"))
	switch content := response.Value.Content.Get(media); {
	case content == nil && w.Body.Len() > 0:
		t.Errorf("%s: the document has no %q", what, media)
	case content == nil || content.Schema == nil || media != "application/json" || w.Body.Len() == 0:
	default:
		var value any
		must(t, json.Unmarshal(w.Body.Bytes(), &value))
		schema := *content.Schema.Value
		schema.If = openapi3.NewSchemaRef("", openapi3.NewSchema()) // else the validator is one that knows no null of any type
		if err := schema.VisitJSON(value, openapi3.EnableJSONSchema2020(), openapi3.VisitAsResponse()); err != nil {
			t.Errorf("%s: %v: %.1000s", what, err, w.Body)
		}
	}
}

// describedPath writes the parameters of a route as the document does.
func describedPath(route string) string {
	segments := strings.Split(route, "/")
	for i, s := range segments {
		if name, ok := strings.CutPrefix(s, ":"); ok {
			segments[i] = "{" + name + "}"
		}
	}
	return strings.Join(segments, "/")
}

func TestOpenAPIDescribesExactlyTheRoutes(t *testing.T) {
	t.Parallel()
	doc, _ := document(t)
	testkit.Equal(t, doc.OpenAPI, "3.1.0", "version")
	documented := map[string]bool{}
	for path, operations := range doc.Paths {
		for method := range operations {
			if method != "parameters" {
				documented[strings.ToUpper(method)+" "+path] = true
			}
		}
	}
	b := setup(t, nil)
	registered := map[string]bool{}
	for _, r := range b.echo.Routes() {
		if name := strings.TrimPrefix(r.Path, "/"); b.pipeline.page.has(name) || r.Method == http.MethodHead {
			continue // the page's files, and what every GET has beside it
		}
		registered[r.Method+" "+describedPath(r.Path)] = true
	}
	for route := range registered {
		if !documented[route] {
			t.Errorf("%s is registered and not described", route)
		}
	}
	for route := range documented {
		if !registered[route] {
			t.Errorf("%s is described and not registered", route)
		}
	}
	if len(registered) < 20 {
		t.Errorf("there are only %d routes", len(registered))
	}
}

// TestOpenAPINamesWhatItAnswers: without a name, each generator makes one of its own.
func TestOpenAPINamesWhatItAnswers(t *testing.T) {
	t.Parallel()
	doc, err := described()
	must(t, err)
	for path, item := range doc.Paths.Map() {
		for method, op := range item.Operations() {
			for status, response := range op.Responses.Map() {
				if content := response.Value.Content.Get("application/json"); content != nil && content.Schema.Ref == "" {
					t.Errorf("%s %s: the schema of %s has no name", method, path, status)
				}
			}
		}
	}
}

func TestOpenAPIDescribesHooks(t *testing.T) {
	t.Parallel()
	doc, err := described()
	must(t, err)
	if have, want := slices.Sorted(maps.Keys(doc.Webhooks)), slices.Sorted(slices.Values(hooked.Types)); !slices.Equal(have, want) {
		t.Errorf("webhooks %q, types of events %q", have, want)
	}
	union := doc.Components.Schemas["HookEvent"].Value
	for kind, hook := range doc.Webhooks {
		posted := hook.Post.RequestBody.Value.Content.Get("application/json").Schema
		if union.Discriminator.Mapping[kind].Ref != posted.Ref || posted.Value.Properties["type"].Value.Enum[0] != kind {
			t.Errorf("the body of %s is %s", kind, posted.Ref)
		}
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
