package charts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"voicebridge/toolkit"
)

// kind is what distinguishes a tool from the others.
type kind struct {
	name        string // of the tool
	chartType   string // in the result: bar, line, …
	dataType    string // chartData.type; empty: bar-chart, …
	label       string // in sentences: "bar chart"
	description string // for the model
	schema      schema
	// build checks the arguments, which have passed the schema, and makes the figure. Its errors
	// name the field and are in words for the model.
	build func(arguments []byte) (figure, error)
}

// figure is a checked chart.
type figure struct {
	title      string
	canvasName string         // empty: the default
	input      any            // the input with its defaults, in the order of its fields
	metadata   map[string]any // counts and ranges for a legend
	points     *int           // also in metadata; nil: the chart has no points to count
	summary    string         // what the model reads, after the title
}

// build adapts the check of one input type to kind.build.
func build[T any](check func(*T) (figure, error)) func([]byte) (figure, error) {
	return func(arguments []byte) (figure, error) {
		var input T
		decoder := json.NewDecoder(bytes.NewReader(arguments))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&input); err != nil {
			return figure{}, fmt.Errorf("the arguments do not fit: %w", err)
		}
		f, err := check(&input)
		f.input = &input
		return f, err
	}
}

// maxNumber limits all numbers, so that their sums do not overflow.
const maxNumber = 1e30

// markup is the beginning of a tag, a comment or a processing instruction. A bare < as in "< 5 min"
// is text. Markup is rejected, not escaped: the model can rewrite the label, and the page shows what
// was meant.
var markup = regexp.MustCompile(`<[A-Za-z/!?]`)

// checkValues checks every text and number of the arguments, at any depth.
func checkValues(arguments []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(arguments))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return fmt.Errorf("the arguments are not valid JSON: %w", err)
	}
	return checkValue("", value)
}

func checkValue(path string, value any) error {
	switch v := value.(type) {
	case string:
		return checkText(path, v)
	case json.Number:
		n, err := v.Float64()
		if err != nil || math.Abs(n) > maxNumber {
			return fmt.Errorf("%s is out of range: %.40s", path, v.String())
		}
	case []any:
		for i, child := range v {
			if err := checkValue(fmt.Sprintf("%s[%d]", path, i), child); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := checkText("a field name of "+strings.TrimPrefix(path, "."), key); err != nil {
				return err
			}
			if err := checkValue(strings.TrimPrefix(path+"."+key, "."), v[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkText(path, text string) error {
	if markup.MatchString(text) {
		return fmt.Errorf("%s must be plain text without markup", path)
	}
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if strings.ContainsFunc(text, control) {
		return fmt.Errorf("%s contains a control character", path)
	}
	return nil
}

// span is the range and the sum of some numbers. The zero value is that of none.
type span struct {
	n              int
	low, high, sum float64
}

func (s *span) add(v float64) {
	if s.n == 0 {
		s.low, s.high = v, v
	}
	s.n++
	s.low, s.high = min(s.low, v), max(s.high, v)
	s.sum += v
}

func spanOf[E any](list []E, value func(E) float64) span {
	var s span
	for _, e := range list {
		s.add(value(e))
	}
	return s
}

// figure returns the figure of a chart whose values these are.
func (s span) figure(title, summary string) figure {
	return figure{
		title: title, points: new(s.n), summary: summary,
		metadata: map[string]any{"total": s.sum, "valueRange": s.limits()},
	}
}

// limits returns a range for the metadata.
func (s span) limits() map[string]float64 { return map[string]float64{"min": s.low, "max": s.high} }

func (s span) String() string { return plain(s.low) + " to " + plain(s.high) }

// plain writes a number as a person would, without an exponent where that is short.
func plain(v float64) string {
	if math.Abs(v) < 1e15 {
		return strconv.FormatFloat(math.Round(v*1e4)/1e4, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}

// names lists the first few of many names.
func names(all []string) string {
	const shown = 6
	if len(all) > shown {
		return fmt.Sprintf("%s and %d more", strings.Join(short(all[:shown]), ", "), len(all)-shown)
	}
	return strings.Join(short(all), ", ")
}

func short(all []string) []string {
	cut := make([]string, len(all))
	for i, name := range all {
		cut[i] = toolkit.Cut(name, 40)
	}
	return cut
}

// count writes "1 point", "2 points".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
