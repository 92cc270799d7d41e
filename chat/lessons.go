package chat

import (
	"cmp"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"voicebridge/llm"
	"voicebridge/thread"
)

// maxLessons is how many models and threads lessons are remembered for.
const maxLessons = 10_000

// lessons are what models have refused in this process, so that not every message costs a refused request. The zero
// value is ready; it is safe for concurrent use.
type lessons struct {
	mu sync.Mutex
	// models is what a model does not accept at all, threads what it did not accept of one thread.
	models  map[modelName]concessions
	threads map[modelOfThread]concessions
}

type modelName struct{ provider, model string }

type modelOfThread struct {
	modelName

	thread thread.Key
}

// concessions are what requests leave out because a model has refused it. The zero value leaves out nothing.
type concessions struct {
	// temperature, topP, tools and odd are the model's, whatever the thread. odd are the names of tools whose schemas it
	// has refused, each after a space.
	temperature, topP, tools bool
	odd                      string
	// images are those that do not belong to the question: they come from tools, or from earlier turns.
	images bool
	// history is HistoryConfig.MaxTokens where the context is smaller; 0 for no other limit.
	history int
}

// about returns what is known about a model and a thread.
func (l *lessons) about(m modelOfThread) concessions {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, here := l.models[m.modelName], l.threads[m]
	known.images, known.history = here.images, here.history
	return known
}

// learn remembers with what concessions a model has answered.
func (l *lessons) learn(m modelOfThread, c concessions) {
	if c == (concessions{}) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.models == nil || len(l.models)+len(l.threads) >= maxLessons {
		l.models, l.threads = map[modelName]concessions{}, map[modelOfThread]concessions{}
	}
	of, here := l.models[m.modelName], l.threads[m]
	of.temperature, of.topP, of.tools = of.temperature || c.temperature, of.topP || c.topP, of.tools || c.tools
	for name := range strings.FieldsSeq(c.odd) {
		of.odd = withName(of.odd, name)
	}
	here.images, here.history = here.images || c.images, cmp.Or(c.history, here.history)
	if of != (concessions{}) {
		l.models[m.modelName] = of
	}
	if here != (concessions{}) {
		l.threads[m] = here
	}
}

func withName(names, name string) string {
	if slices.Contains(strings.Fields(names), name) {
		return names
	}
	return names + " " + name
}

// without returns a request without what is conceded. wanted are the tools that the client has declared, which stay: an
// answer without them would be none.
func (c concessions) without(req llm.Request, wanted map[string]bool) llm.Request {
	if c.temperature {
		req.Temperature = nil
	}
	if c.topP {
		req.TopP = nil
	}
	if c.tools && len(wanted) == 0 {
		req.Tools = nil
	}
	if odd := strings.Fields(c.odd); len(odd) > 0 {
		req.Tools = slices.DeleteFunc(slices.Clone(req.Tools), func(t llm.Tool) bool { return !wanted[t.Name] && slices.Contains(odd, t.Name) })
	}
	if c.images {
		req.Messages = withoutImages(req.Messages)
	}
	return req
}

// after returns what to concede, beyond c, after a refusal of a request; ok is false if nothing is left that may help.
// wanted are the tools that the client has declared.
func (c concessions) after(refused *llm.Error, req llm.Request, wanted map[string]bool) (more concessions, ok bool) {
	if refused.Kind == llm.KindAuth || refused.Kind == llm.KindQuota {
		return c, false
	}
	why := refused.Message
	if refused.Err != nil { // the whole of what the message quotes
		why += " " + refused.Err.Error()
	}
	says := func(phrases ...string) bool {
		return slices.ContainsFunc(phrases, func(p string) bool { return strings.Contains(strings.ToLower(why), p) })
	}
	bad := refused.Kind == llm.KindBadRequest
	var odd []string
	if bad {
		odd = oddTools(why, req.Tools, wanted)
	}
	switch {
	case len(odd) > 0: // first: the schema may name anything
		for _, name := range odd {
			c.odd = withName(c.odd, name)
		}
	case bad && req.TopP != nil && (says("top_p") || strings.Contains(why, "topP")): // before the other: some models accept only one of the two
		c.topP = true
	case bad && req.Temperature != nil && says("temperature"):
		c.temperature = true
	case len(wanted) == 0 && len(req.Tools) > 0 && says(noTools...):
		c.tools = true
	case refused.Status != 0 && len(extraImages(req.Messages)) > 0:
		c.images = true
	default:
		return c, false
	}
	return c, true
}

// noTools is how servers say that a model cannot call tools: Ollama, OpenRouter, vLLM, llama.cpp, OpenAI, Groq, Google.
var noTools = []string{
	"does not support tools", "support tool use", "tool choice requires", "tools param requires", "'tools' is not supported",
	"tool calling", "function calling is not",
}

// toolAt is how servers say which tool of a request has a schema that they refuse: Google, OpenAI, Anthropic.
var toolAt = regexp.MustCompile(`function_?[dD]eclarations\[(\d+)\]|tools\[(\d+)\]\.function\b|tools\.(\d+)\.`)

// oddTools returns the names of the tools that a server refuses, whose schemas are those of an MCP server as a rule; none if
// it names none, or one of the client's.
func oddTools(why string, tools []llm.Tool, wanted map[string]bool) (names []string) {
	for _, t := range tools {
		if strings.Contains(why, "schema for function '"+t.Name+"'") {
			names = append(names, t.Name)
		}
	}
	for _, m := range toolAt.FindAllStringSubmatch(why, -1) {
		if n, err := strconv.Atoi(cmp.Or(m[1], m[2], m[3])); err == nil && n < len(tools) {
			names = append(names, tools[n].Name)
		}
	}
	if slices.ContainsFunc(names, func(name string) bool { return wanted[name] }) {
		return nil
	}
	return names
}

// lasts reports whether a refusal of images will be repeated. A temporary failure, or one about the size of these
// images, says nothing about others.
func lasts(refused *llm.Error) bool {
	return refused.Kind == llm.KindBadRequest || refused.Status == http.StatusInternalServerError
}

// extraImages returns the indexes of the messages whose images do not belong to the user's last words.
func extraImages(messages []llm.Message) (at []int) {
	asked := false
	for i, m := range slices.Backward(messages) {
		last := m.Role == llm.RoleUser && !asked
		asked = asked || last
		if len(m.Images) > 0 && !last {
			at = append(at, i)
		}
	}
	return at
}

// withoutImages removes the images that do not belong to the user's last words. The texts of tools mention theirs.
func withoutImages(messages []llm.Message) []llm.Message {
	kept := slices.Clone(messages)
	for _, i := range extraImages(messages) {
		if kept[i].Images = nil; kept[i].Role == llm.RoleUser {
			kept[i].Content = strings.TrimSpace(lostImage + "\n" + kept[i].Content)
		}
	}
	return kept
}
