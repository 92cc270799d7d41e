package bridge

import (
	"strings"

	"voicebridge/assistant"
	"voicebridge/thread"
)

// Saved does in a live call what happens when a message is saved.
func Saved(c *Calls, owner, callID string, m thread.Message) { c.ofOwner(owner, callID).saved(m) }

// HoldHandOver keeps a live call from taking another browser until release is called.
func HoldHandOver(c *Calls, owner, callID string) (release func()) {
	live := c.ofOwner(owner, callID)
	live.handOver.Lock()
	return live.handOver.Unlock
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
