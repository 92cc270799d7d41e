package bridge

import (
	"cmp"
	"slices"
	"time"

	"voicebridge/assistant"
)

// with returns the configuration of a call that an assistant has: what it leaves out stays.
func (c Config) with(a assistant.Assistant) *Config {
	v, s := a.Voice, &c.Session
	s.Instructions = cmp.Or(a.Instructions, s.Instructions)
	s.Language = cmp.Or(v.Language, s.Language)
	if v.Speed != nil {
		s.Speed = *v.Speed
	}
	if v.TurnDetection != nil {
		s.TurnDetection = *v.TurnDetection
	}
	if n := a.History.ReplayMessages; n != nil {
		c.ReplayMessages = *n
	}
	longest := narrowed(a.Fixed(), float64(c.MaxDuration), a.Limits.MaxMinutes, float64(time.Minute))
	c.MaxDuration = time.Duration(longest)
	c.Idle = time.Duration(narrowed(a.Fixed(), float64(c.Idle), a.Limits.IdleMinutes, float64(time.Minute)))
	c.CallUSD = narrowed(a.Fixed(), c.CallUSD, a.Limits.CallUSD, 1)
	c.Approve, c.Deny = c.Approve.With(a.Tools.Approve), c.Deny.With(a.Tools.Deny)
	c.Upstreams = c.routesOf(v)
	return &c
}

// routesOf returns the upstreams with the assistant's model and voices: those are of the upstream that it names, or of
// the first. On others they take the place of the server's, but not of what these have themselves.
func (c *Config) routesOf(v assistant.Voice) []Route {
	s := &c.Session
	s.Model, s.Voice = cmp.Or(v.Model, s.Model), cmp.Or(v.Voice, s.Voice)
	s.TranscriptionModel = cmp.Or(v.TranscriptionModel, s.TranscriptionModel)
	routes := slices.Clone(c.Upstreams)
	at := max(0, slices.IndexFunc(routes, func(r Route) bool { return r.Name() == v.Upstream }))
	r := &routes[at]
	r.Model, r.Voice = cmp.Or(v.Model, r.Model), cmp.Or(v.Voice, r.Voice)
	r.TranscriptionModel = cmp.Or(v.TranscriptionModel, r.TranscriptionModel)
	return routes
}

// narrowed returns a limit, of which 0 means none, with an assistant's, in a unit: only the operator's may widen it.
func narrowed(mayWiden bool, limit float64, own *float64, unit float64) float64 {
	switch {
	case own == nil:
		return limit
	case mayWiden || limit == 0:
		return *own * unit
	case *own == 0:
		return limit
	}
	return min(limit, *own*unit)
}
