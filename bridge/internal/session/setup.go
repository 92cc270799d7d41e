package session

import (
	"voicebridge/realtime"
)

// opened starts the first session: first the thread's last messages, then one session.update. The
// channel keeps them in order, so there is no need to wait.
func (s *State) opened(ev realtime.Event) {
	if s.up.stage != dialing {
		return
	}
	s.up.stage = configuring
	s.plan(s.up, ev)
	s.do(Replay{s.up.gen})
	s.settings.configure()
}

// ready begins the live part of a call: the first session is configured.
func (s *State) ready() {
	s.phase, s.up.stage, s.up.began = live, ready, s.now
	s.record.ReadyAt = new(s.now)
	s.record.Replayed = int64(len(s.History))
	if !s.away {
		s.do(Gate{Open: true})
	}
	s.saveCall()
	s.sendReady()
	s.limiter.active()
	s.do(Publish{"call_started", callEvent{CallID: s.CallID}})
	s.flushBacklog()
}

func (s *State) sendReady() {
	s.notify(readyEvent{Type: "bridge.ready", CallID: s.CallID, ThreadID: s.Key.Thread, Replayed: int(s.record.Replayed)})
}
