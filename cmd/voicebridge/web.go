package main

import (
	"cmp"
	"time"

	"voicebridge/web"
	"voicebridge/web/ui"
)

// assistantNames returns the names that assistants may use.
func (a *app) assistantNames() web.AssistantNames {
	names := a.cfg.AssistantNames()
	names.MCPServers = []string{}
	if a.tools.mcp != nil {
		names.MCPServers = a.tools.mcp.Names()
	}
	return names
}

// webConfig connects the web server to the other parts.
func (a *app) webConfig() web.Config {
	r, first := a.cfg.Realtime, a.up.routes[0]
	return web.Config{
		Calls: tracedCalls{a.calls, a.observer}, Chat: a.door, Assistants: a.store.Assistants, AssistantNames: a.assistantNames(), Queue: a.queue, Store: a.store, Records: a.store.Records, Pictures: a.store.Pictures, Recordings: a.recordings, Shares: a.store.Shares, Privacy: a.privacyParts(), Hooks: a.store.Hooks, CheckHook: a.addresses.Check, Admission: a.store.Admission, Page: ui.Dist(), Tools: a.tools.spoken, ToolServers: a.tools.servers(), Version: buildVersion(),
		Upstream:        web.Upstream{Name: first.Name(), Note: a.up.note, Model: cmp.Or(first.Model, r.Model), Voice: cmp.Or(first.Voice, r.Voice), TurnDetection: r.TurnDetection.Object()},
		TextModels:      shownTextModels(&a.cfg),
		Auth:            a.cfg.Auth(),
		ICEServers:      a.cfg.ICEServers,
		TURN:            func(owner string) []web.ICEServer { return a.cfg.TURNServers(owner, time.Now()) },
		AllowedOrigins:  a.cfg.AllowedOrigins,
		Loopback:        a.cfg.Loopback(),
		TrustedProxies:  a.cfg.TrustedProxies,
		Limits:          a.cfg.Limits,
		ShutdownTimeout: a.cfg.Shutdown,
		Metrics:         a.metrics,
		Trace:           a.traces.Read,
		StopWithReader:  a.cfg.Conversations.StopWithReader,
		Logger:          a.log,
	}
}
