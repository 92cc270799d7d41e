package toolkit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxSchemaWork limits how many subschemas a schema may expand to once each $ref is replaced by its target.
const maxSchemaWork = 10_000

func unescapePointer(s string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
}

// workMeter counts how many subschemas a schema expands to.
type workMeter struct {
	root map[string]any
	// work holds the count of each subschema by its JSON pointer, -1 while it is being counted.
	work map[string]int
}

func (m *workMeter) measure() error {
	for key, value := range m.root {
		if key != "$id" && movesBase(value) {
			return errors.New("$id, $dynamicRef and $recursiveRef are not supported below the top")
		}
	}
	_, err := m.count("", m.root)
	return err
}

// movesBase reports whether a value contains a keyword that changes what a reference means or binds
// it late: those would evade the count. A property of such a name does not have a string as its
// value.
func movesBase(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for key, child := range v {
			if _, text := child.(string); text && (key == "$id" || key == "$dynamicRef" || key == "$recursiveRef") {
				return true
			}
			if movesBase(child) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, movesBase)
	}
	return false
}

// Keywords by the form of their values: one schema, a list, a map.
var (
	oneSchema = []string{"not", "if", "then", "else", "items", "contains", "additionalItems", "unevaluatedItems",
		"additionalProperties", "unevaluatedProperties", "propertyNames", "contentSchema"}
	listOfSchemas = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	mapOfSchemas  = []string{"properties", "patternProperties", "dependentSchemas", "dependencies"}
)

func (m *workMeter) count(pointer string, node map[string]any) (int, error) {
	switch n, seen := m.work[pointer]; {
	case seen && n < 0:
		return 0, fmt.Errorf("the schema refers to itself at %q", "#"+pointer)
	case seen:
		return n, nil
	}
	m.work[pointer] = -1
	if err := checkType(node["type"]); err != nil {
		return 0, fmt.Errorf("%w (at %q)", err, "#"+pointer)
	}
	total := 1
	add := func(pointer string, value any) error {
		child, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		n, err := m.count(pointer, child)
		if total += n; err == nil && total > maxSchemaWork {
			err = fmt.Errorf("it expands to more than %d subschemas", maxSchemaWork)
		}
		return err
	}
	if ref, ok := node["$ref"].(string); ok {
		target, value, err := m.find(ref)
		if err == nil {
			err = add(target, value)
		}
		if err != nil {
			return 0, err
		}
	}
	for key, value := range children(node) {
		if err := add(pointer+key, value); err != nil {
			return 0, err
		}
	}
	m.work[pointer] = total
	return total, nil
}

// checkType rejects unknown types: the validator would accept them and then reject every value.
func checkType(value any) error {
	switch v := value.(type) {
	case nil:
		return nil
	case string:
		switch v {
		case "object", "array", "string", "number", "integer", "boolean", "null":
			return nil
		}
	case []any:
		for _, each := range v {
			if err := checkType(each); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("there is no type %v", value)
}

// find returns the target of a reference, which must be a JSON pointer into the schema.
func (m *workMeter) find(ref string) (pointer string, value any, err error) {
	pointer, ok := strings.CutPrefix(ref, "#")
	if !ok || pointer != "" && pointer[0] != '/' || strings.Contains(pointer, "%") {
		return "", nil, fmt.Errorf("the reference %q is not of the form #/…", Cut(ref, 100))
	}
	value = m.root
	if pointer == "" {
		return pointer, value, nil
	}
	for part := range strings.SplitSeq(pointer[1:], "/") {
		switch v := value.(type) {
		case map[string]any:
			value = v[unescapePointer(part)]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(v) {
				return "", nil, fmt.Errorf("the reference %q leads nowhere", Cut(ref, 100))
			}
			value = v[i]
		}
	}
	switch value.(type) {
	case map[string]any, bool:
		return pointer, value, nil
	default:
		return "", nil, fmt.Errorf("the reference %q leads nowhere", Cut(ref, 100))
	}
}

// children returns the subschemas of a node by pointer, with those that more keywords define, in no particular order.
func children(node map[string]any, more ...string) map[string]any {
	found := map[string]any{}
	add := func(pointer string, value any) {
		switch value.(type) {
		case map[string]any, bool:
			found[pointer] = value
		}
	}
	for _, key := range oneSchema {
		add("/"+key, node[key])
	}
	for _, key := range listOfSchemas {
		list, _ := node[key].([]any)
		for i, value := range list {
			add("/"+key+"/"+strconv.Itoa(i), value)
		}
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, key := range slices.Concat(mapOfSchemas, more) {
		byName, _ := node[key].(map[string]any)
		for name, value := range byName {
			add("/"+key+"/"+escape.Replace(name), value)
		}
	}
	return found
}
