package bridge

import "voicebridge/bridge/internal/leg"

// Upstream is a driver for a realtime voice model: dialling, sending, events, media and closing.
type Upstream = leg.Upstream

// Dial describes a session that [Upstream] creates.
type Dial = leg.Dial

// UpstreamLeg is the connection to a created session.
type UpstreamLeg = leg.UpstreamLeg
