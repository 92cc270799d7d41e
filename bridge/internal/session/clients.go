package session

import (
	"slices"
	"time"
)

// joinGrace is the minimum time that a browser has to connect once it got its answer.
const joinGrace = 12 * time.Second

// browserIs takes the state of a browser's connection.
func (s *State) browserIs(gen int, state Connection) {
	b := &s.browserLeg
	if gen != b.gen {
		return
	}
	switch state {
	case Connected:
		b.connected = true
		s.browserBack()
		s.answers.greet(true)
	case Closed:
		s.browserGone(EndBrowserClosed, s.CloseGrace)
	case Failed:
		if !b.connected && gen == 1 {
			s.end(EndNeverConnected)
			return
		}
		s.browserGone(EndBrowserLost, s.LossGrace)
	case Disconnected:
	}
}

// browserGone waits for the browser to come back. Meanwhile the gate is shut, and the model does not talk into the
// void: its answer stops, and is made again when the browser is back.
func (s *State) browserGone(why EndReason, grace time.Duration) {
	if s.phase >= draining || s.away {
		return
	}
	if grace <= 0 {
		s.end(why)
		return
	}
	s.away, s.browserLeg.by = true, s.now.Add(grace)
	s.browserLeg.why = why
	s.do(Gate{Open: false})
	if s.listening() {
		s.playback.stopUnheard(s.answers.active, s.playback.playing)
	}
}

// browserBack resumes the call with a browser that is back.
func (s *State) browserBack() {
	if !s.away {
		return
	}
	s.away, s.browserLeg.by = false, time.Time{}
	if s.phase == live {
		s.do(Gate{Open: true})
	}
}

// browserRestarted gives a browser that has got an answer the time to connect.
func (s *State) browserRestarted(gen int) {
	if b := &s.browserLeg; s.away && gen == b.gen && b.by.Before(s.now.Add(joinGrace)) {
		b.by = s.now.Add(joinGrace)
	}
}

// browserJoined makes another connection the browser's. It gets what its predecessor knew: the
// session, that the call is ready, that its upstream is being replaced or its changes wait for the database, and which
// tools are running or waiting.
func (s *State) browserJoined(in BrowserJoined) {
	if s.phase >= draining {
		return
	}
	s.browserLeg.gen, s.browserLeg.connected = in.Gen, false
	s.BrowserLimit, s.BrowserPlays = in.Limit, in.Plays
	if s.away {
		s.browserLeg.by = s.now.Add(max(s.LossGrace, joinGrace))
		s.browserLeg.why = EndBrowserLost
	}
	s.told(0).shown = shown{}
	s.sendTo(0, s.view.session(0), false)
	s.sendTo(0, s.view.redactedFor(s.view.updated, 0), false)
	s.speech.heldTill = time.Time{} // nobody holds the button there
	s.welcome(0)
}

// welcome tells a connection that joins what it must know of the call beside its session.
func (s *State) welcome(side int) {
	if s.phase != live {
		return
	}
	s.sendTo(side, encode(s.readyEvent()), false)
	if s.recording.state != "" {
		s.sendTo(side, encode(s.recording.event()), false)
	}
	if s.up.gone {
		s.sendTo(side, encode(s.renewal.renewingEvent()), false)
	}
	if s.pending > 0 {
		s.sendTo(side, encode(storageEvent{Type: "bridge.storage.delayed", Pending: s.pending}), false)
	}
	for _, run := range s.tools.unfinished() {
		s.tools.tell(s.tools.announcement(run), side)
	}
}

func (s *State) readyEvent() readyEvent {
	can := s.up.can
	return readyEvent{
		Type: "bridge.ready", CallID: s.CallID, ThreadID: s.Key.Thread, Replayed: int(s.record.Replayed),
		Images: can.Images, Duplex: can.Duplex, Upstream: s.record.Upstream, Voice: s.record.Voice,
	}
}

// sidebandJoined takes another sideband. It gets what a browser that joins gets, as soon as there is a session.
func (s *State) sidebandJoined(id int) {
	if s.phase >= draining {
		s.do(EndSideband{ID: id})
		return
	}
	s.clients = append(s.clients, &told{side: id})
	s.welcomeSidebands()
}

// welcomeSidebands tells those that do not know it yet the session as it is.
func (s *State) welcomeSidebands() {
	if s.view.created == nil {
		return
	}
	for _, t := range s.clients {
		if !t.welcomed {
			t.welcomed = true
			s.sendTo(t.side, s.view.session(t.side), false)
			s.welcome(t.side)
		}
	}
}

// sidebandGone takes that a sideband has ended, and with it its tools.
func (s *State) sidebandGone(id int) {
	if !s.joined(id) {
		return
	}
	s.clients = slices.DeleteFunc(s.clients, func(t *told) bool { return t.side == id })
	s.do(EndSideband{ID: id})
	if s.phase >= draining {
		return
	}
	s.settings.dropTools(id)
	for _, run := range s.tools.unfinished() {
		if run.side == id && !run.delivered {
			s.tools.fail(run)
		}
	}
}
