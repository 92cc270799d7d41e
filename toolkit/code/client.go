package code

import (
	"encoding/json"
	"slices"
	"time"

	"voicebridge/toolkit"
	"voicebridge/toolkit/clienttool"
)

// exits are all reasons for which a program can have ended.
var exits = []Exit{
	ExitCompleted, ExitException, ExitTimeout, ExitOutOfMemory, ExitStackOverflow, ExitOutputLimit, ExitCrashed, ExitCancelled,
}

// pythonStart is how long a client may take until Python runs: the first time all of it comes over the
// network.
const pythonStart = time.Minute

// maxValueDepth is how deep a client's value may be nested; a deeper one becomes a string.
const maxValueDepth = 60

// ClientPlaces are the tools that a client may run instead of the server: each name with the limits of
// this sandbox and what makes the same result of the client's answer that the server's own tool gives.
func (c Config) ClientPlaces() map[string]clienttool.Place {
	timeout := c.withDefaults().Timeout
	return map[string]clienttool.Place{
		JavaScriptName: {Timeout: timeout + patience, Result: func(output string) toolkit.Result { return clientResult("JavaScript", output) }},
		PythonName:     {Timeout: timeout + pythonStart, Result: func(output string) toolkit.Result { return clientResult("Python", output) }},
	}
}

// clientResult reads the outcome of a program that a client ran. An answer of another form is kept as
// that of any client tool: whoever declares the tool may answer as it likes.
func clientResult(language, output string) toolkit.Result {
	var fields map[string]json.RawMessage
	var o Outcome
	if json.Unmarshal([]byte(output), &fields) != nil || fields["exit"] == nil || fields["stdout"] == nil ||
		json.Unmarshal([]byte(output), &o) != nil || !slices.Contains(exits, o.Exit) {
		return clienttool.Answer(output)
	}
	if toolkit.Depth(o.Value) > maxValueDepth {
		o.Value = toolkit.Encode(string(o.Value))
	}
	o.DurationMs = max(0, o.DurationMs)
	switch {
	case o.Exit == ExitCompleted:
		o.Error = ""
	case o.Error == "":
		o.Error = "it gave no reason"
	}
	return *o.result(language)
}
