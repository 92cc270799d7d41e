package llm

import (
	"path"
	"slices"
	"strings"
)

// Accepts declares what a model accepts of a request. Requests are built to fit it; what a model refuses beyond that is
// learned from its refusals. The zero value accepts everything.
type Accepts struct {
	// NoTools means that the model calls no functions.
	NoTools bool
	// NoMustCall means that it refuses to be told to call one.
	NoMustCall bool
	// NoImages means that it reads no images, Images which ones it reads.
	NoImages bool
	Images   ImageLimits
	// NoTemperature and NoTopP mean that it refuses these parameters, OneOfThem that it refuses both at once.
	NoTemperature, NoTopP, OneOfThem bool
	// NoSystem means that it refuses the role of system messages.
	NoSystem bool
	// Strict means that its template wants an answer between the results of tools and the user's next words.
	Strict bool
	// NoLimit means that it refuses the limit of an answer.
	NoLimit bool
	// NoStreamOptions means that the server refuses the request for the usage in a stream.
	NoStreamOptions bool
	// NoReasoning means that the model does not think, and refuses a request for its thoughts.
	NoReasoning bool
	// QuietWithTools means that it calls functions by Chat Completions only if it is told not to think.
	QuietWithTools bool
	// NewLimit means that it knows the limit of an answer as max_completion_tokens only, also on compatible servers.
	NewLimit bool
	// ThinksUnasked means that its answers begin within its thoughts, as the opening tag stands in its prompt, unless the
	// server separates them.
	ThinksUnasked bool
	// ContextTokens is how long a conversation may be; 0 if that is not known.
	ContextTokens int
}

// Rule says what the models of some names accept.
type Rule struct {
	// Models are patterns as in [path.Match], in lower case. A gateway's prefix before a slash is not part of the name.
	Models []string
	Accepts
}

// Find returns what a model accepts: what the first rule of the settings for it says, or else the first of the known
// ones; the zero value if there is none. The settings say nothing about the form of images.
func Find(settings, known []Rule, model string) Accepts {
	a, _ := first(known, model)
	if set, ok := first(settings, model); ok {
		set.Images = a.Images
		return set
	}
	return a
}

func first(rules []Rule, model string) (Accepts, bool) {
	name := path.Base(strings.ToLower(model))
	for _, r := range rules {
		if slices.ContainsFunc(r.Models, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
			return r.Accepts, true
		}
	}
	return Accepts{}, false
}

// Of returns what a provider's model accepts.
func Of(p Provider, model string) Accepts {
	if declares, ok := p.(interface{ Accepts(model string) Accepts }); ok {
		return declares.Accepts(model)
	}
	return Accepts{}
}

// Fit returns a request without what the model does not accept. Of tools that it cannot call, calls and results become
// text; tools that the request needs stay: whoever asks for them learns that they are refused.
func (a Accepts) Fit(req Request) Request {
	if a.NoLimit {
		req.MaxTokens = 0
	}
	if a.NoSystem && req.System != "" {
		req.Messages = append([]Message{{Role: RoleSystem, Content: req.System}}, req.Messages...)
		req.System = ""
	}
	toolless := a.NoTools && !req.NeedsTools
	if toolless {
		req.Tools = nil
	}
	req.MustCall = req.MustCall && !a.NoMustCall && len(req.Tools) > 0
	if toolless || a.NoSystem || a.NoImages {
		req.Messages = slices.Clone(req.Messages)
	}
	for i := range req.Messages {
		m := &req.Messages[i]
		if toolless {
			m.tellTools()
		}
		if a.NoSystem && m.Role == RoleSystem {
			*m = m.OfUser()
		}
		if a.NoImages && len(m.Images) > 0 {
			m.Images, m.Content = nil, strings.TrimSpace(LostImage+"\n"+m.Content)
		}
	}
	if a.NoTemperature {
		req.Temperature = nil
	}
	if a.NoTopP || a.OneOfThem && req.Temperature != nil {
		req.TopP = nil
	}
	return req
}

// LostImage is what a model reads in the place of an image.
const LostImage = "(An image that cannot be shown.)"

// tellTools makes text of calls and of results.
func (m *Message) tellTools() {
	for _, c := range m.ToolCalls {
		m.Content = strings.TrimSpace(m.Content + "\n(Called " + c.Name + ": " + c.Arguments + ")")
	}
	m.ToolCalls = nil
	if m.Role == RoleTool {
		*m = Message{Role: RoleUser, Content: "(Result of " + m.ToolName + ": " + m.Content + ")", Images: m.Images}
	}
}

// OfUser returns a system message as marked text of the user.
func (m Message) OfUser() Message {
	return Message{Role: RoleUser, Content: "<system>\n" + m.Content + "\n</system>"}
}
