package main

import (
	"cmp"
	"context"
	"time"

	"voicebridge/bridge"
	"voicebridge/cmd/voicebridge/internal/config"
	"voicebridge/hooks"
	"voicebridge/persistence/hooked"
	"voicebridge/toolkit/webhook"
	"voicebridge/web"
	"voicebridge/web/ui"
)

// assistantNames returns the names that assistants may use.
func (a *app) assistantNames() web.AssistantNames {
	names := a.cfg.AssistantNames()
	names.MCPServers = a.tools.mcp.Names()
	return names
}

// voiceModels lists the models of the upstreams. Calls take the first, unless they or their assistants name another.
func (a *app) voiceModels(ctx context.Context) []web.Model {
	out := make([]web.Model, len(a.up.routes))
	for i, route := range a.up.routes {
		r, u, m := &a.cfg.Realtime, &a.cfg.Upstreams[i], &out[i]
		m.Provider, m.Kind, m.Default, m.Cascade = route.Name(), web.ModelRealtime, i == 0, route.Own
		route = filled(route, r)
		m.Model, m.Voice, m.TranscriptionModel = route.Model, route.Voice, route.TranscriptionModel
		if !route.Own {
			continue
		}
		m.AssistantText = u.Model == "" && u.Cascade.Text == config.CascadeText{}
		m.Voices = a.up.speakers[u.Name].Voices(ctx)
	}
	return out
}

// filled gives a route what of the settings of calls holds for it.
func filled(route bridge.Route, r *config.Realtime) bridge.Route {
	if !route.Own {
		route.Model, route.Voice = cmp.Or(route.Model, r.Model), cmp.Or(route.Voice, r.Voice)
		route.TranscriptionModel = cmp.Or(route.TranscriptionModel, r.TranscriptionModel)
	}
	return route
}

// webConfig connects the web server to the other parts.
func (a *app) webConfig() web.Config {
	r := &a.cfg.Realtime
	first := filled(a.up.routes[0], r)
	return web.Config{
		Calls: a.calls, Chat: a.door, AssistantNames: a.assistantNames(), Queue: a.queue, Store: a.store,
		Recordings: a.recordings, Privacy: a.privacyParts(), EraseHere: a.tools.erase,
		CheckHook: a.addresses.Check, Page: ui.Dist(),
		Tools:       a.tools.spoken,
		ToolServers: ownersServers{a.tools.mcp, a.tools.desk, a.tools.pick.Settings}, Version: buildVersion(),
		Upstream: web.Upstream{
			Name: first.Name(), Note: a.up.note, Model: first.Model, Voice: first.Voice,
			TurnDetection: r.TurnDetection.Object(), Cascade: len(a.up.speakers) > 0,
		},
		Models: func(ctx context.Context) []web.Model {
			return append(a.voiceModels(ctx), shownTextModels(&a.cfg)...)
		},
		Auth:            a.cfg.Auth(),
		ICEServers:      a.cfg.ICEServers,
		TURN:            func(owner string) []web.ICEServer { return a.cfg.TURNServers(owner, time.Now()) },
		AllowedOrigins:  a.cfg.Origins(),
		Phone:           web.Phone{Settings: a.cfg.Phone, PublicURL: a.cfg.PublicURL, Grace: a.cfg.Calls.LossGrace},
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

// openHooks makes the settings' hooks known to all processes, and what delivers to hooks.
func (a *app) openHooks(ctx context.Context) (err error) {
	if a.addresses, err = hooks.NewAddresses(a.cfg.Hooks.Allow); err != nil {
		return err
	}
	operator, secrets := make([]hooked.Hook, 0, len(a.cfg.Hooks.Endpoints)), map[string]webhook.Secret{}
	for _, e := range a.cfg.Hooks.Endpoints {
		operator = append(operator, hooked.Hook{URL: e.URL, Events: e.Events})
		secrets[e.URL] = e.Secret
	}
	if err := a.store.Hooks.SetOperator(ctx, operator); err != nil {
		return err
	}
	a.hooks = hooks.New(hooks.Config{
		Store: a.store.Hooks, Addresses: a.addresses, Operator: secrets, OnAttempt: a.metrics.HookAttempt, Logger: a.log,
	})
	return nil
}
