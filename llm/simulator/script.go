package simulator

import (
	"cmp"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"voicebridge/llm"
)

// Name is the provider's name in settings and records.
const Name = "simulator"

// What the script says.
const (
	textGreet       = "Hello, I am the simulator. Ask me for a chart, a theme, a tool, or a long story."
	textChartWait   = "Let me draw that for you. "
	textChartDone   = "Here is your chart. Sales grew in every quarter of this year."
	textChartFailed = "I am sorry, the chart could not be made. Shall I try once more?"
	textThemeDone   = "I have changed the colours of the page for you."
	textToolDone    = "The tool has answered. You can read its result above."
	textToolFailed  = "The tool answered with an error, and I wrote it down."
	textPlain       = "I understand. Please tell me more about that."
	textHistory     = "Yes, I remember what we said earlier on this thread."
	textTyped       = "I have read your message. Try to ask me for a chart, a theme, a tool, or a long story."
	textLong        = "Let me tell you how a message travels.\n\n" +
		"You wrote it in the browser, and before anything else happened it was saved in the thread. " +
		"Then the program looked at what was said before, left out what was too long ago, and put the date and the " +
		"time in front of your words. It sent all of that to a language model, which is me today, although I am " +
		"only a script.\n\nMy words come back one after the other, and each of them is shown at once. " +
		"Once a second the program writes down what I have said so far, so that nothing is lost if somebody pulls " +
		"the plug. You may stop me at any time; what I have said until then stays in the thread, and I will know " +
		"about it the next time.\n\nIf I ask for a tool, the program runs it and tells me the result, and I go on " +
		"from there. I may do so eight times, and then I have to come to an end. " +
		"You can call me on this very thread as well, and speak: I will remember what you typed.\n\n" +
		"That is the whole story."
)

const (
	themeTool = "changeBrowserTheme"
	barTool   = "create_bar_chart"
	pieTool   = "create_pie_chart"

	barArguments = `{"title":"Sales of this year","data":[` +
		`{"xAxisLabel":"Q1","series":[{"seriesName":"Sales","value":120}]},` +
		`{"xAxisLabel":"Q2","series":[{"seriesName":"Sales","value":145}]},` +
		`{"xAxisLabel":"Q3","series":[{"seriesName":"Sales","value":171}]},` +
		`{"xAxisLabel":"Q4","series":[{"seriesName":"Sales","value":204}]}],` +
		`"yAxisLabel":"Thousand euros","description":"Sales by quarter"}`
	pieArguments = `{"title":"Sales by region","data":[` +
		`{"label":"North","value":210},{"label":"South","value":165},` +
		`{"label":"East","value":140},{"label":"West","value":125}],"unit":"Thousand euros"}`
)

// situation is what a rule may consider.
type situation struct {
	tools   []llm.Tool
	words   []string // the match and its groups
	earlier string   // what the user wrote before
}

// rule answers what matches. A rule whose tools are missing is skipped.
type rule struct {
	match *regexp.Regexp
	reply func(situation) (reply, bool)
}

var rules = []rule{
	// call NAME {arguments}: any tool, for tests
	{regexp.MustCompile(
		`(?is)^\W*(?:call|use|run)\s+(?:the\s+)?(?:tool\s+)?([A-Za-z0-9_.-]+)(?:\s+with)?\s*(\{.*\})?`,
	), callByName},
	// fail with KIND: a failure of the provider, for tests
	{regexp.MustCompile(
		`(?i)^\W*fail\s+with\s+(auth|quota|rate|too_long|overloaded|bad_request|unavailable|timeout)\b`,
	), failByName},
	{regexp.MustCompile(`(?i)\b(two|both|several)\b.*\bcharts\b`), call(textChartWait,
		llm.ToolCall{Name: barTool, Arguments: barArguments}, llm.ToolCall{Name: pieTool, Arguments: pieArguments})},
	{regexp.MustCompile(`(?i)\b(pie)\b`), call(textChartWait, llm.ToolCall{Name: pieTool, Arguments: pieArguments})},
	{
		regexp.MustCompile(`(?i)\b(chart|graph|diagram|plot)`),
		call(textChartWait, llm.ToolCall{Name: barTool, Arguments: barArguments}),
	},
	{regexp.MustCompile(`(?i)\blight\b`), call("", llm.ToolCall{Name: themeTool, Arguments: `{"theme":"light"}`})},
	{
		regexp.MustCompile(`(?i)\b(dark|theme|colou?rs?)\b`),
		call("", llm.ToolCall{Name: themeTool, Arguments: `{"theme":"dark"}`}),
	},
	{regexp.MustCompile(`(?i)\b(tool|mcp)\b`), callServer},
	{regexp.MustCompile(`(?i)\b(story|long)\b`), say(textLong)},
	{regexp.MustCompile(`(?i)\b(remember|earlier|before|did I say|what did)\b`), recall},
	{regexp.MustCompile(`(?i)^\W*(hello|hi|hey|good (morning|evening|day))\b`), say(textGreet)},
}

func say(text string) func(situation) (reply, bool) {
	return func(situation) (reply, bool) { return reply{text: text}, true }
}

// call calls tools, if all of them are available.
func call(text string, calls ...llm.ToolCall) func(situation) (reply, bool) {
	return func(s situation) (reply, bool) {
		for _, c := range calls {
			if _, ok := find(s.tools, func(name string) bool { return name == c.Name }); !ok {
				return reply{}, false
			}
		}
		return reply{text: text, calls: slices.Clone(calls)}, true
	}
}

func callByName(s situation) (reply, bool) {
	// An app may know agent_spawn as agent.spawn.
	wanted := strings.ReplaceAll(s.words[1], ".", "_")
	name, ok := find(s.tools, func(name string) bool { return name == wanted })
	arguments := cmp.Or(s.words[2], "{}")
	return reply{calls: []llm.ToolCall{{Name: name, Arguments: arguments}}}, ok && json.Valid([]byte(arguments))
}

// callServer calls the first tool of an MCP server, without arguments.
func callServer(s situation) (reply, bool) {
	name, ok := find(s.tools, func(name string) bool { return strings.Contains(name, "__") })
	return reply{calls: []llm.ToolCall{{Name: name, Arguments: "{}"}}}, ok
}

func recall(s situation) (reply, bool) {
	if s.earlier == "" {
		return reply{text: "You have not said anything before this."}, true
	}
	return reply{text: textHistory + " You said: " + s.earlier}, true
}

func failByName(s situation) (reply, bool) {
	kind := llm.ErrorKind(strings.ToLower(s.words[1]))
	return reply{
		err: &llm.Error{Kind: kind, Provider: Name, Message: "The simulator was asked to fail (" + string(kind) + ")."},
	}, true
}

// reply is the script's answer to a request.
type reply struct {
	text  string
	calls []llm.ToolCall
	err   error
}

// find returns the first tool whose name the function accepts.
func find(tools []llm.Tool, accept func(name string) bool) (string, bool) {
	for _, d := range tools {
		if accept(d.Name) {
			return d.Name, true
		}
	}
	return "", false
}
