package bridge

import (
	"strings"

	"voicebridge/assistant"
	"voicebridge/llm"
	"voicebridge/realtime"
	"voicebridge/realtime/live"
	"voicebridge/realtime/served"
	"voicebridge/thread"
)

// Offerer and Answerer are the ends of connections that WebRTC makes by an offer and an answer.
type (
	Offerer  = offerer
	Answerer = answerer
)

// Offering makes the end of who offers, and Answering that of who answers.
type (
	Offering  = offering
	Answering = answering
)

// NewRealtimeBy is NewRealtime with connections made by offer.
func NewRealtimeBy(name string, offer Offering, client *realtime.Client) *Realtime {
	return &Realtime{name, offer, client}
}

// NewLiveBy is NewLive with connections made by offer.
func NewLiveBy(name string, offer Offering, client *live.Client) *Live {
	return newLive(name, offer, client)
}

// AnswerBy has answer make the connections of browsers. It must be called before the first call.
func AnswerBy(c *Calls, answer Answering) { c.answering = answer }

// Saved does in a live call what happens when a message is saved.
func Saved(c *Calls, owner, callID string, m thread.Message) { c.ofOwner(owner, callID).saved(m) }

// HoldHandOver keeps a live call from taking another browser until release is called.
func HoldHandOver(c *Calls, owner, callID string) (release func()) {
	live := c.ofOwner(owner, callID)
	live.handOver.Lock()
	return live.handOver.Unlock
}

// NewCascadeOf returns a driver whose sessions are as config says, but for their settings.
func NewCascadeOf(name string, config func() served.Config) *Cascade {
	return &Cascade{name: name, config: func(llm.Ask) served.Config {
		cfg := config()
		cfg.Settings = served.NewSettings("")
		return cfg
	}}
}

// Narrowed is narrowed.
var Narrowed = narrowed

// Named is an upstream that only has a name.
func Named(name string) Upstream { return &stub{name: name} }

// RoutesWith returns what sessions of the upstreams have with an assistant.
func RoutesWith(c Config, a assistant.Assistant) string {
	own := c.with(a)
	var all []string
	for _, r := range own.Upstreams {
		s := r.settled(own.Session)
		all = append(all, s.Name+" "+s.Model+" "+s.Voice)
	}
	return strings.Join(all, ", ")
}
