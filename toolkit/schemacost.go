package toolkit

import (
	"fmt"
	"regexp/syntax"
	"sync"
	"sync/atomic"

	"github.com/google/jsonschema-go/jsonschema"
)

// Limits on what a schema grows into, and on the work of a check. The validator compiles every pattern, writes the
// whole value into the error of each alternative that does not fit, and cannot be stopped.
const (
	// maxSubschemas is how many a schema may have, each about subschemaBytes once it is compiled.
	maxSubschemas  = 2000
	subschemaBytes = 1 << 10
	// maxPattern limits a pattern, in bytes, and maxPrograms what all of a schema compile to, in instructions of about
	// instructionBytes.
	maxPattern       = 2 << 10
	maxPrograms      = 10_000
	instructionBytes = 64
	runeBytes        = 4
	// maxCheckers limits the compiled schemas that are kept, in bytes. Of those above largeChecker one is made at a
	// time.
	maxCheckers  = 32 << 20
	largeChecker = 256 << 10
	// maxCheckWork limits the work of one check, in units of about 5 ns. The others say how many a subschema takes, a
	// byte of a value, which may be quoted in an error, and an instruction of a pattern for each byte that it reads.
	maxCheckWork    = 100_000_000
	visitWork       = 200
	byteWork        = 8
	instructionWork = 4
	// maxExplained is how much of each end of an error is read, in bytes.
	maxExplained = 4 << 10
)

var (
	// checkers are the compiled schemas, by the hash of their text: whoever declares tools does it again and again.
	// When they are too large together, all are dropped.
	checkers       sync.Map
	checkersWeight atomic.Int64
	compilingLarge sync.Mutex // held while one is made that takes much memory
	parsing        sync.Mutex // held while a pattern is parsed
)

// sizeMeter adds up what a schema compiles to, used or not, before it is compiled.
type sizeMeter struct {
	subschemas, instructions int
	programs                 map[string]int // by pattern
}

func (m *sizeMeter) weight() int {
	return m.subschemas*subschemaBytes + m.instructions*instructionBytes
}

// add adds a schema, if the value is one, with all below it.
func (m *sizeMeter) add(at string, value any) error {
	if m.subschemas++; m.subschemas > maxSubschemas {
		return fmt.Errorf("it has more than %d subschemas", maxSubschemas)
	}
	node, _ := value.(map[string]any)
	if text, is := node["pattern"].(string); is {
		if err := m.pattern(at+"/pattern", text); err != nil {
			return err
		}
	}
	byPattern, _ := node["patternProperties"].(map[string]any)
	for text := range byPattern {
		if err := m.pattern(at+"/patternProperties", text); err != nil {
			return err
		}
	}
	for pointer, child := range children(node, "$defs", "definitions") {
		if err := m.add(at+pointer, child); err != nil {
			return err
		}
	}
	return nil
}

func (m *sizeMeter) pattern(at, text string) error {
	if len(text) > maxPattern {
		return fmt.Errorf("the pattern at %q has more than %d bytes", Cut(at, 200), maxPattern)
	}
	size, err := sizeOf(text)
	if err != nil {
		return nil //nolint:nilerr // the validator says it better
	}
	m.programs[text] = size
	if m.instructions += size; m.instructions > maxPrograms {
		return fmt.Errorf(
			"the pattern at %q is too large, or all patterns are together: repetitions count as often as they repeat",
			Cut(at, 200))
	}
	return nil
}

// sizeOf returns about how many instructions take as much memory as a pattern. Short ones may take much until they are
// weighed, so one is parsed at a time.
func sizeOf(pattern string) (int, error) {
	parsing.Lock()
	defer parsing.Unlock()
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, err
	}
	return programSize(parsed) + 2*runeBytes*bounds(parsed)/instructionBytes, nil // in the pattern and in its program
}

// bounds returns how many letters the classes of a pattern name as their bounds; those of a class that is repeated are
// shared.
func bounds(re *syntax.Regexp) (n int) {
	for _, sub := range re.Sub {
		n += bounds(sub)
	}
	if re.Op == syntax.OpCharClass {
		n += len(re.Rune)
	}
	return n
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
	m := checkMeter{c, &workMeter{root: c.root}, maxCheckWork}
	m.visit(c.root, value)
	return m.left >= 0
}

// checkMeter goes where a check goes, or further, and takes its work from what is left, until nothing is.
type checkMeter struct {
	*checker

	refs *workMeter
	left int
}

// visit takes the work of a check against a schema, if that is one.
func (m *checkMeter) visit(schema, value any) {
	node, is := schema.(map[string]any)
	if !is || m.left < 0 {
		return
	}
	m.left -= visitWork + byteWork*size(value)
	for _, key := range []string{"enum", "const", "required", "dependentRequired"} {
		m.left -= byteWork * size(node[key])
	}
	if ref, is := node["$ref"].(string); is {
		_, target, _ := m.refs.find(ref) // it was found before
		m.visit(target, value)
	}
	for _, key := range []string{"not", "if", "then", "else"} {
		m.visit(node[key], value)
	}
	for _, key := range []string{"allOf", "anyOf", "oneOf", "dependentSchemas", "dependencies"} {
		m.visitEach(node[key], value)
	}
	switch v := value.(type) {
	case string:
		pattern, _ := node["pattern"].(string)
		m.match(pattern, v)
	case []any:
		m.items(node, v)
	case map[string]any:
		m.properties(node, v)
	}
}

// visitEach visits the schemas of a list or an object.
func (m *checkMeter) visitEach(schemas, value any) {
	list, _ := schemas.([]any)
	for _, schema := range list {
		m.visit(schema, value)
	}
	byName, _ := schemas.(map[string]any)
	for _, schema := range byName {
		m.visit(schema, value)
	}
}

func (m *checkMeter) items(node map[string]any, items []any) {
	for i, item := range items {
		for _, key := range []string{"items", "additionalItems", "contains", "unevaluatedItems"} {
			m.visit(node[key], item)
		}
		for _, key := range []string{"prefixItems", "items"} {
			if list, _ := node[key].([]any); i < len(list) {
				m.visit(list[i], item)
			}
		}
	}
}

func (m *checkMeter) properties(node, values map[string]any) {
	own, _ := node["properties"].(map[string]any)
	byPattern, _ := node["patternProperties"].(map[string]any)
	for name, value := range values {
		m.visit(node["propertyNames"], name)
		for pattern, schema := range byPattern {
			m.match(pattern, name)
			m.visit(schema, value)
		}
		m.visit(own[name], value)
		if own[name] == nil {
			m.visit(node["additionalProperties"], value)
		}
		m.visit(node["unevaluatedProperties"], value)
	}
}

func (m *checkMeter) match(pattern, text string) {
	m.left -= instructionWork * m.programs[pattern] * len(text)
}

// size returns about how long a value is when it is printed, in bytes.
func size(value any) int {
	const short = 8
	total := short
	switch v := value.(type) {
	case nil:
		return 0
	case string:
		return len(v)
	case []any:
		for _, each := range v {
			total += size(each)
		}
	case map[string]any:
		for name, each := range v {
			total += len(name) + size(each)
		}
	}
	return total
}
