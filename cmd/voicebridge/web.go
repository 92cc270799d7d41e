package main

import (
	"time"

	"voicebridge/web"
	"voicebridge/web/access"
	"voicebridge/web/ui"
)

// webConfig connects the web server to the other parts.
func (a *app) webConfig() web.Config {
	l, r := a.cfg.Limits, a.cfg.Realtime
	return web.Config{
		Calls: tracedCalls{a.calls, a.observer}, Chat: a.door, Queue: a.queue, Store: a.store, Admission: a.store.Admission, Page: ui.Dist(), Tools: a.tools.spoken, ToolServers: a.tools.servers(), Version: buildVersion(),
		Upstream:       web.Upstream{Name: a.up.driver.Name(), Note: a.up.note, Model: r.Model, Voice: r.Voice, TurnDetection: r.TurnDetection.Object()},
		TextModels:     shownTextModels(&a.cfg),
		Auth:           a.cfg.Auth(),
		ICEServers:     a.cfg.ICEServers,
		TURN:           func(owner string) []web.ICEServer { return a.cfg.TURNServers(owner, time.Now()) },
		AllowedOrigins: a.cfg.AllowedOrigins,
		Loopback:       a.cfg.Loopback(),
		TrustedProxies: a.cfg.TrustedProxies,
		Limits: access.Limits{
			MaxCalls: l.MaxCalls, MaxCallsPerOwner: l.MaxCallsPerOwner, SetupsPerMinute: l.SetupsPerMinute,
			SignInsPerMinute: l.SignInsPerMinute, MaxSockets: l.MaxSockets, SocketsPerOwner: l.SocketsPerOwner,
			TextsPerMinute: l.TextsPerMinute, ImageBytesPerOwner: int64(l.ImageMBPerOwner) << 20,
			ThreadsPerOwner: l.ThreadsPerOwner, StoredBytesPerOwner: int64(l.StoredMBPerOwner) << 20, AllowedModels: l.AllowedModels,
		},
		ShutdownTimeout: time.Duration(a.cfg.ShutdownSeconds) * time.Second,
		Metrics:         a.metrics,
		Trace:           a.traces.Read,
		StopWithReader:  a.cfg.Conversations.StopWithReader,
		Logger:          a.log,
	}
}
