package schema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"voicebridge/assistant/schema"
	"voicebridge/internal/testkit"
)

type inner struct {
	Key   string `json:"key" min:"1"`
	Ports []int  `json:"ports" items:"2" min:"1" max:"9"`
}

type thing struct {
	Name  string            `json:"name" max:"4" format:"lower"`
	Kind  string            `json:"kind" enum:",a,b"`
	Share *float64          `json:"share" min:"0" max:"1"`
	Hold  int64             `json:"hold_seconds" min:"0" max:"9"`
	On    bool              `json:"on"`
	Names map[string]string `json:"names" items:"1" format:"lower"`
	Raw   json.RawMessage   `json:"raw" max:"20"`
	List  []inner           `json:"list"`
	Own   int               `json:"-"`
}

var rules = schema.Rules{
	Tag: "json", Text: "text", Group: "an object",
	Unknown: func(string) error { return errors.New("there is no such field") },
	Formats: map[string]func(string) error{"lower": func(text string) error {
		if text != strings.ToLower(text) {
			return errors.New("it must be in lower case")
		}
		return nil
	}},
}

func TestRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		values map[string]any
		want   string // the fields, or what is wrong
	}{
		{nil, "{ <nil> 0 false map[]  []}"},
		{map[string]any{"name": "x", "share": 0.5, "hold_seconds": json.Number("2"), "on": true}, "{x 0.5 2000000000 true map[]  []}"},
		{map[string]any{"name": nil, "share": nil, "list": nil}, "{ <nil> 0 false map[]  []}"},
		{map[string]any{"raw": map[string]any{"n": json.Number("12345678901")}}, `{ <nil> 0 false map[] {"n":12345678901} []}`},
		{map[string]any{"list": []any{map[string]any{"key": "k", "ports": []any{uint64(2), 3.0}}}}, "{ <nil> 0 false map[]  [{k [2 3]}]}"},
		{map[string]any{"name": "X"}, "name: it must be in lower case"},
		{map[string]any{"name": "a\x00"}, "name: it contains a zero byte"},
		{map[string]any{"name": "aaaaa", "kind": "c"}, `name: it is longer than 4 bytes; kind: "c" is not one of a, b`},
		{map[string]any{"kind": strings.Repeat("c", 99)}, fmt.Sprintf("kind: %q is not one of a, b", strings.Repeat("c", 64)+"…")},
		{map[string]any{"share": math.NaN()}, "share: NaN is not between 0 and 1"},
		{map[string]any{"share": true, "on": 1}, "share: it must be a number; on: it must be true or false"},
		{map[string]any{"hold_seconds": 1.5}, "hold_seconds: it must be a whole number"},
		{map[string]any{"hold_seconds": uint64(math.MaxUint64)}, "hold_seconds: it must be a whole number"},
		{map[string]any{"names": map[string]any{"A": 1}}, "names.A: it must be in lower case; names.A: it must be text"},
		{map[string]any{"names": map[string]any{"a": "", "b": ""}}, "names: it has more than 1 entries"},
		{map[string]any{"names": map[string]any{"a": strings.Repeat("x", 5000)}}, "names.a: it is longer than 4 KiB"},
		{map[string]any{"raw": []any{}}, "raw: it must be a JSON schema, an object"},
		{map[string]any{"raw": map[string]any{"x": math.Inf(1)}}, "raw: it must be JSON"},
		{map[string]any{"raw": map[string]any{"x": "a long text, too long"}}, "raw: it is longer than 20 bytes"},
		{map[string]any{"list": []any{nil, map[string]any{}}}, "list[0]: it must be an object; list[1].key: it is missing"},
		{map[string]any{"list": []any{map[string]any{"key": " ", "ports": []any{0, 1, 2}}}}, "list[0].key: it must not be empty; list[0].ports: it has more than 2 entries"},
		{map[string]any{"list": map[string]any{}}, "list: it must be a list"},
		{map[string]any{"Own": 1, "-": 1}, "-: there is no such field; Own: there is no such field"},
	} {
		var got thing
		var problems []string
		for _, p := range rules.Read(&got, c.values) {
			problems = append(problems, p.Path+": "+p.Reason.Error())
		}
		text := strings.Join(problems, "; ")
		if text == "" {
			share := "<nil>"
			if got.Share != nil {
				share = fmt.Sprint(*got.Share)
			}
			text = fmt.Sprintf("{%s %s %d %t %v %s %v}", got.Name, share, got.Hold, got.On, got.Names, got.Raw, got.List)
		}
		testkit.Equal(t, text, c.want, "%v", c.values)
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	got, err := json.Marshal(rules.JSON(reflect.TypeFor[inner](), func(in reflect.Type, f reflect.StructField) (string, bool) {
		return in.Name() + "." + f.Name, f.Name == "Ports"
	}))
	const want = `{"additionalProperties":false,"properties":{"key":{"description":"inner.Key","minLength":1,"type":"string"},` +
		`"ports":{"description":"inner.Ports","items":{"maximum":9,"minimum":1,"type":"integer"},"maxItems":2,"readOnly":true,"type":"array"}},` +
		`"required":["key"],"type":"object"}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}
