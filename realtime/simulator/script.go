package simulator

import "regexp"

// Script decides what a session answers.
type Script struct {
	// Typed answers typed text: the first rule that matches.
	Typed []Rule
	// Otherwise answers typed text that no rule matches.
	Otherwise Reply
	// Spoken answers utterances in rotation, because the simulator does not know the words. The Transcript of each is
	// that of its utterance.
	Spoken []Reply
}

// Rule answers the texts that match.
type Rule struct {
	Match *regexp.Regexp
	Reply Reply
}

// Reply is one answer. In Say, Then and Failed, {previous} stands for what the user said in the turn before this one,
// and {everything} for all turns before it, including those of a replayed history: so a call shows what its model
// knows.
type Reply struct {
	Transcript string // of an utterance
	Say        string // said before the calls; may be empty if there are calls
	Calls      []Call // made together in one response
	Then       string // said once all outputs are there
	// Failed is said instead of Then if an output reports an error.
	Failed string
	// Else is the answer if the session lacks some of the tools.
	Else *Reply
}

// Call is one function call of a Reply.
type Call struct {
	// Name is the tool's name, or a pattern of path.Match that selects the first matching tool, such as *__* for tools
	// of MCP servers.
	Name string
	// Arguments is the JSON text to send; if empty, it is made up from the tool's JSON Schema.
	Arguments string
}

// The texts of the default script; each has its own clip.
const (
	textGreet       = "Hello, I am the simulator. It is nice to hear your voice."
	textGreetAgain  = "Good to see you again. What shall we look at today?"
	textChartWait   = "Let me draw that for you. One moment, please."
	textChartDone   = "Here is your chart. Sales grew in every quarter of this year."
	textChartFailed = "I am sorry, the chart could not be made. Shall I try once more?"
	textLong        = "Let me tell you how a call travels. " +
		"Your voice leaves the browser as small packets, fifty of them in every second. " +
		"The bridge passes each packet on without opening it, and it writes down every word that was said. " +
		"You may interrupt me at any time. Simply start to speak, and I will be quiet at once. " +
		"If you are still listening, there is nothing more to come, except my best wishes."
	textThemeDone  = "I have changed the colours of the page for you."
	textToolWait   = "I will ask the tool that you have connected."
	textToolDone   = "The tool has answered. You can read its result in the card above."
	textToolFailed = "The tool answered with an error, and I wrote it down."
	textPlain      = "I understand. Please tell me more about that."
	textPlainAgain = "That is a good question. I am only a simulator, so my answers are prepared."
	textHistory    = "Yes, I remember what we said earlier on this thread."
	textTyped      = "I have read your message. Try to ask me for a chart, a theme, or a long story."
)

// The arguments of the default script's charts.
const (
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

// DefaultScript is the script for newcomers. Utterances: a greeting, a chart, a long answer to
// interrupt, a client tool, an MCP tool. Typed text asks for the same things by name.
func DefaultScript() *Script {
	bar := Call{Name: "create_bar_chart", Arguments: barArguments}
	pie := Call{Name: "create_pie_chart", Arguments: pieArguments}
	plain, plainAgain := &Reply{Say: textPlain}, &Reply{Say: textPlainAgain}

	chart := Reply{Say: textChartWait, Calls: []Call{bar}, Then: textChartDone, Failed: textChartFailed, Else: plain}
	charts := chart
	charts.Calls, charts.Else = []Call{bar, pie}, &chart
	theme := func(name string) Reply {
		return Reply{
			Calls: []Call{{Name: "changeBrowserTheme", Arguments: `{"theme":"` + name + `"}`}},
			Then:  textThemeDone, Failed: textToolFailed, Else: plain,
		}
	}
	tool := Reply{
		Say: textToolWait, Calls: []Call{{Name: "*__*"}},
		Then: textToolDone, Failed: textToolFailed, Else: plainAgain,
	}
	spoken := func(words string, r Reply) Reply {
		r.Transcript = words
		return r
	}
	return &Script{
		Typed: []Rule{
			{regexp.MustCompile(`(?i)\b(two|both|several)\b.*\bcharts\b`), charts},
			{regexp.MustCompile(`(?i)\b(chart|graph|diagram|plot)`), chart},
			{regexp.MustCompile(`(?i)\blight\b`), theme("light")},
			{regexp.MustCompile(`(?i)\b(dark|theme|colou?rs?)\b`), theme("dark")},
			{regexp.MustCompile(`(?i)\b(tool|mcp)\b`), tool},
			{regexp.MustCompile(`(?i)\b(story|long)\b`), Reply{Say: textLong}},
			{
				regexp.MustCompile(`(?i)\b(everything|all)\b.*\bsaid\b|\brepeat everything\b`),
				Reply{Say: "You said: {everything}"},
			},
			{
				regexp.MustCompile(`(?i)\b(remember|earlier|before|did I say|what did)\b`),
				Reply{Say: textHistory + " You said: {previous}"},
			},
			{regexp.MustCompile(`(?i)^\W*(hello|hi|hey|good (morning|evening|day))\b`), Reply{Say: textGreetAgain}},
		},
		Otherwise: Reply{Say: textTyped},
		Spoken: []Reply{
			spoken("Hello, can you hear me?", Reply{Say: textGreet}),
			spoken("Can you show me the sales of this year as a chart?", chart),
			spoken("Tell me how a call travels.", Reply{Say: textLong}),
			spoken("Please make the page dark.", theme("dark")),
			spoken("Ask the tool that I have connected.", tool),
		},
	}
}
