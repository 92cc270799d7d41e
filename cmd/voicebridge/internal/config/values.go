package config

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// parse reads a value of a type: lists with commas or as JSON, structures as JSON.
func parse(t reflect.Type, text string) (any, error) {
	if isText(t) {
		return text, nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return parse(t.Elem(), text)
	case reflect.Bool:
		if text != "true" && text != "false" {
			return nil, errors.New("it must be true or false")
		}
		return text == "true", nil
	case reflect.Int, reflect.Int64:
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
		if !IsGroup(t.Elem()) && !strings.HasPrefix(text, "[") {
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

// complete adds the defaults to the values of a group.
func complete(path string, values map[string]any, t reflect.Type) {
	for name, f := range fields(t) {
		key := strings.TrimPrefix(path+"."+name, ".")
		text, ok := f.Tag.Lookup("default")
		if long := defaults[key]; long != "" {
			text, ok = long, true
		}
		switch value := values[name].(type) {
		case nil:
			if ok {
				values[name], _ = parse(f.Type, text) // a test loads the defaults
			} else if IsGroup(f.Type) {
				inner := map[string]any{}
				complete(key, inner, f.Type)
				values[name] = inner
			}
		case map[string]any:
			if IsGroup(f.Type) {
				complete(key, value, f.Type)
			}
		case []any:
			for _, entry := range value {
				if inner, ok := entry.(map[string]any); ok && f.Type.Kind() == reflect.Slice && IsGroup(f.Type.Elem()) {
					complete(key, inner, f.Type.Elem())
				}
			}
		}
	}
}

// isText reports whether a value is written as a text, which its type reads.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// network reads a network, or an address as the network that it is alone.
func network(text string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return p, fmt.Errorf("%q is not an address or a network", text)
	}
	if p.Addr().Is4In6() {
		return p, fmt.Errorf("%q: write it as an IPv4 network", text)
	}
	return p, nil
}

// units are what a time.Duration and an int64, which counts bytes, are given in: a part of their keys.
var units = map[string]int64{"seconds": int64(time.Second), "minutes": int64(time.Minute), "days": 24 * int64(time.Hour), "mb": 1 << 20}

// unit returns the unit of a setting, 1 if it has none.
func unit(f reflect.StructField) int64 {
	if f.Type.Kind() == reflect.Int64 {
		for part := range strings.SplitSeq(f.Tag.Get("koanf"), "_") {
			if n, ok := units[part]; ok {
				return n
			}
		}
	}
	return 1
}
