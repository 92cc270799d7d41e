package web

import "voicebridge/web/access"

// What configures who may come in, as those who set up a [Server] know it.
type (
	// Auth says how callers prove who they are.
	Auth = access.Auth
	// StaticToken is a token that does not expire and its owner.
	StaticToken = access.StaticToken
	// Secret is a value that must not be printed.
	Secret = access.Secret
	// Limits bound what callers may use.
	Limits = access.Limits
)

// LocalOwner owns everything when no authentication is configured.
const LocalOwner = access.LocalOwner

// NewSecret wraps a value that must not be printed.
var NewSecret = access.NewSecret

// ParseOrigin checks that a text is an origin as a browser sends it.
var ParseOrigin = access.ParseOrigin
