package toolkit

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
)

// Limits on a tool's JSON Schema. Schemas come from clients and MCP servers, and a few lines can
// demand endless work: a $ref to itself overflows the stack, and definitions that refer to each
// other twice double the work at each level.
const (
	maxSchemaBytes = 64 << 10
	maxSchemaDepth = 32
)

// CheckParameters returns why a JSON Schema cannot be the parameters of a tool: it is not a schema
// of type object, it is larger than 64 KiB, it refers to other documents or to itself, or checking
// arguments against it could take too long.
func CheckParameters(schema json.RawMessage) error {
	_, err := newChecker(schema)
	return err
}

// CheckObject returns how a JSON object differs from a schema that CheckParameters accepts, in words for a model.
func CheckObject(schema, object json.RawMessage) error {
	c, err := newChecker(schema)
	if err != nil {
		return err
	}
	var value map[string]any
	if err := json.Unmarshal(object, &value); err != nil || value == nil {
		return errors.New("it is not a JSON object")
	}
	return c.check(value)
}

// newChecker returns what checks against a schema, which is kept for the next time.
func newChecker(raw json.RawMessage) (*checker, error) {
	key := sha256.Sum256(raw)
	if c, ok := checkers.Load(key); ok {
		return c.(*checker), nil
	}
	c, err := compile(raw)
	if err != nil {
		return nil, err
	}
	_, known := checkers.LoadOrStore(key, c)
	if !known && checkersWeight.Add(int64(c.weight)) > maxCheckers {
		checkersWeight.Store(0)
		checkers.Clear()
	}
	return c, nil
}

func compile(raw json.RawMessage) (*checker, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("the parameters are %d bytes long, the limit is %d", len(raw), maxSchemaBytes)
	}
	if Depth(raw) > maxSchemaDepth {
		return nil, fmt.Errorf("the parameters nest deeper than %d levels", maxSchemaDepth)
	}
	var root map[string]any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, fmt.Errorf("the parameters are not a JSON Schema: %w", err)
	}
	for _, key := range []string{"$dynamicRef", "$recursiveRef"} {
		if _, ok := root[key]; ok {
			return nil, fmt.Errorf("the parameters use %s, which is not supported", key)
		}
	}
	if root["type"] != "object" {
		return nil, errors.New(`the parameters must be a JSON Schema with "type":"object"`)
	}
	size := sizeMeter{programs: map[string]int{}}
	if err := size.add("#", root); err != nil {
		return nil, fmt.Errorf("the parameters cannot be checked: %w", err)
	}
	if err := (&workMeter{root: root, work: map[string]int{}}).measure(); err != nil {
		return nil, fmt.Errorf("the parameters cannot be checked: %w", err)
	}
	weight := size.weight() + 8*len(raw)
	if weight > largeChecker {
		compilingLarge.Lock() // one at a time
		defer compilingLarge.Unlock()
	}
	var schema jsonschema.Schema
	if err := json.Unmarshal(raw, &schema); err != nil {
		return nil, fmt.Errorf("the parameters are not a JSON Schema: %w", err)
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		return nil, fmt.Errorf("the parameters are not a JSON Schema: %w", err)
	}
	// The validator reports unknown drafts only when used.
	if err := resolved.Validate(map[string]any{}); err != nil &&
		strings.HasPrefix(err.Error(), "cannot validate version") {
		return nil, fmt.Errorf("the parameters use an unknown JSON Schema draft %q", Cut(schema.Schema, 100))
	}
	return &checker{root, resolved, defaultsOf(root), size.programs, weight}, nil
}

// check returns nil or an error that names the field, in words for a model.
func (c *checker) check(arguments map[string]any) error {
	if !c.affordable(arguments) {
		return errors.New("checking it against the schema would take too long: it is too large for this schema's " +
			"patterns and alternatives")
	}
	err := c.resolved.Validate(arguments)
	if err == nil {
		return nil
	}
	return errors.New(explain(err.Error()))
}

// explain turns "validating root: validating /properties/data/items: required: missing
// properties: ["value"]" into "data[]: required: missing properties: ["value"]".
func explain(message string) string {
	var field, pointer string
	for {
		rest, ok := strings.CutPrefix(message, "validating ")
		if !ok {
			break
		}
		at, rest, ok := strings.Cut(rest, ": ")
		if !ok {
			break
		}
		message = rest
		if at == "root" {
			continue
		}
		// A $ref jumps within the schema, but not within the arguments.
		step, below := strings.CutPrefix(at, pointer)
		if below {
			field += fieldOf(step)
		}
		pointer = at
	}
	// Each alternative of a schema may have added the whole value.
	if n := len(message); n > 2*maxExplained {
		message = strings.ToValidUTF8(message[:maxExplained], "") + " … " +
			strings.ToValidUTF8(message[n-maxExplained:], "")
	}
	// The validator prints a null as the reflect.Value that it is.
	message = strings.NewReplacer("\n", "; ", "<invalid reflect.Value>", "null").Replace(message)
	// What is wrong comes after the value, which may be long.
	if runes := []rune(message); len(runes) > 400 {
		message = string(runes[:150]) + " … " + string(runes[len(runes)-250:])
	}
	field = strings.TrimPrefix(field, ".")
	if field == "" {
		return message
	}
	return field + ": " + message
}

// fieldOf maps a part of a schema's JSON pointer to the part of the arguments that it describes:
// /properties/data/items becomes .data[].
func fieldOf(pointer string) string {
	var b strings.Builder
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i := 0; i < len(parts); i++ {
		switch parts[i] {
		case "properties":
			if i++; i < len(parts) {
				b.WriteString("." + unescapePointer(parts[i]))
			}
		case "items", "contains", "additionalItems", "unevaluatedItems":
			b.WriteString("[]")
		case "prefixItems":
			if i++; i < len(parts) {
				b.WriteString("[" + parts[i] + "]")
			}
		case "additionalProperties", "unevaluatedProperties":
			b.WriteString(".*")
		case "patternProperties":
			i++
			b.WriteString(".*")
		}
	}
	return b.String()
}
