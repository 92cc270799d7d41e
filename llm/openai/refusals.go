package openai

import (
	"regexp"
	"strings"
	"sync"

	"voicebridge/llm"
)

// maxRefusals is how many models refusals are remembered for.
const maxRefusals = 1000

// refusals are what the server has refused, so that not every request is refused first. The zero value is ready; it is
// safe for concurrent use.
type refusals struct {
	mu     sync.Mutex
	models map[string]concessions
	// plain means that no model of the server accepts stream_options.
	plain bool
}

// concessions are how requests differ because the server has refused others. The zero value is the usual request.
type concessions struct {
	// plain leaves out stream_options.
	plain bool
	// sealed leaves out the request for encrypted reasoning, of models that do not reason.
	sealed bool
	// quiet sends reasoning_effort none with tools, unheard never does.
	quiet, unheard bool
	// responses uses the Responses API: some models call functions by no other.
	responses bool
}

// of returns what is known of a model.
func (r *refusals) of(model string) concessions {
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.models[model]
	known.plain = r.plain
	known.quiet = known.quiet || needsNone(model)
	return known
}

// learn takes the failure of a request, which was made with these concessions, by Chat Completions or not. It returns whether
// another request may succeed.
func (r *refusals) learn(model string, given concessions, failure *llm.Error, chat bool) bool {
	if failure.Kind != llm.KindBadRequest || failure.Status == 0 || failure.Err == nil {
		return false
	}
	more := given.after(strings.ToLower(failure.Err.Error()), chat)
	if more == given {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.models == nil || len(r.models) >= maxRefusals {
		r.models = map[string]concessions{}
	}
	r.models[model], r.plain = more, r.plain || more.plain
	return true
}

// after returns the concessions after a refusal in these words.
func (c concessions) after(why string, chat bool) concessions {
	effort := strings.Contains(why, "reasoning_effort")
	switch {
	case !chat:
		c.sealed = c.sealed || strings.Contains(why, "encrypted content is not supported") || strings.Contains(why, "reasoning.encrypted_content")
	case !c.plain && (strings.Contains(why, "stream_options") || strings.Contains(why, "include_usage")):
		c.plain = true
	case effort && strings.Contains(why, "/responses") && strings.Contains(why, "none") && !c.quiet:
		c.quiet = true
	case effort && strings.Contains(why, "/responses"):
		c.responses = true
	case effort && c.quiet:
		c.unheard = true
	}
	return c
}

// thinksAlways matches the models of which OpenAI accepts tools by Chat Completions only without reasoning, also if the
// request does not ask for it: gpt-5.6 and its later sisters. Gateways put the vendor before the name.
var thinksAlways = regexp.MustCompile(`^(?:.*/)?gpt-5\.(?:[6-9]|[1-9][0-9])`)

// needsNone reports, by a model's name, whether its requests with tools need reasoning_effort none.
func needsNone(model string) bool { return thinksAlways.MatchString(model) }
