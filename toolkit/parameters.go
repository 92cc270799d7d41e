package toolkit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// forModels returns a tool's parameters as models' APIs accept them. OpenAI, Anthropic and Google
// reject a whole request, with all its tools, if one schema has alternatives at the top; OpenAI also if
// it has no properties, or a list does not say of what, and all if a keyword has a value of a form that
// JSON Schema does not give it: "required": null, say. Arguments are still checked against the whole
// schema. A schema that needs no change is returned byte for byte.
func forModels(raw json.RawMessage) json.RawMessage {
	var root map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber() // numbers keep their spelling
	if decoder.Decode(&root) != nil || root == nil {
		return raw
	}
	changed := repair(root)
	if alternatives(root) {
		(&merger{root: root, followed: map[string]bool{}}).merge(root, true)
		for _, key := range notAtTop {
			delete(root, key)
		}
		changed = true
	}
	if _, ok := root["properties"].(map[string]any); !ok {
		root["properties"], changed = map[string]any{}, true
	}
	if !changed {
		return raw
	}
	return Encode(root)
}

// notAtTop are the keywords that must not be at the top of parameters.
var notAtTop = []string{"$ref", "allOf", "anyOf", "oneOf", "not", "enum", "const"}

func alternatives(root map[string]any) bool {
	return slices.ContainsFunc(notAtTop, func(key string) bool { _, ok := root[key]; return ok })
}

// merger adds the properties of a schema's parts to the schema itself: those of all alternatives, of
// which a model may then choose.
type merger struct {
	root     map[string]any
	followed map[string]bool // references
}

// merge adds the parts of a part. What they require is added if they always apply.
func (m *merger) merge(part map[string]any, always bool) {
	if ref, ok := part["$ref"].(string); ok {
		if key := fmt.Sprint(ref, always); !m.followed[key] {
			m.followed[key] = true
			if _, target, err := (&workMeter{root: m.root}).find(ref); err == nil {
				m.add(target, always)
			}
		}
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf"} {
		list, _ := part[key].([]any)
		for _, value := range list {
			m.add(value, always && (key == "allOf" || len(list) == 1))
		}
	}
}

func (m *merger) add(value any, always bool) {
	part, ok := value.(map[string]any)
	if !ok {
		return
	}
	properties, _ := part["properties"].(map[string]any)
	for name, property := range properties {
		own, ok := m.root["properties"].(map[string]any)
		if !ok {
			own = map[string]any{}
			m.root["properties"] = own
		}
		if _, ok := own[name]; !ok {
			own[name] = property
		}
	}
	required, _ := part["required"].([]any)
	for _, value := range required {
		own, _ := m.root["required"].([]any)
		if name, ok := value.(string); ok && always && !slices.Contains(own, any(name)) {
			m.root["required"] = append(own, name)
		}
	}
	m.merge(part, always)
}

// forms are the forms of a keyword's values (JSON Schema 2020-12). Of other keywords any value is accepted.
var forms = func() map[string][]string {
	forms := map[string][]string{"type": {"string", "array"}}
	for form, keys := range map[string][]string{
		"array":   {"required", "enum", "allOf", "anyOf", "oneOf", "prefixItems", "examples"},
		"object":  {"properties", "patternProperties", "dependentSchemas", "dependentRequired", "$defs", "definitions"},
		"string":  {"$ref", "$id", "$schema", "$comment", "title", "description", "format", "pattern"},
		"boolean": {"uniqueItems", "deprecated", "readOnly", "writeOnly"},
		"number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength",
			"minItems", "maxItems", "minProperties", "maxProperties"},
	} {
		for _, key := range keys {
			forms[key] = []string{form}
		}
	}
	for _, key := range oneSchema {
		forms[key] = formsOfSchema
	}
	return forms
}()

var formsOfSchema = []string{"object", "boolean"}

// repair removes from a schema, and from those in it, keywords with a value of a wrong form, and types that
// do not exist. It sets items in each schema of an array that has none. A list of schemas, which is how items
// were written before JSON Schema 2020-12, becomes prefixItems.
func repair(node map[string]any) (changed bool) {
	if list, ok := node["items"].([]any); ok {
		node["prefixItems"] = list
		delete(node, "items")
		if more, ok := node["additionalItems"]; ok {
			node["items"] = more
			delete(node, "additionalItems")
		}
		changed = true
	}
	for key, value := range node {
		if want, ok := forms[key]; ok && !slices.Contains(want, formOf(value)) ||
			key == "type" && checkType(value) != nil {
			delete(node, key)
			changed = true
		}
	}
	for _, key := range []string{"properties", "$defs", "definitions"} {
		byName, _ := node[key].(map[string]any)
		for name, value := range byName {
			if !slices.Contains(formsOfSchema, formOf(value)) {
				byName[name], changed = map[string]any{}, true
			}
		}
	}
	if _, ok := node["items"]; !ok && isType(node, "array") {
		node["items"], changed = map[string]any{}, true
	}
	for _, value := range children(node, "$defs", "definitions") {
		if child, ok := value.(map[string]any); ok {
			changed = repair(child) || changed
		}
	}
	return changed
}
