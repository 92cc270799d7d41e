package bench

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// use is how the model uses one tool of the bridge.
type use struct {
	name string
	// arguments returns the arguments of a call that makes the tool's output contain mark.
	arguments func(mark string) object
}

const (
	// computing is how long a program computes, by its own clock.
	computing    = 50 * time.Millisecond
	printedLines = 100 // of 100 bytes, by a program
	chartPoints  = 12
)

// markOf returns the text that the output of a call, and of no other, must contain.
func markOf(callID string) string { return "for " + callID + "." }

// uses are the tools that the model uses in turn: one that runs a process for a while and prints a
// lot, and one that answers at once.
var uses = []use{
	{"mini-javascript-execution", func(mark string) object { return object{"code": program(mark)} }},
	{"create_bar_chart", func(mark string) object { return chart(mark) }},
}

// program computes, then prints mark and about 10 KB.
func program(mark string) string {
	return fmt.Sprintf(`const until = Date.now() + %d;
let sum = 0;
while (Date.now() < until) for (let i = 0; i < 1000; i++) sum = (sum + i * i) %% 65521;
console.log(%q);
for (let i = 0; i < %d; i++) console.log(String(i).padEnd(99, "."));
sum >= 0`, computing.Milliseconds(), mark, printedLines)
}

// chart is a bar chart with mark as its title.
func chart(mark string) object {
	var data []object
	for i := range chartPoints {
		data = append(data, object{
			"xAxisLabel": fmt.Sprintf("point %d", i),
			"series":     []object{{"seriesName": "one", "value": i}, {"seriesName": "two", "value": 2 * i}},
		})
	}
	return object{"title": mark, "data": data}
}

// offered picks the uses whose tools a session declares.
func offered(session object) []use {
	var out []use
	tools, _ := session["tools"].([]any)
	for _, u := range uses {
		if slices.ContainsFunc(tools, func(tool any) bool {
			declared, _ := tool.(object)
			return declared["name"] == u.name
		}) {
			out = append(out, u)
		}
	}
	return out
}

// answers reports whether output is a tool's success in the call with mark.
func answers(output, mark string) bool {
	var result object
	if !strings.Contains(output, mark) || json.Unmarshal([]byte(output), &result) != nil {
		return false // a failure is a sentence, not JSON
	}
	exit, isProgram := result["exit"]
	return !isProgram || exit == "completed"
}

// object is a JSON object.
type object = map[string]any
