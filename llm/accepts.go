package llm

import (
	"path"
	"slices"
	"strings"
)

// Accepts declares what a model accepts of a request. Requests are built to fit it; nothing is tried out. The zero value
// accepts everything.
type Accepts struct {
	// NoTools means that the model calls no functions.
	NoTools bool
	// NoImages means that it reads no images, Images which ones it reads.
	NoImages bool
	Images   ImageLimits
	// NoTemperature and NoTopP mean that it refuses these parameters, OneOfThem that it refuses both at once.
	NoTemperature, NoTopP, OneOfThem bool
	// NoStreamOptions means that the server refuses the request for the usage in a stream.
	NoStreamOptions bool
	// NoReasoning means that the model does not think, and refuses a request for its thoughts.
	NoReasoning bool
	// QuietWithTools means that it calls functions by Chat Completions only if it is told not to think.
	QuietWithTools bool
	// NewLimit means that it knows the limit of an answer as max_completion_tokens only, also on compatible servers.
	NewLimit bool
	// ContextTokens is how long a conversation may be; 0 if that is not known.
	ContextTokens int
}

// Rule says what the models of some names accept.
type Rule struct {
	// Models are patterns as in [path.Match], in lower case. A gateway's prefix before a slash is not part of the name.
	Models []string
	Accepts
}

// Find returns what a model accepts: what the first rule of the settings for it says, or else the first of the known ones;
// the zero value if there is none. The settings say nothing about the form of images.
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

// Fit returns a request without what the model does not accept. Tools and images stay: whoever asks for them learns that
// they are refused.
func (a Accepts) Fit(req Request) Request {
	if a.NoTemperature {
		req.Temperature = nil
	}
	if a.NoTopP || a.OneOfThem && req.Temperature != nil {
		req.TopP = nil
	}
	return req
}

// Without returns what is left of a model's declaration after a server has refused the parameter of a request that has
// this name. ok is false if requests can do no better.
func (a Accepts) Without(param string) (less Accepts, ok bool) {
	switch name, _, _ := strings.Cut(param, "."); name {
	case "temperature", "top_p":
		ok = !a.NoTemperature || !a.NoTopP
		a.NoTemperature, a.NoTopP = true, true
	case "stream_options":
		ok, a.NoStreamOptions = !a.NoStreamOptions, true
	case "include":
		ok, a.NoReasoning = !a.NoReasoning, true
	case "reasoning_effort": // it must be none, or must not be sent
		ok, a.QuietWithTools = true, !a.QuietWithTools
	}
	return a, ok
}
