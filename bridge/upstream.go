package bridge

import (
	"voicebridge/bridge/internal/leg"
	"voicebridge/bridge/internal/session"
)

// Upstream is a driver for a realtime voice model: dialling, sending, events, media and closing.
type Upstream = leg.Upstream

// Dial describes a session that [Upstream] creates.
type Dial = leg.Dial

// Capabilities are what a session of an [Upstream] can.
type Capabilities = session.Capabilities

// UpstreamLeg is the connection to a created session.
type UpstreamLeg = leg.UpstreamLeg
