package main

import (
	"time"

	"voicebridge/bridge"
	"voicebridge/realtime/rtc"
	"voicebridge/thread"
)

// mediaConfig returns the settings of media, which may use loopback if the page or the upstream is on
// this machine.
func (a *app) mediaConfig() rtc.Config {
	cfg := &a.cfg
	out := rtc.Config{
		UDPPort: cfg.UDPPort, PublicIPs: cfg.PublicIPs, Logger: a.log,
		Loopback: cfg.Loopback() || needsLoopback(a.cfg), DataChannel: uint16(dataChannel(cfg)),
	}
	for _, s := range cfg.ICEServers {
		out.ICEServers = append(out.ICEServers, rtc.ICEServer{URLs: s.URLs, Username: s.Username, Credential: s.Credential.Reveal()})
	}
	return out
}

// bridgeConfig returns the settings of calls, with the hooks that run when a call is over and when
// the next queued message may be spoken.
func (a *app) bridgeConfig() bridge.Config {
	r := a.cfg.Realtime
	return bridge.Config{
		Upstream: a.up.driver,
		Browser:  a.media,
		Store:    a.store,
		Tools:    a.tools.spoken,
		Session: bridge.SessionConfig{
			Model: r.Model, Voice: r.Voice, TranscriptionModel: r.TranscriptionModel,
			Instructions: r.Instructions, AllowClientInstructions: r.AllowClientInstructions,
			TurnDetection: r.TurnDetection.Object(), NoiseReduction: r.NoiseObject(), Language: r.Language,
		},
		ReplayMessages: a.cfg.Conversations.History.ReplayMessages,
		ApproveTools:   a.tools.approve,
		FillerAfter:    time.Duration(a.cfg.Tools.FillerSeconds) * time.Second,
		OnTool:         a.observer.Tool,
		Trace:          a.observer.SpokenTurn,
		ToolTimeout:    time.Duration(a.cfg.Tools.TimeoutSeconds) * time.Second,
		RenewBefore:    time.Duration(a.cfg.Calls.RenewBeforeMinutes) * time.Minute,
		CloseGrace:     time.Duration(a.cfg.Calls.CloseGraceSeconds) * time.Second,
		LossGrace:      time.Duration(a.cfg.Calls.GraceSeconds) * time.Second,
		MaxDuration:    time.Duration(a.cfg.Calls.MaxMinutes) * time.Minute,
		Cost:           a.cfg.VoiceCost, TranscriptionCost: a.cfg.TranscriptionCost,
		ImageQuota: a.cfg.ImageQuota(),
		Limits: bridge.Limits{
			CallUSD: a.cfg.Budget.CallUSD, OwnerDayUSD: a.cfg.Budget.OwnerDayUSD, WarnPercent: a.cfg.Budget.WarnPercent,
			Idle: time.Duration(a.cfg.Calls.IdleMinutes) * time.Minute, ToolRounds: a.cfg.Calls.MaxToolRounds,
		},
		OnTurn: func(key thread.Key) {
			a.texts.Talked(key) // spoken threads get titles, too
			a.queue.Spoke(key)
		},
		OnEnd: func(key thread.Key, reason bridge.EndReason) {
			a.metrics.CallEnded(string(reason))
			a.observer.CallEnded(reason)
			a.queue.CallEnded(key)
		},
		OnCount:         func(c bridge.Counter) { a.metrics.CallEvent(string(c)) },
		OnDraftsDropped: a.metrics.DraftsDropped,
		Writer:          timedWriter{a.committer(), a.observer},
		Logger:          a.log,
	}
}
