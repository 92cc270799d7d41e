package toolkit

import "time"

// Settings are what an operator sets for all tools. The tags are those of cmd/voicebridge/internal/config.
type Settings struct {
	// Of a tool call.
	Timeout time.Duration `yaml:"timeout_seconds" default:"30" min:"1" max:"600"`
	// Only these; empty: all.
	Allow Names `yaml:"allow"`
	// Never these, whether the server has them or a client declares them.
	Deny Names `yaml:"deny"`
	// Only with the user's approval, given in the call or by anyone who follows the thread; no answer within a minute
	// is a no. http:write means all requests of the tool http except GET and HEAD.
	Approve Names `yaml:"approve" default:"http:write"`
}

// Allows reports whether a tool may be used.
func (s *Settings) Allows(name string) bool {
	return !s.Deny.Has(name) && (len(s.Allow) == 0 || s.Allow.Has(name))
}
