package toolkit

import (
	"crypto/sha256"
	"fmt"
	"reflect"
	"regexp/syntax"
	"slices"
	"sync"

	"github.com/google/jsonschema-go/jsonschema"
)

// Limits on what a schema grows into, and on the work of a check. The validator compiles every pattern, writes the whole value into
// the error of each alternative that does not fit, and cannot be stopped.
const (
	// maxSubschemas is how many a schema may have, each about subschemaBytes once it is compiled.
	maxSubschemas  = 2000
	subschemaBytes = 1 << 10
	// maxPattern limits a pattern, in bytes, and maxPrograms what all of a schema compile to, in instructions of about
	// instructionBytes.
	maxPattern       = 2 << 10
	maxPrograms      = 10_000
	instructionBytes = 64
	// maxCheckers limits the compiled schemas that are kept, in bytes. Of those above largeChecker one is made at a time.
	maxCheckers  = 32 << 20
	largeChecker = 256 << 10
	// maxCheckWork limits the work of one check, in units of about 5 ns. The others say how many a subschema takes, a byte
	// of a value, which may be quoted in an error, and an instruction of a pattern for each byte that it reads.
	maxCheckWork    = 100_000_000
	visitWork       = 200
	byteWork        = 8
	instructionWork = 4
	// maxExplained is how much of each end of an error is read, in bytes.
	maxExplained = 4 << 10
)

// checkers are the compiled schemas, by the hash of their text: whoever declares tools does it again and again.
var checkers kept

// kept are compiled schemas.
type kept struct {
	large sync.Mutex // held while one is made that takes much memory

	mu     sync.Mutex
	made   map[[sha256.Size]byte]*checker
	weight int
}

func (k *kept) get(key [sha256.Size]byte) *checker {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.made[key]
}

// put keeps one more; if they are too large together, it begins anew.
func (k *kept) put(key [sha256.Size]byte, c *checker) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.made[key] != nil {
		return
	}
	if k.weight += c.weight; k.made == nil || k.weight > maxCheckers {
		k.made, k.weight = map[[sha256.Size]byte]*checker{}, c.weight
	}
	k.made[key] = c
}

// sizeMeter adds up what a schema compiles to, used or not, before it is compiled.
type sizeMeter struct {
	subschemas, instructions int
	programs                 map[string]int // by pattern
}

// ofValues are the keywords with values in place of schemas.
var ofValues = []string{"default", "const", "enum", "examples"}

func (m *sizeMeter) weight() int {
	return m.subschemas*subschemaBytes + m.instructions*instructionBytes
}

// add adds a value of a schema; names says that the keys of an object are no keywords.
func (m *sizeMeter) add(at string, value any, names bool) error {
	switch v := value.(type) {
	case bool:
		m.subschemas++
	case []any:
		for i, each := range v {
			if err := m.add(fmt.Sprintf("%s/%d", at, i), each, false); err != nil {
				return err
			}
		}
	case map[string]any:
		m.subschemas++
		for key, each := range v {
			if !names && slices.Contains(ofValues, key) {
				continue
			}
			if err := m.patterns(at+"/"+key, key, each); err != nil {
				return err
			}
			below := !names && (slices.Contains(mapOfSchemas, key) || key == "$defs" || key == "definitions")
			if err := m.add(at+"/"+key, each, below); err != nil {
				return err
			}
		}
	}
	if m.subschemas > maxSubschemas {
		return fmt.Errorf("it has more than %d subschemas", maxSubschemas)
	}
	return nil
}

// patterns adds those of a keyword.
func (m *sizeMeter) patterns(at, key string, value any) error {
	if text, ok := value.(string); ok && key == "pattern" {
		return m.pattern(at, text)
	}
	if key != "patternProperties" {
		return nil
	}
	byPattern, _ := value.(map[string]any)
	for text := range byPattern {
		if err := m.pattern(at, text); err != nil {
			return err
		}
	}
	return nil
}

func (m *sizeMeter) pattern(at, text string) error {
	if len(text) > maxPattern {
		return fmt.Errorf("the pattern at %q has more than %d bytes", Cut(at, 200), maxPattern)
	}
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil //nolint:nilerr // the validator says it better
	}
	size := programSize(parsed)
	m.programs[text] = size
	if m.instructions += size; m.instructions > maxPrograms {
		return fmt.Errorf("the pattern at %q is too large, or all patterns are together: repetitions count as often as they repeat", Cut(at, 200))
	}
	return nil
}

// programSize returns about how many instructions a pattern compiles to; what is repeated is there as often.
func programSize(re *syntax.Regexp) int {
	size := 0
	for _, sub := range re.Sub {
		size = min(size+programSize(sub)+1, maxPrograms+1)
	}
	switch re.Op { //nolint:exhaustive // all others are about one instruction, and what is below them
	case syntax.OpLiteral:
		size = len(re.Rune)
	case syntax.OpRepeat:
		size *= max(re.Min, re.Max)
	}
	return min(size+1, maxPrograms+1)
}

// checker checks arguments against one schema.
type checker struct {
	root     map[string]any
	resolved *jsonschema.Resolved
	defaults defaults
	programs map[string]int // the sizes of patterns, see programSize
	weight   int            // about its bytes
}

// affordable reports whether a check of a value stays within maxCheckWork.
func (c *checker) affordable(value any) bool {
	m := checkMeter{c, &workMeter{root: c.root}, map[uintptr]int{}, maxCheckWork}
	return m.visit(c.root, value)
}

// checkMeter goes where a check goes, or further, and takes its work from what is left.
type checkMeter struct {
	*checker

	refs  *workMeter
	sizes map[uintptr]int
	left  int
}

func (m *checkMeter) visit(schema, value any) bool {
	node, _ := schema.(map[string]any)
	m.left -= visitWork + byteWork*(m.size(value)+m.size(node["enum"])+m.size(node["const"])+m.size(node["required"])+m.size(node["dependentRequired"]))
	ok := m.left >= 0
	if ref, isRef := node["$ref"].(string); isRef && ok {
		_, target, err := m.refs.find(ref)
		ok = err == nil && m.visit(target, value)
	}
	for _, key := range []string{"not", "if", "then", "else"} {
		ok = ok && m.each(node[key], value)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"} {
		ok = ok && m.all(node[key], value)
	}
	switch v := value.(type) {
	case string:
		pattern, _ := node["pattern"].(string)
		m.left -= instructionWork * m.programs[pattern] * len(v)
	case []any:
		for i, item := range v {
			for _, key := range []string{"items", "additionalItems", "contains", "unevaluatedItems"} {
				ok = ok && m.each(node[key], item)
			}
			for _, key := range []string{"prefixItems", "items"} {
				if list, _ := node[key].([]any); ok && i < len(list) {
					ok = m.visit(list[i], item)
				}
			}
		}
	case map[string]any:
		for name, property := range v {
			ok = ok && m.property(node, name, property)
		}
	}
	return ok && m.left >= 0
}

func (m *checkMeter) property(node map[string]any, name string, value any) bool {
	properties, _ := node["properties"].(map[string]any)
	own, has := properties[name]
	ok := !has || m.visit(own, value)
	byPattern, _ := node["patternProperties"].(map[string]any)
	for pattern, schema := range byPattern {
		m.left -= instructionWork * m.programs[pattern] * len(name)
		ok = ok && m.visit(schema, value)
	}
	if !has {
		ok = ok && m.each(node["additionalProperties"], value)
	}
	return ok && m.each(node["unevaluatedProperties"], value) && m.each(node["propertyNames"], name)
}

// each visits a schema, if it is one and there is one.
func (m *checkMeter) each(schema, value any) bool {
	node, is := schema.(map[string]any)
	return !is || m.visit(node, value)
}

// all visits the schemas of a list or an object.
func (m *checkMeter) all(schemas, value any) bool {
	ok := true
	list, _ := schemas.([]any)
	for _, schema := range list {
		ok = ok && m.each(schema, value)
	}
	byName, _ := schemas.(map[string]any)
	for _, schema := range byName {
		ok = ok && m.each(schema, value)
	}
	return ok
}

// size returns about how long a value is when it is printed, in bytes.
func (m *checkMeter) size(value any) int {
	const short = 8
	total := short
	switch v := value.(type) {
	case nil:
		return 0
	case string:
		return len(v)
	case []any:
		at := reflect.ValueOf(v).Pointer()
		if known, ok := m.sizes[at]; ok && len(v) > 0 {
			return known
		}
		for _, each := range v {
			total += m.size(each)
		}
		m.sizes[at] = total
	case map[string]any:
		at := reflect.ValueOf(v).Pointer()
		if known, ok := m.sizes[at]; ok {
			return known
		}
		for name, each := range v {
			total += len(name) + m.size(each)
		}
		m.sizes[at] = total
	}
	return total
}
