package session

import (
	"errors"
	"log/slog"

	"voicebridge/realtime"
)

// dialed takes the success of a dial: of the first session, for which the call could not wait, or of one that replaces
// it.
func (s *State) dialed(in UpstreamDialed) {
	if s.phase != starting || in.Gen != s.up.gen {
		s.renewal.dialed(in)
		return
	}
	s.up.take(in)
	s.adopt()
	s.do(Switch{in.Gen})
	s.configureEarly()
}

// configureEarly sends the first session its settings with the opening of the channel, one round trip before it can
// have announced itself, as OpenAI's own client does. A history waits: nothing says that a conversation is there before
// that.
func (s *State) configureEarly() {
	if s.phase == starting && s.up.stage == dialing && s.up.can.Early && len(s.History) == 0 {
		s.up.stage = configuring
		s.do(Replay{s.up.gen})
		s.settings.configure()
	}
}

// adopt makes the upstream of the active session the call's.
func (s *State) adopt() {
	if to := s.up.route; to.Name != "" {
		s.Session = s.Session.With(to)
		s.record.Upstream, s.record.Model = to.Name, s.Session.Model
		s.record.Voice = s.Session.Voice
	}
	s.record.UpstreamCallID = s.up.id
	s.saveCall()
}

// dialFailed takes the failure of a dial. Without a first session there is no call, and no upstream is left to ask.
func (s *State) dialFailed(in UpstreamDialFailed) {
	if s.phase != starting || in.Gen != s.up.gen {
		s.giveUp(s.renewal.dialFailed(in))
		return
	}
	s.log(slog.LevelWarn, "call without an upstream session", "error", in.Err)
	s.up.gone = true
	s.sendError(in.Refusal)
	if _, refused := errors.AsType[*realtime.APIError](in.Err); refused {
		s.giveUp(EndUpstreamRefused)
		return
	}
	s.giveUp(EndUpstreamSetup)
}

// startOver asks another upstream for the first session, because this one refuses it or is lost before it is ready. It
// reports false if it is too late for that, or no other one is left.
func (s *State) startOver(why EndReason) bool {
	if s.phase != starting || s.overs >= s.Others {
		return false
	}
	s.overs++
	s.log(slog.LevelWarn, "the next upstream is tried", "failed", s.record.Upstream, "reason", why)
	s.complaint, s.up.gone = nil, true
	s.settings.takeBack()
	s.do(HangUp{Gen: s.up.gen, Reason: why})
	s.up = s.newUpstream(s.up.gen + 1)
	s.renewal.schedule()
	s.do(Dial{Gen: s.up.gen, History: s.History, Refused: s.record.Upstream, Whole: s.settings.whole()})
	return true
}
