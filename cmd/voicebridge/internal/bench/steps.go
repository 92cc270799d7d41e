package bench

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// Step is a part of a set-up, in ms after the request for the call: the medians of when it began and ended.
type Step struct {
	Name  string  `json:"name"`
	Began float64 `json:"began_ms"`
	Ended float64 `json:"ended_ms"`
}

// traces reads how calls were set up from the bridge's log.
type traces struct {
	log  string
	read int64 // bytes of it
}

// next returns the medians of the steps of the calls that were logged since it was called before.
func (t *traces) next() ([]Step, error) {
	file, err := os.Open(t.log)
	if err != nil {
		return nil, fmt.Errorf("read the bridge's log: %w", err)
	}
	defer func() { _ = file.Close() }() // it was only read
	text, err := io.ReadAll(io.NewSectionReader(file, t.read, 1<<30))
	if err != nil {
		return nil, fmt.Errorf("read the bridge's log: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	t.read += int64(len(text))
	return medianSteps(text), nil
}

// medianSteps reads lines of a log in JSON.
func medianSteps(log []byte) (steps []Step) {
	began, ended := map[string][]float64{}, map[string][]float64{}
	for line := range bytes.Lines(log) {
		var entry map[string]any
		if json.Unmarshal(line, &entry) != nil || entry["msg"] != "call set up" {
			continue
		}
		for name, value := range entry {
			var from, to float64
			text, _ := value.(string)
			if n, _ := fmt.Sscanf(text, "%f-%f", &from, &to); n == 2 && strings.Contains(name, ".") {
				began[name], ended[name] = append(began[name], from), append(ended[name], to)
			}
		}
	}
	for name := range began {
		steps = append(steps, Step{name, middle(began[name]), middle(ended[name])})
	}
	slices.SortFunc(steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.Began, b.Began), cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.Name, b.Name))
	})
	return steps
}

func middle(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// chartWidth is how many characters the longest set-up takes.
const chartWidth = 60

// writeSteps draws steps below each other, along the time.
func writeSteps(out io.Writer, steps []Step) {
	end := 1.0
	for _, s := range steps {
		end = max(end, s.Ended)
	}
	at := func(ms float64) int { return int(ms / end * chartWidth) }
	for _, s := range steps {
		bar := strings.Repeat(" ", at(s.Began)) + strings.Repeat("█", max(at(s.Ended)-at(s.Began), 1))
		_, _ = fmt.Fprintf(out, "%-18s %5.0f %5.0f  %s\n", s.Name, s.Began, s.Ended, bar) // the caller's writer keeps its error
	}
}
