package bridge

import "voicebridge/bridge/internal/leg"

// Upstream is the realtime voice model that calls talk to. Dialling, sending,
// events, media and closing are all a driver has to offer.
type Upstream = leg.Upstream

// Dial describes a session to be created.
type Dial = leg.Dial

// UpstreamLeg is the connection to a created session.
type UpstreamLeg = leg.UpstreamLeg
