package llm

import (
	"errors"
	"iter"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

const (
	// maxRemedies is how often a refused request is sent again.
	maxRemedies = 4
	// maxRefusals limits the models of which refusals are remembered.
	maxRefusals = 1000
)

// Refusals remembers what models have refused, so that later requests leave it out. The zero value is ready; it is safe
// for concurrent use.
type Refusals struct {
	// Rules are those of the settings, Known what is known of models by their names; see [Find].
	Rules, Known []Rule

	mu     sync.Mutex
	models map[string]Accepts
}

// Accepts returns what a model accepts: as it is known, less what it has refused.
func (r *Refusals) Accepts(model string) Accepts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.models[model]; ok {
		return a
	}
	return Find(r.Rules, r.Known, model)
}

func (r *Refusals) learn(model string, a Accepts) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.models == nil || len(r.models) >= maxRefusals {
		r.models = map[string]Accepts{}
	}
	r.models[model] = a
}

// Stream sends a request as the model accepts it. If the server refuses something that an answer does not depend on,
// the request is sent once more without it; what has helped is remembered.
func (r *Refusals) Stream(
	req Request, send func(Request, Accepts) iter.Seq2[Delta, error],
) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		accepts := r.Accepts(req.Model)
		came, lasts := false, true
		var without []string
		for again := true; again; {
			again = false
			for d, err := range send(accepts.Fit(req), accepts) {
				why, ok := errors.AsType[*Error](err)
				if ok && !came && len(without) < maxRemedies {
					less, what := accepts.Without(req, why)
					again = what != "" && !slices.Contains(without, what)
					if again {
						accepts, without = less, append(without, what)
						lasts = lasts && why.Kind != KindTooLong // it depends on the conversation
						break
					}
				}
				if !came && d != (Delta{}) && lasts && len(without) > 0 {
					r.learn(req.Model, accepts)
					d.Without = strings.Join(without, ", ")
				}
				came = came || d != (Delta{})
				if d.Unsaid {
					accepts.ThinksUnasked = true
					r.learn(req.Model, accepts)
				}
				if !yield(d, err) {
					return
				}
			}
		}
	}
}

// What refusals say, in lower case. A server that names a parameter refuses it; of what is also a common word it must
// say that it does not take it.
var (
	refusing = regexp.MustCompile(
		`not (\w+ )?(be )?(support|enabled|allow|available|permit|implement|accept|capable)|` +
			`not (configured|a multi)|n't (\w+ )?(support|allow|accept|have)|unsupport|incapable|disabled|` +
			`no endpoints|requires? .*--|` +
			`unrecogni[sz]ed|unknown (name|field|param|arg|variant)|unexpected (arg|key|field|param)|` +
			`extra (inputs|fields)|at most 0|missing data|only supported by`)
	ofTools  = regexp.MustCompile(`\btools?\b|tool_|\bfunctions?\b|function[_ -]?call`)
	oneTool  = regexp.MustCompile(`schema|propert|(tools|functions|declarations)(\[|\.)\d|role|message`)
	ofImages = regexp.MustCompile(`\bimages?\b|image_url|vision|multi-?modal`)
	oneImage = regexp.MustCompile(`format|mime|media[_ ]type|jpe?g|png|webp|gif|corrupt|valid image`)
	ofSystem = regexp.MustCompile(`(system|developer)['"]?[ _]?(role|message|prompt|instruction)|` +
		`role.*(system|developer)|(does|do) not support ['"]system`)
	ofOrder = regexp.MustCompile(`alternat|consecutive|successive|in a row|(first|last) message|template|jinja|` +
		`role.*\b(after|expected|unexpected|order)\b|(after|expected|unexpected)\b.*role`)
	ofLimit = regexp.MustCompile(`max_?(completion|output|new)?_?tokens|num_predict|output tokens`)
)

// refused is a request that a server has refused, as it was sent.
type refused struct {
	Request

	accepts Accepts
	tools   []Tool // of the request, sent or not
	said    string
	refuses bool
}

// says reports whether one of the words was said.
func (r *refused) says(words ...string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(r.said, word) })
}

func (r *refused) namesTool() bool {
	return slices.ContainsFunc(r.tools, func(t Tool) bool { return r.says(strings.ToLower(t.Name)) })
}

func (r *refused) hasImages() bool {
	return slices.ContainsFunc(r.Messages, func(m Message) bool { return len(m.Images) > 0 })
}

func (r *refused) hasSystem() bool {
	return r.System != "" || slices.ContainsFunc(r.Messages, func(m Message) bool { return m.Role == RoleSystem })
}

// remedies are what is left out or changed, the first whose refusal it is.
var remedies = []struct {
	what string
	of   func(r *refused) bool
	less func(a *Accepts)
}{
	{"the old name of max_tokens", func(r *refused) bool {
		return r.MaxTokens > 0 && !r.accepts.NewLimit && r.says("max_completion_tokens")
	}, func(a *Accepts) { a.NewLimit = true }},
	{"max_tokens", func(r *refused) bool {
		return r.MaxTokens > 0 && ofLimit.MatchString(r.said)
	}, func(a *Accepts) { a.NoLimit = true }},
	{"top_p", func(r *refused) bool {
		return r.Temperature != nil && r.TopP != nil && r.says("temperature") && r.says("top_p", "topp")
	}, func(a *Accepts) { a.OneOfThem = true }},
	{"temperature, top_p", func(r *refused) bool {
		return r.Temperature != nil && r.says("temperature") || r.TopP != nil && r.says("top_p", "topp")
	}, func(a *Accepts) { a.NoTemperature, a.NoTopP = true, true }},
	{"stream_options", func(r *refused) bool {
		return !r.accepts.NoStreamOptions && r.says("stream_options", "include_usage")
	}, func(a *Accepts) { a.NoStreamOptions = true }},
	{"include", func(r *refused) bool {
		return !r.accepts.NoReasoning && r.says("encrypted_content", "encrypted content")
	}, func(a *Accepts) { a.NoReasoning = true }},
	{"reasoning_effort", func(r *refused) bool { // it must be none, or must not be sent
		return r.says("reasoning_effort")
	}, func(a *Accepts) { a.QuietWithTools = !a.QuietWithTools }},
	{"tool_choice", func(r *refused) bool {
		return r.MustCall && r.says("tool_choice", "tool choice", "toolconfig", "tool_config", "function calling config")
	}, func(a *Accepts) { a.NoMustCall = true }},
	{"tools", func(r *refused) bool {
		ofAll := ofTools.MatchString(r.said) && !oneTool.MatchString(r.said) && !r.namesTool()
		return len(r.Tools) > 0 && !r.NeedsTools && r.refuses && ofAll
	}, func(a *Accepts) { a.NoTools = true }},
	{"images", func(r *refused) bool {
		return r.hasImages() && r.refuses && ofImages.MatchString(r.said) && !oneImage.MatchString(r.said)
	}, func(a *Accepts) { a.NoImages = true }},
	{"system messages", func(r *refused) bool {
		return r.hasSystem() && r.refuses && ofSystem.MatchString(r.said)
	}, func(a *Accepts) { a.NoSystem = true }},
	{"messages of one role in a row", func(r *refused) bool {
		return !r.accepts.Strict && ofOrder.MatchString(r.said)
	}, func(a *Accepts) { a.Strict = true }},
}

// Without returns what is left of a declaration after a server has refused a request, and the name of what it has
// refused; empty if requests can do no better.
func (a Accepts) Without(req Request, why *Error) (less Accepts, what string) {
	switch why.Kind {
	case KindAuth, KindQuota, KindRate, KindRefused, KindTimeout:
		return a, ""
	case KindTooLong, KindOverloaded, KindBadRequest, KindUnavailable:
		if why.Status > http.StatusNotImplemented { // the server is in trouble
			return a, ""
		}
	}
	r := refused{a.Fit(req), a, req.Tools, why.Said, refusing.MatchString(why.Said)}
	for _, remedy := range remedies {
		if remedy.of(&r) {
			remedy.less(&a)
			return a, remedy.what
		}
	}
	return a, ""
}
