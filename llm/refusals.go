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
	mu     sync.Mutex
	models map[string]Accepts
}

// Of returns what a model accepts: as it is known, less what it has refused.
func (r *Refusals) Of(model string, known Accepts) Accepts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a, ok := r.models[model]; ok {
		return a
	}
	return known
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
	req Request, known Accepts, send func(Request, Accepts) iter.Seq2[Delta, error],
) iter.Seq2[Delta, error] {
	return func(yield func(Delta, error) bool) {
		accepts := known
		came, lasts := false, true
		var without []string
		for again := true; again; {
			again = false
			for d, err := range send(accepts.Fit(req), accepts) {
				refused, ok := errors.AsType[*Error](err)
				if ok && !came && len(without) < maxRemedies {
					less, what := accepts.Without(req, refused)
					again = what != "" && !slices.Contains(without, what)
					if again {
						accepts, without = less, append(without, what)
						lasts = lasts && refused.Kind != KindTooLong // it depends on the conversation
						break
					}
				}
				if !came && d != (Delta{}) && lasts && len(without) > 0 {
					r.learn(req.Model, accepts)
					d.Without = strings.Join(without, ", ")
				}
				came = came || d != (Delta{})
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
	refusing = regexp.MustCompile(`not (\w+ )?(be )?(support|enabled|allow|available|permit|implement|accept|capable)|` +
		`not (configured|a multi)|n't (\w+ )?(support|allow|accept|have)|unsupport|incapable|disabled|no endpoints|requires? .*--|` +
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

// Without returns what is left of a declaration after a server has refused a request, and the name of what it has
// refused; empty if requests can do no better.
func (a Accepts) Without(req Request, refused *Error) (less Accepts, what string) { //nolint:gocyclo // a list of remedies, one after the other
	inTrouble := refused.Status > http.StatusNotImplemented
	switch refused.Kind {
	case KindAuth, KindQuota, KindRate, KindRefused, KindTimeout:
		return a, ""
	case KindTooLong, KindOverloaded, KindBadRequest, KindUnavailable:
		if inTrouble {
			return a, ""
		}
	}
	said := refused.Said
	refuses := refusing.MatchString(said)
	names := func(words ...string) bool {
		return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(said, word) })
	}
	named := func(t Tool) bool { return strings.Contains(said, strings.ToLower(t.Name)) }
	sent := a.Fit(req)
	hasImages := slices.ContainsFunc(sent.Messages, func(m Message) bool { return len(m.Images) > 0 })
	ofRole := func(m Message) bool { return m.Role == RoleSystem }
	hasSystem := sent.System != "" || slices.ContainsFunc(sent.Messages, ofRole)
	ofAll := ofTools.MatchString(said) && !oneTool.MatchString(said) && !slices.ContainsFunc(req.Tools, named)
	switch {
	case sent.MaxTokens > 0 && !a.NewLimit && names("max_completion_tokens"):
		a.NewLimit = true
		return a, "the old name of max_tokens"
	case sent.MaxTokens > 0 && ofLimit.MatchString(said):
		a.NoLimit = true
		return a, "max_tokens"
	case sent.Temperature != nil && sent.TopP != nil && names("temperature") && names("top_p", "topp"):
		a.OneOfThem = true
		return a, "top_p"
	case sent.Temperature != nil && names("temperature"), sent.TopP != nil && names("top_p", "topp"):
		a.NoTemperature, a.NoTopP = true, true
		return a, "temperature, top_p"
	case !a.NoStreamOptions && names("stream_options", "include_usage"):
		a.NoStreamOptions = true
		return a, "stream_options"
	case !a.NoReasoning && names("encrypted_content", "encrypted content"):
		a.NoReasoning = true
		return a, "include"
	case names("reasoning_effort"): // it must be none, or must not be sent
		a.QuietWithTools = !a.QuietWithTools
		return a, "reasoning_effort"
	case len(sent.Tools) > 0 && !req.NeedsTools && refuses && ofAll:
		a.NoTools = true
		return a, "tools"
	case hasImages && refuses && ofImages.MatchString(said) && !oneImage.MatchString(said):
		a.NoImages = true
		return a, "images"
	case hasSystem && refuses && ofSystem.MatchString(said):
		a.NoSystem = true
		return a, "system messages"
	case !a.Strict && ofOrder.MatchString(said):
		a.Strict = true
		return a, "messages of one role in a row"
	}
	return a, ""
}
