package session

import (
	"log/slog"
	"strings"
	"time"

	"voicebridge/realtime"
	"voicebridge/thread"
)

// upstreamEvent takes one event of an upstream session. Events of the active session go to the
// browser unchanged, unless a case says otherwise; those of the next one stay here.
func (s *State) upstreamEvent(in UpstreamEvent) {
	u := s.renewal.session(in.Gen)
	if u == nil || u.gone {
		return
	}
	u.wordBy = time.Time{}
	ev, err := readEvent(in.Data)
	if err != nil {
		s.log(slog.LevelWarn, "upstream event dropped", "error", err, "bytes", len(in.Data))
		return
	}
	if ev.Malformed != nil {
		s.log(slog.LevelWarn, "upstream event not understood", "type", ev.Type, "error", ev.Malformed)
	}
	if in.Place != nil {
		ev.PreviousItemID, ev.HasPrevious = in.Place.Before, in.Place.Known
	}
	ev = u.names.translate(s.known, ev)
	if u != s.up {
		s.giveUp(s.renewal.event(ev))
		return
	}
	visible := s.view.of(ev) // as things were before
	if s.event(ev) && visible != nil && s.phase != ended {
		s.do(ToBrowser{Data: visible, Draft: strings.HasSuffix(ev.Type, ".delta")})
	}
}

// event applies an event, and reports whether it may go to the browser.
func (s *State) event(ev *event) (visible bool) {
	it := s.transcript.itemOf(ev)
	switch {
	case ev.Malformed != nil:
		if ev.Type == realtime.TypeResponseDone { // the call waits for it, and the browser is told that it has failed
			s.responseDone(ev)
		}
	case ev.Type == realtime.TypeSessionCreated:
		if s.renewal.opened(s.up, ev) {
			s.settings.configure()
		}
	case ev.Type == realtime.TypeSessionUpdated:
		return s.updated(ev)
	case ev.Type == realtime.TypeError:
		return s.upstreamError(ev.Error)
	case ev.Type == realtime.TypeItemAdded, ev.Type == realtime.TypeItemCreatedBeta, ev.Type == realtime.TypeItemDone:
		return s.itemKnown(ev, it)
	case ev.Type == realtime.TypeItemDeleted:
		return it == nil || !it.forgotten
	case ev.Type == realtime.TypeItemTruncated:
		s.playback.truncated(ev, it)
	case strings.HasPrefix(ev.Type, "input_audio_buffer."), strings.HasPrefix(ev.Type, "conversation.item."):
		s.speech.event(ev, it)
	default:
		s.outputEvent(ev, it)
	}
	return true
}

// updated takes session.updated, and reports whether the client asked for it.
func (s *State) updated(ev *event) (asked bool) {
	asked = s.settings.updated(ev)
	if s.settings.pushToTalk {
		s.answers.speechTill = time.Time{} // nobody says when it ends
	}
	if s.phase == starting && s.up.stage == configuring && s.settings.inFlight == nil {
		s.ready()
	}
	s.settings.sendNext()
	return asked
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
	s.notifyReady()
	s.limiter.active()
	s.do(Tell{"call_started", callEvent{CallID: s.CallID}})
	s.flushBacklog()
}

// itemKnown takes what the upstream says about an item, and reports whether the browser sees it.
func (s *State) itemKnown(ev *event, it *item) bool {
	raw := &ev.item
	if raw.ID == "" {
		return true
	}
	if it.seeded {
		if s.up.forgot && !it.forgotten {
			s.transcript.forgetItem(it)
		}
		return false
	}
	s.answers.acked(it.id)
	switch {
	case raw.Type != realtime.ItemMessage:
	case raw.Role == string(thread.RoleUser):
		s.speech.item(it, raw)
	case raw.Role == string(thread.RoleAssistant):
		if m := s.answers.message(it, ""); !m.placed {
			s.transcript.write(m)
		}
	}
	if ev.Type == realtime.TypeItemDone {
		s.outputDone(it, raw, nil, false)
	}
	return true
}

// upstreamError takes an error event. Errors about the bridge's own events stay here; those about
// events sent for the browser name the browser's event.
func (s *State) upstreamError(e *realtime.Error) (visible bool) {
	if e == nil {
		return true
	}
	switch own, known := s.up.sent[e.EventID]; {
	case e.Code == codeSessionExpired:
		s.lost(EndSessionExpired)
	case e.Fatal():
		s.log(slog.LevelError, "upstream refused to go on", "code", e.Code, "error", e.Message)
		s.sendError(*e, own.clientOf())
		s.giveUp(EndUpstreamRefused)
	case known:
		s.ownError(own, e)
	case strings.HasPrefix(e.EventID, ownPrefix):
		if strings.HasPrefix(e.EventID, ReplayPrefix) {
			s.log(slog.LevelWarn, "replayed item refused by the upstream", "code", e.Code, "param", e.Param, "error", e.Message)
		}
	case e.EventID == "" && e.Code == codeActiveResponse && s.answers.create != nil:
		s.answers.createRefused("", e)
	case e.EventID == "" && s.settings.inFlight != nil && strings.HasPrefix(e.Param, "session"):
		s.settings.refused(e)
	default:
		return true
	}
	return false
}

// ownError takes the error about one of the bridge's own events.
func (s *State) ownError(own sentEvent, e *realtime.Error) {
	switch own.kind {
	case sentSession:
		s.settings.refused(e)
	case sentCreate:
		s.answers.createRefused(e.EventID, e)
	case sentText:
		s.texts.refused(own, e)
	case sentOutput:
		s.log(slog.LevelWarn, "tool output refused by the upstream", "code", e.Code, "error", e.Message)
		s.answers.drop(own.itemID)
	case sentOther:
		if own.forClient {
			s.sendError(*e, own.clientID)
		}
	}
}
