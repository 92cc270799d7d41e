package code

import (
	"encoding/json"
	"fmt"
	"strings"

	"voicebridge/toolkit"
)

// Exit says why a program ended.
type Exit string

// The reasons. All but the first make the call fail.
const (
	ExitCompleted     Exit = "completed"
	ExitException     Exit = "exception"      // the program threw, or has a syntax error
	ExitTimeout       Exit = "timeout"        // it ran too long
	ExitOutOfMemory   Exit = "out_of_memory"  // its memory was used up
	ExitStackOverflow Exit = "stack_overflow" // its calls were nested too deep
	ExitOutputLimit   Exit = "output_limit"   // it printed or returned too much
	ExitCrashed       Exit = "crashed"        // its process died
	ExitCancelled     Exit = "cancelled"      // nobody wanted the result any longer
)

// Limits of what the model receives, in bytes of each text.
const (
	maxModelText = 4 << 10
	maxErrorText = 600 // of the reason, stdout and stderr of a failure
)

// Outcome is what a program did: the result of both tools.
type Outcome struct {
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
	// Value is the value of the last expression as JSON. Values without a JSON form become readable
	// strings, and nothing becomes null.
	Value json.RawMessage `json:"value"`
	// DurationMs is how long the program ran, in milliseconds, not counting the start of its
	// process.
	DurationMs int64 `json:"durationMs"`
	Exit       Exit  `json:"exit"`
	// Error says what went wrong; empty when the program completed.
	Error string `json:"error,omitempty"`
}

// result returns the outcome as a tool's result.
func (o Outcome) result(language string) *toolkit.Result {
	if len(o.Value) == 0 {
		o.Value = json.RawMessage("null")
	}
	output := toolkit.Encode(o)
	if o.Exit != ExitCompleted {
		return &toolkit.Result{Output: output, Error: o.failure(language)}
	}
	short := o
	short.Stdout = cut(o.Stdout, maxModelText)
	short.Stderr = cut(o.Stderr, maxModelText)
	short.Value = cutValue(o.Value, maxModelText)
	return &toolkit.Result{Output: output, Model: string(toolkit.Encode(short))}
}

// failure tells the model first the reason, then what the program had printed.
func (o Outcome) failure(language string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "the %s program did not complete (%s): %s", language, o.Exit, cut(o.Error, maxErrorText))
	for _, stream := range []struct{ name, text string }{{"stdout", o.Stdout}, {"stderr", o.Stderr}} {
		if stream.text != "" {
			fmt.Fprintf(&b, "\n%s: %s", stream.name, cut(stream.text, maxErrorText))
		}
	}
	return b.String()
}

// cutValue replaces a value longer than n bytes with its beginning, as a string.
func cutValue(value json.RawMessage, n int) json.RawMessage {
	if len(value) <= n {
		return value
	}
	return toolkit.Encode(cut(string(value), n))
}

// cut shortens text to about n bytes at a character boundary, and adds a note of its length.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return toolkit.Head(text, n) + fmt.Sprintf("\n[cut: %d bytes in all]", len(text))
}

// output collects what a program prints, up to a limit for both streams together.
type output struct {
	max            int
	stdout, stderr strings.Builder
	full           bool
}

// add adds a piece of a stream and reports whether there is room for more.
func (o *output) add(stream *strings.Builder, text string) bool {
	if o.full {
		return false
	}
	room := o.max - o.stdout.Len() - o.stderr.Len()
	if len(text) <= room {
		stream.WriteString(text)
		return true
	}
	o.full = true
	stream.WriteString(toolkit.Head(text, room))
	fmt.Fprintf(stream, "\n[cut: the limit is %d bytes]", o.max)
	return false
}

// limitError is the error of a program that printed too much.
func (o *output) limitError() string {
	return fmt.Sprintf("the program printed more than %d bytes and was stopped; print less", o.max)
}
