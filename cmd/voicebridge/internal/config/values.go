package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// parse reads a value of a type: lists with commas or as JSON, structures as JSON.
func parse(t reflect.Type, text string) (any, error) {
	switch t.Kind() {
	case reflect.Pointer:
		return parse(t.Elem(), text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return nil, errors.New("it must be true or false")
		}
		return text == "true", nil
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return nil, errors.New("it must be a whole number")
		}
		return n, nil
	case reflect.Float64:
		n, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) {
			return nil, errors.New("it must be a number")
		}
		return n, nil
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Struct && !strings.HasPrefix(text, "[") {
			return parseList(t.Elem(), text)
		}
		return parseJSON[[]any](text, "a list, written as JSON")
	case reflect.Struct:
		return parseJSON[map[string]any](text, "a group of settings, written as JSON")
	default:
		return text, nil
	}
}

// parseList splits at commas.
func parseList(t reflect.Type, text string) (any, error) {
	items := splitList(text)
	out := make([]any, 0, len(items))
	for _, item := range items {
		value, err := parse(t, item)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		out = append(out, value)
	}
	return out, nil
}

// parseJSON reads a structure. Its errors do not quote the input.
func parseJSON[T any](text, what string) (any, error) {
	var value T
	if json.Unmarshal([]byte(text), &value) != nil || reflect.ValueOf(value).IsNil() {
		return nil, errors.New("it must be " + what)
	}
	return whole(value), nil
}

// whole turns JSON numbers without a fraction into whole numbers, like those of YAML.
func whole(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key, inner := range v {
			v[key] = whole(inner)
		}
	case []any:
		for i, inner := range v {
			v[i] = whole(inner)
		}
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int(v)
		}
	}
	return value
}

func splitList(v string) []string {
	var out []string
	for item := range strings.SplitSeq(v, ",") {
		if item = strings.TrimSpace(item); item != "" {
			out = append(out, item)
		}
	}
	return out
}
