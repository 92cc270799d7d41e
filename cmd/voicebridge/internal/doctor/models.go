package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/realtime"
	"voicebridge/web/access"
)

const aboutCalls = "voice model"

// calls reports which upstream answers calls, and whether it accepts the key.
func (d *doctor) calls(ctx context.Context) {
	c := &d.cfg
	for _, notice := range c.Notices {
		d.say(warning, aboutCalls, "%s", notice)
	}
	switch {
	case len(c.Upstreams) > 0:
		for i := range c.Upstreams {
			d.upstream(ctx, &c.Upstreams[i])
		}
	case c.Upstream == config.UpstreamSimulator:
		d.say(warning, aboutCalls, "a simulator answers, because VOICEBRIDGE_UPSTREAM says so")
	case c.Driver() == config.UpstreamSimulator:
		d.say(warning, aboutCalls, "a simulator answers: set OPENAI_API_KEY to talk to a real model")
	}
	d.callsRoute(ctx)
	if !slices.Contains(c.TextProviders(), config.ProviderOpenAI) && !callsGoToBase(c) {
		return // there is neither a key nor an address
	}
	_, key := baseKey(c)
	status, body, err := get(ctx, strings.TrimSuffix(c.OpenAIBaseURL, "/")+"/models", withKey("Authorization", key))
	if err != nil {
		d.say(problem, aboutBase(c),
			"%s does not answer: is it reachable, and is OPENAI_BASE_URL right? (%v)", c.OpenAIBaseURL, err)
		return
	}
	d.report(judgeModels(c, status, body))
}

// callsGoToBase reports whether voice calls go to OPENAI_BASE_URL.
func callsGoToBase(c *config.Config) bool {
	return len(c.Upstreams) == 0 && c.Driver() == config.UpstreamOpenAI && c.Realtime.URL == ""
}

// aboutBase says what OPENAI_BASE_URL is for.
func aboutBase(c *config.Config) string {
	if callsGoToBase(c) {
		return aboutCalls
	}
	return typedBy + config.ProviderOpenAI
}

// baseKey returns the key for OPENAI_BASE_URL, and the variable that holds it.
func baseKey(c *config.Config) (variable string, key access.Secret) {
	if !c.Secrets.OpenAIKey.IsSet() && c.Secrets.RealtimeKey.IsSet() && callsGoToBase(c) {
		return "VOICEBRIDGE_REALTIME_API_KEY", c.Secrets.RealtimeKey
	}
	return "OPENAI_API_KEY", c.Secrets.OpenAIKey
}

// callsRoute asks the route of voice calls, if it has its own address, in a way that creates no
// call.
func (d *doctor) callsRoute(ctx context.Context) {
	const about = "voice calls"
	c := &d.cfg
	if c.Realtime.URL == "" || len(c.Upstreams) > 0 {
		return
	}
	status, _, err := get(ctx, c.Realtime.URL, withKey(c.Realtime.APIKeyHeader, c.VoiceKey()))
	address, _, _ := strings.Cut(c.Realtime.URL, "?") // the rest may hold a key
	switch {
	case err != nil:
		d.say(problem, about, "%s does not answer: is VOICEBRIDGE_REALTIME_URL right? (%v)", address, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		d.say(problem, about,
			"%s refuses the key (%d): check VOICEBRIDGE_REALTIME_API_KEY and VOICEBRIDGE_REALTIME_API_KEY_HEADER",
			address, status)
	default:
		d.say(fine, about, "%s answers (%d)", address, status)
	}
}

// upstream tries one of the list, in a way that lets no model answer.
func (d *doctor) upstream(ctx context.Context, u *config.Upstream) {
	about := "upstream " + u.Name
	address, _, _ := strings.Cut(u.Address(), "?") // the rest may hold a key
	if u.BuiltIn() {
		d.say(warning, about, "a simulator answers, because upstreams says so")
		return
	}
	var status int
	var err error
	if u.By() == config.TransportWebSocket {
		status, err = http.StatusSwitchingProtocols, d.session(ctx, u)
		if e, ok := errors.AsType[*realtime.APIError](err); ok {
			status, err = e.Status, nil
		}
	} else {
		status, _, err = get(ctx, u.Address(), withKey(u.Settled().KeyHeader, u.Key))
	}
	switch {
	case err != nil:
		d.say(problem, about, "%s does not answer: is its url right? (%v)", address, err)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		d.say(problem, about, "%s refuses the key (%d): check the variable that api_key_env names", address, status)
	case u.By() == config.TransportWebSocket && status != http.StatusSwitchingProtocols:
		d.say(problem, about, "%s refuses a session (%d): check its model", address, status)
	default:
		d.say(fine, about, "%s answers (%d)", address, status)
	}
}

// session begins a session by WebSocket and ends it.
func (d *doctor) session(ctx context.Context, u *config.Upstream) error {
	ctx, cancel := context.WithTimeout(ctx, sessionTimeout)
	defer cancel()
	conn, err := u.Client(d.cfg.Realtime.Model).Dial(ctx, "", "")
	if err != nil {
		return err
	}
	return conn.Close()
}

// sessionTimeout is how long an upstream may take to begin a session.
const sessionTimeout = 10 * time.Second

// judgeModels interprets the answer to a request for the list of models.
func judgeModels(c *config.Config, status int, body []byte) finding {
	say := func(verdict, format string, args ...any) finding {
		return finding{verdict, aboutBase(c), c.OpenAIBaseURL + " " + fmt.Sprintf(format, args...)}
	}
	variable, key := baseKey(c)
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if !key.IsSet() {
			return say(problem, "requires a key (%d): set %s", status, variable)
		}
		return say(problem, "refuses the key in %s (%d): is it complete, and still valid?", variable, status)
	case status == http.StatusTooManyRequests:
		return say(warning, "answers that the key's limit or credit is used up (%d)", status)
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed:
		// Compatible servers need not have a list.
		return say(warning,
			"answers, but has no list of models (%d): try it to find out whether OPENAI_BASE_URL is right", status)
	case status != http.StatusOK:
		return say(problem, "answers %d: is OPENAI_BASE_URL right?", status)
	}
	var list struct {
		Data []struct{ ID string }
	}
	if json.Unmarshal(body, &list) != nil {
		return say(problem, "answers with something other than a list of models: is OPENAI_BASE_URL right?")
	}
	ids := map[string]bool{}
	for _, m := range list.Data {
		ids[m.ID] = true
	}
	if callsGoToBase(c) && len(ids) > 0 && !ids[c.Realtime.Model] {
		return say(warning,
			"does not offer %s to this key: choose another model with VOICEBRIDGE_REALTIME_MODEL", c.Realtime.Model)
	}
	model := c.TextModel(config.ProviderOpenAI)
	if c.TextProvider() == config.ProviderOpenAI && len(ids) > 0 && !ids[model] {
		return say(warning,
			"does not offer %s to this key: choose another model for typed messages with VOICEBRIDGE_TEXT_MODEL", model)
	}
	if !callsGoToBase(c) {
		return say(fine, "answers and takes the key")
	}
	return say(fine, "answers and takes the key; calls use %s with the voice %s", c.Realtime.Model, c.Realtime.Voice)
}

// typing reports which model answers typed messages, and whether the providers accept their keys.
func (d *doctor) typing(ctx context.Context) {
	const about = "typed messages"
	c := &d.cfg
	name := c.TextProvider()
	if name == config.ProviderSimulator {
		d.say(warning, about, "a simulator answers: set OPENAI_API_KEY, ANTHROPIC_API_KEY, GEMINI_API_KEY or OLLAMA_HOST")
		return
	}
	others := slices.DeleteFunc(c.TextProviders(), func(p string) bool { return p == name })
	d.say(fine, about,
		"they go to %s, to the model %s; also configured: %s", name, c.TextModel(name), strings.Join(others, ", "))
	for _, name := range c.TextProviders() {
		if of, ok := providers[name]; ok {
			d.provider(ctx, name, of(c))
		}
	}
}
